//! What jobs may ask of load balancers: lists on which whoever runs the operator has the last word.
//!
//! An annotation of a Service is an order to whatever controller listens for it. One gets a name in DNS, another shares an
//! address that somebody else has. Who may create Pods cannot give such orders, so who may create FlashJobs gives only
//! those that are on a list.

/// The word in a list that stands for what is allowed without one.
const DEFAULT: &str = "default";

/// What only chooses where an address comes from: the pool, the network, inside or outside. Not the address itself, which may
/// be somebody's, nor a name for it.
const SERVICE_ANNOTATIONS: &[&str] = &[
    "metallb.io/address-pool",
    "metallb.universe.tf/address-pool",
    "kube-vip.io/serviceInterface",
    "service.beta.kubernetes.io/aws-load-balancer-type",
    "service.beta.kubernetes.io/aws-load-balancer-internal",
    "service.beta.kubernetes.io/aws-load-balancer-scheme",
    "service.beta.kubernetes.io/aws-load-balancer-subnets",
    "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type",
    "service.beta.kubernetes.io/azure-load-balancer-internal",
    "service.beta.kubernetes.io/azure-load-balancer-internal-subnet",
    "cloud.google.com/load-balancer-type",
    "networking.gke.io/load-balancer-type",
    "networking.gke.io/internal-load-balancer-subnet",
    "service.beta.kubernetes.io/openstack-internal-load-balancer",
    "loadbalancer.openstack.org/floating-network-id",
    "loadbalancer.openstack.org/floating-subnet-id",
    "loadbalancer.openstack.org/network-id",
    "loadbalancer.openstack.org/subnet-id",
];

/// Words that are allowed. One that ends in `*` stands for all that begin like it.
#[derive(Clone, Debug, PartialEq)]
pub struct AllowList(Vec<String>);

impl AllowList {
    /// Everything.
    pub fn any() -> AllowList {
        AllowList(vec!["*".to_owned()])
    }

    /// The annotations that Services may have where nobody said otherwise.
    pub fn service_annotations() -> AllowList {
        AllowList(SERVICE_ANNOTATIONS.iter().map(|&key| key.to_owned()).collect())
    }

    /// Reads a list with commas; an empty one allows nothing. `default` in it stands for `defaults`.
    pub fn read(text: &str, defaults: AllowList) -> Result<AllowList, String> {
        let mut allowed = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                DEFAULT => allowed.extend_from_slice(&defaults.0),
                word if word.trim_end_matches('*').contains('*') || word.ends_with("**") => {
                    return Err(format!("{word:?}: one * is possible, at the end"));
                }
                word => allowed.push(word.to_owned()),
            }
        }
        Ok(AllowList(allowed))
    }

    /// Whether this is on it, letter by letter.
    pub fn allows(&self, asked: &str) -> bool {
        self.0.iter().any(|word| match word.strip_suffix('*') {
            Some(beginning) => asked.starts_with(beginning),
            None => asked == word,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_on_a_list_as_a_whole_or_by_its_beginning() {
        let read = |text| AllowList::read(text, AllowList::service_annotations());
        let list = read(" a.example/pool, b.example/* ,,default").unwrap();
        for key in ["a.example/pool", "b.example/", "b.example/x", "metallb.io/address-pool"] {
            assert!(list.allows(key), "{key}");
        }
        for key in ["a.example/pool2", "A.example/pool", "b.example", " a.example/pool", ""] {
            assert!(!list.allows(key), "{key}");
        }
        assert!(!read("").unwrap().allows("a") && read("*").unwrap().allows("a"));
        assert!(!read("a").unwrap().allows("metallb.io/address-pool"), "given instead of ours");
        for wrong in ["a*b", "a**", "*/pool"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn by_default_a_pool_may_be_chosen_and_no_address_and_no_name() {
        let list = AllowList::service_annotations();
        for key in [
            "metallb.io/loadBalancerIPs",
            "metallb.io/allow-shared-ip",
            "metallb.universe.tf/allow-shared-ip",
            "metallb.io/address-pool-x",
            "kube-vip.io/loadbalancerIPs",
            "external-dns.alpha.kubernetes.io/hostname",
            "service.beta.kubernetes.io/azure-dns-label-name",
            "service.beta.kubernetes.io/aws-load-balancer-eip-allocations",
            "loadbalancer.openstack.org/load-balancer-id",
            "lbipam.cilium.io/sharing-key",
            "tailscale.com/hostname",
        ] {
            assert!(!list.allows(key), "{key}");
        }
    }
}
