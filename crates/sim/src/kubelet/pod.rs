//! One Pod's life on the node.

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
use super::{End, Script, Shared, Started, env, status};
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
            Interrupt::Gone | Interrupt::Deadline => drop(self.end_container()),
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
            self.container =
                Some(Container { started: self.since, start: Instant::now(), index: None });
        } else {
            self.prepare(&script).await?;
            let started = self.start().await?;
            // A container that ends at once costs one write, not two.
            if script.run_for > Duration::ZERO || script.end == End::Never {
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
            let spec = self.pod.spec.as_ref();
            let image = spec.and_then(|spec| spec.containers.first()?.image.as_deref());
            let message = format!("Back-off pulling image \"{}\"", image.unwrap_or_default());
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
                Err(missing) => {
                    if told.as_ref() != Some(&missing) {
                        self.report_waiting("CreateContainerConfigError", Some(&missing)).await?;
                        told = Some(missing);
                    }
                    self.unless_interrupted(sleep(RECHECK)).await?;
                }
            }
        }
    }

    /// The environment of the first container, the one that flashes, if every container's is complete.
    async fn environment(&self) -> env::Resolved {
        let containers = self.pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut first = None;
        for container in containers {
            let _turn = self.shared.calls.acquire().await;
            let resolved = env::resolve(&self.shared.client, &self.pod, container).await;
            let env = resolved.map_err(|error| error.to_string())??;
            first.get_or_insert(env);
        }
        Ok(first.unwrap_or_default())
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
            endpoint: value("HOST_ENDPOINT"),
            attempt: value("ATTEMPT"),
            env,
            at,
            ended_at: None,
        };
        let mut index = None;
        self.shared.starts.send_modify(|starts| {
            index = Some(starts.len());
            starts.push(started);
        });
        self.container = Some(Container { started: at, start: Instant::now(), index });
        Some(at)
    }

    /// Runs to the end the script has.
    async fn finish(&mut self, script: Script) -> Result<(), Interrupt> {
        let container = self.container.as_ref();
        let end = container.map_or_else(Instant::now, |c| c.start + script.run_for);
        if script.end == End::Never {
            return Err(self.interrupted().await);
        }
        self.unless_interrupted(sleep_until(end)).await?;
        let started = self.end_container().unwrap_or(self.since);
        let status = match &script.end {
            End::Success { message } => self.ended(started, 0, message),
            End::Failure { exit_code, message } => self.ended(started, *exit_code, message),
            _ => status::evicted(self.since),
        };
        if script.sidecars_run_on && script.end != End::Evicted {
            self.report(status::outlived(status.clone(), started)).await?;
            self.outlived = Some(status);
            return Err(self.interrupted().await);
        }
        self.report(status).await
    }

    async fn exceed_deadline(&mut self) -> Result<(), Interrupt> {
        self.deadline = None;
        if let Some(container) = &self.container
            && self.script.on_sigterm.after > Duration::ZERO
        {
            let running = status::running(&self.pod, self.since, container.started);
            self.report(status::deadline_exceeded(running)).await?;
        }
        let end = self.told_to_end();
        self.unless_interrupted(sleep_until(end)).await?;
        let status = self
            .end_by_sigterm()
            .unwrap_or_else(|| status::waiting(&self.pod, self.since, "ContainerCreating", None));
        self.report(status::deadline_exceeded(status)).await
    }

    async fn leave(&mut self) {
        sleep_until(self.told_to_end()).await;
        if let Some(status) = self.end_by_sigterm() {
            self.api.report(status).await;
        }
        self.api.remove().await;
    }

    /// Sends SIGTERM, unless that was done before; says when the container will have ended.
    fn told_to_end(&mut self) -> Instant {
        let farewell = match self.container {
            Some(_) => self.script.on_sigterm.after,
            None => Duration::ZERO,
        };
        *self.ends_at.get_or_insert_with(|| Instant::now() + farewell)
    }

    /// Ends what runs; says what is to be said of it, if anything ran.
    fn end_by_sigterm(&mut self) -> Option<PodStatus> {
        let started = self.end_container();
        let farewell = &self.script.on_sigterm;
        let ended = |started| self.ended(started, farewell.exit_code, &farewell.message);
        started.map(ended).or(self.outlived.take())
    }

    fn ended(&self, started: Timestamp, exit_code: i32, message: &str) -> PodStatus {
        let span = (started, now());
        status::ended(&self.pod, self.since, span, exit_code, message)
    }

    /// Notes that the container has ended; returns when it had started, if it ran.
    fn end_container(&mut self) -> Option<Timestamp> {
        let container = self.container.take()?;
        if let Some(index) = container.index {
            self.shared.starts.send_modify(|starts| {
                if let Some(started) = starts.get_mut(index) {
                    started.ended_at = Some(now());
                }
            });
        }
        Some(container.started)
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
        let leaving = async {
            let leaving = self.life.wait_for(|life| *life == Life::Leaving).await;
            leaving.is_ok()
        };
        tokio::select! {
            biased;
            leaving = leaving => if leaving { Interrupt::Leaving } else { Interrupt::Gone },
            () = expired => Interrupt::Deadline,
        }
    }
}
