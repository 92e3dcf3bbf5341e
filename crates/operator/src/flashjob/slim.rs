//! API objects as far as they are read.
//!
//! Most of what the API server sends is `managedFields` and a spec that nobody here looks at, and it sends that again with
//! every event and every answer. To read only what [`super::observe`] needs is the difference between a busy operator
//! and an idle one. Names and types of the fields are those of the whole objects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flashjob_api::flashjob::FlashJob as WholeFlashJob;
use flashjob_api::flashjob::instance::Instance as WholeInstance;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A FlashJob, whatever its spec and status are.
#[derive(Clone, Debug, Deserialize)]
pub struct FlashJob {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub status: Value,
}

/// A FlashJob whose spec and status are known.
#[derive(Clone, Debug, Deserialize)]
pub struct WrittenFlashJob {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
}

/// An Akri Instance, whatever its spec is.
#[derive(Clone, Debug, Deserialize)]
pub struct Instance {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Value,
}

/// A Service.
#[derive(Clone, Debug, Deserialize)]
pub struct Service {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub spec: Option<ServiceSpec>,
    pub status: Option<core::ServiceStatus>,
}

/// What a Service asks for.
#[derive(Clone, Debug, Deserialize)]
pub struct ServiceSpec {
    #[serde(rename = "type")]
    pub type_: Option<String>,
}

/// A Pod.
#[derive(Clone, Debug, Deserialize)]
pub struct Pod {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub spec: Option<PodSpec>,
    pub status: Option<core::PodStatus>,
}

/// A Pod's containers and its deadline.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    pub active_deadline_seconds: Option<i64>,
    pub containers: Vec<Container>,
}

/// A container's environment.
#[derive(Clone, Debug, Deserialize)]
pub struct Container {
    pub name: String,
    pub env: Option<Vec<EnvVar>>,
}

/// One variable of it.
#[derive(Clone, Debug, Deserialize)]
pub struct EnvVar {
    pub name: String,
    pub value: Option<String>,
}

/// A ConfigMap with its data.
#[derive(Clone, Debug, Deserialize)]
pub struct ConfigMap {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub data: Option<BTreeMap<String, String>>,
}

/// A ConfigMap whose data is known.
#[derive(Clone, Debug, Deserialize)]
pub struct WrittenConfigMap {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
}

/// Says that a type is another one in short.
macro_rules! short_for {
    ($($short:ty: $whole:ty,)*) => {$(
        impl Resource for $short {
            type DynamicType = ();
            type Scope = <$whole as Resource>::Scope;

            fn kind(_: &()) -> Cow<'_, str> {
                <$whole as Resource>::kind(&())
            }

            fn group(_: &()) -> Cow<'_, str> {
                <$whole as Resource>::group(&())
            }

            fn version(_: &()) -> Cow<'_, str> {
                <$whole as Resource>::version(&())
            }

            fn plural(_: &()) -> Cow<'_, str> {
                <$whole as Resource>::plural(&())
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*};
}

short_for! {
    FlashJob: WholeFlashJob,
    WrittenFlashJob: WholeFlashJob,
    Instance: WholeInstance,
    Service: core::Service,
    Pod: core::Pod,
    ConfigMap: core::ConfigMap,
    WrittenConfigMap: core::ConfigMap,
}

/// Metadata without `managedFields`, which are longer than all the rest.
fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        finalizers: Option<Vec<String>>,
        owner_references: Option<Vec<OwnerReference>>,
    }
    let read = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        generation: read.generation,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        labels: read.labels,
        annotations: read.annotations,
        finalizers: read.finalizers,
        owner_references: read.owner_references,
        ..ObjectMeta::default()
    })
}
