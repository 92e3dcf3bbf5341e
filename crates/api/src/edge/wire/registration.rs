//! How a device gets in: enrolment asks to be let in, registration asks for a certificate.

use serde::{Deserialize, Serialize};

use super::HardwareInfo;
use super::lenient::{is_empty, or_empty};

/// The content of `registration`: a certificate is asked for.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Registration {
    /// What the device is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareInfo>,
    /// The certificate signing request, in PEM.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub certificate_request: String,
}

/// The content of the answer to `registration`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct RegistrationAnswer {
    /// The device's certificate, in PEM.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub certificate: String,
    /// The CAs to trust from now on, in PEM, one after the other. Ours: the original's agents pass it over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
}

/// The content of `enrolment`: the device asks to be let in.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Enrolment {
    /// What the device says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
    /// The namespace it wants to be in; empty is the first that is served.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub target_namespace: String,
}

/// What a device says of itself before it is let in.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Features {
    /// Its model.
    #[serde(rename = "modelName", deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub model_name: String,
    /// What it is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareInfo>,
}
