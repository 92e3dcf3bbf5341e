//! Devices and what jobs have to do with them: which job is at a device now, and how the last flash went.
//!
//! The jobs' ledgers know best: they have the Instance that each device was when it was flashed. Where they may not be read,
//! the jobs' status has to do, and what it says of uids that Akri has replaced since is lost.

use std::collections::HashMap;

use anyhow::Result;
use flashjob_api::flashjob::DeviceState;
use flashjob_plan::flashjob::instances::{Found, Instance, Instances};
use flashjob_plan::flashjob::ledger::{Ledger, Outcome};
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

use crate::flashjob::read::{self, JobObject};
use crate::read::Scope;

/// Everything there is to know.
pub struct Fleet {
    pub instances: Vec<Instance>,
    pub jobs: Vec<JobObject>,
    pub ledgers: Option<HashMap<String, Ledger>>,
    /// What could not be seen.
    pub notes: Vec<String>,
}

/// A job that is at a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtWork {
    pub job: String,
    pub state: DeviceState,
}

/// How a flash of a device ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastResult {
    pub job: String,
    pub version: String,
    pub result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What jobs have to do with one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Involved {
    pub at_work: Option<AtWork>,
    pub last: Option<LastResult>,
}

impl Fleet {
    /// Reads it, all at once.
    pub async fn read(client: &Client, scope: Scope<'_>, selector: &str) -> Result<Fleet> {
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        let (instances, jobs, ledgers) = futures::try_join!(
            read::all_instances(client, scope, selector, &mut a),
            read::all_jobs(client, scope, &mut b),
            read::ledgers(client, scope, &mut c),
        )?;
        a.extend(b);
        a.extend(c);
        Ok(Fleet { instances, jobs, ledgers, notes: a })
    }

    /// Indexed the ways a job may name devices.
    pub fn index(&self) -> Instances {
        let mut index = Instances::default();
        for instance in &self.instances {
            index.insert(instance.clone());
        }
        index
    }

    /// What jobs have to do with each device, by `namespace/name`.
    pub fn involved(&self) -> HashMap<String, Involved> {
        let index = self.index();
        let mut all: HashMap<String, Involved> = HashMap::new();
        for job in &self.jobs {
            let ledger = self.ledgers.as_ref().and_then(|ledgers| ledgers.get(job.uid()));
            for device in &job.status.in_flight {
                let instance = device.instance.clone();
                let path = instance.or_else(|| path_of(&index, job, &device.uuid));
                if let Some(path) = path {
                    let entry = all.entry(path).or_default();
                    // Who only waits for the device is not who is at it.
                    if entry.at_work.is_none() || device.state != DeviceState::Blocked {
                        let at_work = AtWork { job: job.path(), state: device.state.clone() };
                        entry.at_work = Some(at_work);
                    }
                }
            }
            match ledger {
                Some(ledger) => remembered(&mut all, job, ledger),
                None => said(&mut all, &index, job),
            }
        }
        all
    }
}

/// What a job's ledger says.
fn remembered(all: &mut HashMap<String, Involved>, job: &JobObject, ledger: &Ledger) {
    for record in ledger.records.iter().filter(|r| !r.is_duplicate()) {
        let Some(pinned) = &record.pinned else { continue };
        let entry = all.entry(format!("{}/{}", pinned.namespace, pinned.name)).or_default();
        if record.is_open() && entry.at_work.is_none() {
            // The status shows a hundred.
            entry.at_work = Some(AtWork { job: job.path(), state: DeviceState::Flashing });
        }
        let result = match record.outcome() {
            Some(Outcome::Succeeded) => "Succeeded",
            Some(Outcome::Skipped) => "Skipped",
            Some(Outcome::Failed) => "Failed",
            // It is tried again.
            None if record.tries() > 0 => "Failed",
            None => continue,
        };
        let header = &ledger.header;
        let version = if record.revision == header.revision { &header.version } else { "" };
        let last = LastResult {
            job: job.path(),
            version: version.to_owned(),
            result: result.to_owned(),
            reason: record.reason().map(str::to_owned),
            message: record.message().map(str::to_owned),
            at: record.ended().and_then(|ended| ended.at),
        };
        entry.keep_the_later(last);
    }
}

/// What a job's status says.
fn said(all: &mut HashMap<String, Involved>, index: &Instances, job: &JobObject) {
    let version = job.spec["version"].as_str().unwrap_or_default();
    let at = job.status.completion_time.as_ref().map(|time| time.0);
    let last = |result: &str, reason: Option<String>, message: Option<String>| LastResult {
        job: job.path(),
        version: version.to_owned(),
        result: result.to_owned(),
        reason,
        message,
        at,
    };
    for uuid in &job.status.completed_uuids {
        if let Some(path) = path_of(index, job, uuid) {
            all.entry(path).or_default().keep_the_later(last("Succeeded", None, None));
        }
    }
    for failure in &job.status.failures {
        let path = failure.instance.clone().or_else(|| path_of(index, job, &failure.uuid));
        if let Some(path) = path {
            let (reason, message) = (failure.reason.clone(), failure.message.clone());
            let failed = last("Failed", Some(reason), Some(message));
            all.entry(path).or_default().keep_the_later(failed);
        }
    }
}

fn path_of(index: &Instances, job: &JobObject, written: &str) -> Option<String> {
    let own = job.metadata.namespace.as_deref().unwrap_or_default();
    match index.find(written, own, |_| true) {
        Found::One(instance) => Some(format!("{}/{}", instance.namespace, instance.name)),
        _ => None,
    }
}

impl Involved {
    fn keep_the_later(&mut self, result: LastResult) {
        if self.last.as_ref().is_none_or(|before| before.at <= result.at) {
            self.last = Some(result);
        }
    }
}
