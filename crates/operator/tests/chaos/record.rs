//! Keeps an account of every status a job ever has, and holds each against what the boards know at that moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use flashjob_api::flashjob::FlashJob;
use flashjob_sim::clock::now;
use flashjob_sim::flashjob::{Flash, flashes};
use flashjob_sim::lock;
use flashjob_sim::node::{Kubelet, Started};
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::judge::ill_said;

/// How late a status may be seen on a busy machine.
const LATE: SignedDuration = SignedDuration::from_secs(30);

/// The last that is known of each job, by namespace and name.
pub type Jobs = BTreeMap<(String, String), FlashJob>;

/// What a job said, and when that was seen.
#[derive(Clone, Debug)]
pub struct Said {
    pub at: Timestamp,
    pub message: String,
}

pub struct Record {
    jobs: watch::Receiver<Jobs>,
    said: Arc<Mutex<Vec<Said>>>,
    problems: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Record {
    /// `judge` says what is wrong with a job, given how it was before and what the boards know by then.
    pub fn start(
        watched: Api<FlashJob>,
        kubelet: Arc<Kubelet>,
        judge: impl Fn(&FlashJob, Option<&FlashJob>, &[Started]) -> Vec<String> + Send + 'static,
    ) -> Self {
        let (sender, jobs) = watch::channel(Jobs::new());
        let problems: Arc<Mutex<Vec<String>>> = Arc::default();
        let said: Arc<Mutex<Vec<Said>>> = Arc::default();
        let (found, heard) = (problems.clone(), said.clone());
        let task = tokio::spawn(async move {
            let events = watcher(watched, watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                let gone = matches!(event, watcher::Event::Delete(_));
                let (watcher::Event::Apply(job)
                | watcher::Event::InitApply(job)
                | watcher::Event::Delete(job)) = event
                else {
                    continue;
                };
                let key = (job.namespace().unwrap_or_default(), job.name_any());
                lock(&heard).push(Said { at: now(), message: line(&job) });
                let before = sender.borrow().get(&key).cloned();
                let more = judge(&job, before.as_ref(), &flashes(&kubelet));
                lock(&found).extend(more);
                sender.send_modify(|jobs| {
                    if gone { drop(jobs.remove(&key)) } else { drop(jobs.insert(key, job)) }
                });
            }
        });
        Self { jobs, said, problems, task }
    }

    /// Waits until the jobs are as wanted. The caller sets the limit.
    pub async fn when(&self, wanted: impl FnMut(&Jobs) -> bool) -> Jobs {
        let mut jobs = self.jobs.clone();
        let reached = jobs.wait_for(wanted).await.map(|jobs| jobs.clone());
        match reached {
            Ok(jobs) => jobs,
            Err(_) => std::future::pending().await,
        }
    }

    pub fn jobs(&self) -> Jobs {
        self.jobs.borrow().clone()
    }

    pub fn problems(&self) -> Vec<String> {
        lock(&self.problems).clone()
    }

    /// All that was said; each status was held against the boards.
    pub fn said(&self) -> Vec<Said> {
        lock(&self.said).clone()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a job says, for people who look into what went wrong.
fn line(job: &FlashJob) -> String {
    let status = job.status.clone().unwrap_or_default();
    format!(
        "{} {:?} of {:?} {} {:?}: {}",
        job.name_any(),
        status.observed_generation.unwrap_or_default(),
        job.metadata.generation.unwrap_or_default(),
        job.spec.version,
        status.phase,
        status.message.unwrap_or_default(),
    )
}

/// Whether a job has come to its end, for the spec it has now.
pub fn is_finished(job: &FlashJob) -> bool {
    let status = job.status.as_ref();
    status.is_some_and(|status| {
        status.completion_time.is_some() && status.observed_generation == job.metadata.generation
    })
}

/// What is wrong with a job whose status is to be true at every moment. `endpoints`: which board a device of a job is.
pub fn problems_of(
    job: &FlashJob,
    before: Option<&FlashJob>,
    sessions: &[Started],
    endpoints: &HashMap<String, String>,
) -> Vec<String> {
    let Some(status) = &job.status else { return Vec::new() };
    let mut problems = ill_said(status);
    // A status is seen as it is written: what it says of the future has not passed.
    let passed = status.in_flight.iter().filter_map(|device| device.until.as_ref());
    for until in passed.filter(|until| until.0 + LATE < now()) {
        problems.push(format!("the next look at a device was due at {}", until.0));
    }
    // What is said of an earlier spec is not for this one, and of one that makes no sense nothing is done.
    let invalid = status.conditions.iter().any(|c| c.reason == "InvalidSpec");
    if invalid || status.observed_generation != job.metadata.generation {
        return problems;
    }
    let done = |uuid: &str| {
        sessions.iter().any(|session| {
            Some(session.endpoint()) == endpoints.get(uuid).map(String::as_str)
                && session.exit_code == Some(0)
                && Some(&session.namespace) == job.metadata.namespace.as_ref()
                && session.env.get("VERSION") == Some(&job.spec.version)
        })
    };
    let skipped = status.counts.as_ref().map_or(0, |c| c.skipped);
    let unknown: Vec<&String> = status.completed_uuids.iter().filter(|uuid| !done(uuid)).collect();
    // What was skipped is done without a session of this job.
    if i32::try_from(unknown.len()).is_ok_and(|count| count > skipped) {
        problems
            .push(format!("{unknown:?} are said to be done, and the boards know nothing of it"));
    }
    let earlier = before.filter(|b| b.metadata.uid == job.metadata.uid && b.spec == job.spec);
    let earlier = earlier.and_then(|b| b.status.as_ref());
    let earlier = earlier.filter(|b| b.observed_generation == status.observed_generation);
    for uuid in earlier.iter().flat_map(|b| &b.completed_uuids) {
        if !status.completed_uuids.contains(uuid) {
            problems.push(format!("{uuid} was said to be done, and is not any more"));
        }
    }
    let name = job.name_any();
    problems.iter().map(|problem| format!("{name}: {problem}")).collect()
}
