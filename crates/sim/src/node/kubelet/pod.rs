//! One Pod's life on the node.

mod end;
mod interrupts;
mod start;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::ResourceExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

pub(super) use self::interrupts::Life;
use self::interrupts::{Interrupt, Interrupts};
use super::api::PodApi;
use super::container::PodContainer;
use super::folder::PodFolder;
use super::images::{Images, Program};
use super::run::Ended;
use super::status::Facts;
use super::{Script, ScriptEnd, Shared, status};
use crate::clock::now;

/// The task of one Pod.
pub(super) struct Worker {
    shared: Arc<Shared>,
    api: PodApi,
    pod: Pod,
    interrupts: Interrupts,
    script: Script,
    /// When the kubelet first had the Pod: its `startTime`.
    since: Timestamp,
    /// Init containers first.
    containers: Vec<PodContainer>,
    /// What runs, by the place of the container.
    runs: FuturesUnordered<BoxFuture<'static, (usize, Ended)>>,
    /// Probes say here which container is ready, and which no longer is.
    news: mpsc::UnboundedReceiver<(usize, bool)>,
    tell: mpsc::UnboundedSender<(usize, bool)>,
    /// Where its processes live, if it has any, and whether its volumes are there.
    folder: Option<PodFolder>,
    filled: bool,
    overdue: bool,
    evicted: bool,
    /// What the API server has been told last.
    reported: Option<PodStatus>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, pod: Pod, life: watch::Receiver<Life>) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let containers = PodContainer::all(&pod);
        let images = shared.images.as_ref();
        let executed = |images: &&Images| {
            containers.iter().any(|container| images.program_of(&container.spec).is_some())
        };
        Self {
            api: PodApi::new(shared.clone(), &pod),
            folder: images.filter(executed).map(|images| PodFolder::of(&pod, &images.folder)),
            script: Script::default(),
            interrupts: Interrupts { life, deadline: None, leaving: false },
            since: now(),
            containers,
            runs: FuturesUnordered::new(),
            news,
            tell,
            filled: false,
            overdue: false,
            evicted: false,
            reported: None,
            shared,
            pod,
        }
    }

    pub(super) async fn run(mut self) {
        let mut outcome = match self.phase() {
            "Succeeded" | "Failed" => Ok(()),
            _ => self.live().await,
        };
        if outcome == Err(Interrupt::Deadline) {
            outcome = self.exceed_deadline().await;
        }
        self.interrupts.deadline = None;
        let interrupt = match outcome {
            Err(interrupt) => interrupt,
            // A Pod that is over is removed by the API server itself when it is deleted, unless the deletion began
            // while a container ran: then it still waits for its kubelet.
            Ok(()) => self.interrupts.next().await,
        };
        match interrupt {
            Interrupt::Gone | Interrupt::Deadline => self.abandon(),
            Interrupt::Leaving => self.leave().await,
        }
    }

    fn phase(&self) -> &str {
        let status = self.pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
    }

    fn policy(&self) -> &str {
        let spec = self.pod.spec.as_ref();
        spec.and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
    }

    fn program_of(&self, index: usize) -> Option<&Program> {
        self.shared.images.as_ref()?.program_of(&self.containers[index].spec)
    }

    async fn live(&mut self) -> Result<(), Interrupt> {
        self.script = (self.shared.script)(&self.pod);
        self.bind().await?;
        self.acknowledge();
        if !self.resume() && self.script.start_after > Duration::ZERO {
            // Pulls images and mounts volumes, so to say.
            self.report().await?;
            self.interrupts.unless(sleep(self.script.start_after)).await?;
        }
        loop {
            self.start_due().await?;
            // What ends at once costs no write of its own, and lets others start.
            if self.take_ended() && !self.is_over() {
                continue;
            }
            self.report().await?;
            if self.is_over() {
                return Ok(());
            }
            self.wait().await?;
        }
    }

    async fn bind(&mut self) -> Result<(), Interrupt> {
        let spec = self.pod.spec.as_ref();
        if spec.is_some_and(|spec| spec.node_name.is_some()) {
            return Ok(());
        }
        if self.script.end == ScriptEnd::Unschedulable {
            self.api.report(&status::unschedulable()).await.ok_or(Interrupt::Gone)?;
            return Err(self.interrupts.next().await);
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
        self.interrupts.deadline = allowed.map(|seconds| {
            let allowed = Duration::from_secs(seconds.unsigned_abs());
            Instant::now() + allowed.saturating_sub(passed)
        });
    }

    /// The containers whose turn it is: the first init container that has not ended well, else all that are none.
    fn in_turn(&self) -> Range<usize> {
        let inits = self.containers.iter().take_while(|container| container.init).count();
        match self.containers[..inits].iter().position(|init| init.exit_code() != Some(0)) {
            Some(first) => first..first + 1,
            None => inits..self.containers.len(),
        }
    }

    /// Whether everything has ended for good.
    fn is_over(&self) -> bool {
        self.evicted || self.containers[self.in_turn()].iter().all(|c| c.exit_code().is_some())
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) -> Result<(), Interrupt> {
        let due = self.containers[self.in_turn()].iter().filter_map(|c| c.due).min();
        let mut held = self.shared.held.subscribe();
        let start = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
            // The sender is ours, so the wait cannot fail.
            let _ = held.wait_for(|held| !held).await;
        };
        tokio::select! {
            biased;
            interrupt = self.interrupts.next() => return Err(interrupt),
            Some(news) = self.news.recv() => self.hear(news),
            Some((index, ended)) = self.runs.next(), if !self.runs.is_empty() => {
                self.take(index, ended);
            }
            () = start => {}
        }
        Ok(())
    }

    fn hear(&mut self, (index, ready): (usize, bool)) {
        self.containers[index].status.ready = ready;
    }

    /// Takes note of all that has ended by now; whether anything has.
    fn take_ended(&mut self) -> bool {
        let mut any = false;
        while let Some(Some((index, ended))) = self.runs.next().now_or_never() {
            self.take(index, ended);
            any = true;
        }
        any
    }

    fn take(&mut self, index: usize, ended: Ended) {
        // What was said of it while it ran is not to be heard when it runs again.
        while let Ok(news) = self.news.try_recv() {
            self.hear(news);
        }
        self.note_end(index, ended.exit_code, ended.usage);
        let Some(exit_code) = ended.exit_code else {
            self.evicted = true;
            return self.abandon();
        };
        let again = self.starts_again(index, exit_code);
        let pod = self.pod.name_any();
        let container = &mut self.containers[index];
        container.end(exit_code, ended);
        if again {
            container.back_off(self.shared.back_off, &pod);
        }
    }

    fn starts_again(&self, index: usize, exit_code: i32) -> bool {
        let ending = self.overdue || self.interrupts.leaving;
        let wanted = match self.policy() {
            "Never" => false,
            "Always" if !self.containers[index].init => true,
            _ => exit_code != 0,
        };
        wanted && !ending
    }

    /// Tells the API server, unless it knows.
    async fn report(&mut self) -> Result<(), Interrupt> {
        let status = self.status();
        if self.reported.as_ref() != Some(&status) {
            self.api.report(&status).await.ok_or(Interrupt::Gone)?;
            self.reported = Some(status);
        }
        Ok(())
    }

    fn status(&self) -> PodStatus {
        if self.evicted {
            return status::evicted(self.since);
        }
        let facts = Facts {
            containers: &self.containers,
            policy: self.policy(),
            since: self.since,
            has_address: self.folder.is_some(),
            overdue: self.overdue,
            before: self.reported.as_ref(),
        };
        facts.status()
    }
}
