//! The files a Pod's volumes bring, put where its processes find them. A volume that is neither a ConfigMap nor a Secret
//! begins empty.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{KeyToPath, Pod, Volume};

use super::env::{Kind, Sources};
use super::folder::{PodFolder, make};

/// Makes all volumes of a Pod; `Err` has the words a kubelet has for what is missing.
pub(super) async fn fill(
    sources: &mut Sources<'_>,
    pod: &Pod,
    folder: &PodFolder,
) -> Result<Result<(), String>> {
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let path = folder.volume(&volume.name);
        make(&path)?;
        let Some((kind, name, optional, items)) = source(volume) else { continue };
        match sources.get(kind, name).await? {
            Some(data) => write(&path, data, items)?,
            None if optional == Some(true) => {}
            None => {
                let what = kind.not_found(name);
                let volume = &volume.name;
                return Ok(Err(format!("MountVolume.SetUp failed for \"{volume}\": {what}")));
            }
        }
    }
    Ok(Ok(()))
}

type Source<'a> = (Kind, &'a str, Option<bool>, Option<&'a [KeyToPath]>);

/// Where a volume's files come from; `None` for one that begins empty.
fn source(volume: &Volume) -> Option<Source<'_>> {
    let secret = volume.secret.as_ref().and_then(|s| {
        Some((Kind::Secret, s.secret_name.as_deref()?, s.optional, s.items.as_deref()))
    });
    let config_map = volume
        .config_map
        .as_ref()
        .map(|c| (Kind::ConfigMap, c.name.as_str(), c.optional, c.items.as_deref()));
    secret.or(config_map)
}

/// For the owner only: some of them are keys.
fn write(
    folder: &Path,
    data: &BTreeMap<String, String>,
    items: Option<&[KeyToPath]>,
) -> Result<()> {
    let files: Vec<(&str, &String)> = match items {
        Some(items) => {
            items.iter().filter_map(|i| Some((i.path.as_str(), data.get(&i.key)?))).collect()
        }
        None => data.iter().map(|(key, text)| (key.as_str(), text)).collect(),
    };
    for (name, text) in files {
        let path = folder.join(name);
        path.parent().map_or(Ok(()), make)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}
