//! API objects as far as they are read.
//!
//! They have the fields that [`super::observe`] needs, and no others; see [`crate::engine::slim`].

use std::collections::BTreeMap;

use flashjob_api::flashjob::FlashJob as WholeFlashJob;
use flashjob_api::flashjob::instance::Instance as WholeInstance;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::slim::{metadata, slim_resource};

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

slim_resource! {
    FlashJob: WholeFlashJob,
    WrittenFlashJob: WholeFlashJob,
    Instance: WholeInstance,
    Service: core::Service,
    Pod: core::Pod,
    ConfigMap: core::ConfigMap,
    WrittenConfigMap: core::ConfigMap,
}
