//! Tombstones: which are to be written, and what follows when they were.

use tokio::time::Instant;

use super::EdgeController;
use crate::edge::input::Input;
use crate::edge::tombstones::{End, Flushed};
use crate::process::clock;

/// The key of the writes of tombstones among all callers.
pub const TOMBSTONES: &str = "/tombstones";

impl EdgeController {
    pub(super) fn disconnected(&mut self, name: &str, namespace: &str) {
        let mut devices = self.shared.change();
        let tombstone = devices.entry(name).and_then(|entry| entry.tombstone(namespace));
        let Some(mut tombstone) = tombstone.filter(|t| t.fetched.is_none()).cloned() else {
            return;
        };
        tombstone.fetched = Some(clock::now());
        devices.put_tombstone(tombstone.clone());
        drop(devices);
        self.shared.metrics.disconnected();
        tracing::info!(device = name, namespace, "a deleted device was told to disconnect");
        self.tombstones.put(tombstone);
        self.flush();
    }

    /// Writes tombstones that wait for it.
    pub(super) fn flush(&mut self) {
        let Some(flush) = self.tombstones.next() else { return };
        let caller = self.caller(TOMBSTONES, &self.home);
        let (home, inputs) = (self.home.clone(), self.inputs.clone());
        tokio::spawn(async move {
            let flushed = flush.send(&caller, &home).await;
            let _ = inputs.send(Input::Flushed(Box::new(flushed))).await;
        });
    }

    pub(super) fn flushed(&mut self, flushed: Flushed) {
        if let Some((end, changes)) = self.tombstones.flushed(flushed) {
            for ((namespace, name), change) in changes {
                let mut devices = self.shared.change();
                match (end, change) {
                    (End::Written, Some(tombstone)) => devices.put_tombstone(tombstone),
                    (End::Written, None) => devices.drop_tombstone(&name, &namespace),
                    (End::CrdEnds, _) => {
                        tracing::warn!(
                            device = name,
                            "the CRD of EdgeDevices is being deleted: this one is let go, and its device is not disconnected"
                        );
                        self.keys.entry(name.clone()).or_default().crd_ends = true;
                    }
                }
                drop(devices);
                if let Some(key) = self.keys.get_mut(&name) {
                    key.burying = false;
                }
                self.queue.enqueue_at(&name, Instant::now());
            }
        }
        match self.tombstones.pause() {
            Some(at) => self.later(at),
            None => self.flush(),
        }
    }

    fn later(&self, at: Instant) {
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = inputs.send(Input::Tombstones).await;
        });
    }

    /// Tombstones that have done their work go.
    pub(super) fn sweep(&mut self) {
        let now = clock::now();
        let devices = self.shared.devices();
        for tombstone in devices.tombstones().filter(|tombstone| tombstone.is_over(now)) {
            self.tombstones.remove(&tombstone.namespace, &tombstone.name);
        }
        drop(devices);
        self.flush();
    }
}
