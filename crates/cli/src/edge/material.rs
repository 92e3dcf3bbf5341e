//! The Secrets and ConfigMaps that configurations are made of, read with the rights of who asks. What is in them goes no further
//! than into what is printed, and there it is masked.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use flashjob_plan::edge::configuration::{ConfigMapData, Found, Material, Needs, SecretData};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use crate::check::get;
use crate::edge::SYSTEM;

/// So many are read at once.
const AT_ONCE: usize = 8;

/// Namespace and name.
type Place = (String, String);

#[derive(Default)]
pub struct LiveMaterial {
    secrets: BTreeMap<Place, Found<SecretData>>,
    config_maps: BTreeMap<Place, Found<ConfigMapData>>,
}

impl LiveMaterial {
    /// Reads what is needed and was not read yet.
    pub async fn read(&mut self, client: &Client, namespace: &str, needs: &Needs) -> Result<()> {
        let place = |name: &String| (namespace.to_owned(), name.clone());
        let new = needs.secrets.iter().map(place).filter(|p| !self.secrets.contains_key(p));
        self.secrets.extend(read_all::<Secret, SecretData>(client, new.collect()).await?);
        let new = needs.config_maps.iter().map(place).filter(|p| !self.config_maps.contains_key(p));
        self.config_maps.extend(read_all::<ConfigMap, ConfigMapData>(client, new.collect()).await?);
        Ok(())
    }

    /// What somebody is about to make, too.
    pub fn put_secret(&mut self, place: Place, secret: Secret) {
        self.secrets.insert(place, Found::There(Arc::new(secret.into())));
    }

    pub fn put_config_map(&mut self, place: Place, map: ConfigMap) {
        self.config_maps.insert(place, Found::There(Arc::new(map.into())));
    }

    #[cfg(test)]
    pub fn put_missing_secret(&mut self, namespace: &str, name: &str) {
        self.secrets.insert((namespace.to_owned(), name.to_owned()), Found::Missing);
    }

    #[cfg(test)]
    pub fn put_unreadable_secret(&mut self, namespace: &str, name: &str) {
        self.secrets.insert((namespace.to_owned(), name.to_owned()), Found::Unreadable);
    }

    /// Such as "Secret default/password".
    pub fn unreadable(&self) -> Vec<String> {
        fn named<T>(kind: &str, all: &BTreeMap<Place, Found<T>>) -> Vec<String> {
            let unreadable = all.iter().filter(|(_, found)| matches!(found, Found::Unreadable));
            unreadable.map(|((namespace, name), _)| format!("{kind} {namespace}/{name}")).collect()
        }
        [named("Secret", &self.secrets), named("ConfigMap", &self.config_maps)].concat()
    }
}

async fn read_all<K, T>(client: &Client, places: Vec<Place>) -> Result<Vec<(Place, Found<T>)>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + DeserializeOwned + std::fmt::Debug + Into<T>,
{
    let read = async |place: Place| {
        let (namespace, name) = &place;
        let found = match get::<K>(client, namespace, name).await {
            Ok(Some(object)) => Found::There(Arc::new(object.into())),
            Ok(None) => Found::Missing,
            Err(kube::Error::Api(status)) if status.is_forbidden() => Found::Unreadable,
            Err(error) => {
                let what = format!("cannot read {} {namespace}/{name}", K::kind(&()));
                return Err(SYSTEM.failed(what, &error));
            }
        };
        Ok((place, found))
    };
    stream::iter(places.into_iter().map(read)).buffered(AT_ONCE).try_collect().await
}

impl Material for LiveMaterial {
    fn secret(&self, namespace: &str, name: &str) -> Found<SecretData> {
        look(&self.secrets, namespace, name)
    }

    fn config_map(&self, namespace: &str, name: &str) -> Found<ConfigMapData> {
        look(&self.config_maps, namespace, name)
    }
}

fn look<T>(all: &BTreeMap<Place, Found<T>>, namespace: &str, name: &str) -> Found<T> {
    match all.get(&(namespace.to_owned(), name.to_owned())) {
        Some(Found::There(found)) => Found::There(found.clone()),
        Some(Found::Missing) => Found::Missing,
        Some(Found::Unreadable) => Found::Unreadable,
        Some(Found::Failed(why)) => Found::Failed(why.clone()),
        Some(Found::Unknown) | None => Found::Unknown,
    }
}
