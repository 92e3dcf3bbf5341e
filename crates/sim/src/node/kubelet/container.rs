//! One container of a Pod: what is said of it, and when it may start.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::run::Ended;
use crate::clock::now;

/// The longest back-off, in first ones.
const LONGEST_BACK_OFF: u32 = 30;

pub(super) struct PodContainer {
    pub(super) spec: Container,
    pub(super) init: bool,
    pub(super) status: ContainerStatus,
    /// When it may start; `None` for one that runs, has ended for good, or never will start.
    pub(super) due: Option<Instant>,
    /// Tells it to end within this time.
    pub(super) stop: Option<oneshot::Sender<Duration>>,
    /// Its place in the list of starts; none if an earlier kubelet started it.
    pub(super) start: Option<usize>,
}

impl PodContainer {
    /// All containers of a Pod, init containers first.
    pub(super) fn all(pod: &Pod) -> Vec<Self> {
        let Some(spec) = &pod.spec else { return Vec::new() };
        let inits = spec.init_containers.iter().flatten();
        let has_inits = inits.clone().next().is_some();
        let reason = if has_inits { "PodInitializing" } else { "ContainerCreating" };
        let inits = inits.map(|container| Self::new(container, true, reason));
        let others = spec.containers.iter().map(|container| Self::new(container, false, reason));
        inits.chain(others).collect()
    }

    fn new(spec: &Container, init: bool, reason: &str) -> Self {
        let mut container = Self {
            status: ContainerStatus {
                name: spec.name.clone(),
                image: spec.image.clone().unwrap_or_default(),
                ..ContainerStatus::default()
            },
            spec: spec.clone(),
            init,
            due: Some(Instant::now()),
            stop: None,
            start: None,
        };
        container.wait(reason, None);
        container
    }

    fn state(&self) -> Option<&ContainerState> {
        self.status.state.as_ref()
    }

    pub(super) fn runs(&self) -> bool {
        self.state().is_some_and(|state| state.running.is_some())
    }

    pub(super) fn waits(&self) -> bool {
        self.state().is_some_and(|state| state.waiting.is_some())
    }

    /// Its exit code, if it has ended and is not to start again.
    pub(super) fn exit_code(&self) -> Option<i32> {
        Some(self.state()?.terminated.as_ref()?.exit_code)
    }

    /// The exit code of the run before.
    pub(super) fn last_exit_code(&self) -> Option<i32> {
        Some(self.status.last_state.as_ref()?.terminated.as_ref()?.exit_code)
    }

    fn set(&mut self, ready: bool, state: ContainerState) {
        self.status.ready = ready;
        self.status.started = Some(state.running.is_some());
        self.status.state = Some(state);
    }

    pub(super) fn wait(&mut self, reason: &str, message: Option<String>) {
        let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
        self.set(false, ContainerState { waiting: Some(waiting), ..ContainerState::default() });
    }

    /// It lacks something, and is looked at again after a pause.
    pub(super) fn lack(&mut self, reason: Option<&str>, message: String, pause: Duration) {
        let waiting = self.state().and_then(|state| state.waiting.clone()).unwrap_or_default();
        let reason = reason.map(str::to_owned).or(waiting.reason).unwrap_or_default();
        self.wait(&reason, Some(message));
        self.due = Some(Instant::now() + pause);
    }

    pub(super) fn begin(&mut self, at: Timestamp, ready: bool) {
        let running = ContainerStateRunning { started_at: Some(Time(at)) };
        self.set(ready, ContainerState { running: Some(running), ..ContainerState::default() });
        self.due = None;
    }

    pub(super) fn end(&mut self, exit_code: i32, ended: Ended) {
        let running = self.state().and_then(|state| state.running.clone());
        let reason = match exit_code {
            0 => "Completed",
            _ => ended.reason.unwrap_or("Error"),
        };
        let terminated = ContainerStateTerminated {
            exit_code,
            reason: Some(reason.to_owned()),
            message: Some(ended.message).filter(|message| !message.is_empty()),
            started_at: running.and_then(|running| running.started_at),
            finished_at: Some(Time(now())),
            ..ContainerStateTerminated::default()
        };
        // An init container that has ended well is ready.
        let ready = self.init && exit_code == 0;
        self.set(
            ready,
            ContainerState { terminated: Some(terminated), ..ContainerState::default() },
        );
        self.stop = None;
    }

    /// It has ended and is to start again: the first time at once, then after a back-off that doubles.
    pub(super) fn back_off(&mut self, first: Duration, pod: &str) {
        let factor = match self.status.restart_count {
            0 => 0,
            count => 2_u32.saturating_pow(count.unsigned_abs() - 1).min(LONGEST_BACK_OFF),
        };
        let pause = first * factor;
        self.status.last_state = self.status.state.take();
        let (name, seconds) = (&self.spec.name, pause.as_secs());
        let words = format!("back-off {seconds}s restarting failed container={name} pod={pod}");
        self.wait("CrashLoopBackOff", Some(words));
        self.due = Some(Instant::now() + pause);
    }
}
