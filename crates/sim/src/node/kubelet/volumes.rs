//! The files a Pod's volumes bring, put where its process finds them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{KeyToPath, Pod, Volume};

use super::env::{Kind, Sources};

/// Fills a Pod's folder; `Err` has the words a kubelet has for what is missing.
pub(super) async fn fill(
    sources: &mut Sources<'_>,
    pod: &Pod,
    root: &Path,
) -> Result<Result<(), String>> {
    let spec = pod.spec.clone().unwrap_or_default();
    let volumes = spec.volumes.unwrap_or_default();
    let mounts = spec.containers.into_iter().next().and_then(|first| first.volume_mounts);
    for mount in mounts.into_iter().flatten() {
        let Some(volume) = volumes.iter().find(|volume| volume.name == mount.name) else {
            continue;
        };
        let folder = root.join(mount.mount_path.trim_start_matches('/'));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let Some((kind, name, optional, items)) = source(volume) else { continue };
        match sources.get(kind, name).await? {
            Some(data) => write(&folder, data, items)?,
            None if optional == Some(true) => {}
            None => {
                let what = kind.not_found(name);
                return Ok(Err(format!("MountVolume.SetUp failed for \"{}\": {what}", mount.name)));
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
    let all = || data.iter().map(|(key, value)| (key.as_str(), value));
    let chosen = |items: &[KeyToPath]| -> Vec<(String, String)> {
        let of = |item: &KeyToPath| Some((item.path.clone(), data.get(&item.key)?.clone()));
        items.iter().filter_map(of).collect()
    };
    let files = match items {
        Some(items) => chosen(items),
        None => all().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
    };
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}
