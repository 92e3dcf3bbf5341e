//! One play of a seed: the victim's rollout alone, the same beside the attack, and what is left of it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flashjob_api::flashjob::FlashJob;
use flashjob_sim::PATIENCE;
use flashjob_sim::flashjob::flashes;
use flashjob_sim::node::Started;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::attacker::Attacker;
use super::campaigns::Attack;
use super::forgery::Target;
use super::judge::{self, Kind, Problem};
use super::operators::Operators;
use super::plot::{Campaign, Plot};
use super::world::World;
use crate::arena::Arena;
use crate::record::is_finished;
use crate::schedule::Played;

const WARM: &str = "0.1.1";
const BEFORE: &str = "0.2.0";
const WANTED: &str = "0.3.0";
const ROLLOUT: &str = "rollout";
/// How often the operator is killed once the victim's rollout is done, and how long the attack goes on before that. A job
/// that was edited shows that the next operator has read its ledger.
const RESTARTS_AFTERWARDS: i64 = 2;
const AFTERWARDS: Duration = Duration::from_millis(500);

/// What a play came to.
#[derive(Default)]
pub struct Told {
    /// Its times are there when they say something: the boards were the victim's alone.
    pub played: Played,
    pub problems: Vec<Problem>,
    /// It has not come to its end, because the attacker holds boards that he may hold. The status says so.
    pub held: bool,
}

pub struct Run<'a> {
    pub arena: &'a Arena,
    pub plot: &'a Plot,
    pub world: &'a World,
    pub attacker: &'a Attacker,
    pub operators: &'a Operators,
}

impl Run<'_> {
    pub async fn story(&self) -> Result<Told> {
        let (sender, target) = watch::channel(None);
        // What a process takes to start is no part of the time, nor what an API server does the first time only.
        self.operators.ready().await?;
        if !self.arena.warm.replace(true) {
            self.alone("warm", WARM).await?;
        }
        let alone = self.alone("alone", BEFORE).await?;
        let before = self.operators.usage()?.mi_b;

        if self.plot.has(Campaign::RefusedLedgers) {
            // The administrator lets the attacker's namespace have no more of them.
            self.arena.cluster.allow(&self.world.attacker, "configmaps", 0).await?;
        }
        let (world, plot, attacker) = (self.world, self.plot, self.attacker);
        let attack = Attack { world, plot, attacker, health: self.operators.health, target };
        let began = Instant::now();
        let mut told = tokio::select! {
            told = self.beside_the_attack(alone, &sender) => told?,
            ended = attack.run() => return Err(ended.err().context("the attack has ended")?),
        };
        let lasted = began.elapsed();
        if told.held {
            // For as long as he likes; but when he has gone, it goes on.
            self.world.empty(&self.world.attacker).await?;
            if timeout(judge::patience(alone), self.over(ROLLOUT, 1)).await.is_err() {
                let words = format!("the attacker has gone: {}", self.last_words());
                told.problems.push(Problem::new(Kind::Stuck, words));
            }
            told.problems.extend(self.world.bench.end(WANTED, &flashes(&self.world.kubelet)));
        }
        let mut kept = Vec::new();
        loop {
            if self.world.clean_up().await.is_err() {
                let words = "jobs that were deleted do not go";
                told.problems.push(Problem::new(Kind::Stuck, words));
            }
            kept.push(self.operators.usage()?.mi_b);
            let memory = judge::memory(before, &kept, self.operators.peak.get());
            if let Some(memory) = memory.or(Some(None).filter(|_| !told.problems.is_empty())) {
                told.problems.extend(memory);
                return Ok(told);
            }
            tokio::select! {
                () = sleep(lasted) => {}
                ended = attack.run() => return Err(ended.err().context("the attack has ended")?),
            }
        }
    }

    /// How long the rollout takes when nobody disturbs it.
    async fn alone(&self, name: &str, version: &str) -> Result<Duration> {
        let took = self.rollout(name, version, None, PATIENCE).await?;
        let took = took.context("the rollout does not end when nobody disturbs it")?;
        ensure!(self.world.problems().is_empty(), "alone: {:?}", self.world.problems());
        self.world.jobs().delete(name, &DeleteParams::default()).await?;
        let gone = self.world.record.when(|jobs| jobs.is_empty());
        timeout(PATIENCE, gone).await.context("the job does not go")?;
        Ok(took)
    }

    async fn beside_the_attack(
        &self,
        alone: Duration,
        target: &watch::Sender<Option<Target>>,
    ) -> Result<Told> {
        sleep(self.plot.prelude).await;
        let mut problems = Vec::new();
        let limit = judge::patience(alone);
        let attacked = self.rollout(ROLLOUT, WANTED, Some(target), limit).await?;
        let Some(attacked) = attacked else {
            if !self.plot.own && self.is_held() {
                return Ok(Told { held: true, ..Told::default() });
            }
            let words = format!("no end after {limit:?}: {}", self.last_words());
            problems.push(Problem::new(Kind::Stuck, words));
            return Ok(Told { problems, ..Told::default() });
        };
        // With `*` the attacker may flash the victim's boards, and then they are not free.
        let sessions = flashes(&self.world.kubelet);
        let held = self.world.was_held();
        let (late, timed) = judge::lateness(self.plot.own, held, alone, attacked);
        problems.extend(late);
        let timed = timed && (self.plot.own || self.world.bench.taken(&sessions).is_empty());
        for delay in 1..=RESTARTS_AFTERWARDS {
            sleep(AFTERWARDS).await;
            self.operators.restart()?;
            let rollout = json!({ "batchSize": self.plot.batch, "delaySeconds": delay });
            let change = Patch::Merge(json!({ "spec": { "rollout": rollout } }));
            self.world.jobs().patch(ROLLOUT, &PatchParams::default(), &change).await?;
            if timeout(limit, self.over(ROLLOUT, 1 + delay)).await.is_err() {
                let words = self.last_words();
                problems.push(Problem::new(Kind::Stuck, format!("after a restart: {words}")));
            }
        }
        problems.extend(self.world.bench.end(WANTED, &flashes(&self.world.kubelet)));
        let done = self.attacker.tried.get() - self.attacker.refused.get();
        if done == 0 {
            problems.push(Problem::new(Kind::World, "the attacker could do nothing"));
        }
        let mut played = Played::default();
        if timed {
            (played.alone, played.attacked) = (alone, attacked);
        }
        Ok(Told { played, problems, held: false })
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
                let begun = |all: &[Started]| self.world.begun(all, version) >= *count;
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

    /// Whether the rollout says now that a job of the attacker's has a board.
    fn is_held(&self) -> bool {
        let jobs = self.world.record.jobs();
        let mut statuses = jobs.values().filter_map(|job| job.status.as_ref());
        statuses.any(|status| judge::names_holder(status, &self.world.attacker))
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

    /// Everything there is to look into.
    pub fn words(&self, sessions: &[Started]) -> String {
        let sessions: Vec<String> = sessions.iter().map(crate::judge::line).collect();
        let said = self.world.record.said();
        let said: Vec<String> =
            said.iter().map(|said| format!("{} {}", said.at, said.message)).collect();
        format!(
            "--- the boards\n{}\n--- the victim's jobs\n{}\n{}\n--- the operators\n{}",
            sessions.join("\n"),
            said.join("\n"),
            self.last_words(),
            self.operators.logs(),
        )
    }
}
