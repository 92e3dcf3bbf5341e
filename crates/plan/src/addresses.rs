//! Addresses are scarce: load balancers have pools, and the jobs of all namespaces draw from the same.
//!
//! Each job says since when its Services wait; together that tells when it makes no sense to ask for more. While
//! addresses come and go, nobody who waits has waited too long.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::time::later;

/// How long a Service may wait for its address before no more Services are made.
const STARVED_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// How long a Service may wait before those who rest give back theirs. An address that is there comes sooner.
const QUEUED_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// What the Services of all jobs wait for.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Since when the Service that waits longest waits, by job.
    waiting: HashMap<String, Timestamp>,
    given: Option<Timestamp>,
    given_back: Option<Timestamp>,
    starved: bool,
    queued: bool,
}

impl Addresses {
    /// A Service got its address. Says whether that changes things for all jobs.
    pub fn given(&mut self, now: Timestamp) -> bool {
        self.given = Some(now);
        self.turned(now)
    }

    /// A Service that had an address is gone.
    pub fn given_back(&mut self, now: Timestamp) {
        self.given_back = Some(now);
    }

    /// Since when a job's Services wait, if they do. Says whether that changes things for all jobs.
    pub fn wait(&mut self, job: &str, since: Option<Timestamp>, now: Timestamp) -> bool {
        match since {
            Some(since) => drop(self.waiting.insert(job.to_owned(), since)),
            None => drop(self.waiting.remove(job)),
        }
        self.turned(now)
    }

    /// Whether there were enough addresses before and are not now, or the other way round; or somebody waits for long now.
    fn turned(&mut self, now: Timestamp) -> bool {
        let is_over = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        let starved = is_over(self.starved_at("", None));
        let queued = is_over(self.queued_at("", None));
        let was_starved = std::mem::replace(&mut self.starved, starved);
        let was_queued = std::mem::replace(&mut self.queued, queued);
        // That a queue is gone is no news to anybody: nobody makes a Service for it.
        was_starved != starved || (queued && !was_queued)
    }

    /// When any Service last got or gave back an address.
    pub fn moved(&self) -> Option<Timestamp> {
        self.given.max(self.given_back)
    }

    /// From when on no more Services are made, given since when this job's own wait.
    pub fn starved_at(&self, job: &str, own: Option<Timestamp>) -> Option<Timestamp> {
        let longest = self.longest(job, own)?;
        Some(later(self.given.map_or(longest, |given| given.max(longest)), STARVED_AFTER))
    }

    /// From when on whoever does not need an address now gives it back, given since when this job's own Services wait. A
    /// queue that moves is still a queue.
    pub fn queued_at(&self, job: &str, own: Option<Timestamp>) -> Option<Timestamp> {
        Some(later(self.longest(job, own)?, QUEUED_AFTER))
    }

    fn longest(&self, job: &str, own: Option<Timestamp>) -> Option<Timestamp> {
        let others = self.waiting.iter().filter(|(other, _)| *other != job).map(|(_, since)| since);
        others.chain(own.as_ref()).min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn one_that_waits_too_long_holds_back_all_until_an_address_is_given() {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.starved_at("a", None), None);
        assert_eq!(addresses.starved_at("a", Some(at(3))), Some(at(8)));
        assert!(!addresses.wait("b", Some(at(1)), at(1)), "not yet");
        assert_eq!(addresses.starved_at("a", Some(at(3))), Some(at(6)));
        assert!(addresses.wait("b", Some(at(1)), at(6)), "now there are not enough");
        assert!(addresses.given(at(10)), "and now there are");
        assert_eq!(addresses.starved_at("a", None), Some(at(15)));
        assert!(!addresses.wait("b", None, at(11)));
        assert_eq!(addresses.starved_at("a", None), None);
    }

    #[test]
    fn what_is_given_back_moves_the_queue_and_opens_no_gate() {
        let mut addresses = Addresses::default();
        addresses.wait("b", Some(at(1)), at(1));
        addresses.given_back(at(20));
        assert_eq!(addresses.queued_at("a", None), Some(at(2)));
        assert_eq!(
            (addresses.moved(), addresses.starved_at("a", None)),
            (Some(at(20)), Some(at(6)))
        );
    }
}
