//! One write each, and what it came to.
//!
//! A write is sent once, with a time limit. When its fate is unknown, a live read settles that before anything is said
//! about it; so an answer is always a fact: it is there, it is not there, or it was refused.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::pool::Caller;
use super::read;
use crate::process::client::words;

/// What a create came to.
#[derive(Debug)]
pub enum Created<T> {
    /// It is there and it is ours.
    There(T),
    /// It is not there, and why.
    Not {
        /// The server's words, or the network's.
        message: String,
        /// The server said no; otherwise it could not be reached or was busy.
        definite: bool,
        /// A foreign object has the name.
        conflict: bool,
    },
}

impl<T> Created<T> {
    /// The same, with another word for what is there.
    pub fn map<U>(self, read: impl FnOnce(T) -> U) -> Created<U> {
        match self {
            Created::There(there) => Created::There(read(there)),
            Created::Not { message, definite, conflict } => {
                Created::Not { message, definite, conflict }
            }
        }
    }
}

/// Creates an object; whatever happens on the way, says whether it is there afterwards. `A` is how it is read back, and
/// `is_same` tells of metadata found and wanted whether the one is what was to be made.
pub async fn create<K, A>(
    caller: &Caller,
    object: K,
    is_same: impl Fn(&ObjectMeta, &ObjectMeta) -> bool,
) -> Created<A>
where
    K: Resource<DynamicType = ()> + Serialize,
    A: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<A> =
        Api::namespaced(caller.client.clone(), &object.namespace().unwrap_or_default());
    let error = match caller.call(send::<K, A>(caller, &api, &object)).await {
        Ok(created) => return Created::There(created),
        Err(error) => error,
    };
    let message = words(&error);
    if let kube::Error::Api(status) = &error
        && (400..500).contains(&status.code)
        && !matches!(status.code, 408 | 429)
        && !status.is_already_exists()
    {
        let message = status.message.clone();
        return Created::Not { message, definite: true, conflict: false };
    }
    // In doubt, or something is there already: only a live read can tell.
    match read::live(caller, &api, &object.name_any()).await {
        None => Created::Not { message, definite: false, conflict: false },
        Some(found) if found.meta().deletion_timestamp.is_some() => {
            let message = format!("the earlier {} is still being deleted", found.name_any());
            Created::Not { message, definite: false, conflict: false }
        }
        Some(found) if is_same(found.meta(), object.meta()) => Created::There(found),
        Some(found) => {
            let message = format!(
                "{} {}/{} is there already and belongs to somebody else; rename or remove it",
                K::kind(&()),
                found.namespace().unwrap_or_default(),
                found.name_any()
            );
            Created::Not { message, definite: true, conflict: true }
        }
    }
}

async fn send<K: Serialize, A: Resource + DeserializeOwned>(
    caller: &Caller,
    api: &Api<A>,
    object: &K,
) -> kube::Result<A> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::new(api.resource_url()).create(&PostParams::default(), body);
    caller.client.request(request.map_err(kube::Error::BuildRequest)?).await
}

/// Deletes this very object. `Ok` means that the server knows we want it gone, or that it is.
pub async fn delete<K>(caller: &Caller, namespace: &str, name: &str, uid: &str) -> kube::Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let only_this = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let params = DeleteParams::background().preconditions(only_this);
    let request = Request::new(K::url_path(&(), Some(namespace))).delete(name, &params);
    let request = request.map_err(kube::Error::BuildRequest)?;
    // The answer is the object or a Status; that there is one is all that matters.
    match caller.call(caller.client.request::<IgnoredAny>(request)).await {
        Ok(_) => Ok(()),
        // Gone, or another object has the name by now.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}
