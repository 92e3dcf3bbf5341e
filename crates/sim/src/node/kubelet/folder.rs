//! A Pod's folder on this machine, in which its containers find what they have mounted:
//!
//! ```text
//! <uid>/hosts                        the Pod's host name, and its hostAliases
//!       volumes/<volume>/            lives as long as the Pod
//!       containers/<container>/      what is `/` to the container; its mounts are links to volumes, made anew at each start
//!       logs/<container>/<n>.log     what the container said when it had been started again n times
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use kube::ResourceExt;

use super::hosts;

/// Where a container's last words are, unless it says another place.
const TERMINATION_LOG: &str = "/dev/termination-log";

pub(super) struct PodFolder {
    path: PathBuf,
    pub(super) host_name: String,
    hosts: String,
}

impl PodFolder {
    pub(super) fn of(pod: &Pod, folder: &Path) -> Self {
        Self {
            path: folder.join(pod.uid().unwrap_or_default()),
            host_name: hosts::name(pod),
            hosts: hosts::file(pod),
        }
    }

    pub(super) fn volume(&self, name: &str) -> PathBuf {
        self.path.join("volumes").join(name)
    }

    /// The file for what a container says.
    pub(super) fn log(&self, container: &str, restarts: i32) -> Result<PathBuf> {
        let folder = self.path.join("logs").join(container);
        make(&folder)?;
        Ok(folder.join(format!("{restarts}.log")))
    }

    /// A container's `/` with all of its mounts. What an earlier start left there is gone.
    pub(super) fn root(&self, container: &Container) -> Result<Root> {
        let path = self.path.join("containers").join(&container.name);
        if path.exists() {
            fs::remove_dir_all(&path).context("cannot clear a container's folder")?;
        }
        let mut mounts: Vec<&VolumeMount> = container.volume_mounts.iter().flatten().collect();
        // One may lie within another.
        mounts.sort_by_key(|mount| mount.mount_path.len());
        let root = Root { path, mounts: mounts.iter().map(|m| m.mount_path.clone()).collect() };
        for mount in mounts {
            let volume = self.volume(&mount.name);
            let source = mount.sub_path.as_ref().map_or(volume.clone(), |path| volume.join(path));
            if !source.exists() {
                make(&source)?;
            }
            link(&source, &root.path(&mount.mount_path))?;
        }
        for folder in ["/tmp", "/etc"] {
            make(&root.path(folder))?;
        }
        let hosts = self.path.join("hosts");
        write(&hosts, &self.hosts)?;
        link(&hosts, &root.path("/etc/hosts"))?;
        write(&root.path("/etc/hostname"), &format!("{}\n", self.host_name))?;
        write(&root.termination_log(container), "")?;
        Ok(root)
    }
}

/// The folder that is `/` to a container.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    mounts: Vec<String>,
}

impl Root {
    /// Where on this machine a path of the container is.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.path.join(inside.trim_start_matches('/'))
    }

    /// Where the container's last words are.
    pub(super) fn termination_log(&self, container: &Container) -> PathBuf {
        self.path(container.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG))
    }

    /// A word of a command line. One that is a path of a mount becomes that path of this machine.
    pub(super) fn word(&self, word: String) -> String {
        if self.mounts.iter().any(|mount| Path::new(&word).starts_with(mount)) {
            self.path(&word).display().to_string()
        } else {
            word
        }
    }
}

pub(super) fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    path.parent().map_or(Ok(()), make)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Two containers may have mounts within one volume that both share: the second finds the first one's link.
fn link(source: &Path, path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), make)?;
    if path.exists() {
        return Ok(());
    }
    symlink(source, path).with_context(|| format!("cannot link {}", path.display()))
}
