//! Firmware as ESP-IDF lays it out: a header, segments, a checksum and a SHA-256 at the end.
//!
//! The first segment begins with the application descriptor, from which a board takes its version. Nothing in these
//! images can run: the rest is noise. Not played are signatures (secure boot) and encrypted flash.

mod build;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use self::build::Firmware;
use crate::text::hex;

const IMAGE_MAGIC: u8 = 0xe9;
const CHECKSUM_SEED: u8 = 0xef;
const DESCRIPTOR_MAGIC: u32 = 0xabcd_5432;
const HEADER: usize = 24;
const SEGMENT_HEADER: usize = 8;
const DESCRIPTOR: usize = 256;
const HASH: usize = 32;
/// As many segments as the bootloader takes.
const MAX_SEGMENTS: u8 = 16;

/// What a board knows of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct App {
    /// From the application descriptor.
    pub version: String,
    /// From the application descriptor.
    pub project: String,
    /// What all bytes of the image hash to.
    pub sha256: String,
    /// Bytes in all.
    pub size: usize,
}

impl App {
    /// Reads an image and checks what the bootloader checks. Bytes after the end are not looked at, as in flash.
    pub fn read(image: &[u8], chip: Option<u16>) -> Result<Self> {
        let header: &[u8; HEADER] = image.first_chunk().context("too short for an image header")?;
        ensure!(header[0] == IMAGE_MAGIC, "no image: it begins with {:#04x}", header[0]);
        let segments = header[1];
        ensure!((1..=MAX_SEGMENTS).contains(&segments), "{segments} segments");
        let built_for = u16::from_le_bytes([header[12], header[13]]);
        if let Some(chip) = chip {
            ensure!(built_for == chip, "made for chip {built_for}, and this is chip {chip}");
        }

        let mut at = HEADER;
        let mut checksum = CHECKSUM_SEED;
        let mut descriptor = None;
        for number in 0..segments {
            let length = word(image, at + 4).with_context(|| format!("cut in segment {number}"))?;
            let start = at + SEGMENT_HEADER;
            let end = start.checked_add(length as usize).context("a segment beyond all memory")?;
            let data = image.get(start..end).with_context(|| format!("cut in segment {number}"))?;
            checksum = data.iter().fold(checksum, |sum, byte| sum ^ byte);
            if number == 0 {
                descriptor = Some(Descriptor::read(data)?);
            }
            at = end;
        }
        // The checksum is the last byte of a block of 16.
        let end = (at / 16 + 1) * 16;
        let written = *image.get(end - 1).context("cut before the checksum")?;
        ensure!(written == checksum, "checksum is {checksum:#04x} and should be {written:#04x}");
        if header[23] == 1 {
            let written = image.get(end..end + HASH).context("cut before the hash")?;
            ensure!(Sha256::digest(&image[..end])[..] == *written, "hash does not match");
        }
        let Some(Descriptor { version, project }) = descriptor else { bail!("no descriptor") };
        Ok(Self { version, project, sha256: hex(&Sha256::digest(image)), size: image.len() })
    }
}

struct Descriptor {
    version: String,
    project: String,
}

impl Descriptor {
    fn read(segment: &[u8]) -> Result<Self> {
        ensure!(segment.len() >= DESCRIPTOR, "no room for the application descriptor");
        ensure!(word(segment, 0) == Some(DESCRIPTOR_MAGIC), "no application descriptor");
        Ok(Self { version: string(&segment[16..48]), project: string(&segment[48..80]) })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// A C string in a field of fixed size.
fn string(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// The chip of a device as the header names it. A device that names no chip we know takes any image.
pub fn chip(device: &str) -> Option<u16> {
    let device: String =
        device.to_lowercase().chars().filter(|c| !matches!(c, '-' | '_')).collect();
    let models =
        [("s2", 2), ("c3", 5), ("s3", 9), ("c2", 12), ("c6", 13), ("h2", 16), ("p4", 18), ("", 0)];
    let model = device.strip_prefix("esp32")?;
    models.iter().find(|(name, _)| model.starts_with(name)).map(|(_, chip)| *chip)
}
