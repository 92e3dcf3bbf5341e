//! Manifests and indexes, in Docker's and OCI's words, and the choice of the board's platform.

use std::collections::{BTreeMap, BTreeSet};

use flashjob_api::flashjob::Reason;
use serde::Deserialize;

use super::reference::is_digest;
use crate::Failure;

/// What we accept as an answer to a request for a manifest.
pub(super) const MEDIA_TYPES: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// The operating system of firmware in an index.
const OS: &str = "custom";

/// A blob or manifest by digest and size.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) artifact_type: String,
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    schema_version: u64,
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

/// What a tag or digest names.
#[derive(Debug)]
pub(super) enum Manifest {
    /// One image.
    Image { config: Descriptor, layers: Vec<Descriptor> },
    /// Images by platform.
    Index(Vec<Descriptor>),
}

impl Manifest {
    /// Reads a manifest. The error says why it cannot be used.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let body: Body =
            serde_json::from_slice(bytes).map_err(|e| format!("not an image manifest: {e}"))?;
        if body.schema_version != 2 {
            let version = body.schema_version;
            return Err(format!("a manifest of schema version {version}, only 2 is supported"));
        }
        let media_type = body.media_type.unwrap_or_default();
        let says_index = media_type.contains(".index.") || media_type.contains(".manifest.list.");
        let manifest = match (body.config, body.layers, body.manifests) {
            (Some(config), Some(layers), None) if !says_index => Self::Image { config, layers },
            (None, None, Some(manifests)) if says_index || media_type.is_empty() => {
                Self::Index(manifests)
            }
            // Readers that disagree on what such a document is can be made to see different images.
            _ => return Err("a document that is neither an image manifest nor an index".into()),
        };
        for descriptor in manifest.descriptors() {
            if !is_digest(&descriptor.digest) {
                return Err(format!("{:?} is not a SHA-256 digest", descriptor.digest));
            }
        }
        Ok(manifest)
    }

    fn descriptors(&self) -> impl Iterator<Item = &Descriptor> {
        let (one, many) = match self {
            Self::Image { config, layers } => (Some(config), layers),
            Self::Index(manifests) => (None, manifests),
        };
        one.into_iter().chain(many)
    }
}

/// The entry of an index that is for this device.
///
/// Of several that fit, the one spelled exactly as the device wins; two of the same spelling are refused, because the
/// wrong firmware costs a site visit.
pub(super) fn choose<'a>(
    entries: &'a [Descriptor],
    device: &str,
) -> Result<&'a Descriptor, Failure> {
    let fits = |entry: &&Descriptor| {
        entry
            .platform
            .as_ref()
            .is_some_and(|p| p.os.eq_ignore_ascii_case(OS) && same(&p.architecture, device))
    };
    let mut fitting: Vec<&Descriptor> = entries.iter().filter(fits).collect();
    let mut seen = BTreeSet::new();
    fitting.retain(|entry| seen.insert(&entry.digest));
    if fitting.len() > 1 {
        let exact = |e: &&Descriptor| e.platform.as_ref().is_some_and(|p| p.architecture == device);
        if fitting.iter().copied().filter(|e| exact(e)).count() == 1 {
            fitting.retain(exact);
        }
    }
    let wrong = |message| Err(Failure::new(Reason::WrongPlatform, message));
    match fitting.as_slice() {
        [entry] => Ok(entry),
        [] => wrong(format!("the image has nothing for {OS}/{device}; it has {}", listed(entries))),
        _ => wrong(format!(
            "the image has several entries that fit {OS}/{device}: {}",
            listed(fitting)
        )),
    }
}

/// A manifest that was picked from an index by platform, but whose own config names another board, is refused: only
/// the manifest may be signed, and then the index is the word of whoever wrote it last.
pub(super) fn check_config(config: &ImageConfig, device: &str) -> Result<(), Failure> {
    if config.os.eq_ignore_ascii_case(OS) && !same(&config.architecture, device) {
        let built = &config.architecture;
        let message =
            format!("the index names an image for {OS}/{device} that was built for {OS}/{built}");
        return Err(Failure::new(Reason::WrongPlatform, message));
    }
    Ok(())
}

fn listed<'a>(entries: impl IntoIterator<Item = &'a Descriptor>) -> String {
    let mut names: Vec<String> = entries
        .into_iter()
        .map(|entry| match &entry.platform {
            Some(p) => format!("{}/{}", p.os, p.architecture),
            None => "an entry without a platform".into(),
        })
        // What builders add about how they built.
        .filter(|name| name != "unknown/unknown")
        .collect();
    let more = names.len().saturating_sub(20);
    names.truncate(20);
    match (names.is_empty(), more) {
        (true, _) => "no platform at all".into(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}

/// Whether two spellings name the same board: case, `-` and `_` do not count.
fn same(a: &str, b: &str) -> bool {
    let plain = |name: &str| {
        let bare = name.trim().chars().filter(|c| !matches!(c, '-' | '_'));
        bare.collect::<String>().to_ascii_lowercase()
    };
    plain(a) == plain(b)
}

/// The part of an image's config that we read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ImageConfig {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    config: Option<Labels>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Labels {
    labels: Option<BTreeMap<String, String>>,
}

impl ImageConfig {
    /// The label that says which file is the firmware.
    pub(super) fn path(&self) -> Option<&str> {
        let labels = self.config.as_ref()?.labels.as_ref()?;
        labels.get("com.urunc.iot.path").map(|path| path.trim()).filter(|path| !path.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(platforms: &[&str]) -> Vec<Descriptor> {
        let entry = |(n, platform): (usize, &&str)| {
            let (os, architecture) = platform.split_once('/').unwrap();
            let platform = Platform { os: os.into(), architecture: architecture.into() };
            Descriptor {
                media_type: String::new(),
                digest: format!("sha256:{n:064x}"),
                size: 1,
                annotations: BTreeMap::new(),
                artifact_type: String::new(),
                platform: Some(platform),
            }
        };
        platforms.iter().enumerate().map(entry).collect()
    }

    fn chosen(platforms: &[&str], device: &str) -> Result<String, Failure> {
        let entries = index(platforms);
        choose(&entries, device).map(|entry| entry.digest[70..].to_owned())
    }

    #[test]
    fn a_board_is_found_however_it_is_spelled_and_never_taken_for_its_sibling() {
        let platforms = ["linux/esp32s3", "custom/esp32s3r8", "custom/ESP32-S3"];
        assert_eq!(chosen(&platforms, "esp32_s3").unwrap(), "2");
        assert_eq!(chosen(&platforms, "esp32s3r8").unwrap(), "1");
        let failure = chosen(&platforms, "esp32").unwrap_err();
        assert_eq!(failure.reason, Reason::WrongPlatform);
        assert!(failure.message.contains("custom/esp32s3r8, custom/ESP32-S3"), "{failure}");
    }

    #[test]
    fn of_two_spellings_the_exact_one_wins_and_a_true_tie_is_refused() {
        assert_eq!(chosen(&["custom/esp32-s3", "custom/esp32s3"], "esp32s3").unwrap(), "1");
        let tie = chosen(&["custom/esp32s3", "custom/esp32s3"], "esp32s3").unwrap_err();
        assert!(tie.message.contains("several"), "{tie}");
        chosen(&["custom/esp32-s3", "custom/esp32s3"], "ESP32_S3").unwrap_err();
    }

    #[test]
    fn a_document_that_is_two_things_at_once_is_refused() {
        let descriptor = format!(r#"{{"digest":"sha256:{}","size":1}}"#, "0".repeat(64));
        let both =
            format!(r#"{{"schemaVersion":2,"config":{descriptor},"layers":[],"manifests":[]}}"#);
        let lies = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",
            "config":{descriptor},"layers":[]}}"#
        );
        for text in [&both, &lies, r#"{"schemaVersion":1}"#, "[]", r#"{"schemaVersion":2}"#] {
            Manifest::parse(text.as_bytes()).unwrap_err();
        }
        let other = r#"{"schemaVersion":2,"manifests":[{"digest":"sha256:../..","size":1}]}"#;
        assert!(Manifest::parse(other.as_bytes()).unwrap_err().contains("SHA-256"));
    }
}
