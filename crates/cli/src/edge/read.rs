//! Reads EdgeDevices and requests, so that nothing that is written into one can spoil a list.

use anyhow::{Result, anyhow, bail};
use flashjob_api::edge::{EdgeDevice, EdgeDeviceSignedRequest};
use flashjob_plan::edge::device_id::DeviceId;
use kube::Client;
use kube::api::ListParams;
use serde_json::Value;

use crate::connect::Connected;
use crate::edge::SYSTEM;
use crate::edge::device::Device;
use crate::edge::request::Request;
use crate::read::{Scope, dynamic, in_scope, pages_of};
use crate::shell::clean;

/// What is read here: objects of a kind, or of two that are one thing.
pub trait Kind: Sized {
    /// What sentences call one of them, and several.
    const KIND: &'static str;
    const PLURAL: &'static str;
    /// The command that lists them.
    const LISTS: &'static str;

    /// All that are chosen, in one namespace or in all of them.
    async fn pages(
        client: &Client,
        namespace: Option<&str>,
        choice: &ListParams,
    ) -> kube::Result<Vec<Self>>;
    /// Namespace and name.
    fn place(&self) -> (&str, &str);

    fn path(&self) -> String {
        let (namespace, name) = self.place();
        format!("{namespace}/{name}")
    }

    /// What a user wrote as a name, if it can be one.
    fn name(written: &str) -> Result<String> {
        let id = DeviceId::read(written).map_err(|why| anyhow!("{}: {why}", clean(written)))?;
        Ok(id.to_string())
    }
}

impl Kind for Device {
    const KIND: &'static str = "EdgeDevice";
    const PLURAL: &'static str = "EdgeDevices";
    const LISTS: &'static str = "kubectl flashjob edge devices";

    async fn pages(
        client: &Client,
        namespace: Option<&str>,
        choice: &ListParams,
    ) -> kube::Result<Vec<Self>> {
        pages_of(&dynamic::<EdgeDevice>(client, namespace), choice.clone(), Device::read).await
    }

    fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl Kind for Request {
    const KIND: &'static str = "EdgeDeviceSignedRequest";
    const PLURAL: &'static str = "EdgeDeviceSignedRequests";
    const LISTS: &'static str = "kubectl flashjob edge requests";

    async fn pages(
        client: &Client,
        namespace: Option<&str>,
        choice: &ListParams,
    ) -> kube::Result<Vec<Self>> {
        let requests = dynamic::<EdgeDeviceSignedRequest>(client, namespace);
        pages_of(&requests, choice.clone(), |object| Request::read(&object)).await
    }

    fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

/// All in scope that are chosen, in the order of namespace and name. What could not be seen is put into `notes`.
pub async fn list<K: Kind>(
    to: &Connected,
    scope: Scope<'_>,
    choice: &ListParams,
    notes: &mut Vec<String>,
) -> Result<Vec<K>> {
    let list = |namespace: Option<String>| async move {
        K::pages(&to.client, namespace.as_deref(), choice).await
    };
    let mut found = in_scope(&SYSTEM, K::PLURAL, scope, notes, list).await?;
    found.sort_by(|one: &K, other| one.place().cmp(&other.place()));
    Ok(found)
}

/// All of a name: in this namespace, or in all of them.
pub async fn named<K: Kind>(to: &Connected, only: Option<&str>, name: &str) -> Result<Vec<K>> {
    let name = K::name(name)?;
    let choice = ListParams::default().fields(&format!("metadata.name={name}"));
    list(to, Scope::of(only, to), &choice, &mut Vec::new()).await
}

/// What a user means: `namespace/name`, or a name that one of them has.
pub async fn find<K: Kind>(to: &Connected, only: Option<&str>, written: &str) -> Result<Option<K>> {
    Ok(find_all(to, only, written).await?.into_iter().next())
}

/// The same where one thing has two kinds, and so may be there twice.
pub async fn find_all<K: Kind>(
    to: &Connected,
    only: Option<&str>,
    written: &str,
) -> Result<Vec<K>> {
    let (only, name) = match written.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (only, written),
    };
    let found: Vec<K> = named(to, only, name).await?;
    let mut paths: Vec<String> = found.iter().map(K::path).collect();
    paths.dedup();
    if paths.len() > 1 {
        bail!("{}: it fits {}; write namespace/name", clean(name), paths.join(", "));
    }
    Ok(found)
}

/// The same where it has to be there.
pub async fn get<K: Kind>(to: &Connected, only: Option<&str>, written: &str) -> Result<K> {
    let found = find(to, only, written).await?;
    found.ok_or_else(|| missing::<K>(only, written))
}

/// The error about one that is not there.
pub fn missing<K: Kind>(only: Option<&str>, written: &str) -> anyhow::Error {
    let (kind, lists) = (K::KIND, K::LISTS);
    let place = only.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    anyhow!("there is no {kind} {}{place}; `{lists}` lists them all", clean(written))
}

/// The text of a field, if it is one.
pub fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
