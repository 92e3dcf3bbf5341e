//! Files: manifests that people write, and files with keys in them, which are small, readable by their owner alone, and never
//! written over.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// As much as a Secret can hold.
const MOST: u64 = 1 << 20;
/// A manifest is not larger than what etcd takes, and a file may have a few.
const LONGEST_MANIFEST: u64 = 8 << 20;

/// What `-f` names; `-` is standard input.
pub fn manifest(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(LONGEST_MANIFEST).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(LONGEST_MANIFEST).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

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

/// Writes all of them or none.
pub fn write_new(files: &[(PathBuf, &[u8])]) -> Result<()> {
    for (place, (path, bytes)) in files.iter().enumerate() {
        let undo = || files[..place].iter().for_each(|(path, _)| drop(std::fs::remove_file(path)));
        write_one(path, bytes).inspect_err(|_| undo())?;
    }
    Ok(())
}

/// Writes all of them, also over what is there. Each is written beside its place first, so nobody sees half of one.
pub fn write_over(files: &[(PathBuf, &[u8])]) -> Result<()> {
    let beside = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.with_file_name(format!(".{name}.new"))
    };
    let new: Vec<(PathBuf, &[u8])> = files.iter().map(|(path, b)| (beside(path), *b)).collect();
    // One that was left behind when the program was killed.
    new.iter().for_each(|(path, _)| drop(std::fs::remove_file(path)));
    write_new(&new)?;
    for ((from, _), (to, _)) in new.iter().zip(files) {
        std::fs::rename(from, to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

fn write_one(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    // Devices will trust this: it is not lost to a power cut once we have said that it is made.
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written
        .inspect_err(|_| drop(std::fs::remove_file(path)))
        .with_context(|| format!("cannot write {}", path.display()))
}
