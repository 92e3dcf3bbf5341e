//! How a board reaches its flash Pod: what a job's `service` asks for.
//!
//! Every board dials port 4433 of the address it is told. A load balancer gives each Pod an address of its own. Without
//! one, the board is told the address of the node the Pod is on, and port 4433 is either the Service's node port, which
//! is one for the whole cluster, or the Pod's own port in its node's network, which is one for each node.

use std::collections::BTreeMap;

use flashjob_api::flashjob::{ExternalTrafficPolicy, ServiceOptions, ServiceType};

use crate::flashjob::facts::{Service, Settings};
use crate::flashjob::names;
use crate::flashjob::spec::{Invalid, trimmed};

/// How a board reaches its flash Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// Through what.
    pub kind: ServiceType,
    /// Annotations of the Service.
    pub annotations: BTreeMap<String, String>,
    /// The load balancer that serves it.
    pub load_balancer_class: Option<String>,
    /// How outside traffic reaches the Pod.
    pub external_traffic_policy: Option<ExternalTrafficPolicy>,
    /// The address to ask the load balancer for.
    pub wanted: Option<String>,
    /// Which addresses will do, in one word: that of the load balancer, and whatever else chooses among its addresses.
    pub pool: String,
    /// All of this in one word, by which a Service made before an edit is told from one made after it.
    pub spec_hash: String,
}

/// What a board is told to dial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Address<'a> {
    /// This.
    Given(&'a str),
    /// Whatever the Pod's node turns out to have.
    OfNode,
}

impl Access {
    /// Reads `spec.service`, and the address that `spec.externalIP` asks for.
    pub fn read(
        options: ServiceOptions,
        external_ip: Option<&String>,
        settings: &Settings,
    ) -> Result<Access, Invalid> {
        // Plain words and maps of them: writing them down cannot fail.
        let asked = serde_json::to_string(&(&options, external_ip)).unwrap_or_default();
        let kind = options.type_.unwrap_or_default();
        let class = trimmed(options.load_balancer_class.as_deref());
        let annotations = options.annotations.unwrap_or_default();
        let policy = options.external_traffic_policy;
        if kind == ServiceType::None && !settings.allow_host_network {
            let message = "spec.service.type None puts the flash Pod into its node's network, which this operator does \
                           not allow; it has to be started with --allow-host-network";
            return Err(Invalid(message.into()));
        }
        let has_service = kind != ServiceType::None;
        let pointless = [
            ("loadBalancerClass", class.is_some() && kind != ServiceType::LoadBalancer),
            ("annotations", !annotations.is_empty() && !has_service),
            ("externalTrafficPolicy", policy.is_some() && !has_service),
        ];
        if let Some((field, _)) = pointless.iter().find(|(_, pointless)| *pointless) {
            let message =
                format!("spec.service.{field} has no meaning with type {kind:?}; remove it");
            return Err(Invalid(message));
        }
        if let Some(key) = annotations.keys().find(|key| names::is_ours(key)) {
            return Err(Invalid(format!("spec.service.annotations[{key}] is the operator's own")));
        }
        if let Some(key) = annotations.keys().find(|k| !settings.service_annotations.allows(k)) {
            return Err(Invalid(format!(
                "spec.service.annotations[{key}] is not allowed: a job may only choose where its addresses come from; \
                 remove it, or have the operator started with --service-annotations=default,{key}"
            )));
        }
        if let Some(class) = class.as_ref().filter(|c| !settings.load_balancer_classes.allows(c)) {
            return Err(Invalid(format!(
                "spec.service.loadBalancerClass {class:?} is not allowed; remove it, choose one that is, or have the \
                 operator started with it in --load-balancer-classes"
            )));
        }
        let wanted = external_ip.filter(|_| kind == ServiceType::LoadBalancer).cloned();
        let pool = serde_json::to_string(&(&class, &annotations, &wanted)).unwrap_or_default();
        Ok(Access {
            kind,
            pool: names::pool(&pool),
            annotations,
            load_balancer_class: class,
            external_traffic_policy: policy,
            wanted,
            spec_hash: names::spec_hash(&asked),
        })
    }

    /// What a Service waits for, in words.
    pub fn awaited(&self) -> String {
        let class = self.load_balancer_class.as_ref();
        let of = class.map(|class| format!(" of load balancer class {class}"));
        format!("waiting for an address{}", of.unwrap_or_default())
    }

    /// What the board is told, once that is known. `None`: the Service is not ready, or is not what is asked for now.
    pub fn address<'a>(&self, service: Option<&'a Service>) -> Option<Address<'a>> {
        let service = service.filter(|s| s.spec_hash == self.spec_hash && s.deleting.is_none());
        match self.kind {
            ServiceType::LoadBalancer => service?.address.as_deref().map(Address::Given),
            ServiceType::NodePort => service.map(|_| Address::OfNode),
            ServiceType::None => Some(Address::OfNode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flashjob::allow_list::AllowList;
    use serde_json::{Value, json};

    fn read(options: Value, allow_host_network: bool) -> Result<Access, String> {
        let settings = Settings { allow_host_network, ..Settings::default() };
        let ip = Some("192.0.2.1".to_owned());
        let options = serde_json::from_value(options).unwrap();
        Access::read(options, ip.as_ref(), &settings).map_err(|Invalid(message)| message)
    }

    #[test]
    fn a_node_network_has_to_be_allowed() {
        let refusal = read(json!({ "type": "None" }), false).unwrap_err();
        assert!(refusal.contains("--allow-host-network"), "{refusal}");
        assert_eq!(
            read(json!({ "type": "None" }), true).unwrap().address(None),
            Some(Address::OfNode)
        );
    }

    #[test]
    fn what_has_no_meaning_is_refused_by_name() {
        let refused = [
            (json!({ "type": "NodePort", "loadBalancerClass": "x" }), "loadBalancerClass"),
            (json!({ "type": "None", "annotations": { "a": "b" } }), "annotations"),
            (json!({ "type": "None", "externalTrafficPolicy": "Local" }), "externalTrafficPolicy"),
            (json!({ "annotations": { "application.flashjob.nbfc.io/x": "" } }), "own"),
        ];
        for (options, word) in refused {
            let refusal = read(options, true).unwrap_err();
            assert!(refusal.contains(word), "{refusal}");
        }
    }

    #[test]
    fn a_job_chooses_a_pool_and_gives_no_other_orders_to_a_load_balancer() {
        let annotated = |key: &str| read(json!({ "annotations": { key: "x" } }), true);
        let access = annotated("metallb.io/address-pool").unwrap();
        assert_eq!(access.annotations["metallb.io/address-pool"], "x");
        let refusal = annotated("external-dns.alpha.kubernetes.io/hostname").unwrap_err();
        let path = "spec.service.annotations[external-dns.alpha.kubernetes.io/hostname] is not";
        assert!(refusal.starts_with(path), "{refusal}");
        assert!(refusal.ends_with("=default,external-dns.alpha.kubernetes.io/hostname"));
        // Node ports have controllers that listen, too.
        let key = "metallb.io/allow-shared-ip";
        let hidden = json!({ "metallb.io/address-pool": "a", key: "b" });
        let refusal = read(json!({ "type": "NodePort", "annotations": hidden }), true).unwrap_err();
        assert!(refusal.contains(key), "{refusal}");
    }

    #[test]
    fn a_class_has_to_be_on_the_list_where_there_is_one() {
        let class = Some("public".to_owned());
        let asks = ServiceOptions { load_balancer_class: class, ..ServiceOptions::default() };
        assert!(Access::read(asks.clone(), None, &Settings::default()).is_ok());
        let list = AllowList::read("inside", AllowList::any()).unwrap();
        let settings = Settings { load_balancer_classes: list, ..Settings::default() };
        let Invalid(refusal) = Access::read(asks, None, &settings).unwrap_err();
        assert!(refusal.starts_with("spec.service.loadBalancerClass \"public\" is"), "{refusal}");
        assert!(refusal.contains("--load-balancer-classes"), "{refusal}");
        assert!(Access::read(ServiceOptions::default(), None, &settings).is_ok(), "none asked for");
    }

    #[test]
    fn a_service_made_for_something_else_gives_no_address() {
        let balanced = read(json!({}), false).unwrap();
        let address = Some("192.0.2.1".to_owned());
        let service =
            Service { spec_hash: balanced.spec_hash.clone(), address, ..Service::default() };
        assert_eq!(balanced.address(Some(&service)), Some(Address::Given("192.0.2.1")));
        let edited = read(json!({ "externalTrafficPolicy": "Local" }), false).unwrap();
        assert_eq!(edited.address(Some(&service)), None);
        let node_port = read(json!({ "type": "NodePort" }), false).unwrap();
        assert_eq!(node_port.address(Some(&service)), None);
        assert_eq!(balanced.address(None), None);
    }
}
