//! Firmware out of a real registry: Debian's `docker-registry` on loopback, with images built by hand.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may stop at once and say why

mod front;
mod hostile;
mod images;
mod login;
mod memory;
mod outage;
mod signatures;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Reason;
use flashjob_flasher::Failure;
use flashjob_flasher::fetch::{Firmware, Source, fetch};
use flashjob_sim::flashjob::Registry;

const DEVICE: &str = "esp32s3";
const MAX_BYTES: u64 = 1 << 20;
const DIGEST_LENGTH: usize = "sha256:".len() + 64;

/// How tests pull unless they say otherwise: over plain HTTP, without patience.
fn source(registry: &Registry, image: &str) -> Source {
    provider();
    Source {
        image: format!("{}/{image}", registry.host()),
        device: DEVICE.into(),
        credentials: None,
        ca: None,
        plain_http: true,
        public_key: None,
        max_bytes: MAX_BYTES,
        patience: Duration::from_secs(1),
    }
}

/// The TLS provider is chosen by whoever runs the flasher.
fn provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Pulls, and reads what came. A failure must leave nothing behind, and neither must success once it is dropped.
async fn pull(source: &Source) -> Result<(Vec<u8>, Firmware), Failure> {
    let folder = tempfile::tempdir().unwrap();
    // In a task of its own, as whoever waits for a deadline beside it would run it.
    let (source, path) = (source.clone(), folder.path().to_owned());
    let fetched = tokio::spawn(async move { fetch(&source, &path).await }).await.unwrap();
    let left = names(folder.path());
    let firmware = fetched.inspect_err(|_| assert!(left.is_empty(), "left behind: {left:?}"))?;
    assert_eq!(left.len(), 1, "one file and no more: {left:?}");
    let mut bytes = Vec::new();
    firmware.file.reopen().unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, firmware.bytes);
    Ok((bytes, firmware))
}

/// The failure that a pull ends with.
async fn refused(source: &Source, reason: Reason, words: &str) -> Failure {
    let failure = match pull(source).await {
        Err(failure) => failure,
        Ok((bytes, firmware)) => panic!("{} bytes of {} came", bytes.len(), firmware.name),
    };
    assert_eq!(failure.reason, reason, "{failure}");
    assert!(failure.message.contains(words), "{words:?} is not in {failure}");
    failure
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Bytes that no compression makes much smaller, the same at every run.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}
