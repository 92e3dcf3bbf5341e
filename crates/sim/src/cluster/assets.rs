//! Where the control plane's programs come from.
//!
//! The order is that of setup-envtest's users: a folder they name, then PATH, then the cache that `make assets` fills
//! on a machine that can download nothing.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The version Debian has in source, and so the one a bare machine can build.
const CACHED: &str = "k8s-1.20.2";

/// The programs of a control plane.
#[derive(Debug, Clone)]
pub(crate) struct Assets {
    pub(crate) etcd: PathBuf,
    pub(crate) api_server: PathBuf,
    pub(crate) controller_manager: Option<PathBuf>,
    pub(crate) scheduler: Option<PathBuf>,
    pub(crate) kubelet: Option<PathBuf>,
}

impl Assets {
    /// Finds the programs, or says what to do.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test has no arguments: its settings are in the environment"
    )]
    pub(crate) fn find() -> Result<Self> {
        let folders = folders(|name| env::var_os(name));
        let Some(api_server) = find(&folders, "kube-apiserver") else {
            bail!("no kube-apiserver found: run `make assets`");
        };
        let Some(etcd) = find(&folders, "etcd") else {
            bail!("no etcd found: run `make assets`");
        };
        Ok(Self {
            etcd,
            api_server,
            controller_manager: find(&folders, "kube-controller-manager"),
            scheduler: find(&folders, "kube-scheduler"),
            kubelet: find(&folders, "kubelet"),
        })
    }
}

/// Finds Debian's registry: the program that is named, then PATH, then the cache that `hack/registry.sh` fills.
#[expect(
    clippy::disallowed_methods,
    reason = "a test has no arguments: its settings are in the environment"
)]
pub(crate) fn registry() -> Result<PathBuf> {
    if let Some(named) = env::var_os("DOCKER_REGISTRY").filter(|value| !value.is_empty()) {
        return Ok(named.into());
    }
    let folders = folders(|name| env::var_os(name));
    let cached = folders.last().and_then(|cache| Some(cache.parent()?.join("docker-registry")));
    let Some(program) = find(&[folders, cached.into_iter().collect()].concat(), "docker-registry")
    else {
        bail!("no docker-registry found: run `hack/registry.sh`");
    };
    Ok(program)
}

fn folders(var: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name| var(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
    let mut folders: Vec<PathBuf> =
        set("KUBEBUILDER_ASSETS").map(PathBuf::from).into_iter().collect();
    folders.extend(set("PATH").iter().flat_map(env::split_paths));
    folders.extend(cache.map(|cache| cache.join("flashjob").join(CACHED)));
    folders
}

fn find(folders: &[PathBuf], program: &str) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_folder_comes_first_and_the_cache_last() {
        let folders = folders(|name| match name {
            "KUBEBUILDER_ASSETS" => Some("/assets".into()),
            "PATH" => Some("/bin:/usr/bin".into()),
            "HOME" => Some("/home/me".into()),
            _ => None,
        });
        let expected = ["/assets", "/bin", "/usr/bin", "/home/me/.cache/flashjob/k8s-1.20.2"];
        assert_eq!(folders, expected.map(PathBuf::from));
    }
}
