//! `flashjob-sim fleet`: many devices until they are told to stop, and how it goes in one line every few seconds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

use crate::cluster::Cluster;
use crate::edge::args::Fleet as Wanted;
use crate::edge::device::Manner;
use crate::edge::fleet::{Fleet, FleetOptions};
use crate::edge::ledger::{DeviceLedger, Outcome};
use crate::edge::operation::Operation;
use crate::edge::site::{EdgeOperator, EdgeSite};
use crate::output::say;
use crate::programs::program;

/// From one line to the next.
const LINE_EVERY: Duration = Duration::from_secs(5);

type Counts = BTreeMap<(Operation, Outcome), u64>;

/// Runs it.
pub async fn run(wanted: Wanted) -> Result<()> {
    let began = Instant::now();
    let line = |text: &str| say(&format!("{:6.1} s  {text}\n", began.elapsed().as_secs_f64()));
    let (device, _here) = match wanted.dial() {
        Some(dial) => (dial.options("").await?, None),
        None => {
            line("no --server: a control plane and an operator are started here")?;
            let here = Here::start(wanted.operator.clone()).await?;
            let kubeconfig = here.site.cluster.admin_kubeconfig(&here.site.namespace)?;
            let path = kubeconfig.display();
            line(&format!("look around in another terminal: export KUBECONFIG={path}"))?;
            (here.site.options("", Manner::Ours).await?, Some(here))
        }
    };
    let device = wanted.manners.of(device);
    let count = usize::try_from(wanted.devices)?;
    let stagger = Duration::from_secs(1) * wanted.devices / wanted.rate;
    line(&format!("{count} devices call {}; Ctrl-C ends them", device.server))?;
    let options = FleetOptions { prefix: wanted.prefix.clone(), stagger, device };
    let mut fleet = Fleet::start(count, options)?;

    let mut terminate = signal(SignalKind::terminate())?;
    let mut lines = interval(LINE_EVERY);
    lines.tick().await;
    let mut before = Counts::new();
    loop {
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => { pressed?; break }
            _ = terminate.recv() => break,
            _ = lines.tick() => {
                let counts = fleet.counts();
                line(&progress(&fleet, &before, &counts))?;
                before = counts;
            }
        }
    }
    fleet.stop().await;
    say(&table(&fleet.counts()))
}

/// A site on this machine, as users have it. It ends with this.
struct Here {
    site: EdgeSite,
    _operator: EdgeOperator,
    _cluster: Cluster,
}

impl Here {
    async fn start(operator: Option<PathBuf>) -> Result<Self> {
        let program = program(operator, "flashjob-operator")?;
        let cluster = Cluster::start().await?;
        let site = EdgeSite::as_shipped(&cluster, program).await?;
        let operator = site.operator().await?;
        Ok(Self { site, _operator: operator, _cluster: cluster })
    }
}

/// How many are how far, and what was asked since the line before.
fn progress(fleet: &Fleet, before: &Counts, counts: &Counts) -> String {
    let registered = fleet.how_many(DeviceLedger::registered);
    let at_work = fleet
        .how_many(|ledger| ledger.configuration().is_some_and(|known| !known.workloads.is_empty()));
    let sum = |counts: &Counts| counts.values().sum::<u64>();
    let failed = |counts: &Counts| {
        let not_well = counts.iter().filter(|((_, outcome), _)| !is_well(*outcome));
        not_well.map(|(_, count)| count).sum::<u64>()
    };
    let asked = sum(counts) - sum(before);
    let refused = failed(counts) - failed(before);
    let all = fleet.devices().len();
    let each_second = asked as f64 / LINE_EVERY.as_secs_f64();
    format!(
        "{registered} of {all} registered, {at_work} have workloads; {each_second:.0} requests a second, {refused} of {asked} refused or lost"
    )
}

fn is_well(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Status(code) if code < 400)
}

/// How often each request ended in each way.
fn table(counts: &Counts) -> String {
    let mut text = String::from("\nREQUEST                        ANSWER      TIMES\n");
    for ((operation, outcome), count) in counts {
        let answer = match outcome {
            Outcome::Status(code) => code.to_string(),
            Outcome::NoAnswer => "none".to_owned(),
        };
        text.push_str(&format!("{:<30} {answer:<8} {count:>8}\n", operation.to_string()));
    }
    text
}
