//! Edge's kinds as far as they are read.
//!
//! What depends on the schema is read as it comes: the CRD may be the original's, or one of another age, and an object that
//! could not be read would stop the watch for all of them.

use std::collections::BTreeMap;
use std::fmt;

use flashjob_api::edge;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::slim::{metadata, slim_resource};

/// What is in an object of such a kind.
pub trait Open {
    /// Metadata, spec and status.
    fn parts(&self) -> (&ObjectMeta, &Value, &Value);
}

/// Kinds that are read whole, as far as it goes: metadata, and whatever stands in spec and status.
macro_rules! open_kinds {
    ($($kind:ident,)*) => {$(
        #[derive(Deserialize, Clone, Debug)]
        pub struct $kind {
            #[serde(deserialize_with = "metadata")]
            pub metadata: ObjectMeta,
            #[serde(default)]
            pub spec: Value,
            #[serde(default)]
            pub status: Value,
        }

        impl Open for $kind {
            fn parts(&self) -> (&ObjectMeta, &Value, &Value) {
                (&self.metadata, &self.spec, &self.status)
            }
        }
    )*};
}

open_kinds! {
    EdgeDevice,
    SignedRequest,
    EdgeDeployment,
    EdgeWorkload,
    EdgeDeviceGroup,
    EdgeDeviceSet,
    ObjectBucketClaim,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMap {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub data: Option<BTreeMap<String, String>>,
    pub binary_data: Option<BTreeMap<String, ByteString>>,
}

#[derive(Deserialize, Clone)]
pub struct Secret {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub data: Option<BTreeMap<String, ByteString>>,
}

/// Without the data.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.metadata.name).finish_non_exhaustive()
    }
}

slim_resource! {
    EdgeDevice: edge::EdgeDevice,
    SignedRequest: edge::EdgeDeviceSignedRequest,
    EdgeDeployment: edge::EdgeDeployment,
    EdgeWorkload: edge::EdgeWorkload,
    EdgeDeviceGroup: edge::EdgeDeviceGroup,
    EdgeDeviceSet: edge::EdgeDeviceSet,
    ObjectBucketClaim: edge::ObjectBucketClaim,
    ConfigMap: k8s_openapi::api::core::v1::ConfigMap,
    Secret: k8s_openapi::api::core::v1::Secret,
}
