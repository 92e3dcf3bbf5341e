//! Makes images.

use sha2::{Digest, Sha256};

use super::{
    CHECKSUM_SEED, DESCRIPTOR, DESCRIPTOR_MAGIC, HASH, HEADER, IMAGE_MAGIC, SEGMENT_HEADER, chip,
};

/// Where the two segments would be mapped and loaded on a board.
const DROM: u32 = 0x3f40_0020;
const IROM: u32 = 0x400d_0020;

/// Firmware to be built.
#[derive(Debug, Clone)]
pub struct Firmware {
    version: String,
    project: String,
    device: String,
    size: usize,
    hash: bool,
}

impl Firmware {
    /// An image of 64 KiB for an ESP32-S2, which reports this version. At most 31 bytes of it fit.
    pub fn new(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            project: "thermo".to_owned(),
            device: "esp32s2".to_owned(),
            size: 64 * 1024,
            hash: true,
        }
    }

    /// For another board.
    pub fn device(mut self, device: &str) -> Self {
        device.clone_into(&mut self.device);
        self
    }

    /// With another name in the descriptor.
    pub fn project(mut self, project: &str) -> Self {
        project.clone_into(&mut self.project);
        self
    }

    /// With so many bytes in all, rounded up to 16, and never fewer than the descriptor needs.
    pub fn size(mut self, bytes: usize) -> Self {
        self.size = bytes;
        self
    }

    /// Without the SHA-256 at the end.
    pub fn without_hash(mut self) -> Self {
        self.hash = false;
        self
    }

    /// The image.
    pub fn build(&self) -> Vec<u8> {
        let hash = if self.hash { HASH } else { 0 };
        let fixed = HEADER + 2 * SEGMENT_HEADER + DESCRIPTOR;
        // One word of code at least, and the checksum behind it.
        let size = self.size.max(fixed + 4 + 1 + hash).next_multiple_of(16);
        let code = (size - hash - 1 - fixed) / 4 * 4;

        let mut image = self.header();
        image.reserve(size);
        segment(&mut image, DROM, &self.descriptor());
        segment(&mut image, IROM, &noise(code, &self.version));
        let data = |image: &[u8], start: usize, length: usize| {
            image[start..start + length].iter().fold(0, |sum, byte| sum ^ byte)
        };
        let first = HEADER + SEGMENT_HEADER;
        let second = first + DESCRIPTOR + SEGMENT_HEADER;
        let checksum = CHECKSUM_SEED ^ data(&image, first, DESCRIPTOR) ^ data(&image, second, code);
        image.resize(size - hash - 1, 0);
        image.push(checksum);
        if self.hash {
            let hash = Sha256::digest(&image);
            image.extend_from_slice(&hash);
        }
        image
    }

    fn header(&self) -> Vec<u8> {
        let mut header = vec![0; HEADER];
        header[0] = IMAGE_MAGIC;
        header[1] = 2;
        // DIO, 80 MHz and 4 MB of flash, as a sensor board has.
        header[2] = 2;
        header[3] = 0x2f;
        header[4..8].copy_from_slice(&IROM.to_le_bytes());
        // No write-protect pin.
        header[8] = 0xee;
        header[12..14].copy_from_slice(&chip(&self.device).unwrap_or_default().to_le_bytes());
        // Any revision of the chip.
        header[17..19].copy_from_slice(&u16::MAX.to_le_bytes());
        header[23] = self.hash.into();
        header
    }

    fn descriptor(&self) -> Vec<u8> {
        let mut descriptor = vec![0; DESCRIPTOR];
        descriptor[0..4].copy_from_slice(&DESCRIPTOR_MAGIC.to_le_bytes());
        put(&mut descriptor[16..48], &self.version);
        put(&mut descriptor[48..80], &self.project);
        put(&mut descriptor[80..96], "12:00:00");
        put(&mut descriptor[96..112], "Jan  1 2025");
        put(&mut descriptor[112..144], "v5.3.1");
        // Any revision of the eFuse block, and pages of 64 KiB (2^16).
        descriptor[178..180].copy_from_slice(&u16::MAX.to_le_bytes());
        descriptor[180] = 16;
        descriptor
    }
}

/// A C string; the last byte stays zero.
fn put(field: &mut [u8], text: &str) {
    let length = text.len().min(field.len() - 1);
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}

fn segment(image: &mut Vec<u8>, address: u32, data: &[u8]) {
    image.extend_from_slice(&address.to_le_bytes());
    image.extend_from_slice(&(data.len() as u32).to_le_bytes());
    image.extend_from_slice(data);
}

/// Bytes that look like code and no two parts alike, the same for the same version (xorshift).
fn noise(length: usize, version: &str) -> Vec<u8> {
    let mut state = version.bytes().fold(0x9e37_79b9_7f4a_7c15, |state: u64, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out
}
