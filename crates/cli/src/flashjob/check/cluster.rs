//! What is judged of the cluster as a whole.

use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;

use super::observe::{AkriDevices, Balanced, Crd, OPERATOR, OPERATOR_NAMESPACE};
use crate::check::operator::Installed;
use crate::check::{Check, Observed, some_of};
use crate::table::{ago, counted};

/// How long a load balancer may take.
const PENDING: SignedDuration = SignedDuration::from_secs(60);

const INSTALL: &str = "kubectl apply -f dist/install.yaml, or make deploy IMG=… FLASHER_IMG=…";

pub fn flashjobs(observed: &Observed<Crd>) -> Check {
    let what = "FlashJob CRD";
    match observed {
        Ok(Crd::Ours) => Check::ok(what, "served"),
        Ok(Crd::Served) => Check::ok(what, "served; whose schema it has may not be seen"),
        Ok(Crd::Missing) => Check::fail(what, "not there", INSTALL),
        Ok(Crd::Original) => Check::fail(
            what,
            "it is the original operator's: most of what jobs say would be dropped",
            format!("replace it, jobs stay: {INSTALL}"),
        ),
        Err(error) => error.unsure(what, "kubectl get crd flashjobs.application.flashjob.nbfc.io"),
    }
}

pub fn operator(
    deployment: &Observed<Option<Deployment>>,
    lease: &Observed<Option<Lease>>,
    now: Timestamp,
) -> Check {
    let installed =
        Installed { namespace: OPERATOR_NAMESPACE, deployment: OPERATOR, install: INSTALL };
    installed.judge(deployment, lease, now)
}

pub fn akri(observed: &Observed<AkriDevices>) -> Check {
    let what = "Akri";
    match observed {
        Ok(AkriDevices::NoCrd) => Check::fail(
            what,
            "its CRD instances.akri.sh is not there",
            "install Akri, see https://docs.akri.sh and step 3 of docs/getting-started.md",
        ),
        Ok(AkriDevices::Found { all: 0, .. }) => Check::fail(
            what,
            "it has found no device",
            "kubectl get configurations.akri.sh -A; is there one, do its boards answer on /info, and does its discovery \
             handler run?",
        ),
        Ok(AkriDevices::Found { all, without_endpoint }) if without_endpoint.is_empty() => {
            Check::ok(what, format!("{} in all namespaces", counted(*all, "device")))
        }
        Ok(AkriDevices::Found { all, without_endpoint }) => Check::fail(
            what,
            format!(
                "{}, {} without the property HOST_ENDPOINT: {}",
                counted(*all, "device"),
                without_endpoint.len(),
                some_of(without_endpoint)
            ),
            "use a discovery handler that reports HOST_ENDPOINT, see step 3 of docs/getting-started.md",
        ),
        Err(error) => error.unsure(what, "kubectl get instances.akri.sh -A"),
    }
}

pub fn load_balancer(observed: &Observed<Vec<Balanced>>, now: Timestamp) -> Check {
    let what = "load balancer";
    let instead = "install one (MetalLB, kube-vip, k3s' ServiceLB), or have jobs use spec.service.type NodePort";
    let services = match observed {
        Ok(services) => services,
        Err(error) => return error.unsure(what, "kubectl get services -A"),
    };
    let addresses = || services.iter().flat_map(|service| &service.addresses);
    // A hostname is looked up by the flasher, and may have one.
    if let Some(address) = addresses().find(|text| text.parse::<Ipv6Addr>().is_err()) {
        let kind = if address.parse::<Ipv4Addr>().is_ok() { "addresses" } else { "names" };
        return Check::ok(what, format!("it gives {kind}, such as {address}"));
    }
    if let Some(address) = addresses().next() {
        let finding = format!("it gives IPv6 addresses only, such as {address}; boards dial IPv4");
        return Check::fail(
            what,
            finding,
            "give it a pool of IPv4 addresses in the boards' network",
        );
    }
    let age = |service: &Balanced| service.since.map(|since| now.duration_since(since));
    let oldest = services.iter().max_by_key(|service| age(service));
    match oldest {
        None => Check::unsure(
            what,
            "no Service asks for an address now",
            "kubectl create service loadbalancer address-test --tcp=4433; kubectl get service address-test; kubectl \
             delete service address-test. EXTERNAL-IP must become an IPv4 address that boards can reach",
        ),
        Some(service) if age(service).is_some_and(|age| age > PENDING) => {
            let waits = service.since.map(|since| ago(since, now)).unwrap_or_default();
            let finding = format!("{} has waited for an address for {waits}", service.path);
            Check::fail(what, finding, instead)
        }
        Some(service) => {
            let finding = format!("{} has no address yet", service.path);
            Check::unsure(what, finding, "wait a minute, then again: kubectl flashjob check")
        }
    }
}
