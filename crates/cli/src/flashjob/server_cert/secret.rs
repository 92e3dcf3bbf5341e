//! The Secret that flash Pods mount.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use flashjob_pki::CertifiedKey;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::boards;
use crate::connect::Connected;
use crate::flashjob::SYSTEM;

pub use flashjob_api::flashjob::flash_pod::TLS_SECRET as NAME;
const CRT: &str = "tls.crt";
const KEY: &str = "tls.key";

fn api(to: &Connected) -> Api<Secret> {
    Api::namespaced(to.client.clone(), &to.namespace)
}

pub async fn get(to: &Connected) -> Result<Option<Secret>> {
    let found = api(to).get_opt(NAME).await;
    found.map_err(|error| failed_here(to, "read", &error))
}

/// What is in it, if the flasher can use it.
pub fn pair(secret: &Secret) -> Result<CertifiedKey, String> {
    let part = |name: &str| {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        data.map(|bytes| bytes.0.as_slice()).ok_or_else(|| format!("there is no {name} in it"))
    };
    boards::read(part(CRT)?, part(KEY)?)
}

pub async fn create(to: &Connected, pair: &CertifiedKey) -> Result<()> {
    let secret = Secret {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data(pair)),
        ..Secret::default()
    };
    let created = api(to).create(&PostParams::default(), &secret).await;
    created.map(drop).map_err(|error| failed_here(to, "create", &error))
}

/// Puts another pair into the Secret that was read. Its labels and annotations stay; if it was changed meanwhile, this fails.
pub async fn replace(to: &Connected, present: &Secret, pair: &CertifiedKey) -> Result<()> {
    let patch = json!({
        "metadata": { "resourceVersion": present.metadata.resource_version },
        "data": data(pair),
    });
    let patched = api(to).patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.map(drop).map_err(|error| failed_here(to, "change", &error))
}

fn data(pair: &CertifiedKey) -> BTreeMap<String, ByteString> {
    let parts = [(CRT, pair.chain().pem()), (KEY, pair.key().pem())];
    parts.map(|(name, pem)| (name.to_owned(), ByteString(pem.into_bytes()))).into()
}

/// The roles of FlashJobs give no right to Secrets, so their advice would lead astray.
fn failed_here(to: &Connected, verb: &str, error: &kube::Error) -> anyhow::Error {
    let what = format!("cannot {verb} the Secret {NAME} in namespace {}", to.namespace);
    match error {
        kube::Error::Api(status) if status.is_forbidden() => anyhow!(
            "{what}: {}\nask for get, create and patch on secrets there; the roles `edit` and `admin` have them",
            status.message
        ),
        error => SYSTEM.failed(what, error),
    }
}
