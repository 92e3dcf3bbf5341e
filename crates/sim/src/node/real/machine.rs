//! The network of the node: one bridge that Pods hang on, with the addresses of everything they talk to.
//!
//! Packets of Pods never leave this machine, since nothing forwards them: whom they reach has an address here.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::HOST;

/// The bridge.
pub(super) const BRIDGE: &str = "pods";

const MAC: &str = "02:00:0a:58:00:01";

/// Makes the bridge, unless this is not the empty network that `hack/fence.sh` makes. It goes with that network.
pub(super) fn claim() -> Result<()> {
    // Devices without an address may be there: some kernels put their tunnels into every network.
    if !ip(&["-o", "address", "show", "scope", "global"])?.is_empty() {
        bail!("a node changes its machine, and this is not a fenced one: use `make e2e`");
    }
    // With an address of its own: else it takes that of one of its ports, another one when Pods come and go, and each time
    // all other Pods talk into the void until they ask who their gateway is.
    ip(&["link", "add", BRIDGE, "address", MAC, "type", "bridge"])?;
    ip(&["address", "add", &format!("{HOST}/16"), "dev", BRIDGE])?;
    ip(&["link", "set", BRIDGE, "up"])?;
    Ok(())
}

/// Makes an address this machine's.
pub(super) fn give(address: Ipv4Addr) -> Result<()> {
    ip(&["address", "add", &format!("{address}/32"), "dev", BRIDGE]).map(drop)
}

fn ip(args: &[&str]) -> Result<String> {
    let output = Command::new("ip").args(args).output().context("no `ip`: install iproute2")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {}: {error}", args.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
