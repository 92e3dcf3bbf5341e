//! containerd with a root of its own, the images in it, and the network plugins it calls.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::machine::BRIDGE;
use super::{HOST, NodeOptions, PATIENCE};
use crate::process::Running;
use crate::wait::eventually;

/// The image that holds a Pod's namespaces.
const PAUSE: &str = "localhost/pause:e2e";
/// Below /run, which is empty behind the fence: the path of a socket must be short.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// A running containerd.
pub(super) struct Runtime {
    _containerd: Running,
}

impl Runtime {
    /// Starts containerd and gives it the images.
    pub(super) async fn start(options: &NodeOptions, scratch: &Path) -> Result<Self> {
        let folder = scratch.join("containerd");
        let network = scratch.join("cni");
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(&network)?;
        fs::write(network.join("10-pods.conflist"), network_config(scratch))?;
        let config = folder.join("config.toml");
        fs::write(&config, config_of(&options.programs, &folder, &network))?;
        let bin = options.programs.join("bin");
        let env = environment(&options.programs);
        let args = ["--config".to_owned(), config.display().to_string()];
        let log = folder.join("containerd.log");
        let mut containerd = Running::start_with(&bin.join("containerd"), &args, Some(&env), log)?;
        let ctr = |args: &[&str]| {
            let mut command = Command::new(bin.join("ctr"));
            command.args(["--address", SOCKET, "--namespace", "k8s.io"]).args(args);
            command.output().context("no ctr")
        };
        eventually("containerd to answer", PATIENCE, async || {
            if containerd.has_ended() {
                bail!("containerd has ended:\n{}", containerd.last_words());
            }
            Ok(ctr(&["version"])?.status.success().then_some(()))
        })
        .await?;
        for image in &options.images {
            let archive = image.display().to_string();
            let import = ["images", "import", "--snapshotter=native", &archive];
            let done = ctr(&import)?;
            let error = String::from_utf8_lossy(&done.stderr);
            ensure!(done.status.success(), "the image {archive} cannot be imported: {error}");
        }
        Ok(Self { _containerd: containerd })
    }
}

/// What containerd and kubelet find by PATH: the shim, runc, mount.
pub(super) fn environment(programs: &Path) -> BTreeMap<String, String> {
    let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    [("PATH".to_owned(), format!("{}:{system}", programs.join("bin").display()))].into()
}

/// `restrict_oom_score_adj`: not every machine lets root raise a process above others. The network namespaces of Pods and
/// all state are in folders of our own; an AppArmor profile would stay in the kernel.
fn config_of(programs: &Path, folder: &Path, network: &Path) -> String {
    let (programs, folder, network) = (programs.display(), folder.display(), network.display());
    format!(
        r#"version = 2
root = "{folder}/root"
state = "/run/containerd/state"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{programs}/bin/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{programs}/cni"
    conf_dir = "{network}"
"#
    )
}

fn network_config(scratch: &Path) -> String {
    let pods = json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": BRIDGE,
            "ipam": {
                "type": "host-local",
                "dataDir": scratch.join("addresses"),
                "ranges": [[{
                    "subnet": "10.88.0.0/16",
                    "rangeStart": "10.88.8.1",
                    "rangeEnd": "10.88.15.254",
                    "gateway": HOST,
                }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    });
    pods.to_string()
}
