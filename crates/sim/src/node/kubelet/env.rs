//! A container's environment, as far as it must be there before the container starts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret};
use kube::{Api, Client, ResourceExt};

/// The environment, or the words a kubelet has for what is missing.
pub(super) type Resolved = Result<BTreeMap<String, String>, String>;

/// Reads every source live, each object once. Optional ones are read only for a container that is a real process: scripts
/// do without them.
pub(super) async fn resolve(
    sources: &mut Sources<'_>,
    pod: &Pod,
    container: &Container,
) -> kube::Result<Resolved> {
    let mut env = BTreeMap::new();
    for from in container.env_from.iter().flatten() {
        let config_map =
            from.config_map_ref.as_ref().map(|r| (Kind::ConfigMap, &r.name, r.optional));
        let secret = from.secret_ref.as_ref().map(|r| (Kind::Secret, &r.name, r.optional));
        for (kind, name, optional) in config_map.into_iter().chain(secret) {
            let optional = optional == Some(true);
            if optional && !sources.optional {
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
            env.insert(var.name.clone(), var.value.clone().unwrap_or_default());
            continue;
        };
        match from_source(sources, pod, from).await? {
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
) -> kube::Result<Result<Option<String>, String>> {
    let config_map =
        from.config_map_key_ref.as_ref().map(|r| (Kind::ConfigMap, &r.name, &r.key, r.optional));
    let secret = from.secret_key_ref.as_ref().map(|r| (Kind::Secret, &r.name, &r.key, r.optional));
    let Some((kind, name, key, optional)) = config_map.or(secret) else {
        let path = from.field_ref.as_ref().map(|field| field.field_path.as_str());
        return Ok(Ok(path.and_then(|path| field(pod, path))));
    };
    let optional = optional == Some(true);
    if optional && !sources.optional {
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

/// The downward API, as far as a flash Pod may use it.
fn field(pod: &Pod, path: &str) -> Option<String> {
    match path {
        "metadata.name" => pod.metadata.name.clone(),
        "metadata.namespace" => pod.metadata.namespace.clone(),
        "metadata.uid" => pod.metadata.uid.clone(),
        "spec.nodeName" => Some(super::NODE.to_owned()),
        "status.hostIP" => Some(super::NODE_IP.to_owned()),
        _ => None,
    }
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
    /// Whether optional ones are read too.
    optional: bool,
    read: BTreeMap<(Kind, String), Data>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(client: &'a Client, pod: &Pod, optional: bool) -> Self {
        let namespace = pod.namespace().unwrap_or_default();
        Self { client, namespace, optional, read: BTreeMap::new() }
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
