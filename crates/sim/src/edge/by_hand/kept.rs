//! A device's certificate and key in a folder, from one run to the next.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use flashjob_pki::CertifiedKey;

use crate::edge::credential::Credential;

const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";

/// `None` in a folder that has none.
pub(super) fn read(folder: &Path) -> Result<Option<CertifiedKey>> {
    let read = |name: &str| match fs::read(folder.join(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => {
            read.map(Some).with_context(|| format!("cannot read {}", folder.join(name).display()))
        }
    };
    let (Some(certificate), Some(key)) = (read(CERTIFICATE)?, read(KEY)?) else { return Ok(None) };
    let pair = CertifiedKey::from_pem(&certificate, &key);
    pair.map(Some).with_context(|| {
        let folder = folder.display();
        format!("{CERTIFICATE} and {KEY} in {folder} cannot be used: remove both to register anew")
    })
}

pub(super) fn write(folder: &Path, own: &Credential) -> Result<()> {
    let Some(shown) = own.shown() else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    replace(&folder.join(KEY), &shown.key().pem())?;
    replace(&folder.join(CERTIFICATE), &shown.chain().pem())
}

pub(super) fn forget(folder: &Path) -> Result<()> {
    for path in [folder.join(CERTIFICATE), folder.join(KEY)] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// For its owner only, and never half of it.
fn replace(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
    open.and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
