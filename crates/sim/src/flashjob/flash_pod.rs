//! What the kubelet's flash Pods are to FlashJob: the program that flashes, and what a start says of board and attempt.

use std::path::Path;

use anyhow::Result;
use flashjob_api::flashjob::flash_pod::{
    CONTAINER, PORT, REGISTRY_FOLDER, SCRATCH_FOLDER, TLS_FOLDER, env,
};

use crate::node::kubelet::{Env, Root, Started};
use crate::node::{Kubelet, Program};

/// The flasher at `path`, as the program of an image.
pub fn flasher(path: &Path) -> Result<Program> {
    Ok(Program::new(path)?.adapted(adapt))
}

/// Tells the flasher where it finds what has a fixed place in its image, and to listen on its Service's address: nothing
/// leads from there to a Pod.
fn adapt(root: &Root, vars: &mut Env) {
    let places = [
        ("SERVER_CRT_PATH", format!("{TLS_FOLDER}/tls.crt")),
        ("SERVER_KEY_PATH", format!("{TLS_FOLDER}/tls.key")),
        ("REGISTRY_CONFIG", format!("{REGISTRY_FOLDER}/.dockerconfigjson")),
        ("TMPDIR", SCRATCH_FOLDER.to_owned()),
        ("TERMINATION_LOG", "/dev/termination-log".to_owned()),
    ];
    for (name, path) in places {
        vars.entry(name.to_owned()).or_insert_with(|| root.path(&path).display().to_string());
    }
    if let Some(address) = vars.get(env::EXTERNAL_IP).cloned() {
        vars.entry("LISTEN".to_owned()).or_insert_with(|| format!("{address}:{PORT}"));
    }
}

/// The containers that were started to flash so far, in order. Those beside them have reached no board.
pub fn flashes(kubelet: &Kubelet) -> Vec<Started> {
    kubelet.starts().into_iter().filter(Started::is_flash).collect()
}

/// A start of a container as FlashJob sees it: one that flashes has reached a board.
pub trait Flash {
    /// Whether it is the container that flashes, and none beside it.
    fn is_flash(&self) -> bool;
    /// The board.
    fn endpoint(&self) -> &str;
    /// Which attempt it is.
    fn attempt(&self) -> &str;
}

impl Flash for Started {
    fn is_flash(&self) -> bool {
        self.container == CONTAINER
    }

    fn endpoint(&self) -> &str {
        self.env.get(env::HOST_ENDPOINT).map(String::as_str).unwrap_or_default()
    }

    fn attempt(&self) -> &str {
        self.env.get(env::ATTEMPT).map(String::as_str).unwrap_or_default()
    }
}
