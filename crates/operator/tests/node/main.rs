//! FlashJobs on a real cluster: the operator as `make deploy` installs it, flash Pods that a kubelet starts, and boards on
//! this machine that write down themselves what happens to them. `make e2e` runs it; `make test` does not.
//!
//! All scenarios share one cluster and go one after the other, since the last one takes everything away.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may stop at once and say why

mod delete;
mod interruptions;
mod kubectl;
mod objects;
mod operator_log;
mod permit;
mod rollout;
mod settings;
mod site;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::LocalBoxFuture;

use crate::settings::Settings;
use crate::site::NodeSite;

/// Longer than any job here takes.
pub const PATIENCE: Duration = Duration::from_secs(420);

type Scenario = for<'a> fn(&'a NodeSite) -> LocalBoxFuture<'a, Result<()>>;

/// The scenarios in their order. Each brings the boards to a version of its own.
const SCENARIOS: [(&str, Scenario); 5] = [
    ("a rollout in batches through real Pods is Completed", |site| {
        Box::pin(rollout::in_batches(site))
    }),
    ("a Pod whose permit was withdrawn never runs", |site| Box::pin(permit::withdrawn(site))),
    ("an operator Pod is deleted in mid-run, twice", |site| {
        Box::pin(interruptions::operator_deleted(site))
    }),
    ("the kubelet is stopped in mid-run", |site| Box::pin(interruptions::kubelet_stopped(site))),
    ("kubectl delete leaves the cluster as it was", |site| Box::pin(delete::everything(site))),
];

fn tell(what: &str) {
    println!("    {what}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make e2e runs it"]
async fn flashjobs_on_a_real_cluster() -> Result<()> {
    let settings = Settings::read()?;
    let began = Instant::now();
    let seconds = || format!("{:5.0} s", began.elapsed().as_secs_f64());
    println!("{}  cluster, operator and boards", seconds());
    let site = NodeSite::start(&settings).await?;
    let mut failed = Vec::new();
    for (name, scenario) in SCENARIOS {
        // The last one is also how a cluster of somebody else is left.
        let last = name == SCENARIOS[SCENARIOS.len() - 1].0;
        if !name.contains(&settings.only) && !last {
            continue;
        }
        println!("{}  {name}", seconds());
        let done = scenario(&site).await;
        // Whatever the scenario was about.
        let alarms = site.operator_is_well();
        for error in [&done, &alarms].into_iter().filter_map(|result| result.as_ref().err()) {
            println!("    FAILED: {error:#}");
        }
        if done.is_err() || alarms.is_err() {
            println!("{}", site.last_words().await);
            failed.push(name);
        }
    }
    println!(
        "{}  {}",
        seconds(),
        if failed.is_empty() { "all is well" } else { "not all is well" }
    );
    if settings.keep {
        println!("    kept up until Ctrl-C: KUBECONFIG={}", site.kubeconfig.display());
        println!("    behind the fence: nsenter -a -t $(pgrep -f '^bash .*fence.sh --inside')");
        tokio::signal::ctrl_c().await?;
    }
    ensure!(failed.is_empty(), "failed: {failed:#?}");
    Ok(())
}
