//! Two tenants on one cluster: a victim with a rollout, and an attacker with the rights of `edit` in its own namespace and
//! no others.
//!
//! Each seed plays the victim's rollout twice, with the operator killed at the same places: alone, and beside the attack.
//! Then the operator is killed once more, with the forgeries still there, and the victim's job has to stand as it was. The
//! boards and the victim's statuses are the judge; see `judge` for what they can say.

mod attacker;
mod campaigns;
mod forgery;
pub mod judge;
mod operators;
mod plot;
pub mod report;
mod world;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flashjob_api::FlashJob;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use self::attacker::Attacker;
use self::campaigns::Attack;
use self::forgery::Target;
use self::judge::{Kind, Problem};
use self::operators::Operators;
use self::plot::{Campaign, Plot};
use self::world::World;
use crate::arena::{Arena, PATIENCE};
use crate::record::is_finished;
use crate::schedule::Played;

const BEFORE: &str = "0.2.0";
const WANTED: &str = "0.3.0";
const ROLLOUT: &str = "rollout";
/// How often the operator is killed once the victim's rollout is done, and how long the attack goes on before that. A job
/// that was edited shows that the next operator has read its ledger.
const RESTARTS_AFTERWARDS: i64 = 2;
const AFTERWARDS: Duration = Duration::from_millis(500);

/// Plays one seed.
pub async fn play(arena: &Arena, seed: u64) -> Result<Played> {
    let plot = Plot::new(seed);
    let world = World::new(arena, &plot).await?;
    let attacker = Attacker::new(&arena.cluster, &world.attacker).await?;
    attacker.is_held_back(&world.victim).await?;
    let _collector = match plot.collector {
        true => arena.cluster.controller_manager(&["garbagecollector"]).await?,
        false => None,
    };
    let operators = Operators::start(arena, plot.flags())?;
    let run = Run { plot: &plot, world: &world, attacker: &attacker, operators: &operators };
    let story = async {
        tokio::select! {
            told = run.story() => told,
            // That it ends again and again is held against it by itself.
            ended = operators.mind() => ended.map(|()| Told::default()),
        }
    };
    let (told, more) = match story.await {
        Ok(told) => (told, None),
        Err(error) => (Told::default(), Some(Problem::new(Kind::World, format!("{error:#}")))),
    };
    let sessions = world.kubelet.starts();
    let (boards, allowed) = world.bench.boards(&sessions);
    let mut problems = world.problems();
    problems.extend(operators.problems());
    problems.extend(boards);
    problems.extend(told.problems);
    problems.extend(more);
    if !problems.is_empty() {
        bail!(failure(&plot, &run, &problems));
    }
    Ok(Played {
        deaths: operators.restarts(),
        faults: attacker.tried.get(),
        statuses: world.record.said().len(),
        sessions: sessions.len(),
        alone: told.alone,
        attacked: told.attacked,
        allowed,
        peak: operators.peak.get(),
        ..Played::default()
    })
}

/// What a run came to.
#[derive(Default)]
struct Told {
    alone: Duration,
    attacked: Duration,
    problems: Vec<Problem>,
}

struct Run<'a> {
    plot: &'a Plot,
    world: &'a World,
    attacker: &'a Attacker,
    operators: &'a Operators<'a>,
}

impl Run<'_> {
    async fn story(&self) -> Result<Told> {
        let (sender, target) = watch::channel(None);
        let alone = self.rollout("alone", BEFORE, None, PATIENCE).await?;
        let alone = alone.context("the rollout does not end when nobody disturbs it")?;
        ensure!(self.world.problems().is_empty(), "alone: {:?}", self.world.problems());
        self.world.jobs().delete("alone", &DeleteParams::default()).await?;
        let gone = self.world.record.when(|jobs| jobs.is_empty());
        timeout(PATIENCE, gone).await.context("the job does not go")?;
        let before = self.operators.usage()?.mi_b;

        if self.plot.has(Campaign::RefusedLedgers) {
            self.world.allow_config_maps(0).await?;
        }
        let (world, plot, attacker) = (self.world, self.plot, self.attacker);
        let attack = Attack { world, plot, attacker, target };
        let mut told = tokio::select! {
            told = self.beside_the_attack(alone, &sender) => told?,
            ended = attack.run() => return Err(ended.err().context("the attack has ended")?),
        };
        if self.world.clean_up().await.is_err() {
            told.problems.push(Problem::new(Kind::Stuck, "jobs that were deleted do not go"));
        }
        let after = self.operators.usage()?.mi_b;
        told.problems.extend(judge::memory(before, after, self.operators.peak.get()));
        Ok(told)
    }

    async fn beside_the_attack(
        &self,
        alone: Duration,
        target: &watch::Sender<Option<Target>>,
    ) -> Result<Told> {
        sleep(self.plot.prelude).await;
        let mut problems = Vec::new();
        let limit = judge::limit(alone);
        let attacked = self.rollout(ROLLOUT, WANTED, Some(target), 2 * limit).await?;
        let Some(attacked) = attacked else {
            let words = self.last_words();
            problems
                .push(Problem::new(Kind::Stuck, format!("no end after {:?}: {words}", 2 * limit)));
            return Ok(Told { alone, attacked: 2 * limit, problems });
        };
        // With `*` the attacker may flash the victim's boards, and then they are not free.
        let sessions = self.world.kubelet.starts();
        if self.plot.own || self.world.bench.taken(&sessions).is_empty() {
            problems.extend(judge::time(alone, attacked));
        }
        for delay in 1..=RESTARTS_AFTERWARDS {
            sleep(AFTERWARDS).await;
            self.operators.restart()?;
            let rollout = json!({ "batchSize": self.plot.batch, "delaySeconds": delay });
            let change = Patch::Merge(json!({ "spec": { "rollout": rollout } }));
            self.world.jobs().patch(ROLLOUT, &PatchParams::default(), &change).await?;
            if timeout(2 * limit, self.over(ROLLOUT, 1 + delay)).await.is_err() {
                let words = self.last_words();
                problems.push(Problem::new(Kind::Stuck, format!("after a restart: {words}")));
            }
        }
        problems.extend(self.world.bench.end(WANTED, &self.world.kubelet.starts()));
        Ok(Told { alone, attacked, problems })
    }

    /// Has the victim flash all of its boards, and kills the operator on the way; how long it took, if it came to an end.
    async fn rollout(
        &self,
        name: &str,
        version: &str,
        target: Option<&watch::Sender<Option<Target>>>,
        patience: Duration,
    ) -> Result<Option<Duration>> {
        let began = Instant::now();
        let job = self.world.flash(name, version, self.plot).await?;
        let inform = async {
            if let Some(target) = target {
                target.send_replace(Some(self.target(&job).await?));
            }
            anyhow::Ok(())
        };
        let follow = async {
            for count in &self.plot.restarts {
                let begun =
                    |all: &[flashjob_sim::Started]| self.world.begun(all, version) >= *count;
                tokio::select! {
                    _ = self.world.kubelet.starts_when(begun) => self.operators.restart()?,
                    () = self.over(name, 1) => {}
                }
            }
            self.over(name, 1).await;
            anyhow::Ok(began.elapsed())
        };
        let both = async { tokio::try_join!(inform, follow) };
        match timeout(patience, both).await {
            Ok(both) => Ok(Some(both?.1)),
            Err(_) => Ok(None),
        }
    }

    /// Until a job has come to its end, or has given up.
    async fn over(&self, name: &str, generation: i64) {
        let over = |job: &FlashJob| {
            let status = job.status.as_ref();
            let lost =
                status.is_some_and(|s| s.conditions.iter().any(|c| c.reason == "LedgerLost"));
            let seen = job.metadata.generation.is_some_and(|g| g >= generation);
            job.name_any() == name && (lost || (seen && is_finished(job)))
        };
        self.world.record.when(|jobs| jobs.values().any(over)).await;
    }

    async fn target(&self, job: &FlashJob) -> Result<Target> {
        let uid = job.uid().unwrap_or_default();
        Ok(Target {
            name: job.name_any(),
            firmware: job.spec.firmware.clone(),
            version: job.spec.version.clone(),
            devices: self.world.devices.clone(),
            ledger: self.world.ledger(&uid).await?,
            uid,
        })
    }

    /// What the victim's jobs say of themselves.
    fn last_words(&self) -> String {
        let jobs = self.world.record.jobs();
        let status = jobs.values().filter_map(|job| job.status.as_ref());
        let words = status.map(|status| serde_json::to_string(status).unwrap_or_default());
        words.collect::<Vec<_>>().join("\n")
    }
}

/// What was wrong: in its first line the kinds of it, then everything there is to look into.
fn failure(plot: &Plot, run: &Run<'_>, problems: &[Problem]) -> String {
    let mut words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    words.dedup();
    words.truncate(50);
    let sessions = run.world.kubelet.starts();
    let sessions: Vec<String> = sessions.iter().map(crate::judge::line).collect();
    let said = run.world.record.said();
    let said: Vec<String> =
        said.iter().map(|said| format!("{} {}", said.at, said.message)).collect();
    format!(
        "{} ({})\n{}\n--- the boards\n{}\n--- the victim's jobs\n{}\n{}\n--- the operators\n{}",
        judge::kinds(problems),
        plot.summary(),
        words.join("\n"),
        sessions.join("\n"),
        said.join("\n"),
        run.last_words(),
        run.operators.logs(),
    )
}
