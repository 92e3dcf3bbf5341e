//! `kubectl flashjob edge check`: is everything there that Edge needs?

mod certificates;
mod cluster;
mod fleet;
mod observe;
mod rights;
#[cfg(test)]
mod tests;

use anyhow::Result;
use jiff::Timestamp;

use crate::args::Connection;
use crate::check::{self, Check};
use crate::clock;
use crate::edge::args::Home;
use crate::exit::Exit;
use crate::shell::Shell;
use observe::Observations;
pub use observe::{DEPLOYMENT, flag, namespaces};

pub async fn run(to: &Connection, home: &Home, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let now = clock::now();
    let observed =
        observe::everything(&connected, to.namespace.as_deref(), &home.operator_namespace).await;
    let checks = judge(&observed, &home.operator_namespace, &connected.namespace, now);
    check::show(&checks, shell)
}

/// Everything there is to say.
fn judge(seen: &Observations, home: &str, namespace: &str, now: Timestamp) -> Vec<Check> {
    let mut checks = vec![
        check::api_server(&seen.version),
        cluster::kinds(&seen.kinds),
        cluster::operator(&seen.deployment, &seen.lease, home, now),
        cluster::service(&seen.service, home),
        cluster::serving(&seen.serving, home),
    ];
    checks.extend(certificates::judge(&seen.secrets, &seen.devices, home, now));
    checks.push(fleet::devices(&seen.devices, now));
    checks.push(fleet::requests(&seen.requests));
    checks.extend(rights::operator(&seen.operator_rights, home));
    checks.extend(rights::mine(&seen.rights, namespace));
    checks
}
