//! What a file would apply: documents of the kinds that say what devices are to have, and of what these name.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use flashjob_api::edge::GROUP;
use flashjob_plan::edge::preview::{Manifest, Set};
use flashjob_plan::edge::read::workload;
use flashjob_plan::edge::sets::SetKind;
use flashjob_plan::edge::workloads::WorkloadKind;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::edge::material::LiveMaterial;
use crate::files;
use crate::shell::clean;

/// Documents of one file.
const MOST: usize = 1000;

/// What is in a file.
#[derive(Default)]
pub struct Manifests {
    pub all: Vec<Manifest>,
    /// Secrets and ConfigMaps that the file itself makes.
    pub material: LiveMaterial,
    pub notes: Vec<String>,
}

impl Manifests {
    /// Objects that name no namespace are for `own`; `asked` is the namespace that the user insists on.
    pub fn read(file: &Path, own: &str, asked: Option<&str>) -> Result<Manifests> {
        let text = files::manifest(file)?;
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
            .map_err(|error| anyhow!("{} is no YAML: {error}", file.display()))?;
        Manifests::of(documents, own, asked)
            .with_context(|| format!("{} cannot be planned", file.display()))
    }

    pub fn of(documents: Vec<Value>, own: &str, asked: Option<&str>) -> Result<Manifests> {
        let mut manifests = Manifests::default();
        let objects: Vec<Value> = documents.into_iter().flat_map(items).collect();
        if objects.len() > MOST {
            bail!("it has more than {MOST} objects");
        }
        for object in objects {
            manifests.add(object, own, asked)?;
        }
        if manifests.all.is_empty() {
            let kinds = "EdgeDeployment, EdgeWorkload, EdgeDeviceSet or EdgeDeviceGroup";
            bail!("there is no {kinds} in it");
        }
        Ok(manifests)
    }

    fn add(&mut self, object: Value, own: &str, asked: Option<&str>) -> Result<()> {
        let word = |field: &str| clean(object[field].as_str().unwrap_or_default());
        let (version, kind) = (word("apiVersion"), word("kind"));
        let mut meta = Option::<ObjectMeta>::deserialize(&object["metadata"])
            .map(Option::unwrap_or_default)
            .map_err(|error| anyhow!("the metadata of a {kind} cannot be read: {error}"))?;
        let name = meta.name.clone().unwrap_or_default();
        if name.is_empty() {
            bail!("a {kind} has no name");
        }
        let named = meta.namespace.get_or_insert_with(|| own.to_owned()).clone();
        if let Some(asked) = asked.filter(|asked| *asked != named) {
            let name = clean(&name);
            bail!("{kind} {name} is in namespace {}, and -n says {asked}", clean(&named));
        }
        let of_edge = version.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'));
        let kinds = WorkloadKind::ALL.into_iter().find(|known| of_edge && known.kind() == kind);
        let sets = SetKind::ALL.into_iter().find(|known| of_edge && known.kind() == kind);
        match (kinds, sets, version.as_str(), kind.as_str()) {
            (Some(kind), ..) => {
                self.all.push(Manifest::Workload(workload(kind, &meta, &object["spec"])));
            }
            (_, Some(kind), ..) => {
                self.all.push(Manifest::Set(Set::read(kind, &meta, &object["spec"])));
            }
            (.., "v1", "Secret") => {
                self.material.put_secret((named, name), secret(object)?);
            }
            (.., "v1", "ConfigMap") => {
                self.material.put_config_map((named, name), typed::<ConfigMap>(object)?);
            }
            _ => self.notes.push(format!("{kind} {} is passed over", clean(&name))),
        }
        Ok(())
    }
}

/// The objects of a document: itself, or those of a list. An empty document has none.
fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut fields) if fields.get("items").is_some_and(Value::is_array) => {
            match fields.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

/// As the server takes it: `stringData` is data, too.
fn secret(object: Value) -> Result<Secret> {
    let mut secret: Secret = typed(object)?;
    let texts = secret.string_data.take().unwrap_or_default();
    let texts = texts.into_iter().map(|(key, text)| (key, k8s_openapi::ByteString(text.into())));
    secret.data.get_or_insert_default().extend(texts);
    Ok(secret)
}

/// The error does not repeat what is in it: it may be secret.
fn typed<K: DeserializeOwned>(object: Value) -> Result<K> {
    let (kind, name) = (object["kind"].clone(), object["metadata"]["name"].clone());
    serde_json::from_value(object).map_err(|_| anyhow!("{kind} {name} cannot be read"))
}
