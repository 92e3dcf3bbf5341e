//! The pool: how many calls may be under way at once, and who goes next.
//!
//! A [`Caller`] is one key's way to the API server. Each of its calls waits for a slot, has it for the time of that one
//! call, and gives it back. Whoever has to wait for anything but the answer, such as the end of a pause after a failure,
//! does so without a slot, and queues up again when the pause is over. Slots are handed out as [`FairQueue`] says.
//!
//! Keys whose last write failed have a few of the slots between them, and no more: hundreds that are refused and try
//! again would otherwise keep the API server busy, and everybody else's calls slow, with nothing to show for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::{Notify, oneshot};

use super::fair_queue::{FairQueue, Flow};
use crate::process::client::in_time;

/// How long a call may take until its answer is read. (A write has to be answered sooner: the guard sees to that.)
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// One in so many slots is for keys that try again.
const SHARE_OF_RETRIES: usize = 16;

/// The slots, and the client that makes the calls.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    client: Client,
    slots: Mutex<Slots<oneshot::Sender<CallSlot>>>,
    /// A slot was given back.
    returned: Notify,
}

/// How many slots are taken, and who waits for one.
struct Slots<W> {
    limit: usize,
    under_way: usize,
    retries_under_way: usize,
    waiting: FairQueue<W>,
    retries: FairQueue<W>,
    /// The slot before went to a retry.
    retried: bool,
}

/// One key's way to the API server.
#[derive(Clone)]
pub struct Caller {
    /// What makes the calls.
    pub client: Client,
    pool: Pool,
    flow: Flow,
    retry: bool,
}

/// The right to have one call under way.
struct CallSlot {
    pool: Pool,
    retry: bool,
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        self.pool.slots().give_back(self.retry);
        self.pool.0.returned.notify_one();
        self.pool.hand_out();
    }
}

impl Pool {
    /// At most `limit` calls at once.
    pub fn new(client: Client, limit: usize) -> Pool {
        let slots = Mutex::new(Slots::new(limit));
        Pool(Arc::new(Shared { client, slots, returned: Notify::new() }))
    }

    /// The calls of one key; `retry` if its last write failed.
    pub fn caller(&self, flow: Flow, retry: bool) -> Caller {
        Caller { client: self.0.client.clone(), pool: self.clone(), flow, retry }
    }

    /// From now on no call begins. Returns when those under way have ended.
    pub async fn finish(&self) {
        self.slots().limit = 0;
        while self.slots().under_way > 0 {
            self.0.returned.notified().await;
        }
    }

    /// Gives free slots to those who are next.
    fn hand_out(&self) {
        loop {
            let next = self.slots().next();
            let Some((next, retry)) = next else { return };
            // Who has gone away meanwhile gives the slot back at once.
            let _ = next.send(CallSlot { pool: self.clone(), retry });
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots<oneshot::Sender<CallSlot>>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> Slots<W> {
    fn new(limit: usize) -> Slots<W> {
        let (waiting, retries) = (FairQueue::default(), FairQueue::default());
        Slots { limit, under_way: 0, retries_under_way: 0, waiting, retries, retried: false }
    }

    /// Who gets a slot now, and whether it is one of those for retries.
    fn next(&mut self) -> Option<(W, bool)> {
        if self.under_way >= self.limit {
            return None;
        }
        let may_retry = self.retries_under_way < self.limit.div_ceil(SHARE_OF_RETRIES);
        // One after the other, so that where there are few slots neither keeps the other waiting for ever.
        let retry = may_retry && (self.waiting.is_empty() || !self.retried);
        let retry = retry && !self.retries.is_empty();
        let next = if retry { self.retries.next() } else { self.waiting.next() }?;
        self.retried = retry;
        self.under_way += 1;
        self.retries_under_way += usize::from(retry);
        Some((next, retry))
    }

    fn add(&mut self, flow: &Flow, retry: bool, waiting: W) {
        let queue = if retry { &mut self.retries } else { &mut self.waiting };
        queue.add(flow, waiting);
    }

    fn give_back(&mut self, retry: bool) {
        self.under_way -= 1;
        self.retries_under_way -= usize::from(retry);
    }
}

impl Caller {
    /// Makes one call when it is its turn, and waits for the answer, but not for ever.
    pub async fn call<T>(&self, call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
        let _slot = self.slot().await;
        in_time(CALL_TIMEOUT, call).await
    }

    async fn slot(&self) -> CallSlot {
        let (sender, mine) = oneshot::channel();
        self.pool.slots().add(&self.flow, self.retry, sender);
        self.pool.hand_out();
        match mine.await {
            Ok(slot) => slot,
            // Whoever waits is in the queue until it has a slot, so this does not happen.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(slots: &mut Slots<&'static str>, namespace: &str, retry: bool, name: &'static str) {
        let flow = Flow { namespace: namespace.into(), key: name.into() };
        slots.add(&flow, retry, name);
    }

    fn all(slots: &mut Slots<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| slots.next()).map(|(name, _)| name).collect()
    }

    #[test]
    fn the_limit_holds_and_a_slot_that_is_given_back_goes_to_the_next() {
        let mut slots = Slots::new(3);
        for name in ["a1", "a2", "a3"] {
            waits(&mut slots, "a", false, name);
        }
        waits(&mut slots, "b", false, "b1");
        assert_eq!(all(&mut slots), ["a1", "b1", "a2"]);
        slots.give_back(false);
        assert_eq!(all(&mut slots), ["a3"]);
    }

    #[test]
    fn those_who_try_again_have_a_few_slots_between_them() {
        let mut slots = Slots::new(32);
        for _ in 0..100 {
            waits(&mut slots, "crowd", true, "again");
        }
        waits(&mut slots, "calm", true, "other");
        assert_eq!(all(&mut slots), ["again", "other"]);
        waits(&mut slots, "calm", false, "first");
        assert_eq!(all(&mut slots), ["first"]);
        slots.give_back(true);
        assert_eq!(all(&mut slots), ["again"]);
    }

    #[test]
    fn with_a_single_slot_nobody_waits_for_ever() {
        let mut slots = Slots::new(1);
        for _ in 0..2 {
            waits(&mut slots, "a", true, "again");
            waits(&mut slots, "a", false, "first");
        }
        let mut order = Vec::new();
        while let Some((name, retry)) = slots.next() {
            order.push(name);
            slots.give_back(retry);
        }
        assert_eq!(order, ["again", "first", "again", "first"]);
    }
}
