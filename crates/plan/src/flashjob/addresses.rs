//! Addresses are scarce: load balancers have pools, and the jobs of all namespaces draw from them.
//!
//! Each job says which of its Services has waited longest; together that tells when it makes no sense to ask for more.
//! While addresses come and go, nobody who waits has waited too long. What is scarce is judged for each pool of addresses,
//! that is, for all Services that ask for one with the same words, and for each namespace by itself: a Service that nobody
//! serves holds up those of its own namespace that ask for the same, and no others. What namespaces have in common is the
//! courtesy that who is in back-off gives back what another waits for, and some patience while addresses move between
//! others.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use jiff::{SignedDuration, Timestamp};

use crate::flashjob::ids::JobUid;
use crate::time::{after, later};

/// How long a Service may wait for its address before no more Services are made.
const STARVED_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// How long a Service may wait before those in back-off give back theirs. An address that is there comes sooner.
const QUEUED_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// A queue that moves for other namespaces and not for this one is waited in for so many times addressSeconds.
const TIMES_BEHIND_OTHERS: i64 = 10;

/// How long it is known that addresses of a pool moved when nobody waits for one.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(10);

/// A Service that waits for an address.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The namespace of the Service and of its job.
    pub namespace: String,
    /// The name of its job.
    pub job: String,
    /// Its name.
    pub service: String,
    /// Where its address is to come from; see `Access` in `access.rs`.
    pub pool: String,
    /// Since when it waits.
    pub since: Timestamp,
    /// When it is given up, unless an address moves.
    pub until: Timestamp,
}

/// What the Services of all jobs wait for.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// The Service that waits longest, by the uid of its job.
    waiting: HashMap<JobUid, Waiting>,
    /// When addresses were last given and given back, by pool and namespace.
    moved: HashMap<String, HashMap<String, Moved>>,
    /// Namespaces and pools in which no more Services are made.
    starved: HashSet<(String, String)>,
    /// Pools for which somebody has waited for a while.
    queued: HashSet<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    given: Option<Timestamp>,
    given_back: Option<Timestamp>,
}

impl Moved {
    fn last(self) -> Option<Timestamp> {
        self.given.max(self.given_back)
    }
}

impl Addresses {
    /// A Service got its address. Says whether that changes things for the jobs that use the pool.
    pub fn given(&mut self, namespace: &str, pool: &str, now: Timestamp) -> bool {
        self.moves(namespace, pool, now).given = Some(now);
        self.turned(namespace, pool, now)
    }

    /// A Service that had an address is gone.
    pub fn given_back(&mut self, namespace: &str, pool: &str, now: Timestamp) {
        self.moves(namespace, pool, now).given_back = Some(now);
    }

    fn moves(&mut self, namespace: &str, pool: &str, now: Timestamp) -> &mut Moved {
        let Addresses { moved, waiting, .. } = self;
        moved.retain(|pool, namespaces| {
            let last = namespaces.values().filter_map(|moved| moved.last()).max();
            last.is_some_and(|last| now.duration_since(last) < REMEMBERED)
                || waiting.values().any(|w| w.pool == *pool)
        });
        moved.entry(pool.to_owned()).or_default().entry(namespace.to_owned()).or_default()
    }

    /// The Service of a job that waits longest, if one does. Says for which pools that changes things.
    pub fn wait(&mut self, job: &JobUid, waiting: Option<Waiting>, now: Timestamp) -> Vec<String> {
        let before = match waiting.clone() {
            Some(waiting) => self.waiting.insert(job.clone(), waiting),
            None => self.waiting.remove(job),
        };
        let touched = before.into_iter().chain(waiting);
        touched.filter(|w| self.turned(&w.namespace, &w.pool, now)).map(|w| w.pool).collect()
    }

    /// Whether there were enough addresses before and are not now, or the other way round; or somebody waits for long now.
    fn turned(&mut self, namespace: &str, pool: &str, now: Timestamp) -> bool {
        let is_over = |at: Timestamp| at <= now;
        let starved =
            self.starved_at(None, None, namespace, pool).is_some_and(|(at, _)| is_over(at));
        let queued = self.queued_at(None, None, pool).is_some_and(is_over);
        let place = (namespace.to_owned(), pool.to_owned());
        let turned = put(&mut self.starved, place, starved);
        // That a queue is gone is no news to anybody: nobody makes a Service for it.
        turned | (put(&mut self.queued, pool.to_owned(), queued) && queued)
    }

    /// From when on no more Services are made in this namespace for this pool, and the one that waits longest for an
    /// address of it, given which of this job's own waits.
    pub fn starved_at<'a>(
        &'a self,
        job: Option<&JobUid>,
        own: Option<&'a Waiting>,
        namespace: &str,
        pool: &str,
    ) -> Option<(Timestamp, &'a Waiting)> {
        let longest = self.waits(job, own, pool).filter(|w| w.namespace == namespace);
        let longest = longest.min_by_key(|w| w.since)?;
        let given = self.moved.get(pool).and_then(|m| m.get(namespace)).and_then(|m| m.given);
        let since = given.map_or(longest.since, |given| given.max(longest.since));
        Some((later(since, STARVED_AFTER), longest))
    }

    /// From when on whoever does not need an address of this pool now gives it back, given which of this job's own Services
    /// waits. A queue that moves is still a queue.
    pub fn queued_at(
        &self,
        job: Option<&JobUid>,
        own: Option<&Waiting>,
        pool: &str,
    ) -> Option<Timestamp> {
        let longest = self.waits(job, own, pool).map(|w| w.since).min()?;
        Some(later(longest, QUEUED_AFTER))
    }

    fn waits<'a>(
        &'a self,
        job: Option<&JobUid>,
        own: Option<&'a Waiting>,
        pool: &str,
    ) -> impl Iterator<Item = &'a Waiting> {
        let others =
            self.waiting.iter().filter(move |(other, _)| Some(*other) != job).map(|(_, w)| w);
        others.chain(own).filter(move |w| w.pool == pool)
    }

    /// When a Service that waits since then is given up: its time runs from the last moment an address of the pool moved,
    /// in its own namespace or, up to a limit, in any.
    pub fn gives_up_at(
        &self,
        (namespace, pool): (&str, &str),
        created: Timestamp,
        seconds: i64,
    ) -> Timestamp {
        let namespaces = self.moved.get(pool);
        let own = namespaces.and_then(|n| n.get(namespace)).and_then(|moved| moved.last());
        let any = namespaces.and_then(|n| n.values().filter_map(|moved| moved.last()).max());
        let since = own.map_or(created, |own| own.max(created));
        // What moves for others may never come to this namespace.
        let last = after(since, seconds.saturating_mul(TIMES_BEHIND_OTHERS));
        after(any.map_or(since, |any| any.max(since)), seconds).min(last)
    }
}

/// Puts something into a set or takes it out. Says whether that changed anything.
fn put<T: Eq + Hash>(set: &mut HashSet<T>, item: T, there: bool) -> bool {
    if there { set.insert(item) } else { set.remove(&item) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn waiting(namespace: &str, pool: &str, since: i64) -> Waiting {
        Waiting {
            namespace: namespace.into(),
            job: "job".into(),
            service: "service".into(),
            pool: pool.into(),
            since: at(since),
            until: at(since + 120),
        }
    }

    fn a() -> JobUid {
        "a".into()
    }

    fn b() -> JobUid {
        "b".into()
    }

    fn starved(addresses: &Addresses, namespace: &str, pool: &str) -> Option<Timestamp> {
        addresses.starved_at(Some(&a()), None, namespace, pool).map(|(at, _)| at)
    }

    #[test]
    fn one_that_waits_too_long_holds_back_all_until_an_address_is_given() {
        let mut addresses = Addresses::default();
        assert_eq!(starved(&addresses, "ns", "pool"), None);
        let own = waiting("ns", "pool", 3);
        let both = |addresses: &Addresses| {
            addresses.starved_at(Some(&a()), Some(&own), "ns", "pool").map(|(at, _)| at)
        };
        assert_eq!(both(&addresses), Some(at(8)));
        let other = waiting("ns", "pool", 1);
        assert!(addresses.wait(&b(), Some(other.clone()), at(1)).is_empty(), "not yet");
        assert_eq!(both(&addresses), Some(at(6)));
        assert_eq!(addresses.wait(&b(), Some(other), at(6)), ["pool"], "not enough now");
        assert!(addresses.given("ns", "pool", at(10)), "and now there are");
        assert_eq!(starved(&addresses, "ns", "pool"), Some(at(15)));
        assert!(addresses.wait(&b(), None, at(11)).is_empty());
        assert_eq!(starved(&addresses, "ns", "pool"), None);
    }

    #[test]
    fn what_is_given_back_moves_the_queue_and_opens_no_gate() {
        let mut addresses = Addresses::default();
        addresses.wait(&b(), Some(waiting("ns", "pool", 1)), at(1));
        addresses.given_back("ns", "pool", at(20));
        assert_eq!(addresses.queued_at(Some(&a()), None, "pool"), Some(at(2)));
        assert_eq!(starved(&addresses, "ns", "pool"), Some(at(6)));
        assert_eq!(addresses.gives_up_at(("ns", "pool"), at(1), 120), at(140));
    }

    #[test]
    fn another_pool_and_another_namespace_are_not_held_back() {
        let mut addresses = Addresses::default();
        addresses.wait(&b(), Some(waiting("ns", "pool", 1)), at(1));
        assert_eq!(starved(&addresses, "ns", "another"), None);
        assert_eq!(starved(&addresses, "elsewhere", "pool"), None);
        addresses.given("elsewhere", "pool", at(10));
        assert_eq!(starved(&addresses, "ns", "pool"), Some(at(6)), "no address for this one");
    }

    #[test]
    fn a_queue_that_moves_for_others_alone_is_not_waited_in_for_ever() {
        let mut addresses = Addresses::default();
        let give_up = |addresses: &Addresses| addresses.gives_up_at(("ns", "pool"), at(0), 120);
        assert_eq!(give_up(&addresses), at(120));
        addresses.given("elsewhere", "another", at(100));
        assert_eq!(give_up(&addresses), at(120));
        addresses.given("elsewhere", "pool", at(100));
        assert_eq!(give_up(&addresses), at(220));
        addresses.given("elsewhere", "pool", at(1150));
        assert_eq!(give_up(&addresses), at(1200));
        addresses.given("ns", "pool", at(1160));
        assert_eq!(give_up(&addresses), at(1280), "it moves here, too");
    }

    #[test]
    fn what_moved_long_ago_and_nobody_waits_for_is_forgotten() {
        let mut addresses = Addresses::default();
        addresses.wait(&b(), Some(waiting("ns", "waited for", 1)), at(1));
        for pool in ["waited for", "left"] {
            addresses.given("ns", pool, at(2));
        }
        addresses.given("ns", "new", at(1000));
        let mut known: Vec<&String> = addresses.moved.keys().collect();
        known.sort();
        assert_eq!(known, ["new", "waited for"]);
    }
}
