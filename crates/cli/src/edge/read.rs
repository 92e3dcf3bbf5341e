//! Reads EdgeDevices and requests, so that nothing that is written into one can spoil a list.

use anyhow::{Result, anyhow, bail};
use flashjob_api::edge::{EdgeDevice, EdgeDeviceSignedRequest};
use flashjob_plan::edge::device_id::DeviceId;
use kube::Resource;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use crate::connect::Connected;
use crate::edge::SYSTEM;
use crate::edge::device::Device;
use crate::edge::request::Request;
use crate::read::{Scope, dynamic, in_scope, pages_of};
use crate::shell::clean;

/// A kind that is read here.
pub trait Kind: Sized {
    type Object: Resource<DynamicType = ()>;
    /// What sentences call them.
    const PLURAL: &'static str;
    /// The command that lists them.
    const LISTS: &'static str;

    fn read(object: DynamicObject) -> Self;
    /// Namespace and name.
    fn place(&self) -> (&str, &str);

    fn path(&self) -> String {
        let (namespace, name) = self.place();
        format!("{namespace}/{name}")
    }
}

impl Kind for Device {
    type Object = EdgeDevice;
    const PLURAL: &'static str = "EdgeDevices";
    const LISTS: &'static str = "kubectl flashjob edge devices";

    fn read(object: DynamicObject) -> Self {
        Device::read(object)
    }

    fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl Kind for Request {
    type Object = EdgeDeviceSignedRequest;
    const PLURAL: &'static str = "EdgeDeviceSignedRequests";
    const LISTS: &'static str = "kubectl flashjob edge requests";

    fn read(object: DynamicObject) -> Self {
        Request::read(&object)
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
    let list = |namespace: Option<String>| {
        let api = dynamic::<K::Object>(&to.client, namespace.as_deref());
        let choice = choice.clone();
        async move { pages_of(&api, choice, K::read).await }
    };
    let mut found = in_scope(&SYSTEM, K::PLURAL, scope, notes, list).await?;
    found.sort_by(|one: &K, other| one.place().cmp(&other.place()));
    Ok(found)
}

/// All of a name: in this namespace, or in all of them.
pub async fn named<K: Kind>(to: &Connected, only: Option<&str>, name: &str) -> Result<Vec<K>> {
    let name = DeviceId::read(name).map_err(|why| anyhow!("{}: {why}", clean(name)))?;
    let choice = ListParams::default().fields(&format!("metadata.name={name}"));
    list(to, Scope::of(only, to), &choice, &mut Vec::new()).await
}

/// What a user means: `namespace/name`, or a name that one of them has.
pub async fn find<K: Kind>(to: &Connected, only: Option<&str>, written: &str) -> Result<Option<K>> {
    let (only, name) = match written.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (only, written),
    };
    let mut found: Vec<K> = named(to, only, name).await?;
    if found.len() > 1 {
        let paths: Vec<String> = found.iter().map(K::path).collect();
        bail!("{name}: it fits {}; write namespace/name", paths.join(", "));
    }
    Ok(found.pop())
}

/// The same where it has to be there.
pub async fn get<K: Kind>(to: &Connected, only: Option<&str>, written: &str) -> Result<K> {
    let kind = K::Object::kind(&());
    let place = only.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    let found = find(to, only, written).await?;
    found.ok_or_else(|| {
        anyhow!("there is no {kind} {}{place}; `{}` lists them all", clean(written), K::LISTS)
    })
}

/// The text of a field, if it is one.
pub fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
