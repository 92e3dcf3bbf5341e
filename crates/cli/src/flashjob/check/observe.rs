//! Reads everything, and judges nothing.

use std::collections::BTreeMap;

use flashjob_api::flashjob::FlashJob;
use flashjob_api::flashjob::instance::{HOST_ENDPOINT, Instance};
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::Value;

use super::rights;
use super::writers::Rbac;
use crate::check::rights::Right;
use crate::check::{self, Observed, get, here_or_everywhere, served, soon};
use crate::connect::Connected;
use crate::flashjob::read::instances;
use crate::flashjob::server_cert::SECRET;
use crate::read;

/// Where the operator is installed.
pub const OPERATOR_NAMESPACE: &str = "operator-system";
/// Its Deployment.
pub const OPERATOR: &str = "operator-controller-manager";
/// What the operator that works holds.
const LEASE: &str = "338c7440.flashjob.nbfc.io";
/// The flasher's settings.
pub use flashjob_api::flashjob::flash_pod::SETTINGS;
/// The original's attestation service.
pub const DICE_SERVICE: &str = "dice-auth-service";
const CRD: &str = "flashjobs.application.flashjob.nbfc.io";

/// Whose FlashJob CRD the cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crd {
    Missing,
    Ours,
    Original,
    /// It is served, and its schema may not be seen.
    Served,
}

/// Akri's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AkriDevices {
    NoCrd,
    /// `namespace/name` of those without an address.
    Found {
        all: usize,
        without_endpoint: Vec<String>,
    },
}

/// A Service that asks for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balanced {
    pub path: String,
    pub since: Option<Timestamp>,
    pub addresses: Vec<String>,
}

pub struct Observations {
    pub version: Observed<String>,
    pub crd: Observed<Crd>,
    pub deployment: Observed<Option<Deployment>>,
    pub lease: Observed<Option<Lease>>,
    pub devices: Observed<AkriDevices>,
    pub services: Observed<Vec<Balanced>>,
    pub secret: Observed<Option<Secret>>,
    pub settings: Observed<Option<BTreeMap<String, String>>>,
    pub dice_service: Observed<bool>,
    pub rights: Vec<(Right, Observed<bool>)>,
    pub rbac: Observed<Rbac>,
}

/// Reads everything at once.
pub async fn everything(to: &Connected) -> Observations {
    let (client, own) = (&to.client, to.namespace.as_str());
    let (version, crd, deployment, lease, devices, services) = futures::join!(
        check::version(client),
        soon(crd(client)),
        soon(get::<Deployment>(client, OPERATOR_NAMESPACE, OPERATOR)),
        soon(get::<Lease>(client, OPERATOR_NAMESPACE, LEASE)),
        soon(devices(client, own)),
        soon(services(client, own)),
    );
    let (secret, settings, dice_service, rights, rbac) = futures::join!(
        soon(get::<Secret>(client, own, SECRET)),
        soon(get::<ConfigMap>(client, own, SETTINGS)),
        soon(get::<Service>(client, own, DICE_SERVICE)),
        check::rights::mine(client, own, &rights::WANTED),
        soon(rbac(client, own)),
    );
    Observations {
        version,
        crd,
        deployment,
        lease,
        devices,
        services,
        secret,
        settings: settings.map(|map| map.map(|map| map.data.unwrap_or_default())),
        dice_service: dice_service.map(|service| service.is_some()),
        rights,
        rbac,
    }
}

/// Whether a resource is served.
async fn is_served(client: &Client, version: &str, plural: &str) -> kube::Result<bool> {
    Ok(served(client, version).await?.iter().any(|name| name == plural))
}

async fn crd(client: &Client) -> kube::Result<Crd> {
    let version = FlashJob::api_version(&());
    if !is_served(client, &version, &FlashJob::plural(&())).await? {
        return Ok(Crd::Missing);
    }
    // The CRD itself is for administrators; what it says of its schema is for everybody, where the server is new enough.
    let places = [
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"),
        format!("/openapi/v3/apis/{version}"),
    ];
    for place in places {
        let Ok(request) = Request::get(&place).body(Vec::new()) else { continue };
        if let Ok(schema) = client.request::<Value>(request).await {
            return Ok(whose(&schema));
        }
    }
    Ok(Crd::Served)
}

/// The original's status has no `inFlight`.
pub fn whose(schema: &Value) -> Crd {
    fn says(value: &Value) -> bool {
        match value {
            Value::Object(map) => {
                map.get("properties").is_some_and(|p| p.get("inFlight").is_some())
                    || map.values().any(says)
            }
            Value::Array(items) => items.iter().any(says),
            _ => false,
        }
    }
    if says(schema) { Crd::Ours } else { Crd::Original }
}

async fn devices(client: &Client, own: &str) -> kube::Result<AkriDevices> {
    if !is_served(client, &Instance::api_version(&()), &Instance::plural(&())).await? {
        return Ok(AkriDevices::NoCrd);
    }
    let list = async |namespace: Option<&str>| read::pages(&instances(client, namespace), "").await;
    let (mut all, mut without_endpoint) = (0, Vec::new());
    for object in here_or_everywhere(own, list).await? {
        let endpoint = &object.data["spec"]["brokerProperties"][HOST_ENDPOINT];
        if endpoint.as_str().is_none_or(|text| text.trim().is_empty()) {
            without_endpoint.push(path(&object));
        }
        all += 1;
    }
    Ok(AkriDevices::Found { all, without_endpoint })
}

async fn services(client: &Client, own: &str) -> kube::Result<Vec<Balanced>> {
    let list = async |namespace: Option<&str>| {
        let api: Api<Service> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        read::pages(&api, "").await
    };
    Ok(here_or_everywhere(own, list).await?.into_iter().filter_map(balanced).collect())
}

fn balanced(service: Service) -> Option<Balanced> {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    if kind != Some("LoadBalancer") {
        return None;
    }
    let ingress = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = ingress.and_then(|status| status.ingress.clone()).unwrap_or_default();
    let addresses = ingress.into_iter().filter_map(|at| at.ip.or(at.hostname)).collect();
    let since = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
    Some(Balanced { path: path(&service), since, addresses })
}

fn path(object: &impl ResourceExt) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

/// What is bound in the namespace, and everywhere.
async fn rbac(client: &Client, own: &str) -> kube::Result<Rbac> {
    let (roles, bindings) =
        (Api::namespaced(client.clone(), own), Api::namespaced(client.clone(), own));
    let (cluster_roles, cluster_bindings) = (Api::all(client.clone()), Api::all(client.clone()));
    let (roles, bindings, cluster_roles, cluster_bindings) = futures::try_join!(
        read::pages(&roles, ""),
        read::pages(&bindings, ""),
        read::pages(&cluster_roles, ""),
        read::pages(&cluster_bindings, ""),
    )?;
    Ok(Rbac { roles, cluster_roles, bindings, cluster_bindings })
}
