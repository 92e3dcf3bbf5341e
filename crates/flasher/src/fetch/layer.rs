//! Reading a layer: decompressed on the way, entry by entry, with an end to everything a stranger could make long.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};

use flate2::bufread::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::tree::Change;
use super::zstd::Zstd;

/// A long name, a long link or the records before an entry.
const EXTENSION: u64 = 64 << 10;
/// Entries of all layers, and the bytes of their names: what the tree of names may cost.
const ENTRIES: usize = 32 << 10;
const NAMES: usize = 2 << 20;

/// What may still be read, over all layers.
#[derive(Debug)]
pub(super) struct Budget {
    /// Decompressed bytes.
    bytes: u64,
    entries: usize,
    names: usize,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, entries: ENTRIES, names: NAMES }
    }

    fn entry(&mut self, names: usize) -> Result<(), String> {
        match (self.entries.checked_sub(1), self.names.checked_sub(names)) {
            (Some(entries), Some(names)) => {
                (self.entries, self.names) = (entries, names);
                Ok(())
            }
            _ => Err(format!("the image has too many files, at most {ENTRIES} are read")),
        }
    }
}

/// The media types of layers we read. Which compression it is, the bytes say themselves.
pub(super) fn is_layer(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.layer.v1.tar"
            | "application/vnd.oci.image.layer.v1.tar+gzip"
            | "application/vnd.oci.image.layer.v1.tar+zstd"
            | "application/vnd.docker.image.rootfs.diff.tar"
            | "application/vnd.docker.image.rootfs.diff.tar.gzip"
            | "application/vnd.docker.image.rootfs.diff.tar.zstd"
    )
}

/// Reads the names of a layer.
pub(super) fn changes(file: &mut File, budget: &mut Budget) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    walk(file, budget, |number, header, _, budget| {
        budget.entry(header.path.len() + header.link.len())?;
        let raw = &header.path;
        let path = clean(raw)?;
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let change = match (name.strip_prefix(".wh."), header.kind) {
            _ if path.is_empty() => return Ok(true),
            (Some(".wh..opq"), _) => Change::Empty { path: folder.to_owned() },
            // What an old storage driver left behind.
            (Some(rest), _) if rest.starts_with(".wh.") => return Ok(true),
            (Some("" | "." | ".."), _) => {
                return Err(format!("{raw:?} in a layer removes nothing"));
            }
            (Some(gone), _) => Change::Remove { path: clean(&format!("{folder}/{gone}"))? },
            // Archives older than the type for folders.
            (None, EntryType::Regular) if raw.ends_with('/') => Change::Folder { path },
            (None, EntryType::Regular | EntryType::Continuous) => {
                Change::File { path, entry: number, bytes: header.bytes }
            }
            (None, EntryType::Directory) => Change::Folder { path },
            (None, EntryType::Symlink) => Change::Symlink { path, target: header.link.clone() },
            (None, EntryType::Link) => Change::Hardlink { path, target: clean(&header.link)? },
            (None, EntryType::GNUSparse) => {
                return Err(format!("{raw:?} in a layer is a sparse file, which is not supported"));
            }
            (None, _) => Change::Other { path },
        };
        changes.push(change);
        Ok(true)
    })?;
    Ok(changes)
}

/// Copies the content of one entry. Returns how many bytes it had.
pub(super) fn copy(
    file: &mut File,
    number: usize,
    budget: &mut Budget,
    out: &mut impl Write,
) -> Result<u64, String> {
    let mut copied = None;
    walk(file, budget, |at, _, content, _| {
        if at < number {
            return Ok(true);
        }
        let bytes = io::copy(content, out).map_err(|e| format!("cannot copy the firmware: {e}"))?;
        copied = Some(bytes);
        Ok(false)
    })?;
    copied.ok_or_else(|| "a layer changed while it was read".into())
}

/// An entry, with what the records before it say.
struct Header {
    path: String,
    link: String,
    bytes: u64,
    kind: EntryType,
}

/// Goes through the entries of a layer until `visit` says that it has seen enough.
///
/// The records before an entry are read here and not by the tar crate, which would take any length into memory.
fn walk(
    file: &mut File,
    budget: &mut Budget,
    mut visit: impl FnMut(usize, &Header, &mut dyn Read, &mut Budget) -> Result<bool, String>,
) -> Result<(), String> {
    let unreadable = |e: io::Error| format!("a layer cannot be read: {e}");
    let limit = budget.bytes;
    let mut archive = Archive::new(open(file).map_err(unreadable)?);
    let (mut path, mut link, mut size) = (None, None, None);
    let mut end = 0;
    for (number, entry) in archive.entries().map_err(unreadable)?.raw(true).enumerate() {
        let mut entry = entry.map_err(unreadable)?;
        let kind = entry.header().entry_type();
        let bytes = entry.size();
        end = entry.raw_file_position().saturating_add(bytes);
        if end > limit {
            return Err(too_much(limit));
        }
        match kind {
            EntryType::GNULongName => path = Some(text(&extension(&mut entry)?)),
            EntryType::GNULongLink => link = Some(text(&extension(&mut entry)?)),
            EntryType::XHeader => {
                for (key, value) in records(&extension(&mut entry)?)? {
                    match key {
                        "path" => path = Some(text(value)),
                        "linkpath" => link = Some(text(value)),
                        "size" => size = std::str::from_utf8(value).ok().map(str::to_owned),
                        key if key.starts_with("GNU.sparse.") => {
                            return Err("a layer has a sparse file, which is not supported".into());
                        }
                        _ => {}
                    }
                }
            }
            EntryType::XGlobalHeader => {}
            kind => {
                // A second opinion on the size is for files of 8 GiB and more, or to have two readers disagree.
                if let Some(other) = size.take().filter(|size| *size != bytes.to_string()) {
                    return Err(format!("a layer has a file of {other} bytes"));
                }
                let plain = entry.path_bytes().into_owned();
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let header = Header {
                    path: path.take().unwrap_or_else(|| text(&plain)),
                    link: link.take().unwrap_or_else(|| text(&target)),
                    bytes,
                    kind,
                };
                if !visit(number, &header, &mut entry, budget)? {
                    return Ok(());
                }
            }
        }
    }
    // What compressed the layer left a checksum at its very end.
    budget.bytes = limit.saturating_sub(end);
    let mut rest = archive.into_inner().take(budget.bytes + 1);
    if io::copy(&mut rest, &mut io::sink()).map_err(unreadable)? > budget.bytes {
        Err(too_much(limit))
    } else {
        Ok(())
    }
}

fn too_much(limit: u64) -> String {
    format!("a layer unpacks to more than the {limit} bytes that are read")
}

fn extension(entry: &mut impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = entry.take(EXTENSION + 1).read_to_end(&mut bytes);
    read.map_err(|e| format!("a layer cannot be read: {e}"))?;
    if bytes.len() as u64 > EXTENSION {
        Err(format!("a layer has a name of more than {EXTENSION} bytes"))
    } else {
        Ok(bytes)
    }
}

/// The records of an extended header: `length key=value\n`. Values may hold any byte.
fn records(mut bytes: &[u8]) -> Result<Vec<(&str, &[u8])>, String> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let record = || -> Option<(&str, &[u8], usize)> {
            let space = bytes.iter().position(|&b| b == b' ')?;
            let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
            let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|&b| b == b'=')?;
            Some((std::str::from_utf8(&record[..equals]).ok()?, &record[equals + 1..], length))
        };
        let (key, value, length) = record().ok_or("a layer has an extended header that is none")?;
        records.push((key, value));
        bytes = &bytes[length..];
    }
    Ok(records)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

/// A path below the image's root. A leading slash means that root, as for every container runtime; `..` is refused.
fn clean(path: &str) -> Result<String, String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(format!("{path:?} in a layer climbs out of the image"));
    }
    Ok(parts.join("/"))
}

/// A layer as a plain archive. The bytes say how they are compressed; media types do not always.
fn open(file: &mut File) -> io::Result<Box<dyn Read + '_>> {
    file.rewind()?;
    let mut magic = Vec::new();
    (&mut *file).take(4).read_to_end(&mut magic)?;
    file.rewind()?;
    let source = BufReader::with_capacity(32 << 10, file);
    Ok(match magic[..] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(source)),
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Box::new(Zstd::new(source)),
        _ => Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_headers_are_read_by_length_so_that_values_may_hold_lines() {
        let bytes = b"12 path=a/b\n21 SCHILY.x=1\n9 y=2\n\n13 mtime=1.5\n";
        let expected: [(&str, &[u8]); 3] =
            [("path", b"a/b"), ("SCHILY.x", b"1\n9 y=2\n"), ("mtime", b"1.5")];
        assert_eq!(records(bytes).unwrap(), expected);
        for bytes in [&b"12 path=a/b"[..], b"999 path=a\n", b"0 =\n", b"path=a\n"] {
            records(bytes).unwrap_err();
        }
    }

    #[test]
    fn paths_stay_below_the_root() {
        assert_eq!(clean("./firmware//a/.").unwrap(), "firmware/a");
        assert_eq!(clean("/firmware/a").unwrap(), "firmware/a");
        for path in ["../a", "firmware/../../a", "a/.."] {
            assert!(clean(path).unwrap_err().contains("climbs"), "{path}");
        }
    }
}
