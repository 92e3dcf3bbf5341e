//! A hostile world: silent boards, boards that come and go, a registry that is down, five addresses, a quota, and an
//! operator that is killed again and again; and the same fleet in a friendly world, for comparison.
//!
//! Three jobs of two namespaces flash it, and two of them share boards. Every choice comes from the seed. What happens
//! between the choices is real and takes its own time, so a seed gives the same world and not the same history.
//! The operators run without leader election: the successor of one that was killed would wait 15 s for the lease,
//! and there is never more than one. (`cluster` tests the lease.)

mod judge;
mod report;
mod trouble;
mod world;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flashjob_sim::clock::now;
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::site::SiteOptions;
use flashjob_sim::flashjob::{Site, jobs};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::sleep;

use self::judge::Judge;
pub use self::report::Report;
use self::trouble::Trouble;
use self::world::{Job, World};

/// The version boards are to have.
pub const NEW: &str = "0.2.0";
/// How often a failed device is tried again.
pub const RETRIES: usize = 2;
/// The namespace of the second and the third job.
pub const ELSEWHERE: &str = "south";
/// As a kubelet restarts a container: at once, and there is never another.
const ALONE: [&str; 1] = ["--leader-elect=false"];
/// How often the jobs are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// As many as the pool of a small site has.
const ADDRESSES: usize = 5;

/// Runs it: an error names everything that was not as it has to be.
pub async fn run(seed: u64, boards: usize, tell: &dyn Fn(&str)) -> Result<Report> {
    let world = World::new(seed, boards);
    tell(&format!("seed {seed}: {}", world.summary()));
    let clean = if world.full() {
        Some(history(&world.friendly(), tell).await.context("the friendly world")?)
    } else {
        // A short run says nothing about time.

        None
    };
    let hostile = history(&world, tell).await;
    let hostile = hostile.with_context(|| format!("the hostile world of seed {seed}"))?;
    Ok(Report { seed, world: world.summary(), clean, hostile })
}

/// What one run came to.
pub struct History {
    /// From the creation of the jobs to the last healthy board that runs the new version, by the boards' word.
    pub seconds: f64,
    /// The same from the moment the registry was back.
    pub after_registry: Option<f64>,
    /// Until the jobs were finished.
    pub all_seconds: f64,
    /// What else there is to say.
    pub words: Vec<String>,
}

async fn history(world: &World, tell: &dyn Fn(&str)) -> Result<History> {
    let mut options = SiteOptions::new(world.boards.len(), &["esp32s2"]).await?;
    (options.speed, options.addresses) = (world.speed(), ADDRESSES);
    let site = Site::with_boards(options, tell).await?;
    site.add_namespace(ELSEWHERE).await?;
    let mut trouble = Trouble::new(world, &site)?;
    let flapping = world.make_faulty(&site);

    let began = now();
    let firmware = site.field.push_firmware(NEW).await?;
    for job in &world.jobs {
        let spec = spec(&site, job, &firmware);
        jobs::create(&site.jobs_in(job.namespace), job.name, spec).await?;
    }
    let mut judge = Judge::new(world);
    let end = Instant::now() + world.patience();
    let mut told = Instant::now();
    loop {
        let flashed = world.healthy().filter(|n| site.field.boards[*n].version() == NEW).count();
        trouble.step(&site, flashed, tell).await?;
        trouble.operator_runs()?;
        if judge.look(&site, flashed).await? {
            break;
        }
        if Instant::now() >= end {
            bail!(
                "waited {:?} in vain for the jobs to be finished: {}",
                world.patience(),
                judge.words()
            );
        }
        if told.elapsed() >= Duration::from_secs(15) {
            told = Instant::now();
            tell(&judge.words());
        }
        sleep(LOOK).await;
    }
    let all_seconds = now().duration_since(began).as_secs_f64();
    drop(flapping);
    let mut words = judge.verdict(&site, &trouble).await?;
    words.extend(trouble.words());
    let done = judge::last_healthy(&site, world).context("no healthy board")?;
    let since = |from: Timestamp| done.duration_since(from).as_secs_f64();
    words.push(report::occupation(&site, world, began, done));
    Ok(History {
        seconds: since(began),
        after_registry: trouble.registry_back.map(since),
        all_seconds,
        words,
    })
}

fn spec(site: &Site<Field>, job: &Job, firmware: &str) -> serde_json::Value {
    let devices: Vec<String> =
        job.boards.iter().map(|n| site.device_name(&site.field.boards[*n])).collect();
    json!({
        "uuid": devices,
        "firmware": firmware,
        "version": NEW,
        "versionPolicy": if job.shares { "IfDifferent" } else { "Always" },
        "retry": { "limit": RETRIES, "backoffSeconds": 2 },
        "timeouts": { "deviceSeconds": 120 },
    })
}
