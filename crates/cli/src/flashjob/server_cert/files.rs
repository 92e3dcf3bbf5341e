//! Files with keys in them: small, readable by their owner alone, and never written over.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// As much as a Secret can hold.
const MOST: u64 = 1 << 20;

/// The bytes of a file that is not too large for a certificate.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read = file.take(MOST + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > MOST {
        bail!("{} is larger than any certificate or key", path.display());
    }
    Ok(bytes)
}

/// Whether there is something of that name, also a link that leads nowhere.
pub fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Makes a folder, if it is not there, that nobody else can look into.
pub fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot make the folder {}", path.display()))
}

/// Writes both files or none.
pub fn write_both(first: (&Path, &[u8]), second: (&Path, &[u8])) -> Result<()> {
    write_new(first.0, first.1)?;
    write_new(second.0, second.1).inspect_err(|_| drop(std::fs::remove_file(first.0)))
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    // Boards will pin this: it is not lost to a power cut once we have said that it is made.
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written
        .inspect_err(|_| drop(std::fs::remove_file(path)))
        .with_context(|| format!("cannot write {}", path.display()))
}
