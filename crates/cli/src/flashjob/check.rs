//! `kubectl flashjob check`: is everything there that a flash needs?

mod cluster;
mod flasher;
mod observe;
mod rights;
#[cfg(test)]
mod tests;
mod writers;

use anyhow::Result;
use jiff::Timestamp;

use crate::args::Connection;
use crate::check::{self, Check};
use crate::clock;
use crate::exit::Exit;
use crate::shell::Shell;

pub async fn run(to: &Connection, shell: &Shell) -> Result<Exit> {
    let to = to.open().await?;
    let now = clock::now();
    let observed = observe::everything(&to).await;
    let checks = judge(&observed, &to.namespace, now);
    check::show(&checks, shell)
}

/// Everything there is to say.
fn judge(observed: &observe::Observations, namespace: &str, now: Timestamp) -> Vec<Check> {
    let mut checks = vec![
        check::api_server(&observed.version),
        cluster::flashjobs(&observed.crd),
        cluster::operator(&observed.deployment, &observed.lease, now),
        cluster::akri(&observed.devices),
        cluster::load_balancer(&observed.services, now),
        flasher::certificate(&observed.secret, namespace, now),
        flasher::attestation(&observed.settings, &observed.dice_service, namespace),
    ];
    checks.extend(rights::judge(&observed.rights, namespace));
    checks.push(writers::judge(&observed.rbac, namespace));
    checks
}
