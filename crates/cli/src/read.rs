//! Reads from the cluster: in pages, and as much of it as the user may see.

use anyhow::Result;
use futures::{Stream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::connect::{Connected, System};

/// How many objects are asked for at once, as kubectl does.
const PAGE: u32 = 500;

/// Where to look.
#[derive(Clone, Copy)]
pub enum Scope<'a> {
    /// In all namespaces; where that is forbidden, in this one.
    All(&'a str),
    Only(&'a str),
}

impl<'a> Scope<'a> {
    /// All namespaces, or the one that the user names.
    pub fn of(named: Option<&'a str>, to: &'a Connected) -> Scope<'a> {
        named.map_or(Scope::All(&to.namespace), Scope::Only)
    }
}

/// Objects of a kind, read so that none can spoil a list.
pub fn dynamic<K>(client: &Client, namespace: Option<&str>) -> Api<DynamicObject>
where
    K: Resource<DynamicType = ()>,
{
    let what = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &what),
        None => Api::all_with(client.clone(), &what),
    }
}

/// Something each time an object of the kind has changed.
pub fn changes_of<K>(client: &Client, namespace: Option<&str>) -> impl Stream<Item = ()> + Unpin
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    // From the end of the first list on; what came before may have been missed by who looked earlier. That the cluster does
    // not answer is seen by who looks.
    let is_change = |event: watcher::Result<watcher::Event<_>>| match event {
        Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone) => {
            Some(())
        }
        _ => None,
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    events.filter_map(move |event| std::future::ready(is_change(event))).boxed_local()
}

/// Lists everything with these labels, a page at a time.
pub async fn pages<K>(api: &Api<K>, selector: &str) -> kube::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    pages_of(api, ListParams::default().labels(selector), |object| object).await
}

/// The same for any choice of objects, keeping what `read` makes of each: a page is in memory as it was sent, and no more. Where
/// objects are large, the choice has a limit of its own.
pub async fn pages_of<K, T>(
    api: &Api<K>,
    choice: ListParams,
    read: impl Fn(K) -> T,
) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = choice;
    params.limit.get_or_insert(PAGE);
    let mut all = Vec::new();
    loop {
        let list = api.list(&params).await?;
        all.extend(list.items.into_iter().map(&read));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// Lists in all namespaces, or where that is forbidden in one, and notes that.
pub async fn in_scope<K, L, F>(
    system: &System,
    what: &str,
    scope: Scope<'_>,
    notes: &mut Vec<String>,
    list: L,
) -> Result<Vec<K>>
where
    L: Fn(Option<String>) -> F,
    F: Future<Output = kube::Result<Vec<K>>>,
{
    let (first, own) = match scope {
        Scope::All(own) => (None, own),
        Scope::Only(own) => (Some(own.to_owned()), own),
    };
    let everywhere = first.is_none();
    let found = match list(first).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() && everywhere => {
            let found = list(Some(own.to_owned())).await;
            if found.is_ok() {
                notes.push(format!("you may see {what} of namespace {own} only"));
            }
            found
        }
        found => found,
    };
    found.map_err(|error| match &error {
        // By its code: where a group is not served, the answer is no Status, and has no reason.
        kube::Error::Api(status) if status.code == 404 => system.not_served(what),
        error => system.failed(format!("cannot list {what}"), error),
    })
}
