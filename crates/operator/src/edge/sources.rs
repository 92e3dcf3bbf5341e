//! Secrets and ConfigMaps that configurations are made from.
//!
//! Of all of them in the served namespaces only the metadata is watched; one is read when something names it, and again when it
//! has changed. What nobody names any more is forgotten. While a newer version is being read, the one before counts.
//!
//! However many name one, of each there is one read under way at most. So answers cannot overtake each other, and what a watch
//! says during a read is looked at when that is over.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use flashjob_plan::edge::configuration::{ConfigMapData, Found, Material, Needs, SecretData};

use kube::Api;
use tokio::time::Instant;

use super::slim;
use crate::engine::backoff::Backoff;
use crate::engine::pool::Caller;
use crate::engine::slim::Slim;
use crate::engine::watch::WatchEvent;
use crate::process::client::error_message;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    Secret,
    ConfigMap,
}

impl SourceKind {
    pub const ALL: [Self; 2] = [Self::Secret, Self::ConfigMap];
}

/// Reads of one that fail in a row until somebody is told: some seconds, so that a moment's trouble writes no statuses.
const MOST_FAILURES: u32 = 4;

/// One of them, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    pub kind: SourceKind,
    pub namespace: String,
    pub name: String,
}

/// Who names one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The workload of this namespace and name.
    Workload(String, String),
    /// The EdgeDevice of this namespace and name.
    Device(String, String),
}

/// What is in one. There is no Debug, because it may be secret.
#[derive(Clone)]
pub enum Content {
    Secret(Arc<SecretData>),
    ConfigMap(Arc<ConfigMapData>),
}

impl Source {
    /// Reads it past every cache.
    pub async fn read(self, caller: Caller) -> SourceRead {
        let result = match self.kind {
            SourceKind::Secret => self.get::<slim::Secret>(&caller).await,
            SourceKind::ConfigMap => self.get::<slim::ConfigMap>(&caller).await,
        };
        SourceRead { source: self, result: result.map_err(|error| error_message(&error)) }
    }

    async fn get<K: Slim + Into<Content>>(
        &self,
        caller: &Caller,
    ) -> kube::Result<Option<(String, Content)>> {
        let api: Api<K> = Api::namespaced(caller.client.clone(), &self.namespace);
        let found = caller.call(api.get_opt(&self.name)).await?;
        let read =
            |object: K| (object.meta().resource_version.clone().unwrap_or_default(), object.into());
        Ok(found.map(read))
    }
}

impl From<slim::Secret> for Content {
    fn from(secret: slim::Secret) -> Self {
        Self::Secret(Arc::new(SecretData::new(secret.data)))
    }
}

impl From<slim::ConfigMap> for Content {
    fn from(map: slim::ConfigMap) -> Self {
        Self::ConfigMap(Arc::new(ConfigMapData::new(map.data, map.binary_data)))
    }
}

/// What a read came to.
pub struct SourceRead {
    pub source: Source,
    /// The version and what is in it; `None`: it is not there. The error is a sentence.
    pub result: Result<Option<(String, Content)>, String>,
}

#[derive(Default)]
pub struct Sources {
    /// Kinds and namespaces whose list is complete.
    listed: HashSet<(SourceKind, String)>,
    /// What a list that is under way has named so far.
    listing: HashMap<(SourceKind, String), HashSet<String>>,
    /// What is there, by the watches, and in which version.
    versions: HashMap<Source, String>,
    wanted: HashMap<Source, Wanted>,
    /// What each of them names.
    owners: HashMap<Owner, BTreeSet<Source>>,
}

#[derive(Default)]
struct Wanted {
    /// Nobody: it is kept until the read that is under way has come to its end.
    by: BTreeSet<Owner>,
    known: Option<Known>,
    /// What the API server says, when reads have failed for a while.
    failed: Option<Arc<str>>,
    reading: bool,
    /// A watch has said something since that read began.
    news: bool,
    backoff: Backoff,
}

struct Known {
    version: Option<String>,
    content: Option<Content>,
}

/// What follows from something that came in.
#[derive(Default)]
pub struct Consequences {
    /// To be read now.
    pub read: Vec<Source>,
    /// For them something is different.
    pub concerned: BTreeSet<Owner>,
    /// When to say [`Sources::again`]: the read has failed.
    pub again: Option<Instant>,
}

impl Sources {
    /// From now on this owner names these and no others. Says what has to be read for it.
    pub fn want(&mut self, owner: &Owner, namespace: &str, needs: &Needs) -> Vec<Source> {
        let source = |kind| {
            move |name: &String| Source {
                kind,
                namespace: namespace.to_owned(),
                name: name.clone(),
            }
        };
        let secrets = needs.secrets.iter().map(source(SourceKind::Secret));
        let maps = needs.config_maps.iter().map(source(SourceKind::ConfigMap));
        let named: BTreeSet<Source> = secrets.chain(maps).collect();
        let before = self.owners.remove(owner).unwrap_or_default();
        for gone in before.difference(&named) {
            if let Some(wanted) = self.wanted.get_mut(gone) {
                wanted.by.remove(owner);
                if wanted.by.is_empty() && !wanted.reading {
                    self.wanted.remove(gone);
                }
            }
        }
        let mut read = Vec::new();
        for source in &named {
            self.wanted.entry(source.clone()).or_default().by.insert(owner.clone());
            read.extend(self.begin_read(source));
        }
        if !named.is_empty() {
            self.owners.insert(owner.clone(), named);
        }
        read
    }

    /// A watch has seen something: the name of an object and its version.
    pub fn take(
        &mut self,
        kind: SourceKind,
        namespace: &str,
        event: WatchEvent<(String, String)>,
    ) -> Consequences {
        let list = (kind, namespace.to_owned());
        let source = |name: String| Source { kind, namespace: namespace.to_owned(), name };
        let mut consequences = Consequences::default();
        match event {
            WatchEvent::Listing => drop(self.listing.insert(list, HashSet::new())),
            WatchEvent::There((name, version)) => {
                if let Some(listing) = self.listing.get_mut(&list) {
                    listing.insert(name.clone());
                }
                let source = source(name);
                self.versions.insert(source.clone(), version);
                consequences.read.extend(self.has_news(&source));
            }
            WatchEvent::Left((name, _)) => {
                let source = source(name);
                self.versions.remove(&source);
                consequences.read.extend(self.has_news(&source));
            }
            WatchEvent::Synced => {
                let seen = self.listing.remove(&list).unwrap_or_default();
                let here = |s: &Source| s.kind == kind && s.namespace == namespace;
                self.versions.retain(|source, _| !here(source) || seen.contains(&source.name));
                self.listed.insert(list);
                let wanted: Vec<_> = self.wanted.keys().filter(|s| here(s)).cloned().collect();
                for source in wanted {
                    consequences.read.extend(self.has_news(&source));
                }
            }
        }
        consequences
    }

    /// A read was answered.
    pub fn was_read(&mut self, read: &SourceRead) -> Consequences {
        let mut consequences = Consequences::default();
        let Some(wanted) = self.wanted.get_mut(&read.source) else { return consequences };
        wanted.reading = false;
        let has_news = std::mem::take(&mut wanted.news);
        if wanted.by.is_empty() {
            self.wanted.remove(&read.source);
            return consequences;
        }
        let found = match &read.result {
            Ok(found) => found,
            Err(error) => {
                consequences.again = Some(wanted.backoff.failed());
                let is_news = wanted.failed.is_none() && wanted.backoff.failures() >= MOST_FAILURES;
                if is_news {
                    wanted.failed = Some(error.as_str().into());
                    consequences.concerned.clone_from(&wanted.by);
                }
                return consequences;
            }
        };
        wanted.backoff.succeeded();
        wanted.failed = None;
        let (version, content) = match found {
            Some((version, content)) => (Some(version.clone()), Some(content.clone())),
            None => (None, None),
        };
        let is_new = wanted.known.as_ref().is_none_or(|known| known.version != version);
        wanted.known = Some(Known { version: version.clone(), content });
        if is_new {
            consequences.concerned.clone_from(&wanted.by);
        }
        if has_news {
            consequences.read.extend(self.begin_read(&read.source));
            return consequences;
        }
        // What the read has found may be newer than what the watch has said so far, and is not read again for that.
        match version {
            Some(version) => drop(self.versions.insert(read.source.clone(), version)),
            None => drop(self.versions.remove(&read.source)),
        }
        consequences
    }

    /// The pause after a read that failed is over.
    pub fn again(&mut self, source: &Source) -> Option<Source> {
        self.begin_read(source)
    }

    /// A watch has said something of this one.
    fn has_news(&mut self, source: &Source) -> Option<Source> {
        if let Some(wanted) = self.wanted.get_mut(source) {
            wanted.news = wanted.reading;
        }
        self.begin_read(source)
    }

    /// Whether this one has to be read now; if so, it is being read from here on.
    fn begin_read(&mut self, source: &Source) -> Option<Source> {
        if !self.listed.contains(&(source.kind, source.namespace.clone())) {
            return None;
        }
        let version = self.versions.get(source);
        let wanted = self.wanted.get_mut(source)?;
        let is_known = wanted.known.as_ref().is_some_and(|known| known.version.as_ref() == version);
        if wanted.reading || is_known || wanted.backoff.until().is_some() {
            return None;
        }
        wanted.reading = true;
        Some(source.clone())
    }

    fn look<T>(
        &self,
        kind: SourceKind,
        namespace: &str,
        name: &str,
        of_kind: impl FnOnce(&Content) -> Option<Arc<T>>,
    ) -> Found<T> {
        let source = Source { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        let Some(wanted) = self.wanted.get(&source) else { return Found::Unknown };
        match (&wanted.known, &wanted.failed) {
            (Some(known), _) => match known.content.as_ref().and_then(of_kind) {
                Some(data) => Found::There(data),
                None => Found::Missing,
            },
            (None, Some(why)) => Found::Failed(why.clone()),
            (None, None) => Found::Unknown,
        }
    }
}

impl Material for Sources {
    fn secret(&self, namespace: &str, name: &str) -> Found<SecretData> {
        self.look(SourceKind::Secret, namespace, name, |content| match content {
            Content::Secret(data) => Some(data.clone()),
            Content::ConfigMap(_) => None,
        })
    }

    fn config_map(&self, namespace: &str, name: &str) -> Found<ConfigMapData> {
        self.look(SourceKind::ConfigMap, namespace, name, |content| match content {
            Content::ConfigMap(data) => Some(data.clone()),
            Content::Secret(_) => None,
        })
    }
}

#[cfg(test)]
mod tests;
