//! What `hack/e2e.sh` says about the cluster to use.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// What there is to know.
pub struct Settings {
    /// The operator's image.
    pub image: String,
    /// The flasher's image.
    pub flasher_image: String,
    /// Which cluster.
    pub place: Place,
    /// Only scenarios with this in their names.
    pub only: String,
    /// Stay up at the end.
    pub keep: bool,
}

/// Which cluster.
pub enum Place {
    /// One that is there: its kubeconfig, and this machine's address as Pods see it.
    Existing(PathBuf, Ipv4Addr),
    /// One made of this machine: the folders of programs and of images, and the cgroup.
    Here(PathBuf, PathBuf, String),
}

impl Settings {
    pub fn read() -> Result<Self> {
        let place = match optional("E2E_KUBECONFIG") {
            Some(kubeconfig) => {
                let host = needed("E2E_HOST")?;
                let host = host.parse().with_context(|| format!("E2E_HOST is {host}"))?;
                Place::Existing(kubeconfig.into(), host)
            }
            None => Place::Here(
                needed("E2E_NODE")?.into(),
                needed("E2E_IMAGES")?.into(),
                needed("FENCE_CGROUP")?,
            ),
        };
        Ok(Self {
            image: needed("E2E_IMG")?,
            flasher_image: needed("E2E_FLASHER_IMG")?,
            place,
            only: optional("E2E_ONLY").unwrap_or_default(),
            keep: optional("E2E_KEEP").is_some(),
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no arguments: its settings are in the environment"
)]
fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn needed(name: &str) -> Result<String> {
    optional(name).with_context(|| format!("{name} is not set: `make e2e` does that"))
}
