//! A watch reduced to what the played parts need: an object is there, or it is gone.

use std::collections::HashSet;
use std::fmt::Debug;

use futures::{Stream, StreamExt, stream};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// One change of one object.
pub(crate) enum Change<K> {
    /// The object is there, new or changed.
    Here(Box<K>),
    /// The object with this uid is gone.
    Gone(String),
}

/// Watches everything behind `api`. What vanished while the watch was broken is reported too.
pub(crate) fn observe<K>(api: Api<K>) -> impl Stream<Item = Change<K>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut known = HashSet::new();
    let mut listed = HashSet::new();
    watcher(api, watcher::Config::default())
        .default_backoff()
        // The next list repairs what an error broke.
        .filter_map(|event| async { event.ok() })
        .flat_map(move |event| stream::iter(changes(event, &mut known, &mut listed)))
}

fn changes<K: Resource>(
    event: watcher::Event<K>,
    known: &mut HashSet<String>,
    listed: &mut HashSet<String>,
) -> Vec<Change<K>> {
    let uid = |object: &K| object.meta().uid.clone().unwrap_or_default();
    match event {
        watcher::Event::Init => {
            listed.clear();
            Vec::new()
        }
        watcher::Event::InitApply(object) => {
            known.insert(uid(&object));
            listed.insert(uid(&object));
            vec![Change::Here(Box::new(object))]
        }
        watcher::Event::InitDone => {
            let gone = known.difference(listed).cloned().collect::<Vec<_>>();
            known.retain(|uid| listed.contains(uid));
            gone.into_iter().map(Change::Gone).collect()
        }
        watcher::Event::Apply(object) => {
            known.insert(uid(&object));
            vec![Change::Here(Box::new(object))]
        }
        watcher::Event::Delete(object) => {
            known.remove(&uid(&object));
            vec![Change::Gone(uid(&object))]
        }
    }
}
