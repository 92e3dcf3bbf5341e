//! EdgeDeviceSignedRequest: a device that asks to be let in, and the answer.
//!
//! Its conditions are not Kubernetes' standard ones: the original writes small words for types and "true" and "false" for
//! states, so they are plain texts here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edge::Hardware;
use crate::edge::wire::lenient::list;

/// What a device asks for, and whether it gets it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SignedRequestSpec {
    /// The namespace that the EdgeDevice is made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,
    /// The EdgeDeviceSet or EdgeDeviceGroup that the device becomes a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_set: Option<String>,
    /// True lets the device register. Set it once you know the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// What the device says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
}

/// What a device says of itself before it is let in.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Features {
    /// The model of the board, as its operating system knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
    /// What the device is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
}

/// The answer to a device.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SignedRequestStatus {
    /// The answer in one word: pending, approved or declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The answer with its reason.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SignedRequestCondition>,
}

/// One answer.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SignedRequestCondition {
    /// The answer: pending, approved or declined.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Whether it holds. Flotta wrote true or false, in small letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when it holds or does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
