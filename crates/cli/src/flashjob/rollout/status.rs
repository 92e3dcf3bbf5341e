//! How far a rollout is: once, or until its end.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, bail};
use flashjob_api::flashjob::{FlashJob, Phase};
use flashjob_plan::flashjob::facts::Job as JobFacts;
use flashjob_plan::flashjob::preview;
use futures::StreamExt;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};

use super::picture::{Batches, ProgressLog, picture};
use crate::clock;
use crate::connect::{Connected, message};
use crate::exit::Exit;
use crate::flashjob::logs;
use crate::flashjob::plan;
use crate::flashjob::read::{self, JobObject};
use crate::picture::{ALL_LINES, Canvas, until_enough};
use crate::shell::Shell;

/// How often a picture is drawn anew although nothing has changed.
const FRAME: Duration = Duration::from_secs(1);

pub async fn once(to: &Connected, name: &str, shell: &Shell) -> Result<Exit> {
    let job = read::job(&to.client, &to.namespace, name).await?;
    let batches = batches(to, &job).await;
    let lines = picture(name, &job.status, &batches, &HashMap::new(), ALL_LINES);
    shell.out(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Done)
}

/// Shows it until its end, or until the user or the time says that is enough. The rollout does not depend on it.
pub async fn follow(
    to: &Connected,
    name: &str,
    timeout: Option<Duration>,
    shell: &Shell,
) -> Result<Exit> {
    let goes_on = format!(
        "The rollout goes on; see: kubectl flashjob rollout status {name} -n {} --wait",
        to.namespace
    );
    until_enough(to_the_end(to, name, shell), timeout, &goes_on, shell).await
}

async fn to_the_end(to: &Connected, name: &str, shell: &Shell) -> Result<Exit> {
    let mut job = read::job(&to.client, &to.namespace, name).await?;
    let mut screen = Screen::new(to, name, shell);
    let jobs: Api<FlashJob> = Api::namespaced(to.client.clone(), &to.namespace);
    let events = watcher::watch_object(jobs, name);
    let mut events = std::pin::pin!(events.default_backoff());
    let mut frames = tokio::time::interval(FRAME);
    loop {
        screen.show(&job).await;
        if let Some(end) = ended(&job) {
            screen.last(&job);
            return Ok(end);
        }
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Some(changed))) => {
                    job = changed.into();
                    screen.troubled = false;
                }
                Some(Ok(None)) => bail!("FlashJob {name} was deleted"),
                Some(Err(error)) => screen.trouble(&error),
                None => bail!("the cluster has stopped telling about FlashJob {name}"),
            },
            _ = frames.tick(), if shell.is_live() => {}
        }
    }
}

/// What came of it, if it has ended for the spec it has now. A spec that makes no sense ends nothing, and nothing goes on.
fn ended(job: &JobObject) -> Option<Exit> {
    if !job.is_current() {
        return None;
    }
    match job.status.phase {
        Some(Phase::Completed) => Some(Exit::Done),
        Some(Phase::Failed) => Some(Exit::NotAllDone),
        _ => None,
    }
}

/// Which device is in which batch, from the ledger; nothing where that may not be read.
async fn batches(to: &Connected, job: &JobObject) -> Batches {
    let ledger = read::ledger(&to.client, job).await.ok().flatten();
    let facts = JobFacts::read(&job.metadata, &job.spec, &plan::settings());
    let (Some(ledger), Ok(spec)) = (ledger, facts.spec) else { return Batches::default() };
    let places = preview::batches(&spec, &ledger, clock::now());
    Batches::new(ledger.records.into_iter().map(|record| record.device).zip(places))
}

/// What is on the screen.
struct Screen<'a> {
    to: &'a Connected,
    name: &'a str,
    shell: &'a Shell,
    canvas: Canvas,
    log: ProgressLog,
    batches: Batches,
    /// The generation and the size that the batches are for.
    known: Option<(Option<i64>, i32)>,
    troubled: bool,
}

impl<'a> Screen<'a> {
    fn new(to: &'a Connected, name: &'a str, shell: &'a Shell) -> Screen<'a> {
        let (log, batches) = (ProgressLog::default(), Batches::default());
        let canvas = Canvas::default();
        Screen { to, name, shell, canvas, log, batches, known: None, troubled: false }
    }

    async fn show(&mut self, job: &JobObject) {
        if !self.shell.is_live() {
            return self.log.news(&job.status).iter().for_each(|line| self.shell.say(line));
        }
        let now = (job.status.observed_generation, job.status.counts.map_or(0, |c| c.total));
        if job.status.counts.is_some() && self.known != Some(now) {
            self.batches = batches(self.to, job).await;
            self.known = Some(now);
        }
        let (_, height) = self.shell.size();
        let says = logs::last_lines(&self.to.client, job, height / 2).await;
        let lines = picture(self.name, &job.status, &self.batches, &says, height);
        self.canvas.draw(&lines, self.shell);
    }

    /// The end in text, where a picture was: what failed, whole and not cut at the edge.
    fn last(&self, job: &JobObject) {
        if self.shell.is_live() {
            for failure in &job.status.failures {
                let line = format!("{}: {}: {}", failure.uuid, failure.reason, failure.message);
                self.shell.say(&crate::shell::clean(&line));
            }
        }
        if !job.status.failures.is_empty() {
            let namespace = &self.to.namespace;
            let name = self.name;
            self.shell.say(&format!("What to do: kubectl flashjob explain {name} -n {namespace}"));
        }
    }

    fn trouble(&mut self, error: &watcher::Error) {
        if !self.troubled {
            let message = match error {
                watcher::Error::InitialListFailed(error)
                | watcher::Error::WatchStartFailed(error)
                | watcher::Error::WatchFailed(error) => message(error),
                other => other.to_string(),
            };
            self.shell.note(&format!("the cluster does not answer, tried again: {message}"));
            self.troubled = true;
            self.canvas.leave();
        }
    }
}
