//! `flashjob-sim demo`: a rollout over simulated boards, from nothing to a verdict.
//!
//! Three boards are faulty: one refuses the first attempt, one rejects every image, one is switched off for a while. What
//! the job says at the end is held against what the boards themselves have recorded, and the exit code is 0 only if the
//! two agree.

mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::flashjob::field::{Field, OLD_VERSION};
use crate::flashjob::site::{Account, NAMESPACE, SiteOptions};
use crate::flashjob::{Fault, Site, Times};
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::args::Demo;
use crate::output::say;
use crate::programs::program;

/// The job's name.
const JOB: &str = "demo";
/// The version boards are to have.
const VERSION: &str = "0.2.0";

/// Runs the demo until it is over or interrupted. Everything it started has ended when this returns.
pub async fn run(wanted: Demo) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        // First, so that it may end well at a Ctrl-C it has waited for.
        biased;
        done = play(wanted) => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; everything that was started has ended"),
        _ = terminate.recv() => bail!("told to end; everything that was started has ended"),
    }
}

async fn play(wanted: Demo) -> Result<()> {
    ensure!(wanted.devices >= 4, "the demo needs at least 4 devices, three of which are faulty");
    let began = Instant::now();
    let step = |what: &str| {
        // A reader that has gone away is told nothing.
        let _ = say(&format!("{:5.1} s  {what}\n", began.elapsed().as_secs_f64()));
    };
    let batch = wanted.devices.div_ceil(4);
    let cli = program(wanted.cli, "kubectl-flashjob")?;
    let options = SiteOptions {
        operator: program(wanted.operator, "flashjob-operator")?,
        flasher: program(wanted.flasher, "flashjob-flasher")?,
        boards: wanted.devices,
        devices: vec!["esp32s2".into(), "esp32c3".into()],
        speed: wanted.speed,
        addresses: batch + 2,
    };
    let site = Site::with_boards(options, &step).await?;
    step("operator");
    let _operator = site.operator()?;

    let last = wanted.devices - 1;
    site.field.boards[1].inject(Fault::Answers500, Times::First(1));
    site.field.boards[(last / 2).max(2)].inject(Fault::RejectsImage, Times::Always);
    let away = site.instance_of(&site.field.boards[last]).await?;
    let off = Duration::from_secs(200).div_f64(wanted.speed);
    site.field.boards[last].switch_off(off).await;
    site.lost(&away).await?;
    step(&format!(
        "{} boards run {OLD_VERSION}: one refuses its first attempt, one rejects the image, one is off for {:.0} s",
        wanted.devices,
        off.as_secs_f64()
    ));
    // A board that is off is found by no selector, so the job names it.
    let spec = json!({
        "uuid": [site.device_name(&site.field.boards[last])],
        "rollout": { "batchSize": batch, "maxFailures": 2 },
        "retry": { "limit": 1, "backoffSeconds": 2 },
        "timeouts": { "deviceSeconds": 120 },
    });
    site.flash(JOB, VERSION, spec).await?;
    step(&format!("FlashJob {JOB}: version {VERSION} for all, in batches of {batch}"));

    watch(&site, &cli).await?;
    let status = site.status_now(JOB).await?;
    let account = Account::take(&site, &status, VERSION);
    say(&report::table(&account))?;
    let disagreements = account.disagreements();
    say(&report::sentence(&account, VERSION, began.elapsed()))?;
    if wanted.keep {
        keep(&site, &cli).await?;
    }
    ensure!(disagreements.is_empty(), "the boards disagree: {}", disagreements.join("; "));
    Ok(())
}

/// Shows the rollout until its end, as a user would look at it.
async fn watch(site: &Site<Field>, cli: &Path) -> Result<()> {
    let mut child = Command::new(cli)
        .args(["rollout", "status", JOB, "--wait", "--namespace", NAMESPACE, "--kubeconfig"])
        .arg(&site.kubeconfig)
        // What it says to people is what the demo shows.
        .stderr(std::io::stdout())
        // A Ctrl-C is for the demo, which then ends everything.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {}", cli.display()))?;
    let code = child.wait().await?.code();
    // 3: it has ended, and a board has failed, as one of them must.
    ensure!(matches!(code, Some(0 | 3)), "rollout status ended with {code:?}");
    Ok(())
}

/// Stays up until it is interrupted.
async fn keep(site: &Site<Field>, cli: &Path) -> Result<()> {
    say(&format!(
        "\nEverything stays up until Ctrl-C. In another terminal:\n\n  export KUBECONFIG={}\n  kubectl get fj {JOB}\n  \
         kubectl describe fj {JOB}\n  {cli} devices\n  {cli} explain {JOB}\n",
        site.kubeconfig.display(),
        cli = cli.display(),
    ))?;
    Ok(tokio::signal::ctrl_c().await?)
}
