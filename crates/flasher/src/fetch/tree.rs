//! The file system of an image, as names alone: layer over layer, with what a layer removes and links to.
//!
//! Nothing is ever unpacked, so no name, however it is written, reaches the disk of the Pod. A file is known by the
//! layer and the place in it where its content stands.

use std::collections::{BTreeMap, VecDeque};

/// More links than this on one way are a loop; Linux draws the line at the same number.
const HOPS: usize = 40;

/// Where a file's content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Content {
    pub(super) layer: usize,
    /// The number of the entry in the layer's archive.
    pub(super) entry: usize,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    File(Content),
    /// A symbolic link, with its target as it was written.
    Link(String),
    Folder,
    /// A device, a pipe, or a hard link to nothing.
    Other,
}

/// One thing a layer does, in the order of its archive. Paths are clean: no leading slash, no `.` and no `..`.
#[derive(Debug)]
pub(super) enum Change {
    File {
        path: String,
        entry: usize,
        bytes: u64,
    },
    Symlink {
        path: String,
        target: String,
    },
    Hardlink {
        path: String,
        target: String,
    },
    Folder {
        path: String,
    },
    Other {
        path: String,
    },
    /// The path is gone from the layers below.
    Remove {
        path: String,
    },
    /// Everything in the folder is gone from the layers below.
    Empty {
        path: String,
    },
}

/// The files of all layers so far.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// Puts a layer on top. What it removes is removed from the layers below and never from itself, wherever in the
    /// archive that stands.
    pub(super) fn apply(&mut self, layer: usize, changes: Vec<Change>) {
        for change in &changes {
            match change {
                Change::Remove { path } => self.remove(path),
                Change::Empty { path } => self.remove_inside(path),
                _ => {}
            }
        }
        for change in changes {
            match change {
                Change::File { path, entry, bytes } => {
                    self.put(path, Node::File(Content { layer, entry, bytes }));
                }
                Change::Symlink { path, target } => self.put(path, Node::Link(target)),
                Change::Hardlink { path, target } => {
                    let node = self.nodes.get(&target).cloned().unwrap_or(Node::Other);
                    self.put(path, node);
                }
                Change::Other { path } => self.put(path, Node::Other),
                Change::Folder { path } => self.put_folder(&path),
                Change::Remove { .. } | Change::Empty { .. } => {}
            }
        }
    }

    fn put(&mut self, path: String, node: Node) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.put_folder(parent);
        }
        self.remove_inside(&path);
        self.nodes.insert(path, node);
    }

    /// A folder and those above it. What was there and is no folder gives way: the later entry wins.
    fn put_folder(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            self.nodes
                .entry(path[..end].to_owned())
                .and_modify(|node| *node = Node::Folder)
                .or_insert(Node::Folder);
        }
    }

    fn remove(&mut self, path: &str) {
        self.remove_inside(path);
        self.nodes.remove(path);
    }

    fn remove_inside(&mut self, path: &str) {
        if path.is_empty() {
            return self.nodes.clear();
        }
        let inside: Vec<String> = self.inside(path).map(|(path, _)| path.clone()).collect();
        for path in inside {
            self.nodes.remove(&path);
        }
    }

    /// `0` is the character after `/`.
    fn inside(&self, path: &str) -> impl Iterator<Item = (&String, &Node)> {
        self.nodes.range(format!("{path}/")..format!("{path}0"))
    }

    /// The firmware: the one file under `firmware/`; of several, the one the image's label names. A link counts as
    /// the file it leads to. The error is a sentence for people.
    pub(super) fn firmware(&self, label: Option<&str>) -> Result<(String, Content), String> {
        let mut files: BTreeMap<Content, String> = BTreeMap::new();
        if self.nodes.contains_key("firmware") {
            let folder = self.resolve("firmware")?;
            for (path, node) in self.inside(&folder) {
                let path = match node {
                    Node::Link(_) => self.resolve(path)?,
                    _ => path.clone(),
                };
                if let Some(Node::File(content)) = self.nodes.get(&path) {
                    files.entry(*content).or_insert(path);
                }
            }
        }
        if let (1, Some((content, path))) = (files.len(), files.first_key_value()) {
            return Ok((path.clone(), *content));
        }
        let names: Vec<String> = files.values().take(10).map(|path| format!("/{path}")).collect();
        let names = match files.len().saturating_sub(names.len()) {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        };
        if let Some(label) = label {
            let path = self.resolve(label)?;
            return match self.nodes.get(&path) {
                Some(Node::File(content)) => Ok((path, *content)),
                _ => {
                    Err(format!("the label com.urunc.iot.path names {label}, which is not a file"))
                }
            };
        }
        Err(match names.as_str() {
            "" => "the image has no file under /firmware/".into(),
            names => format!(
                "the image has several files under /firmware/ and no label com.urunc.iot.path \
                 that names one of them: {names}"
            ),
        })
    }

    /// Follows links inside the image, where `/` is the image's root.
    fn resolve(&self, path: &str) -> Result<String, String> {
        let bad = |why: &str| format!("/{} in the image {why}", path.trim_start_matches('/'));
        let mut todo: VecDeque<String> = path.split('/').map(str::to_owned).collect();
        let mut done: Vec<String> = Vec::new();
        let mut hops = 0;
        while let Some(part) = todo.pop_front() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    done.pop().ok_or_else(|| bad("leads out of the image"))?;
                    continue;
                }
                _ => done.push(part),
            }
            match self.nodes.get(&done.join("/")) {
                None => return Err(bad("leads to nothing")),
                Some(Node::Link(target)) => {
                    hops += 1;
                    if hops > HOPS {
                        return Err(bad("is a link that leads back to itself"));
                    }
                    done.pop();
                    if target.starts_with('/') {
                        done.clear();
                    }
                    for part in target.split('/').rev() {
                        todo.push_front(part.to_owned());
                    }
                }
                Some(_) => {}
            }
        }
        Ok(done.join("/"))
    }
}

#[cfg(test)]
mod tests;
