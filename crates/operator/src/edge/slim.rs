//! Edge's kinds as far as they are read.
//!
//! What depends on the schema is read as it comes: the CRD may be the original's, or one of another age, and an object that
//! could not be read would stop the watch for all of them.

use flashjob_api::edge;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::slim::{metadata, slim_resource};

#[derive(Deserialize, Clone, Debug)]
pub struct EdgeDevice {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub status: Value,
}

#[derive(Deserialize, Clone, Debug)]
pub struct SignedRequest {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub status: Value,
}

#[derive(Deserialize, Clone, Debug)]
pub struct ConfigMap {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub data: Option<std::collections::BTreeMap<String, String>>,
}

slim_resource! {
    EdgeDevice: edge::EdgeDevice,
    SignedRequest: edge::EdgeDeviceSignedRequest,
    ConfigMap: k8s_openapi::api::core::v1::ConfigMap,
}
