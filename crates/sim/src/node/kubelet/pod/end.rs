//! How a Pod's life ends: by itself, at its deadline, or because it is deleted.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use kube::ResourceExt;
use tokio::time::{Instant, sleep_until};

use super::super::{End, Script, status};
use super::{Interrupt, Worker};
use crate::clock::now;

impl Worker {
    /// Runs to the end the script has.
    pub(super) async fn finish(&mut self, script: Script) -> Result<(), Interrupt> {
        if script.end == End::Program {
            let process = self.unless_ended(None).await?;
            return self.report(process).await;
        }
        let container = self.container.as_ref();
        let end = container.map_or_else(Instant::now, |c| c.start + script.run_for);
        if script.end == End::Never {
            return Err(self.interrupted().await);
        }
        self.unless_interrupted(sleep_until(end)).await?;
        let exit_code = match &script.end {
            End::Success { .. } => Some(0),
            End::Failure { exit_code, .. } => Some(*exit_code),
            _ => None,
        };
        let started = self.end_container(exit_code).unwrap_or(self.since);
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

    /// Waits for the end of the process, after telling it to end if a grace period is given, unless the Pod is
    /// interrupted first. What is to be said of it then.
    async fn unless_ended(&mut self, grace: Option<Duration>) -> Result<PodStatus, Interrupt> {
        let process = self.container.as_mut().and_then(|container| container.process.take());
        let (exit_code, message) = match process {
            Some(Ok(mut process)) => {
                let end = async {
                    match grace {
                        Some(grace) => process.end(grace).await,
                        None => process.ended().await,
                    }
                };
                let ended = self.unless_interrupted(end).await;
                let message = ended.as_ref().map(|code| process.message(*code)).unwrap_or_default();
                if let Some(container) = &mut self.container {
                    container.process = Some(Ok(process));
                }
                (ended?, message)
            }
            Some(Err(error)) => (status::NOT_STARTED, error),
            None => (status::NOT_STARTED, "started by an earlier kubelet, and lost".to_owned()),
        };
        let started = self.end_container(Some(exit_code)).unwrap_or(self.since);
        Ok(self.ended(started, exit_code, &message))
    }

    pub(super) async fn exceed_deadline(&mut self) -> Result<(), Interrupt> {
        self.deadline = None;
        if let Some(container) = &self.container
            && (self.script.on_sigterm.after > Duration::ZERO || self.script.end == End::Program)
        {
            let running = status::running(&self.pod, self.since, container.started);
            self.report(status::deadline_exceeded(running)).await?;
        }
        let ended = self.sent_sigterm().await?;
        let status = ended
            .unwrap_or_else(|| status::waiting(&self.pod, self.since, "ContainerCreating", None));
        self.report(status::deadline_exceeded(status)).await
    }

    pub(super) async fn leave(&mut self) {
        // Nothing interrupts it any more, except that the Pod is gone.
        self.leaving = true;
        if let Ok(Some(status)) = self.sent_sigterm().await {
            self.api.report(status).await;
        }
        self.api.remove().await;
    }

    /// Ends what runs; says what is to be said of it, if anything ran.
    async fn sent_sigterm(&mut self) -> Result<Option<PodStatus>, Interrupt> {
        if self.container.is_some() && self.script.end == End::Program {
            let spec = self.pod.spec.as_ref();
            let seconds = spec.and_then(|spec| spec.termination_grace_period_seconds);
            let grace = Duration::from_secs(seconds.unwrap_or(30).unsigned_abs());
            return self.unless_ended(Some(grace)).await.map(Some);
        }
        let farewell = match self.container {
            Some(_) => self.script.on_sigterm.after,
            None => Duration::ZERO,
        };
        let end = *self.ends_at.get_or_insert_with(|| Instant::now() + farewell);
        self.unless_interrupted(sleep_until(end)).await?;
        let started = self.end_container(Some(self.script.on_sigterm.exit_code));
        let farewell = &self.script.on_sigterm;
        let ended = |started| self.ended(started, farewell.exit_code, &farewell.message);
        Ok(started.map(ended).or(self.outlived.take()))
    }

    fn ended(&self, started: Timestamp, exit_code: i32, message: &str) -> PodStatus {
        let span = (started, now());
        status::ended(&self.pod, self.since, span, exit_code, message)
    }

    /// Notes that the container has ended; returns when it had started, if it ran.
    pub(super) fn end_container(&mut self, exit_code: Option<i32>) -> Option<Timestamp> {
        let container = self.container.take()?;
        if self.shared.program.is_some() {
            let namespace = self.pod.namespace().unwrap_or_default();
            self.shared.logs.close(&namespace, &self.pod.name_any());
        }
        let usage = container.process.and_then(Result::ok).and_then(|process| process.usage());
        if let Some(index) = container.index {
            self.shared.starts.send_modify(|starts| {
                if let Some(started) = starts.get_mut(index) {
                    started.ended_at = Some(now());
                    started.exit_code = exit_code;
                    started.usage = usage;
                }
            });
        }
        Some(container.started)
    }
}
