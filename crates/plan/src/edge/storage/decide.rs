//! Whether a device is to have a claim, and what there is of it.

use flashjob_api::edge::{EdgeReason, Settings};

use super::claim::{ClaimFacts, ClaimOwner, Place, pending};
use crate::edge::configuration::{claimed, names};
use crate::edge::problem::Problem;

/// Where the bucket of a device comes from, by its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A Secret or a ConfigMap is named: it has no need of a claim. That something is wrong with these is said where they are
    /// rendered; a claim asked for beside them is one such thing.
    Own,
    /// It asks for a claim.
    Asked,
    /// It says nothing, and has one made.
    Auto,
    /// It says nothing, and has the one that is there, if there is one.
    IfThere,
}

impl Wish {
    /// `auto`: whoever says nothing has a claim made.
    pub fn of(settings: &Settings, auto: bool) -> Self {
        let s3 = settings.storage.as_ref().and_then(|storage| storage.s3.as_ref());
        match s3 {
            Some(s3) if names(s3) != (None, None) => Self::Own,
            Some(s3) if claimed(s3) => Self::Asked,
            _ if auto => Self::Auto,
            _ => Self::IfThere,
        }
    }
}

/// What is known of the claims of the cluster.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// Nobody could say so far.
    Nothing,
    /// The cluster has no such kind.
    NoKind,
    /// This one has the name of the device; `None`: there is none.
    Listed(Option<&'a ClaimFacts>),
}

/// What there is of the claim of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The device is to have none.
    None,
    /// It is to be made.
    Missing,
    /// It cannot be had, or nobody knows.
    Lacking(Problem),
    /// It is there, and has no bucket yet.
    Waits(Problem),
    /// It has its bucket: what is where stands in the ConfigMap and the Secret of its name.
    Bound,
}

impl Claim {
    /// Whether the device has a claim.
    pub fn is_there(&self) -> bool {
        matches!(self, Self::Waits(_) | Self::Bound)
    }
}

pub fn decide(wish: Wish, device: Place<'_>, known: Known<'_>) -> Claim {
    let makes = matches!(wish, Wish::Asked | Wish::Auto);
    match known {
        _ if wish == Wish::Own => Claim::None,
        Known::Nothing if makes => Claim::Lacking(pending(
            "which ObjectBucketClaims there are is not known yet".to_owned(),
        )),
        Known::NoKind if wish == Wish::Asked => {
            let message = "storage.s3.createOBC asks for an ObjectBucketClaim, and the cluster has no such kind";
            Claim::Lacking(pending(message.to_owned()))
        }
        Known::Nothing | Known::NoKind => Claim::None,
        Known::Listed(None) if makes => Claim::Missing,
        Known::Listed(None) => Claim::None,
        Known::Listed(Some(found)) => match of(found, device) {
            Claim::Lacking(_) if !makes => Claim::None,
            found => found,
        },
    }
}

/// What one that is there is to the device. One that nobody owns is used as it is.
fn of(found: &ClaimFacts, device: Place<'_>) -> Claim {
    let refused = |message| Problem::new(EdgeReason::BucketRefused, message);
    match &found.owner {
        ClaimOwner::Device(uid) if uid != device.uid => {
            let message = format!("the {device} of an earlier EdgeDevice has to go first");
            return Claim::Lacking(pending(message));
        }
        ClaimOwner::Other => {
            let what = format!("the {device} belongs to somebody else");
            let message = format!("{what}; remove it, or name a bucket in storage.s3");
            return Claim::Lacking(refused(message));
        }
        ClaimOwner::Device(_) | ClaimOwner::Nobody => {}
    }
    if found.being_deleted {
        let message = format!("the {device} is being deleted; when it is gone another is made");
        return Claim::Lacking(pending(message));
    }
    match found.phase.as_deref() {
        Some("Bound") => Claim::Bound,
        Some("Failed") => {
            Claim::Waits(refused(format!("the provisioner of the {device} says Failed")))
        }
        phase => {
            let says = phase.map(|phase| format!(", which says {phase}")).unwrap_or_default();
            Claim::Waits(pending(format!("the {device} waits for its provisioner{says}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PUMP: Place<'_> = Place { namespace: "plant", name: "pump-7", uid: "u1" };

    fn wish(s3: Value, auto: bool) -> Wish {
        let settings = json!({ "storage": { "s3": s3 } });
        Wish::of(&serde_json::from_value(settings).unwrap(), auto)
    }

    fn there(owner: ClaimOwner, phase: Option<&str>) -> ClaimFacts {
        ClaimFacts { owner, phase: phase.map(str::to_owned), being_deleted: false }
    }

    fn ours(phase: Option<&str>) -> ClaimFacts {
        there(ClaimOwner::Device("u1".into()), phase)
    }

    fn reason(claim: Claim) -> EdgeReason {
        match claim {
            Claim::Lacking(problem) | Claim::Waits(problem) => problem.reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_names_a_bucket_of_its_own_has_no_claim() {
        for auto in [true, false] {
            for name in ["secretName", "configMapName"] {
                for obc in [json!(null), json!(true), json!(false)] {
                    let s3 = json!({ name: "x", "createOBC": obc });
                    assert_eq!(wish(s3, auto), Wish::Own);
                }
            }
            assert_eq!(wish(json!({ "createOBC": true }), auto), Wish::Asked);
            assert_eq!(wish(json!({ "createOBC": true, "secretName": "" }), auto), Wish::Asked);
        }
        for silent in [json!(null), json!({}), json!({ "createOBC": false })] {
            assert_eq!(wish(silent.clone(), true), Wish::Auto);
            assert_eq!(wish(silent, false), Wish::IfThere);
        }
        let bound = ours(Some("Bound"));
        assert_eq!(decide(Wish::Own, PUMP, Known::Listed(Some(&bound))), Claim::None);
    }

    #[test]
    fn a_claim_is_made_only_where_it_is_known_that_there_is_none() {
        for wish in [Wish::Asked, Wish::Auto] {
            assert_eq!(decide(wish, PUMP, Known::Listed(None)), Claim::Missing);
            let nobody_knows = decide(wish, PUMP, Known::Nothing);
            assert_eq!(reason(nobody_knows), EdgeReason::BucketPending);
        }
        assert_eq!(decide(Wish::IfThere, PUMP, Known::Listed(None)), Claim::None);
        assert_eq!(decide(Wish::IfThere, PUMP, Known::Nothing), Claim::None);
    }

    #[test]
    fn a_cluster_without_claims_is_worth_a_word_only_to_who_asked() {
        assert_eq!(decide(Wish::Auto, PUMP, Known::NoKind), Claim::None);
        let asked = decide(Wish::Asked, PUMP, Known::NoKind);
        assert_eq!((asked.is_there(), reason(asked)), (false, EdgeReason::BucketPending));
    }

    #[test]
    fn a_claim_is_used_when_it_is_bound_whoever_switched_off_that_claims_are_made() {
        for wish in [Wish::Asked, Wish::Auto, Wish::IfThere] {
            for owner in [ClaimOwner::Nobody, ClaimOwner::Device("u1".into())] {
                let found = there(owner.clone(), Some("Bound"));
                assert_eq!(decide(wish, PUMP, Known::Listed(Some(&found))), Claim::Bound);
                for phase in [None, Some("Pending"), Some("Released")] {
                    let found = there(owner.clone(), phase);
                    let waits = decide(wish, PUMP, Known::Listed(Some(&found)));
                    assert!(waits.is_there());
                    assert_eq!(reason(waits), EdgeReason::BucketPending);
                }
            }
        }
        let failed = decide(Wish::Auto, PUMP, Known::Listed(Some(&ours(Some("Failed")))));
        assert_eq!(reason(failed), EdgeReason::BucketRefused);
    }

    #[test]
    fn what_belongs_to_others_is_not_used() {
        let foreign = there(ClaimOwner::Other, Some("Bound"));
        let earlier = there(ClaimOwner::Device("u0".into()), Some("Bound"));
        let leaving = ClaimFacts { being_deleted: true, ..ours(Some("Bound")) };
        for (found, why) in [
            (foreign, EdgeReason::BucketRefused),
            (earlier, EdgeReason::BucketPending),
            (leaving, EdgeReason::BucketPending),
        ] {
            let claim = decide(Wish::Auto, PUMP, Known::Listed(Some(&found)));
            assert_eq!((claim.is_there(), reason(claim)), (false, why));
            assert_eq!(decide(Wish::IfThere, PUMP, Known::Listed(Some(&found))), Claim::None);
        }
    }
}
