//! How a Pod's life ends other than by itself: at its deadline, because it is deleted, or because the node gives it up.

use std::time::Duration;

use futures::StreamExt;

use super::{Interrupt, Worker};
use crate::clock::now;
use crate::usage::Usage;

/// How long containers have to end, unless the Pod says otherwise.
const GRACE: i64 = 30;

impl Worker {
    pub(super) async fn exceed_deadline(&mut self) -> Result<(), Interrupt> {
        self.interrupts.deadline = None;
        self.overdue = true;
        self.wind_down().await
    }

    pub(super) async fn leave(&mut self) {
        // Nothing interrupts it any more, except that the Pod is gone.
        self.interrupts.leaving = true;
        if !self.runs.is_empty() && self.wind_down().await.is_err() {
            self.abandon();
        }
        self.api.remove().await;
    }

    /// Tells what runs to end, once, and waits until it has.
    async fn wind_down(&mut self) -> Result<(), Interrupt> {
        let spec = self.pod.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.termination_grace_period_seconds);
        let grace = Duration::from_secs(seconds.unwrap_or(GRACE).unsigned_abs());
        for stop in self.containers.iter_mut().filter_map(|container| container.stop.take()) {
            // One that does not listen has ended.
            let _ = stop.send(grace);
        }
        loop {
            self.take_ended();
            self.report().await?;
            if self.runs.is_empty() {
                return Ok(());
            }
            if let Some((index, ended)) = self.interrupts.unless(self.runs.next()).await? {
                self.take(index, ended);
            }
        }
    }

    /// Ends what runs, at once and without a word.
    pub(super) fn abandon(&mut self) {
        self.runs.clear();
        for index in 0..self.containers.len() {
            if self.containers[index].runs() {
                self.note_end(index, None, None);
            }
        }
    }

    /// Completes the record of a start.
    pub(super) fn note_end(&mut self, index: usize, exit_code: Option<i32>, usage: Option<Usage>) {
        let Some(start) = self.containers[index].start.take() else { return };
        self.shared.starts.send_modify(|starts| {
            if let Some(started) = starts.get_mut(start) {
                started.ended_at = Some(now());
                started.exit_code = exit_code;
                started.usage = usage;
            }
        });
    }
}
