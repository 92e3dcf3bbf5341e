//! What Edge watches: in each namespace that is served its devices, workloads and sets, and of Secrets and ConfigMaps the metadata;
//! and the requests for approval in the first. And ObjectBucketClaims, where the cluster has such.

use std::time::Duration;

use flashjob_plan::edge::facts::Settings;
use flashjob_plan::edge::sets::SetKind;
use flashjob_plan::edge::workloads::WorkloadKind;
use k8s_openapi::api::core::v1;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Resource};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::crds::{
    CLAIMS, EDGE_DEPLOYMENTS, EDGE_DEVICE_GROUPS, EDGE_DEVICE_SETS, EDGE_DEVICES, EDGE_WORKLOADS,
    SIGNED_REQUESTS,
};
use super::input::Input;
use super::sources::SourceKind;
use super::{observe, slim};
use crate::engine::slim::Slim;
use crate::engine::watch::{Resync, Watches};
use crate::process::client::error_message;
use crate::process::crds::{Needed, discover};

/// An EdgeDevice may have hundreds of kilobytes of hardware; small pages keep the memory flat.
const PAGE: u32 = 100;
/// Metadata is short.
const METADATA_PAGE: u32 = 500;
/// EdgeDevices are listed anew so many times less often than anything else, which makes it an hour: there may be 100,000 of them,
/// and that list keeps an API server busy for a minute.
const DEVICES_LESS_OFTEN: u32 = 12;
/// From one look for the CRD of ObjectBucketClaims to the next.
const LOOK_FOR_CLAIMS: Duration = Duration::from_secs(5);
/// After so many looks in vain it is gone.
const ABSENT_FOR_GOOD: u32 = 3;

pub fn start(watches: &Watches<Input>, settings: &Settings) {
    for namespace in &settings.namespaces {
        let (edge, namespace) = (Edge { watches, namespace }, namespace.clone());
        let input = move |event| Input::Device(namespace.clone(), event);
        let read = |object: slim::EdgeDevice| Some(observe::device(&object));
        let Resync { usual, after_failure } = watches.resync;
        let usual = usual * DEVICES_LESS_OFTEN;
        let seldom = watches.with_resync(Resync { usual, after_failure });
        seldom.spawn("edgedevices", Some(EDGE_DEVICES), edge.api(), page(PAGE), read, input);
        edge.workloads::<slim::EdgeDeployment>(WorkloadKind::EdgeDeployment, EDGE_DEPLOYMENTS);
        edge.workloads::<slim::EdgeWorkload>(WorkloadKind::EdgeWorkload, EDGE_WORKLOADS);
        edge.sets::<slim::EdgeDeviceSet>(SetKind::EdgeDeviceSet, EDGE_DEVICE_SETS);
        edge.sets::<slim::EdgeDeviceGroup>(SetKind::EdgeDeviceGroup, EDGE_DEVICE_GROUPS);
        edge.metadata::<v1::Secret>(SourceKind::Secret, "secrets");
        edge.metadata::<v1::ConfigMap>(SourceKind::ConfigMap, "configmaps");
    }
    let first = settings.first_namespace();
    let api: Api<slim::SignedRequest> = Api::namespaced(watches.client.clone(), first);
    let read = |object| Some(observe::signed_request(&object));
    let (kind, needed) = ("edgedevicesignedrequest", Some(SIGNED_REQUESTS));
    watches.spawn(kind, needed, api, page(PAGE), read, Input::Request);
}

/// Says whether the cluster has ObjectBucketClaims, and watches them for as long as it has. Their CRD comes with somebody else,
/// later or never.
pub async fn claims(watches: Watches<Input>, namespaces: Vec<String>) {
    let (mut running, mut has, mut absent) = (Vec::new(), None, 0);
    while !watches.inputs.is_closed() {
        match discover(&watches.client, CLAIMS).await {
            Ok(is_there) => {
                absent = if is_there { 0 } else { absent + 1 };
                // An API server that has just started does not know all of its kinds.
                let is_sure = is_there || has != Some(true) || absent >= ABSENT_FOR_GOOD;
                if is_sure && has != Some(is_there) {
                    has = Some(is_there);
                    running.drain(..).for_each(|watch: JoinHandle<()>| watch.abort());
                    let _ = watches.inputs.send(Input::HasClaims(is_there)).await;
                    let served = namespaces.iter().filter(|_| is_there);
                    running.extend(served.map(|namespace| watch_claims(&watches, namespace)));
                }
            }
            Err(error) => {
                let (crd, error) = (CLAIMS.crd, error_message(&error));
                tracing::warn!(crd, error, "whether a CRD is there could not be found out");
            }
        }
        sleep(LOOK_FOR_CLAIMS).await;
    }
}

fn watch_claims(watches: &Watches<Input>, namespace: &str) -> JoinHandle<()> {
    let api = Edge { watches, namespace }.api();
    let read = |object: slim::ObjectBucketClaim| Some(observe::claim(&object));
    let namespace = namespace.to_owned();
    let input = move |event| Input::Claim(namespace.clone(), event);
    watches.spawn(CLAIMS.resource, None, api, page(METADATA_PAGE), read, input)
}

/// The watches of one namespace.
struct Edge<'a> {
    watches: &'a Watches<Input>,
    namespace: &'a str,
}

impl Edge<'_> {
    fn api<K: Slim>(&self) -> Api<K> {
        Api::namespaced(self.watches.client.clone(), self.namespace)
    }

    fn workloads<K: Slim + slim::Open + Send + 'static>(&self, kind: WorkloadKind, crd: Needed) {
        let read = move |object: K| Some(Box::new(observe::workload(kind, &object)));
        let namespace = self.namespace.to_owned();
        let input = move |event| Input::Workload(kind, namespace.clone(), event);
        self.watches.spawn(crd.resource, Some(crd), self.api::<K>(), page(PAGE), read, input);
    }

    fn sets<K: Slim + slim::Open + Send + 'static>(&self, kind: SetKind, crd: Needed) {
        let read = |object: K| Some(observe::set(&object));
        let namespace = self.namespace.to_owned();
        let input = move |event| Input::Set(kind, namespace.clone(), event);
        self.watches.spawn(crd.resource, Some(crd), self.api::<K>(), page(PAGE), read, input);
    }

    fn metadata<K>(&self, kind: SourceKind, name: &'static str)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Send
            + Sync
            + std::fmt::Debug
            + 'static,
    {
        let api: Api<PartialObjectMeta<K>> =
            Api::namespaced(self.watches.client.clone(), self.namespace);
        let read = |object: PartialObjectMeta<K>| {
            Some((object.metadata.name?, object.metadata.resource_version?))
        };
        let namespace = self.namespace.to_owned();
        let input = move |event| Input::Source(kind, namespace.clone(), event);
        self.watches.spawn(name, None, api, page(METADATA_PAGE), read, input);
    }
}

fn page(size: u32) -> Config {
    Config::default().page_size(size)
}
