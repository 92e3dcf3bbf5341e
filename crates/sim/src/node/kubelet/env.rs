//! A container's environment, as far as it must be there before the container starts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret};
use kube::{Api, Client, ResourceExt};

use super::hosts::POD_IP;
use super::images::Env;

/// The environment, or the words a kubelet has for what is missing.
pub(super) type Resolved = Result<Env, String>;

/// Reads every source live, each object once. Optional ones are only read where they are `wanted`: scripts do without.
pub(super) async fn resolve(
    sources: &mut Sources<'_>,
    pod: &Pod,
    container: &Container,
    wanted: bool,
) -> kube::Result<Resolved> {
    let mut env = BTreeMap::new();
    for from in container.env_from.iter().flatten() {
        let config_map =
            from.config_map_ref.as_ref().map(|r| (Kind::ConfigMap, &r.name, r.optional));
        let secret = from.secret_ref.as_ref().map(|r| (Kind::Secret, &r.name, r.optional));
        for (kind, name, optional) in config_map.into_iter().chain(secret) {
            let optional = optional == Some(true);
            if optional && !wanted {
                continue;
            }
            let Some(data) = sources.get(kind, name).await? else {
                if optional { continue } else { return Ok(Err(kind.not_found(name))) }
            };
            let prefix = from.prefix.as_deref().unwrap_or_default();
            env.extend(data.iter().map(|(key, value)| (format!("{prefix}{key}"), value.clone())));
        }
    }
    for var in container.env.iter().flatten() {
        let Some(from) = &var.value_from else {
            let value = expand(var.value.as_deref().unwrap_or_default(), &env);
            env.insert(var.name.clone(), value);
            continue;
        };
        match from_source(sources, pod, from, wanted).await? {
            Ok(Some(value)) => drop(env.insert(var.name.clone(), value)),
            Ok(None) => {}
            Err(missing) => return Ok(Err(missing)),
        }
    }
    Ok(Ok(env))
}

async fn from_source(
    sources: &mut Sources<'_>,
    pod: &Pod,
    from: &EnvVarSource,
    wanted: bool,
) -> kube::Result<Result<Option<String>, String>> {
    let config_map =
        from.config_map_key_ref.as_ref().map(|r| (Kind::ConfigMap, &r.name, &r.key, r.optional));
    let secret = from.secret_key_ref.as_ref().map(|r| (Kind::Secret, &r.name, &r.key, r.optional));
    let Some((kind, name, key, optional)) = config_map.or(secret) else {
        let path = from.field_ref.as_ref().map(|field| field.field_path.as_str());
        return Ok(Ok(path.and_then(|path| field(pod, path))));
    };
    let optional = optional == Some(true);
    if optional && !wanted {
        return Ok(Ok(None));
    }
    let namespace = &sources.namespace.clone();
    let data = match sources.get(kind, name).await? {
        Some(data) => data,
        None if optional => return Ok(Ok(None)),
        None => return Ok(Err(kind.not_found(name))),
    };
    Ok(match data.get(key) {
        Some(value) => Ok(Some(value.clone())),
        None if optional => Ok(None),
        None => Err(format!("couldn't find key {key} in {} {namespace}/{name}", kind.name())),
    })
}

/// The downward API, but for the resources of containers.
fn field(pod: &Pod, path: &str) -> Option<String> {
    let entry = |of: &str| path.strip_prefix(of)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = entry("metadata.labels") {
        return Some(pod.labels().get(key).cloned().unwrap_or_default());
    }
    if let Some(key) = entry("metadata.annotations") {
        return Some(pod.annotations().get(key).cloned().unwrap_or_default());
    }
    match path {
        "metadata.name" => pod.metadata.name.clone(),
        "metadata.namespace" => pod.metadata.namespace.clone(),
        "metadata.uid" => pod.metadata.uid.clone(),
        "spec.nodeName" => Some(super::NODE.to_owned()),
        "spec.serviceAccountName" => pod.spec.as_ref()?.service_account_name.clone(),
        "status.hostIP" => Some(super::NODE_IP.to_owned()),
        "status.podIP" => Some(POD_IP.to_owned()),
        _ => None,
    }
}

/// Puts values in the place of `$(NAME)`. What has no value stays as it is, and `$$` is a `$` of no meaning.
pub(super) fn expand(text: &str, env: &Env) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        done.push_str(before);
        let named = after.strip_prefix('(').and_then(|name| name.split_once(')'));
        let value = named.and_then(|(name, left)| Some((env.get(name)?.as_str(), left)));
        let escaped = after.strip_prefix('$').map(|left| ("$", left));
        let (piece, left) = value.or(escaped).unwrap_or(("$", after));
        done.push_str(piece);
        rest = left;
    }
    done + rest
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    pub(super) fn not_found(self, name: &str) -> String {
        format!("{} \"{name}\" not found", self.name().to_lowercase())
    }
}

pub(super) type Data = Option<BTreeMap<String, String>>;

/// The objects that environments and volumes are made of.
pub(super) struct Sources<'a> {
    client: &'a Client,
    namespace: String,
    read: BTreeMap<(Kind, String), Data>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(client: &'a Client, pod: &Pod) -> Self {
        let namespace = pod.namespace().unwrap_or_default();
        Self { client, namespace, read: BTreeMap::new() }
    }

    /// The data of an object; `None` if there is no such object.
    pub(super) async fn get(&mut self, kind: Kind, name: &str) -> kube::Result<&Data> {
        let key = (kind, name.to_owned());
        if !self.read.contains_key(&key) {
            let data = self.fetch(kind, name).await?;
            self.read.insert(key.clone(), data);
        }
        Ok(&self.read[&key])
    }

    async fn fetch(&self, kind: Kind, name: &str) -> kube::Result<Data> {
        let client = self.client.clone();
        match kind {
            Kind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client, &self.namespace);
                Ok(api.get_opt(name).await?.map(|found| found.data.unwrap_or_default()))
            }
            Kind::Secret => {
                let api: Api<Secret> = Api::namespaced(client, &self.namespace);
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                let found = api.get_opt(name).await?.map(|found| found.data.unwrap_or_default());
                Ok(found.map(|data| {
                    data.into_iter().map(|(key, value)| (key, text(value.0))).collect()
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_words_become_values() {
        let env =
            Env::from([("A".to_owned(), "one".to_owned()), ("B".to_owned(), "$(A)".to_owned())]);
        let expanded = |text: &str| expand(text, &env);
        assert_eq!(expanded("$(A)-$(B)-$(A"), "one-$(A)-$(A");
        assert_eq!(expanded("$$(A) $$$(A) $(NOBODY) $A $"), "$(A) $one $(NOBODY) $A $");
    }
}
