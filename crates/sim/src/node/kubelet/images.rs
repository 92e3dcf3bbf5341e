//! The images that the node has: which program of this machine stands for which.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Container;

use super::folder::Root;

/// The environment of a container.
pub type Env = BTreeMap<String, String>;

/// Programs by the names of the images that they stand for, without registry, path, tag and digest: `shell` is also
/// `registry.example/tools/shell:1`. A container of any other image plays a script.
#[derive(Debug, Clone)]
pub struct Images {
    pub(super) folder: PathBuf,
    programs: HashMap<String, Program>,
}

impl Images {
    /// None yet. Pods will have their folders and logs in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), programs: HashMap::new() }
    }

    /// The same and one more.
    pub fn with(mut self, image: &str, program: Program) -> Self {
        self.programs.insert(image.to_owned(), program);
        self
    }

    pub(super) fn program_of(&self, container: &Container) -> Option<&Program> {
        self.programs.get(name_of(container.image.as_deref()?))
    }
}

fn name_of(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next().unwrap_or_default()
}

/// What runs in a container of an image, unless the container names a `command`.
#[derive(Debug, Clone)]
pub struct Program {
    pub(super) path: PathBuf,
    pub(super) adapt: fn(&Root, &mut Env),
}

impl Program {
    /// The program at `path`.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        // Its working directory will be another one.
        let path = std::path::absolute(path).context("not the path of a program")?;
        Ok(Self { path, adapt: |_, _| () })
    }

    /// The same with an environment that tells it where on this machine it finds what a container has at fixed paths.
    pub fn adapted(self, adapt: fn(&Root, &mut Env)) -> Self {
        Self { adapt, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn an_image_is_known_by_its_name() {
        for image in
            ["shell", "shell:1", "host:5000/tools/shell@sha256:0f", "host/shell:1@sha256:0f"]
        {
            assert_eq!(name_of(image), "shell");
        }
    }
}
