//! What a pull costs in memory, measured in a process of its own: this test program, started again.

use std::process::Command;

use anyhow::{Context, Result};
use flashjob_flasher::fetch::{Source, fetch};
use flashjob_sim::flashjob::Registry;
use flashjob_sim::flashjob::registry::image::{Archive, Image, Layer};
use tar::EntryType;

use crate::{DEVICE, noise, provider};

const SIZE: usize = 16 << 20;
const LIMIT_KIB: u64 = 24 << 10;

#[tokio::test]
async fn a_16_mib_image_is_pulled_and_a_bad_one_refused_in_less_than_24_mib_of_memory() -> Result<()>
{
    let registry = Registry::start().await?;
    let archive = Archive::default().file("firmware/ota.bin", &noise(SIZE));
    registry.push("fw", "gzip", &Image::new(vec![Layer::gzip(&archive)?])).await?;
    registry
        .push("fw", "zstd", &Image::new(vec![Layer::zstd_with_a_large_window(&archive)]))
        .await?;
    let name = vec![b'n'; 4 * SIZE];
    let name = Archive::default().entry(EntryType::GNULongName, "n", "", &name, name.len() as u64);
    registry.push("fw", "name", &Image::new(vec![Layer::gzip(&name)?])).await?;
    let done = format!("bytes: {SIZE}");
    for (tag, end) in [("gzip", &*done), ("zstd", &*done), ("name", "a name of more than")] {
        let output = Command::new(std::env::current_exe()?)
            .args(["memory::pull_alone", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env("PULL", format!("{}/fw:{tag}", registry.host()))
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(end), "{tag}: {text}");
        let peak = text.split_once("peak KiB: ").map(|(_, rest)| rest);
        let peak: u64 =
            peak.and_then(|rest| rest.lines().next()?.parse().ok()).context(text.clone())?;
        println!("{tag}: {peak} KiB");
        assert!(peak < LIMIT_KIB, "{tag}: {peak} KiB");
    }
    Ok(())
}

/// The process that is measured.
#[tokio::test]
#[ignore = "started by the test above"]
#[expect(clippy::disallowed_methods, reason = "libtest takes no arguments of ours")]
async fn pull_alone() -> Result<()> {
    provider();
    let source = Source {
        image: std::env::var("PULL")?,
        device: DEVICE.into(),
        credentials: None,
        ca: None,
        plain_http: true,
        public_key: None,
        max_bytes: SIZE as u64,
        patience: std::time::Duration::from_secs(5),
    };
    let folder = tempfile::tempdir()?;
    match fetch(&source, folder.path()).await {
        Ok(firmware) => println!("bytes: {}", firmware.bytes),
        Err(failure) => println!("{failure}"),
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no peak")?;
    println!("peak KiB: {}", peak.trim().trim_end_matches(" kB"));
    Ok(())
}
