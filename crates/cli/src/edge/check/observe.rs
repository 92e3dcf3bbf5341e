//! Reads everything, and judges nothing.

use flashjob_api::edge::EdgeDevice;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource};

use super::rights;
use crate::check::rights::{Right, mine};
use crate::check::{self, Observed, get, here_or_everywhere, served, soon};
use crate::connect::Connected;
use crate::edge::device::Device;
use crate::edge::read::Kind;
use crate::edge::request::Request;
use crate::edge::secrets::Secrets;
use crate::read::pages;

/// The Deployment of the operator, its Service, and its ServiceAccount.
pub const DEPLOYMENT: &str = "flotta-edge-api";
/// What the operator that works holds.
const LEASE: &str = "b9eebab3.project-flotta.io";
/// On the Pod that serves devices.
pub const SERVING: &str = "management.project-flotta.io/serving";
/// Namespaces whose rights are looked at.
const MOST: usize = 20;

/// What somebody may do or not.
pub type Rights = Vec<(Right, Observed<bool>)>;

pub struct Observations {
    pub version: Observed<String>,
    /// The resources that are served in the group of Edge.
    pub kinds: Observed<Vec<String>>,
    pub deployment: Observed<Option<Deployment>>,
    pub lease: Observed<Option<Lease>>,
    pub service: Observed<Option<Service>>,
    /// The Pods with the label of the one that serves.
    pub serving: Observed<Vec<Pod>>,
    pub secrets: Observed<Secrets>,
    pub devices: Observed<Vec<Device>>,
    pub requests: Observed<Vec<Request>>,
    /// What the operator may do, by namespace.
    pub operator_rights: Vec<(String, Rights)>,
    /// What the user may do.
    pub rights: Rights,
}

/// Reads everything at once.
pub async fn everything(to: &Connected, only: Option<&str>, home: &str) -> Observations {
    let (client, own) = (&to.client, to.namespace.as_str());
    let pods: Api<Pod> = Api::namespaced(client.clone(), home);
    let (serves, group) = (format!("{SERVING}=true"), EdgeDevice::api_version(&()));
    let (version, kinds, deployment, lease, service, serving) = futures::join!(
        check::version(client),
        soon(served(client, &group)),
        soon(get::<Deployment>(client, home, DEPLOYMENT)),
        soon(get::<Lease>(client, home, LEASE)),
        soon(get::<Service>(client, home, DEPLOYMENT)),
        soon(pages(&pods, &serves)),
    );
    let known = deployment.as_ref().ok().and_then(Option::as_ref).map(namespaces);
    let mut places = known.unwrap_or_else(|| vec![own.to_owned()]);
    places.truncate(MOST);
    let of_operator = async |place: String| {
        let wanted = rights::OPERATORS;
        let ask = async |right: Right| (right, soon(may(client, home, &place, right)).await);
        let all = join_all(wanted.map(ask)).await;
        (place, all)
    };
    let (secrets, devices, requests, rights, operator_rights) = futures::join!(
        soon(Secrets::read(client, home)),
        soon(all::<Device>(client, only, own)),
        soon(all::<Request>(client, only, own)),
        mine(client, own, &rights::WANTED),
        join_all(places.into_iter().map(of_operator)),
    );
    Observations {
        version,
        kinds,
        deployment,
        lease,
        service,
        serving,
        secrets,
        devices,
        requests,
        operator_rights,
        rights,
    }
}

async fn all<K: Kind>(client: &Client, only: Option<&str>, own: &str) -> kube::Result<Vec<K>> {
    let list =
        async |namespace: Option<&str>| K::pages(client, namespace, &ListParams::default()).await;
    match only {
        Some(namespace) => list(Some(namespace)).await,
        None => here_or_everywhere(own, list).await,
    }
}

/// The namespaces that devices may be in, as the operator was told; the first is that of requests.
pub fn namespaces(deployment: &Deployment) -> Vec<String> {
    let values = flag(deployment, "--edge-namespaces");
    let names = values.into_iter().flat_map(|value| value.split(',')).map(str::trim);
    let named: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if named.is_empty() { vec!["default".to_owned()] } else { named }
}

/// What the operator was started with for this flag, each time that it is there.
pub fn flag<'a>(deployment: &'a Deployment, flag: &str) -> Vec<&'a str> {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let args: Vec<&str> = pod
        .into_iter()
        .flat_map(|pod| &pod.containers)
        .flat_map(|container| container.command.iter().chain(&container.args).flatten())
        .map(String::as_str)
        .collect();
    let value = |(at, arg): (usize, &&'a str)| match arg.strip_prefix(flag) {
        Some("") => args.get(at + 1).copied(),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    };
    args.iter().enumerate().filter_map(value).collect()
}

/// Whether the operator may.
async fn may(client: &Client, home: &str, namespace: &str, right: Right) -> kube::Result<bool> {
    let groups = ["system:serviceaccounts", "system:authenticated"].map(str::to_owned);
    let own = format!("system:serviceaccounts:{home}");
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{home}:{DEPLOYMENT}")),
            groups: Some(groups.into_iter().chain([own]).collect()),
            resource_attributes: Some(right.attributes(namespace)),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
