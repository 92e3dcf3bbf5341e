//! The write pool: bounded, and fair between jobs.
//!
//! A job with thousands of writes in its queue and a job with one take turns, so the one does not wait for the
//! thousands.

use std::collections::{HashMap, VecDeque};

use futures::future::BoxFuture;

/// A write that has yet to be sent, and what it will say when it is done.
pub type Work<T> = BoxFuture<'static, T>;

/// The writes that wait, and how many are under way.
pub struct Pool<T> {
    limit: usize,
    running: usize,
    queues: HashMap<String, VecDeque<Work<T>>>,
    turns: VecDeque<String>,
}

impl<T> Pool<T> {
    /// At most `limit` writes at once.
    pub fn new(limit: usize) -> Pool<T> {
        Pool { limit, running: 0, queues: HashMap::new(), turns: VecDeque::new() }
    }

    /// Puts a write at the end of its job's queue.
    pub fn add(&mut self, job: &str, work: Work<T>) {
        let queue = self.queues.entry(job.to_owned()).or_default();
        if queue.is_empty() {
            self.turns.push_back(job.to_owned());
        }
        queue.push_back(work);
    }

    /// The next write to send, if one may be sent now. [`Pool::done`] must follow when it is answered.
    pub fn next(&mut self) -> Option<Work<T>> {
        if self.running >= self.limit {
            return None;
        }
        let job = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&job)?;
        let work = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&job);
        } else {
            self.turns.push_back(job);
        }
        self.running += 1;
        Some(work)
    }

    /// A write was answered.
    pub fn done(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// How many writes are under way.
    pub fn running(&self) -> usize {
        self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn work(name: &'static str) -> Work<&'static str> {
        async move { name }.boxed()
    }

    #[test]
    fn jobs_take_turns_and_the_limit_holds() {
        let mut pool = Pool::new(3);
        for name in ["a1", "a2", "a3"] {
            pool.add("a", work(name));
        }
        pool.add("b", work("b1"));
        let mut sent = Vec::new();
        while let Some(work) = pool.next() {
            sent.extend(work.now_or_never());
        }
        assert_eq!(sent, ["a1", "b1", "a2"]);
        pool.done();
        assert_eq!(pool.next().and_then(|work| work.now_or_never()), Some("a3"));
        assert!(pool.next().is_none());
    }
}
