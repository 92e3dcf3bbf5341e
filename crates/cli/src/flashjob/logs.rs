//! `kubectl flashjob logs`: what the flash Pods of a job say.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::DeviceState;
use flashjob_api::flashjob::flash_pod::CONTAINER;
use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::names;
use futures::stream::SelectAll;
use futures::{AsyncBufReadExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client, ResourceExt};

use crate::args::Connection;
use crate::connect::Connected;
use crate::exit::Exit;
use crate::flashjob::SYSTEM;
use crate::flashjob::args::LogsArgs;
use crate::flashjob::read::{self, JobObject};
use crate::shell::{Shell, clean};

/// How often `-f` looks for new Pods.
const EVERY: Duration = Duration::from_secs(1);
/// As many Pods as a job may have at once.
const MOST: u32 = 500;

struct LogLine {
    device: String,
    line: String,
}

type Streams = SelectAll<std::pin::Pin<Box<dyn futures::Stream<Item = LogLine>>>>;

pub async fn run(to: &Connection, wanted: &LogsArgs, shell: &Shell) -> Result<Exit> {
    tokio::select! {
        end = show(to, wanted, shell) => end,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn show(to: &Connection, wanted: &LogsArgs, shell: &Shell) -> Result<Exit> {
    let to = to.open().await?;
    let name = &wanted.job.name;
    let mut job = read::job(&to.client, &to.namespace, name).await?;
    let mut heard: HashSet<String> = HashSet::new();
    let mut streams = Streams::new();
    let mut polls = 0;
    let mut every = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            Some(said) = streams.next() => {
                shell.out(&format!("[{}] {}\n", clean(&said.device), clean(&said.line)))?;
                continue;
            }
            _ = every.tick(), if wanted.follow || polls == 0 => {}
            else => return Ok(Exit::Done),
        }
        if polls > 0 {
            job = read::job(&to.client, &to.namespace, name).await?;
        }
        for pod in pods(&to, &job).await? {
            let started = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
            let started = started.into_iter().flatten().any(|c| {
                let state = c.state.as_ref();
                c.name == CONTAINER
                    && state.is_some_and(|s| s.running.is_some() || s.terminated.is_some())
            });
            let device = device_of(&pod, &job);
            let asked =
                wanted.device.is_empty() || wanted.device.iter().any(|d| names_it(d, &device));
            if started && asked && heard.insert(pod.name_any()) {
                streams.push(stream(&to, &pod, device, wanted.follow));
            }
        }
        polls += 1;
        if heard.is_empty() && !wanted.follow {
            shell.say(&format!(
                "No flash Pod of {name} is at work. What was said last: kubectl flashjob explain {name} -n {}",
                to.namespace
            ));
            return Ok(Exit::Done);
        }
        let over = job.status.completion_time.is_some() && job.is_current();
        if wanted.follow && over && streams.is_empty() {
            return Ok(Exit::Done);
        }
    }
}

fn stream(
    to: &Connected,
    pod: &Pod,
    device: String,
    follow: bool,
) -> std::pin::Pin<Box<dyn futures::Stream<Item = LogLine>>> {
    let pods: Api<Pod> = Api::namespaced(to.client.clone(), &to.namespace);
    let name = pod.name_any();
    let params =
        LogParams { container: Some(CONTAINER.to_owned()), follow, ..LogParams::default() };
    let lines = async move {
        match pods.log_stream(&name, &params).await {
            Ok(text) => text.lines().filter_map(async |line| line.ok()).boxed_local(),
            Err(error) => {
                let line =
                    format!("its output cannot be read: {}", crate::connect::message(&error));
                futures::stream::once(async move { line }).boxed_local()
            }
        }
    };
    let said = move |line| LogLine { device: device.clone(), line };
    Box::pin(futures::stream::once(lines).flatten().map(said))
}

/// What the flash Pods of the devices in flight said last, by device; nothing where that cannot be had.
pub async fn last_lines(client: &Client, job: &JobObject, most: usize) -> HashMap<String, String> {
    let namespace = job.metadata.namespace.clone().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let flashing =
        job.status.in_flight.iter().filter(|device| device.state == DeviceState::Flashing);
    if flashing.clone().next().is_none() {
        return HashMap::new();
    }
    let params = LogParams {
        container: Some(CONTAINER.to_owned()),
        tail_lines: Some(1),
        ..LogParams::default()
    };
    let asked = flashing.take(most).map(|device| {
        let (pods, params) = (&pods, &params);
        async move {
            let target = target_of(job, &device.uuid);
            let attempt = u32::try_from(device.attempt).unwrap_or_default();
            let name = names::pod(job.name(), target, attempt);
            let said = pods.logs(&name, params).await.ok()?;
            let last = said.lines().last()?.trim().to_owned();
            Some((device.uuid.clone(), last)).filter(|(_, last)| !last.is_empty())
        }
    });
    futures::future::join_all(asked).await.into_iter().flatten().collect()
}

fn target_of(job: &JobObject, device: &str) -> Target {
    let text = |field: &str| job.spec[field].as_str().unwrap_or_default().trim().to_owned();
    names::target(&job.uid().into(), device, &names::revision(&text("firmware"), &text("version")))
}

async fn pods(to: &Connected, job: &JobObject) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(to.client.clone(), &to.namespace);
    let selector = format!("{}={}", names::JOB_UID, job.uid());
    let list = pods.list(&ListParams::default().labels(&selector).limit(MOST)).await;
    list.map(|list| list.items).map_err(|error| SYSTEM.failed("cannot list the job's Pods", &error))
}

/// The device a Pod is for, as the job names it. The status shows a hundred of them, the spec those it names.
fn device_of(pod: &Pod, job: &JobObject) -> String {
    let target = pod.labels().get(names::TARGET).and_then(|target| Target::read(target));
    let in_flight = job.status.in_flight.iter().map(|device| device.uuid.as_str());
    let named = job.spec["uuid"].as_array().into_iter().flatten().filter_map(|uuid| uuid.as_str());
    let written = in_flight.chain(named).find(|device| Some(target_of(job, device)) == target);
    written.map_or_else(|| pod.name_any(), str::to_owned)
}

/// Whether a user means this device: as written in the job, or by the name of its Instance.
fn names_it(asked: &str, device: &str) -> bool {
    asked == device || device.rsplit('/').next() == Some(asked)
}
