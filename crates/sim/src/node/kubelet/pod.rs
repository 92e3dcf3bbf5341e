//! One Pod's life on the node.

mod end;

use std::collections::BTreeMap;
use std::future::{Future, pending, ready};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::ResourceExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::api::PodApi;
use super::env::{self, Sources};
use super::process::{Process, Program};
use super::{End, Script, Shared, Started, status, volumes};
use crate::clock::now;

/// How often a missing key is looked for again.
const RECHECK: Duration = Duration::from_millis(100);

/// Whether a Pod is to be there. That it is gone is told by the end of the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Wanted,
    Leaving,
}

/// What ends a Pod before its script does.
enum Interrupt {
    /// The Pod is being deleted.
    Leaving,
    /// `activeDeadlineSeconds` have passed.
    Deadline,
    /// There is no such Pod any more.
    Gone,
}

/// A container that runs.
struct Container {
    started: Timestamp,
    start: Instant,
    /// Its place in the list of starts; none if an earlier kubelet started it.
    index: Option<usize>,
    /// The process it is, if it is one, or why that could not be started.
    process: Option<Result<Process, String>>,
}

/// The task of one Pod.
pub(super) struct Worker {
    shared: Arc<Shared>,
    api: PodApi,
    pod: Pod,
    life: watch::Receiver<Life>,
    /// When the kubelet first had the Pod: its `startTime`.
    since: Timestamp,
    deadline: Option<Instant>,
    container: Option<Container>,
    script: Script,
    /// When a container that was told to end will have ended.
    ends_at: Option<Instant>,
    /// It is being deleted, and that is known.
    leaving: bool,
    /// What will be said of a Pod whose sidecars have outlived its first container, once they end too.
    outlived: Option<PodStatus>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, pod: Pod, life: watch::Receiver<Life>) -> Self {
        Self {
            api: PodApi::new(shared.clone(), &pod),
            shared,
            pod,
            life,
            since: now(),
            deadline: None,
            container: None,
            script: Script::default(),
            ends_at: None,
            leaving: false,
            outlived: None,
        }
    }

    pub(super) async fn run(mut self) {
        let mut outcome = match self.phase() {
            "Succeeded" | "Failed" => Ok(()),
            _ => self.live().await,
        };
        if let Err(Interrupt::Deadline) = outcome {
            outcome = self.exceed_deadline().await;
        }
        self.deadline = None;
        let interrupt = match outcome {
            Err(interrupt) => interrupt,
            // A Pod that is over is removed by the API server itself when it is deleted, unless the deletion began
            // while the container ran: then it still waits for its kubelet.
            Ok(()) => self.interrupted().await,
        };
        match interrupt {
            Interrupt::Gone | Interrupt::Deadline => drop(self.end_container(None)),
            Interrupt::Leaving => self.leave().await,
        }
    }

    fn phase(&self) -> &str {
        let status = self.pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
    }

    async fn live(&mut self) -> Result<(), Interrupt> {
        let script = (self.shared.script)(&self.pod);
        self.script = script.clone();
        self.bind(&script).await?;
        self.acknowledge();
        if self.phase() == "Running" {
            // An earlier kubelet has started it.
            self.container = Some(Container {
                started: self.since,
                start: Instant::now(),
                index: None,
                process: None,
            });
        } else {
            self.prepare(&script).await?;
            let started = self.start().await?;
            // A container that ends at once costs one write, not two.
            let runs_on = matches!(script.end, End::Never | End::Program);
            if script.run_for > Duration::ZERO || runs_on {
                self.report(status::running(&self.pod, self.since, started)).await?;
            }
        }
        self.finish(script).await
    }

    async fn bind(&mut self, script: &Script) -> Result<(), Interrupt> {
        let spec = self.pod.spec.as_ref();
        if spec.is_some_and(|spec| spec.node_name.is_some()) {
            return Ok(());
        }
        if script.end == End::Unschedulable {
            self.report(status::unschedulable()).await?;
            return Err(self.interrupted().await);
        }
        self.api.bind().await.ok_or(Interrupt::Gone)
    }

    /// The kubelet has the Pod: its clock starts, unless it started with an earlier kubelet.
    fn acknowledge(&mut self) {
        let status = self.pod.status.as_ref();
        let start_time = status.and_then(|status| status.start_time.as_ref());
        self.since = start_time.map_or_else(now, |time| time.0);
        let spec = self.pod.spec.as_ref();
        let allowed = spec.and_then(|spec| spec.active_deadline_seconds);
        let passed = now().duration_since(self.since).unsigned_abs();
        self.deadline = allowed.map(|seconds| {
            let allowed = Duration::from_secs(seconds.unsigned_abs());
            Instant::now() + allowed.saturating_sub(passed)
        });
    }

    /// Pulls images and mounts volumes, so to say.
    async fn prepare(&mut self, script: &Script) -> Result<(), Interrupt> {
        if script.start_after > Duration::ZERO || *self.shared.held.borrow() {
            self.report_waiting("ContainerCreating", None).await?;
        }
        self.unless_interrupted(sleep(script.start_after)).await?;
        if script.end == End::ImagePullBackOff {
            let message = format!("Back-off pulling image \"{}\"", self.image());
            self.report_waiting("ImagePullBackOff", Some(&message)).await?;
            return Err(self.interrupted().await);
        }
        Ok(())
    }

    /// Starts the container as soon as nothing holds it and its environment is complete.
    async fn start(&mut self) -> Result<Timestamp, Interrupt> {
        let mut told = None;
        loop {
            let mut held = self.shared.held.subscribe();
            let free = async { held.wait_for(|held| !held).await.is_ok() };
            self.unless_interrupted(free).await?;
            match self.environment().await {
                Ok(env) => {
                    self.unless_interrupted(ready(())).await?;
                    if let Some(started) = self.record_start(env) {
                        return Ok(started);
                    }
                }
                Err((reason, missing)) => {
                    if told.as_ref() != Some(&missing) {
                        self.report_waiting(reason, Some(&missing)).await?;
                        told = Some(missing);
                    }
                    self.unless_interrupted(sleep(RECHECK)).await?;
                }
            }
        }
    }

    /// The environment of the first container, the one that flashes, if every container's is complete, and its volumes
    /// are; else what a kubelet says is missing.
    async fn environment(&self) -> Result<BTreeMap<String, String>, (&'static str, String)> {
        const INCOMPLETE: &str = "CreateContainerConfigError";
        let program = self.program();
        let mut sources = Sources::new(&self.shared.client, &self.pod, program.is_some());
        let _turn = self.shared.calls.acquire().await;
        if let Some(program) = program {
            let root = program.root(&self.pod.uid().unwrap_or_default());
            let filled = volumes::fill(&mut sources, &self.pod, &root).await;
            let filled = filled.map_err(|error| ("ContainerCreating", format!("{error:#}")))?;
            filled.map_err(|missing| ("ContainerCreating", missing))?;
        }
        let mut first = None;
        for container in self.pod.spec.iter().flat_map(|spec| &spec.containers) {
            let resolved = env::resolve(&mut sources, &self.pod, container).await;
            let env = resolved.map_err(|error| (INCOMPLETE, error.to_string()))?;
            first.get_or_insert(env.map_err(|missing| (INCOMPLETE, missing))?);
        }
        Ok(first.unwrap_or_default())
    }

    /// That of the first container, the one that flashes.
    fn image(&self) -> &str {
        let spec = self.pod.spec.as_ref();
        let image = spec.and_then(|spec| spec.containers.first()?.image.as_deref());
        image.unwrap_or_default()
    }

    fn program(&self) -> Option<&Program> {
        self.shared.program.as_ref().filter(|_| self.script.end == End::Program)
    }

    /// `None` when a hold came in between. The lock is kept, so that nothing starts once `hold` has returned.
    fn record_start(&mut self, env: BTreeMap<String, String>) -> Option<Timestamp> {
        let held = self.shared.held.borrow();
        if *held {
            return None;
        }
        let at = now();
        let value = |name: &str| env.get(name).cloned().unwrap_or_default();
        let started = Started {
            namespace: self.pod.namespace().unwrap_or_default(),
            pod: self.pod.name_any(),
            uid: self.pod.uid().unwrap_or_default(),
            image: self.image().to_owned(),
            endpoint: value("HOST_ENDPOINT"),
            attempt: value("ATTEMPT"),
            env: env.clone(),
            at,
            ended_at: None,
            exit_code: None,
            usage: None,
        };
        let mut index = None;
        self.shared.starts.send_modify(|starts| {
            index = Some(starts.len());
            starts.push(started);
        });
        let uid = self.pod.uid().unwrap_or_default();
        let process = self.program().map(|program| {
            let namespace = self.pod.namespace().unwrap_or_default();
            self.shared.logs.open(&namespace, &self.pod.name_any(), program.log(&uid));
            program.start(&uid, env).map_err(|error| format!("{error:#}"))
        });
        self.container = Some(Container { started: at, start: Instant::now(), index, process });
        Some(at)
    }

    async fn report(&self, status: PodStatus) -> Result<(), Interrupt> {
        self.api.report(status).await.ok_or(Interrupt::Gone)
    }

    async fn report_waiting(&self, reason: &str, message: Option<&str>) -> Result<(), Interrupt> {
        self.report(status::waiting(&self.pod, self.since, reason, message)).await
    }

    /// Does the work, unless the Pod is interrupted first.
    async fn unless_interrupted<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Interrupt> {
        tokio::select! {
            biased;
            interrupt = self.interrupted() => Err(interrupt),
            done = work => Ok(done),
        }
    }

    async fn interrupted(&mut self) -> Interrupt {
        let deadline = self.deadline;
        let expired = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        let known = self.leaving;
        let leaving = async {
            let leaving = self.life.wait_for(|life| *life == Life::Leaving && !known).await;
            leaving.is_ok()
        };
        tokio::select! {
            biased;
            leaving = leaving => if leaving { Interrupt::Leaving } else { Interrupt::Gone },
            () = expired => Interrupt::Deadline,
        }
    }
}
