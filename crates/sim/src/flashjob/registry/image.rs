//! Images, built by hand: layers as any builder writes them, and as none would.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

/// The digest of these bytes, as registries write it.
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Whose names for media types are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Words {
    /// The Open Container Initiative's.
    #[default]
    Oci,
    /// Docker's.
    Docker,
}

impl Words {
    pub(super) fn manifest(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.manifest.v1+json",
            Self::Docker => "application/vnd.docker.distribution.manifest.v2+json",
        }
    }

    pub(super) fn index(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.index.v1+json",
            Self::Docker => "application/vnd.docker.distribution.manifest.list.v2+json",
        }
    }

    pub(super) fn config(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.config.v1+json",
            Self::Docker => "application/vnd.docker.container.image.v1+json",
        }
    }

    fn layer(self, compression: &str) -> String {
        match (self, compression) {
            (Self::Oci, "") => "application/vnd.oci.image.layer.v1.tar".into(),
            (Self::Oci, with) => format!("application/vnd.oci.image.layer.v1.tar+{with}"),
            (Self::Docker, "") => "application/vnd.docker.image.rootfs.diff.tar".into(),
            (Self::Docker, with) => format!("application/vnd.docker.image.rootfs.diff.tar.{with}"),
        }
    }
}

/// One image.
#[derive(Debug, Clone)]
pub struct Image {
    /// Whose media types it uses.
    pub words: Words,
    /// The image's config.
    pub config: Value,
    /// Its layers, the lowest first.
    pub layers: Vec<Layer>,
}

impl Image {
    /// An image of these layers.
    pub fn new(layers: Vec<Layer>) -> Self {
        Self { words: Words::Oci, config: json!({"config": {}}), layers }
    }

    /// An image as `FROM scratch; COPY ota.bin /firmware/` makes it.
    pub fn of_firmware(bytes: &[u8]) -> Result<Self> {
        Ok(Self::new(vec![Layer::gzip(&Archive::default().file("firmware/ota.bin", bytes))?]))
    }

    /// The same image, built for a platform such as `custom/esp32s3`.
    pub fn built_for(mut self, platform: &str) -> Self {
        let (os, architecture) = platform.split_once('/').unwrap_or((platform, ""));
        self.config["os"] = json!(os);
        self.config["architecture"] = json!(architecture);
        self
    }

    /// The same image with a label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.config["config"]["Labels"][name] = json!(value);
        self
    }

    /// The same image in Docker's words.
    pub fn in_docker_words(mut self) -> Self {
        self.words = Words::Docker;
        for layer in &mut self.layers {
            let compression = layer.media_type.rsplit_once('+').map_or("", |(_, name)| name);
            layer.media_type = Words::Docker.layer(compression);
        }
        self
    }
}

/// One layer of an image, or one blob of an artifact.
#[derive(Debug, Clone)]
pub struct Layer {
    /// What the registry holds.
    pub bytes: Vec<u8>,
    /// What the manifest says it is.
    pub media_type: String,
    /// The size that the manifest claims; the real one unless a test wants a lie.
    pub claimed: Option<u64>,
    /// What the manifest says about it.
    pub annotations: BTreeMap<String, String>,
}

impl Layer {
    /// A blob of a media type.
    pub fn new(bytes: Vec<u8>, media_type: impl Into<String>) -> Self {
        let annotations = BTreeMap::new();
        Self { bytes, media_type: media_type.into(), claimed: None, annotations }
    }

    /// A layer as it is.
    pub fn tar(archive: &Archive) -> Self {
        Self::new(archive.bytes(), Words::Oci.layer(""))
    }

    /// A layer under gzip.
    pub fn gzip(archive: &Archive) -> Result<Self> {
        Ok(Self::new(gzip(&archive.bytes())?, Words::Oci.layer("gzip")))
    }

    /// A layer under Zstandard.
    pub fn zstd(archive: &Archive) -> Self {
        let bytes = compress_to_vec(&archive.bytes()[..], CompressionLevel::Fastest);
        Self::new(bytes, Words::Oci.layer("zstd"))
    }

    /// A layer under Zstandard that costs its reader as much memory as one may.
    pub fn zstd_with_a_large_window(archive: &Archive) -> Self {
        Self::new(stored(&archive.bytes()), Words::Oci.layer("zstd"))
    }
}

/// A Zstandard frame with the largest window that readers must support, and nothing compressed in it: what costs a
/// reader the most memory.
fn stored(bytes: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    // Magic, no sizes and no checksum, and a window of 2^(10 + 13) bytes.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3];
    let last = bytes.len().div_ceil(BLOCK).saturating_sub(1);
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        let header = (block.len() as u32) << 3 | u32::from(number == last);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

/// Compresses with gzip.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// A tar archive. Names are written as they are given, also those that no tool would write.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    /// Adds a file.
    pub fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(EntryType::Regular, path, "", content, content.len() as u64)
    }

    /// Adds a file that claims another size than it has.
    pub fn file_that_claims(self, path: &str, content: &[u8], size: u64) -> Self {
        self.entry(EntryType::Regular, path, "", content, size)
    }

    /// Adds a folder.
    pub fn folder(self, path: &str) -> Self {
        self.entry(EntryType::Directory, path, "", &[], 0)
    }

    /// Adds a symbolic link.
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path, target, &[], 0)
    }

    /// Adds a hard link.
    pub fn hardlink(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Link, path, target, &[], 0)
    }

    /// Adds an entry of any kind; a name of more than 100 bytes goes before it, as GNU tar does it.
    pub fn entry(
        mut self,
        kind: EntryType,
        path: &str,
        target: &str,
        content: &[u8],
        size: u64,
    ) -> Self {
        if path.len() > 100 {
            let name = format!("{path}\0");
            let length = name.len() as u64;
            self = self.entry(EntryType::GNULongName, "././@LongLink", "", name.as_bytes(), length);
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        let old = header.as_old_mut();
        for (field, text) in [(&mut old.name, path), (&mut old.linkname, target)] {
            for (place, byte) in field.iter_mut().zip(text.bytes()) {
                *place = byte;
            }
        }
        header.set_cksum();
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    /// Ends the archive here. What is added after that, readers do not see.
    pub fn end(mut self) -> Self {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self
    }

    /// The archive, with its end.
    pub fn bytes(&self) -> Vec<u8> {
        self.clone().end().bytes
    }
}
