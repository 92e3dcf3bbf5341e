//! Which EdgeDevice a device is: several namespaces may have one of its name.
//!
//! A certificate of its own says the namespace. The registration certificate says none, and whoever may make EdgeDevices in a
//! served namespace could otherwise call devices of others to it. So one that is in use anywhere stays where it is, and of
//! several that wait in different namespaces none is taken.

use super::certificate::Holder;
use super::facts::EdgeDeviceFacts;
use super::refusal::Refusal;

/// Where a device is, or where it would be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place<'a> {
    There(&'a EdgeDeviceFacts),
    /// There is none.
    Nowhere {
        /// Where its certificate says that it is, if that says so.
        namespace: Option<&'a str>,
    },
}

/// Finds the EdgeDevice that a request with this certificate is for, among those of its name. `served`: the namespaces that
/// are looked after.
pub fn find<'a>(
    holder: &'a Holder,
    candidates: &'a [EdgeDeviceFacts],
    served: &[String],
) -> Result<Place<'a>, Refusal> {
    match holder {
        Holder::Foreign => Err(Refusal::ForeignCertificate),
        Holder::Registration => invited(candidates),
        Holder::Device { namespace, .. } if !served.contains(namespace) => {
            Err(Refusal::NamespaceNotServed)
        }
        Holder::Device { namespace, .. } => {
            let there = candidates.iter().find(|candidate| candidate.namespace == *namespace);
            Ok(there.map_or(Place::Nowhere { namespace: Some(namespace) }, Place::There))
        }
    }
}

/// Finds the EdgeDevice that waits for a device to register, whatever certificate it has. A device whose EdgeDevice is gone may
/// have been invited to another namespace since.
pub fn invited(candidates: &[EdgeDeviceFacts]) -> Result<Place<'_>, Refusal> {
    if let Some(in_use) = candidates.iter().find(|candidate| !candidate.unclaimed) {
        return Ok(Place::There(in_use));
    }
    match candidates {
        [] => Ok(Place::Nowhere { namespace: None }),
        [one] => Ok(Place::There(one)),
        _ => Err(Refusal::SeveralNamespaces),
    }
}

#[cfg(test)]
mod tests {
    use super::super::device_id::DeviceId;
    use super::super::keys::CaId;
    use super::super::tests::device;
    use super::*;

    fn candidate(namespace: &str, unclaimed: bool) -> EdgeDeviceFacts {
        EdgeDeviceFacts { unclaimed, ..device(namespace) }
    }

    fn own(namespace: &str) -> Holder {
        let (id, ca) = (DeviceId::read("edge1").unwrap(), CaId("0123456789abcdef".into()));
        Holder::Device { id, namespace: namespace.into(), ca }
    }

    /// The namespace it is found in, or would be made in, with a `?`.
    fn found(holder: &Holder, candidates: &[EdgeDeviceFacts]) -> Result<String, Refusal> {
        let served = ["a", "b", "c"].map(str::to_owned);
        find(holder, candidates, &served).map(|place| match place {
            Place::There(candidate) => candidate.namespace.clone(),
            Place::Nowhere { namespace } => format!("{}?", namespace.unwrap_or_default()),
        })
    }

    #[test]
    fn a_device_is_where_its_certificate_says() {
        let all = [candidate("a", true), candidate("b", false)];
        assert_eq!(found(&own("a"), &all).as_deref(), Ok("a"));
        assert_eq!(found(&own("b"), &all).as_deref(), Ok("b"));
        assert_eq!(found(&own("c"), &[]).as_deref(), Ok("c?"));
        assert_eq!(found(&own("d"), &all), Err(Refusal::NamespaceNotServed));
    }

    #[test]
    fn a_certificate_of_one_namespace_is_worth_nothing_in_another() {
        assert_eq!(found(&own("c"), &[candidate("a", true)]).as_deref(), Ok("c?"));
        assert_eq!(found(&own("c"), &[candidate("a", false)]).as_deref(), Ok("c?"));
    }

    #[test]
    fn with_the_registration_certificate_nobody_is_called_away_from_where_it_is_in_use() {
        let registration =
            |candidates: &[EdgeDeviceFacts]| found(&Holder::Registration, candidates);
        assert_eq!(registration(&[]).as_deref(), Ok("?"));
        assert_eq!(registration(&[candidate("b", true)]).as_deref(), Ok("b"));
        let invited = [candidate("a", true), candidate("b", false)];
        assert_eq!(
            registration(&invited).as_deref(),
            Ok("b"),
            "where it is told that it is in use"
        );
        let twice = [candidate("a", true), candidate("b", true)];
        assert_eq!(registration(&twice), Err(Refusal::SeveralNamespaces));
    }

    #[test]
    fn a_foreign_certificate_finds_nothing() {
        assert_eq!(found(&Holder::Foreign, &[]), Err(Refusal::ForeignCertificate));
    }
}
