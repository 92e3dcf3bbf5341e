//! What is judged of the installation: kinds, Deployment, Service, and the Pod that serves.

use flashjob_api::edge::crd;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;

use super::observe::{DEPLOYMENT, SERVING};
use crate::check::operator::Installed;
use crate::check::{Check, Observed, some_of};

const INSTALL: &str =
    "kubectl apply --server-side -f dist/install-edge.yaml, or make deploy-edge IMG=…";

pub fn kinds(observed: &Observed<Vec<String>>) -> Check {
    let what = "Edge CRDs";
    let served = match observed {
        Ok(served) => served,
        Err(error) => return error.unsure(what, "kubectl get crd | grep project-flotta"),
    };
    let is_served = |name: &&str| served.iter().any(|served| served == name);
    let missing: Vec<&str> = crd::NAMES.into_iter().filter(|name| !is_served(name)).collect();
    if missing.is_empty() {
        return Check::ok(what, "served");
    }
    Check::fail(what, format!("not there: {}", missing.join(", ")), INSTALL)
}

pub fn operator(
    deployment: &Observed<Option<Deployment>>,
    lease: &Observed<Option<Lease>>,
    home: &str,
    now: Timestamp,
) -> Check {
    let installed = Installed { namespace: home, deployment: DEPLOYMENT, install: INSTALL };
    installed.judge(deployment, lease, now)
}

pub fn service(observed: &Observed<Option<Service>>, home: &str) -> Check {
    let what = "Service";
    let service = match observed {
        Ok(Some(service)) => service,
        Ok(None) => {
            let finding = format!("there is no Service {DEPLOYMENT} in namespace {home}");
            return Check::fail(what, finding, INSTALL);
        }
        Err(error) => return error.unsure(what, &format!("kubectl -n {home} get service")),
    };
    let spec = service.spec.clone().unwrap_or_default();
    let selector = spec.selector.unwrap_or_default();
    if selector.get(SERVING).map(String::as_str) != Some("true") {
        let finding = format!("it does not select {SERVING}=true, so it leads to standbys, too");
        return Check::fail(what, finding, INSTALL);
    }
    let port = spec.ports.iter().flatten().map(|port| port.port.to_string()).next();
    let (type_, port) = (spec.type_.unwrap_or_default(), port.unwrap_or_default());
    Check::ok(what, format!("{DEPLOYMENT}, {type_}, port {port}"))
}

pub fn serving(observed: &Observed<Vec<Pod>>, home: &str) -> Check {
    let what = "device API";
    let logs = format!("kubectl -n {home} logs deployment/{DEPLOYMENT}");
    let pods = match observed {
        Ok(pods) => pods,
        Err(error) => return error.unsure(what, &format!("kubectl -n {home} get pods")),
    };
    let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
    match pods.as_slice() {
        [] => Check::fail(
            what,
            format!(
                "no Pod in namespace {home} has the label {SERVING}=true: devices reach nobody"
            ),
            format!(
                "a Pod that works puts it on itself when it may serve; what it waits for: {logs}"
            ),
        ),
        [one] if is_ready(one) => Check::ok(what, format!("Pod {} serves", names[0])),
        [_] => Check::fail(what, format!("Pod {} is to serve and is not ready", names[0]), logs),
        _ => Check::unsure(
            what,
            format!(
                "{} Pods have the label of the one that serves: {}",
                pods.len(),
                some_of(&names)
            ),
            "wait a minute: one may be taking over from another; if it lasts, restart the Deployment",
        ),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
