//! One write each, and what it came to.
//!
//! A write is sent once, with a time limit. When it is not known whether a create arrived, a live read confirms it before
//! anything is said about it; so its answer is always a fact: it is there, it is not there, or it was refused. The others
//! may be sent again without harm: a delete and an apply do nothing the second time, and a patch fits one version only.
//!
//! A name proves nothing, since anybody may have made an object of that name meanwhile. So each of them says by its uid which
//! object is meant, and a create says by an argument how its own object is known.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use super::pool::Caller;
use super::read;
use super::slim::Slim;
use crate::process::client::error_message;

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
    A: Slim,
{
    let api: Api<A> =
        Api::namespaced(caller.client.clone(), &object.namespace().unwrap_or_default());
    let error = match caller.call(send::<K, A>(caller, &api, &object)).await {
        Ok(created) => return Created::There(created),
        Err(error) => error,
    };
    let message = error_message(&error);
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

/// One object and no other of its name. The server refuses a change that is meant for another (422).
#[derive(Clone, Copy, Debug)]
pub struct ObjectId<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// Deletes this very object. `Ok` means that the server knows we want it gone, or that it is.
pub async fn delete<K>(caller: &Caller, object: ObjectId<'_>) -> kube::Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let only_this = Preconditions { uid: Some(object.uid.to_owned()), resource_version: None };
    let params = DeleteParams::background().preconditions(only_this);
    let url = K::url_path(&(), Some(object.namespace));
    let request = Request::new(url).delete(object.name, &params);
    let request = request.map_err(kube::Error::BuildRequest)?;
    // The answer is the object or a Status; that there is one is all that matters.
    match caller.call(caller.client.request::<IgnoredAny>(request)).await {
        Ok(_) => Ok(()),
        // Gone, or another object has the name by now.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Changes an object as it was at this resourceVersion, with a merge patch. When somebody else has changed it since, nothing
/// happens, and the server says so (409).
pub async fn patch<A: Slim>(
    caller: &Caller,
    object: ObjectId<'_>,
    version: &str,
    mut change: Value,
) -> kube::Result<A> {
    change["metadata"]["uid"] = json!(object.uid);
    change["metadata"]["resourceVersion"] = json!(version);
    let api: Api<A> = Api::namespaced(caller.client.clone(), object.namespace);
    let (params, patch) = (PatchParams::default(), Patch::Merge(&change));
    caller.call(api.patch(object.name, &params, &patch)).await
}

/// Sees to it that the fields of an object that are ours are these and no others, with a server-side apply: those that
/// `manager` has applied before and that are not among them go, and what others have set beside them stays.
#[cfg_attr(not(test), expect(dead_code, reason = "FlashJob shares no object with others"))]
pub async fn apply<A: Slim>(
    caller: &Caller,
    object: ObjectId<'_>,
    manager: &str,
    mut fields: Value,
) -> kube::Result<A> {
    fields["apiVersion"] = json!(A::api_version(&()));
    fields["kind"] = json!(A::kind(&()));
    fields["metadata"]["uid"] = json!(object.uid);
    let api: Api<A> = Api::namespaced(caller.client.clone(), object.namespace);
    let (params, patch) = (PatchParams::apply(manager).force(), Patch::Apply(&fields));
    caller.call(api.patch(object.name, &params, &patch)).await
}

#[cfg(test)]
mod tests {
    use flashjob_sim::cluster::Cluster;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::engine::fair_queue::Flow;
    use crate::engine::pool::Pool;

    /// A ConfigMap of a namespace of its own on a real API server, and who writes to it.
    async fn made(data: Value) -> (Caller, ConfigMap) {
        let cluster = Cluster::shared().await.unwrap();
        let namespace = cluster.namespace("write").await.unwrap();
        let caller = Pool::new(cluster.client("admin").unwrap(), 1).caller(Flow::default(), false);
        let metadata = json!({ "name": "shared", "namespace": namespace });
        let map: ConfigMap =
            serde_json::from_value(json!({ "metadata": metadata, "data": data })).unwrap();
        let api = Api::namespaced(caller.client.clone(), &namespace);
        let map = api.create(&PostParams::default(), &map).await.unwrap();
        (caller, map)
    }

    fn id(map: &ConfigMap) -> ObjectId<'_> {
        let ObjectMeta { namespace, name, uid, .. } = &map.metadata;
        let [namespace, name, uid] = [namespace, name, uid].map(|text| text.as_deref().unwrap());
        ObjectId { namespace, name, uid }
    }

    fn data(map: &ConfigMap) -> Value {
        json!(map.data)
    }

    /// The code of the server's no.
    fn refused(result: kube::Result<ConfigMap>) -> u16 {
        match result {
            Err(kube::Error::Api(status)) => status.code,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_patch_fits_one_version_of_one_object() {
        let (caller, map) = made(json!({ "a": "1", "b": "1" })).await;
        let version = map.resource_version().unwrap();
        let change = |a: &str| json!({ "data": { "a": a, "b": null } });
        let first: ConfigMap = patch(&caller, id(&map), &version, change("2")).await.unwrap();
        assert_eq!(data(&first), json!({ "a": "2" }));
        let again = patch::<ConfigMap>(&caller, id(&map), &version, change("3")).await;
        assert_eq!(refused(again), 409);
        let other = ObjectId { uid: "another", ..id(&map) };
        let newest = first.resource_version().unwrap();
        let other = patch::<ConfigMap>(&caller, other, &newest, change("3")).await;
        assert_eq!(refused(other), 422);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_apply_has_its_own_fields_and_leaves_those_of_others() {
        let (caller, map) = made(json!({ "theirs": "1", "taken": "1" })).await;
        let fields = |data: Value| json!({ "data": data });
        let ours = fields(json!({ "ours": "1", "taken": "2" }));
        let first: ConfigMap = apply(&caller, id(&map), "us", ours.clone()).await.unwrap();
        assert_eq!(data(&first), json!({ "ours": "1", "taken": "2", "theirs": "1" }));
        let again: ConfigMap = apply(&caller, id(&map), "us", ours).await.unwrap();
        assert_eq!(again.resource_version(), first.resource_version(), "nothing was left to do");
        let less: ConfigMap = apply(&caller, id(&map), "us", fields(json!({}))).await.unwrap();
        assert_eq!(data(&less), json!({ "theirs": "1" }));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_apply_makes_no_object_and_does_not_touch_another_of_the_name() {
        let (caller, map) = made(json!({})).await;
        let fields = json!({ "data": { "ours": "1" } });
        let other = ObjectId { uid: "another", ..id(&map) };
        let other = apply::<ConfigMap>(&caller, other, "us", fields.clone()).await;
        assert_eq!(refused(other), 422);
        delete::<ConfigMap>(&caller, id(&map)).await.unwrap();
        let gone = apply::<ConfigMap>(&caller, id(&map), "us", fields).await;
        assert_eq!(refused(gone), 409);
        let api: Api<ConfigMap> = Api::namespaced(caller.client.clone(), id(&map).namespace);
        assert_eq!(api.get_opt("shared").await.unwrap(), None);
    }
}
