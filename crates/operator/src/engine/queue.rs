//! The work queue: which objects are to be reconciled, and when.
//!
//! A key is reconciled when something happened to it, or when the time has come that its last reconcile asked for. However
//! much happens, not more often than its pause allows: at least [`SHORTEST_PAUSE`], and three times as long as its last
//! reconcile took, because calls and watches are on the same thread. A key is in the queue once.
//!
//! Keys that are due together are reconciled in the system's own order for a while ([`SLICE`]). Whoever is left over then has
//! its turn among its neighbours ([`FairQueue`]), so that large objects of one namespace do not keep a small one of another
//! waiting.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::fair_queue::{FairQueue, Flow};

/// How long keys are reconciled before what has come in meanwhile is taken in.
pub const SLICE: Duration = Duration::from_millis(20);
/// From the beginning of one reconcile of a key to that of the next, at least.
pub const SHORTEST_PAUSE: Duration = Duration::from_millis(25);
/// A key's reconciles take at most this part of the time.
const SHARE: u32 = 3;

/// The keys that are to be reconciled.
#[derive(Default)]
pub struct Queue {
    keys: HashMap<String, Key>,
    due: BTreeSet<(Instant, String)>,
    /// The keys whose time has come and that were left over.
    left_over: FairQueue<String>,
}

#[derive(Default)]
struct Key {
    next: Next,
    /// Not before this, whatever happens.
    not_before: Option<Instant>,
}

/// When a key will be reconciled.
#[derive(Clone, Copy, Default, PartialEq)]
enum Next {
    /// When something happens.
    #[default]
    Idle,
    At(Instant),
    /// As soon as it has its turn.
    Due,
}

impl Queue {
    /// A key is reconciled at `at`, or earlier if that was asked for before.
    pub fn enqueue_at(&mut self, key: &str, at: Instant) {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.to_owned(), Key::default());
        }
        let Some(known) = self.keys.get_mut(key) else { return };
        let at = known.not_before.map_or(at, |earliest| at.max(earliest));
        let next = match known.next {
            Next::Due => return,
            Next::At(before) if before <= at => return,
            // One time for each key: those that are not waited for any more would stay for hours.
            Next::At(before) => {
                self.due.remove(&(before, key.to_owned()));
                Next::At(at)
            }
            Next::Idle => Next::At(at),
        };
        known.next = next;
        self.due.insert((at, key.to_owned()));
    }

    /// A key is not waited for any more. How often it may be reconciled stays in force.
    pub fn cancel(&mut self, key: &str) {
        let Some(known) = self.keys.get_mut(key) else { return };
        if let Next::At(at) = std::mem::take(&mut known.next) {
            self.due.remove(&(at, key.to_owned()));
        }
    }

    /// A key is gone.
    pub fn remove(&mut self, key: &str) {
        self.cancel(key);
        self.keys.remove(key);
    }

    /// When there is something to do next; `None`: not before something happens.
    pub fn next(&self) -> Option<Instant> {
        if self.left_over.is_empty() {
            self.due.first().map(|(at, _)| *at)
        } else {
            Some(Instant::now())
        }
    }

    /// The keys whose time has come.
    pub fn take_due(&mut self, now: Instant) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some((at, key)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.due.pop_first();
            if let Some(known) = self.keys.get_mut(&key) {
                known.next = Next::Due;
            }
            taken.push(key);
        }
        taken
    }

    /// A key that is due has its turn later.
    pub fn leave_over(&mut self, flow: &Flow) {
        self.left_over.add(flow, flow.key.clone());
    }

    /// Whether some were left over.
    pub fn has_left_over(&self) -> bool {
        !self.left_over.is_empty()
    }

    /// Whose turn it is, of those that were left over.
    pub fn next_left_over(&mut self) -> Option<String> {
        std::iter::from_fn(|| self.left_over.next()).find(|key| self.keys.contains_key(key))
    }

    /// The reconcile of a key begins. What happens from now on is not in what it sees.
    pub fn begin(&mut self, key: &str) {
        self.cancel(key);
    }

    /// The reconcile of a key is over. The next begins `pause` after this one did, at the earliest.
    pub fn end(&mut self, key: &str, began: Instant, now: Instant, pause: Duration) {
        let Some(known) = self.keys.get_mut(key) else { return };
        let pause = pause.max(SHORTEST_PAUSE).max((now - began) * SHARE);
        known.not_before = Some(began + pause);
        // What it has asked for itself meanwhile.
        if let Next::At(at) = known.next {
            self.cancel(key);
            self.enqueue_at(key, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_key_is_in_the_queue_once_and_at_the_earliest_time_that_was_asked_for() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.enqueue_at("a", now + millis(50));
        queue.enqueue_at("a", now + millis(20));
        queue.enqueue_at("a", now + millis(90));
        queue.enqueue_at("b", now + millis(30));
        assert_eq!(queue.next(), Some(now + millis(20)));
        assert_eq!(queue.take_due(now + millis(100)), ["a", "b"]);
        queue.enqueue_at("a", now);
        assert_eq!(queue.next(), None, "it is due already");
        queue.begin("a");
        queue.enqueue_at("a", now);
        assert_eq!(queue.next(), Some(now), "that happened after it began");
    }

    #[test]
    fn a_key_rests_between_two_reconciles_and_longer_if_they_take_long() {
        let (mut queue, began) = (Queue::default(), Instant::now());
        for (took, pause, rest) in [(0, 0, 25), (1, 200, 200), (250, 200, 750)] {
            queue.begin("a");
            queue.enqueue_at("a", began);
            queue.end("a", began, began + millis(took), millis(pause));
            assert_eq!(queue.next(), Some(began + millis(rest)), "{took} {pause}");
            queue.enqueue_at("a", began);
            assert_eq!(queue.next(), Some(began + millis(rest)), "nothing is more urgent");
        }
    }

    #[test]
    fn who_is_left_over_has_a_turn_and_who_is_gone_has_none() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for key in ["a1", "a2", "b1"] {
            queue.enqueue_at(key, now);
        }
        for key in queue.take_due(now) {
            let namespace = key[..1].to_owned();
            queue.leave_over(&Flow { namespace, key });
        }
        queue.remove("a2");
        let order: Vec<String> = std::iter::from_fn(|| queue.next_left_over()).collect();
        assert_eq!(order, ["a1", "b1"]);
        assert_eq!(queue.next(), None);
    }
}
