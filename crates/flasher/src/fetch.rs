//! Brings the firmware out of an OCI image to a local file.
//!
//! ```text
//!   name ──▶ manifest or index ──▶ signature? ──▶ platform's manifest ──▶ config, layers ──▶ the one file
//! ```
//!
//! Everything after the first answer is asked for by digest, and every byte is checked against the digest it was asked
//! for before it is looked at. Layers go to unnamed files, their archives are read by name only, and the content of
//! one file is copied: nothing an image says becomes a path on this machine.

mod client;
mod credentials;
mod layer;
mod manifest;
mod patience;
mod reference;
mod registry;
mod signature;
mod token;
mod tree;
mod zstd;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use self::layer::Budget;
use self::manifest::{Descriptor, ImageConfig, Manifest};
use self::reference::Reference;
use self::registry::Registry;
use self::tree::{Content, Tree};
use crate::Failure;

/// How long a registry may be away before a pull fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// All layers together may be this many times as large as the firmware may be, as they come and unpacked: an image
/// with a base is fine, one that never ends is not.
const LAYERS: u64 = 8;
const CONFIG_LIMIT: u64 = 1 << 20;

/// Where firmware comes from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The image: `registry/repository:tag` or `…@sha256:…`.
    pub image: String,
    /// The type of board; in an index, the platform `custom/<device>` is taken.
    pub device: String,
    /// A Docker config file with credentials. One that is not there means none.
    pub credentials: Option<PathBuf>,
    /// A CA to trust beside the machine's, in PEM.
    pub ca: Option<String>,
    /// Speak plain HTTP with the registry.
    pub plain_http: bool,
    /// The key that must have signed the image: ECDSA P-256, in PEM.
    pub public_key: Option<String>,
    /// How large the firmware may be.
    pub max_bytes: u64,
    /// How long the registry may be away; [`PATIENCE`] unless there is a reason.
    pub patience: Duration,
}

/// Firmware on the local disk. The file goes when this is dropped.
#[derive(Debug)]
pub struct Firmware {
    /// The file, open from its start.
    pub file: NamedTempFile,
    /// Its size.
    pub bytes: u64,
    /// The digest of what the image's name stood for, index or manifest: `sha256:…`.
    pub digest: String,
    /// Its path in the image: `/firmware/ota.bin`.
    pub name: String,
}

/// Brings the firmware of an image to a file in `folder`. Nothing is handed out unless all that was asked for holds:
/// platform, digests, signature, limits.
pub async fn fetch(source: &Source, folder: &Path) -> Result<Firmware, Failure> {
    let image = Reference::parse(&source.image).map_err(Failure::pull)?;
    let key = source.public_key.as_deref().map(signature::key).transpose()?;
    let login = match &source.credentials {
        Some(file) => credentials::read(file, &image).map_err(Failure::pull)?,
        None => None,
    };
    let version = image.version.clone();
    let registry =
        Registry::new(image, login, source.ca.as_deref(), source.plain_http, source.patience)?;

    let (named, digest) = manifest(&registry, &version).await?;
    let entry = match &named {
        Manifest::Index(entries) => Some(manifest::choose(entries, &source.device)?.digest.clone()),
        Manifest::Image { .. } => None,
    };
    if let Some(key) = &key {
        let digests: Vec<&str> = [digest.as_str()].into_iter().chain(entry.as_deref()).collect();
        signature::check(&registry, key, &digests).await?;
    }
    let chosen = match &entry {
        Some(entry) => manifest(&registry, entry).await?.0,
        None => named,
    };
    let Manifest::Image { config, layers } = chosen else {
        return Err(Failure::pull("the image is an index inside an index, which is not supported"));
    };
    let limit = source.max_bytes.saturating_mul(LAYERS);
    check_layers(&layers, limit)?;

    let config = registry.small(&config, CONFIG_LIMIT).await?;
    // An image without a config of the usual form has no labels, and needs none.
    let config: ImageConfig = serde_json::from_slice(&config).unwrap_or_default();
    if entry.is_some() {
        manifest::check_config(&config, &source.device)?;
    }
    let files = download(&registry, &layers, folder).await?;

    let (folder, max_bytes) = (folder.to_owned(), source.max_bytes);
    let label = config.path().map(str::to_owned);
    let taken = tokio::task::spawn_blocking(move || {
        take(files, label.as_deref(), limit, max_bytes, &folder)
    });
    let (name, content, file) = taken
        .await
        .map_err(|_| Failure::pull("a layer of the image cannot be read"))?
        .map_err(Failure::pull)?;
    Ok(Firmware { file, bytes: content.bytes, digest, name: format!("/{name}") })
}

async fn manifest(registry: &Registry, name: &str) -> Result<(Manifest, String), Failure> {
    let (host, repository) = (registry.host(), &registry.image.repository);
    let Some((bytes, digest)) = registry.manifest(name).await? else {
        return Err(Failure::pull(format!("the registry {host} has no {name} in {repository}")));
    };
    let manifest = Manifest::parse(&bytes)
        .map_err(|why| Failure::pull(format!("{repository} {name} is {why}")))?;
    Ok((manifest, digest))
}

/// Refuses what is too large or of another kind before any of it is read.
fn check_layers(layers: &[Descriptor], limit: u64) -> Result<(), Failure> {
    for layer in layers {
        if !layer::is_layer(&layer.media_type) {
            let media_type = &layer.media_type;
            return Err(Failure::pull(format!(
                "the image has a layer of type {media_type:?}; layers are tar, tar+gzip or tar+zstd"
            )));
        }
    }
    let sum = layers.iter().try_fold(0_u64, |sum, layer| sum.checked_add(layer.size));
    match sum.filter(|sum| *sum <= limit) {
        Some(_) => Ok(()),
        None => {
            let sum = sum.map_or("more than can be counted".into(), |sum| sum.to_string());
            Err(Failure::pull(format!(
                "the image's layers claim {sum} bytes, at most {limit} are read"
            )))
        }
    }
}

/// Brings all layers to files without a name: they go with us, however we end.
async fn download(
    registry: &Registry,
    layers: &[Descriptor],
    folder: &Path,
) -> Result<Vec<std::fs::File>, Failure> {
    let mut files = Vec::new();
    for layer in layers {
        let file = tempfile::tempfile_in(folder).map_err(|error| disk(folder, &error))?;
        let mut file = tokio::fs::File::from_std(file);
        file.set_max_buf_size(64 << 10);
        registry.download(layer, &mut file).await?;
        files.push(file.into_std().await);
    }
    Ok(files)
}

fn disk(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::pull(format!("cannot write to {}: {error}", folder.display()))
}

/// Finds the firmware in the layers and copies it to a file of its own.
fn take(
    mut layers: Vec<std::fs::File>,
    label: Option<&str>,
    limit: u64,
    max_bytes: u64,
    folder: &Path,
) -> Result<(String, Content, NamedTempFile), String> {
    let mut tree = Tree::default();
    let mut budget = Budget::new(limit);
    for (number, layer) in layers.iter_mut().enumerate() {
        tree.apply(number, layer::changes(layer, &mut budget)?);
    }
    let (name, content) = tree.firmware(label)?;
    match content.bytes {
        0 => return Err(format!("/{name} in the image is empty")),
        bytes if bytes > max_bytes => {
            return Err(format!(
                "/{name} in the image has {bytes} bytes, at most {max_bytes} are sent"
            ));
        }
        _ => {}
    }
    let file = tempfile::Builder::new().prefix("firmware-").tempfile_in(folder);
    let mut file = file.map_err(|error| disk(folder, &error).message)?;
    let mut budget = Budget::new(limit);
    let layer = layers.get_mut(content.layer).ok_or("a layer is gone")?;
    let copied = layer::copy(layer, content.entry, &mut budget, file.as_file_mut())?;
    if copied != content.bytes {
        let bytes = content.bytes;
        return Err(format!("/{name} in the image ends after {copied} of its {bytes} bytes"));
    }
    std::io::Seek::rewind(file.as_file_mut()).map_err(|error| disk(folder, &error).message)?;
    Ok((name, content, file))
}
