//! Who waits for news of a device: requests that are held until something has changed.
//!
//! Whoever waits says so first, then looks once more, and only then waits. A change in between wakes all the same, since each
//! keeps a wake that has come before it slept. A wake says that it is worth looking, and not that there is anything new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Of one device. It has one; the others are of connections that broke, and nobody has noticed yet.
const MOST_EACH: usize = 4;

type Waiters = HashMap<String, Vec<Arc<Notify>>>;

#[derive(Clone, Default)]
pub struct Waiting(Arc<Mutex<Waiters>>);

/// One that waits. Dropped, it does no longer.
pub struct Waiter {
    waiting: Waiting,
    name: String,
    news: Arc<Notify>,
}

impl Waiting {
    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: enough of this device wait already.
    pub fn follow(&self, name: &str) -> Option<Waiter> {
        let news = Arc::new(Notify::new());
        let mut all = self.waiters();
        match all.get_mut(name) {
            Some(of_it) if of_it.len() >= MOST_EACH => return None,
            Some(of_it) => of_it.push(news.clone()),
            None => drop(all.insert(name.to_owned(), vec![news.clone()])),
        }
        drop(all);
        Some(Waiter { waiting: self.clone(), name: name.to_owned(), news })
    }

    /// Something has changed that this device may be concerned by.
    pub fn wake(&self, name: &str) {
        self.waiters().get(name).into_iter().flatten().for_each(|news| news.notify_one());
    }

    /// The same for all.
    pub fn wake_all(&self) {
        self.waiters().values().flatten().for_each(|news| news.notify_one());
    }

    #[cfg(test)]
    pub fn names(&self) -> usize {
        self.waiters().len()
    }
}

impl Waiter {
    /// Until it is woken, or at once if it was since the last time.
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut all = self.waiting.waiters();
        let Some(of_it) = all.get_mut(&self.name) else { return };
        of_it.retain(|news| !Arc::ptr_eq(news, &self.news));
        if of_it.is_empty() {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn is_woken(waiter: &Waiter) -> bool {
        waiter.news().now_or_never().is_some()
    }

    #[test]
    fn a_wake_is_for_all_of_a_device_for_no_other_and_counts_when_it_comes_first() {
        let waiting = Waiting::default();
        let follow = |name| waiting.follow(name).unwrap();
        let (one, other, another) = (follow("a"), follow("a"), follow("b"));
        waiting.wake("a");
        waiting.wake("a");
        waiting.wake("nobody");
        assert_eq!([&one, &other, &another].map(is_woken), [true, true, false]);
        assert_eq!([&one, &other].map(is_woken), [false, false], "once is enough");
        waiting.wake_all();
        assert_eq!([&one, &other, &another].map(is_woken), [true; 3]);
    }

    #[test]
    fn a_device_has_four_and_who_goes_leaves_nothing() {
        let waiting = Waiting::default();
        let mut four: Vec<_> = (0..4).map(|_| waiting.follow("a").unwrap()).collect();
        assert!(waiting.follow("a").is_none());
        assert!(waiting.follow("b").is_some());
        four.swap_remove(1);
        let fifth = waiting.follow("a").unwrap();
        waiting.wake("a");
        assert!(four.iter().all(is_woken) && is_woken(&fifth));
        drop((four, fifth));
        assert_eq!(waiting.names(), 0);
    }

    /// An edit may concern a whole fleet. It is the controller that wakes it, and it has other things to do.
    #[tokio::test]
    async fn ten_thousand_are_woken_at_once() {
        let waiting = Waiting::default();
        let held: Vec<_> = (0..10_000)
            .map(|n| {
                let waiter = waiting.follow(&format!("device-{n}")).unwrap();
                tokio::spawn(async move { waiter.news().await })
            })
            .collect();
        tokio::task::yield_now().await;
        let from_elsewhere = waiting.clone();
        let took = std::thread::spawn(move || {
            let began = std::time::Instant::now();
            (0..10_000).for_each(|n| from_elsewhere.wake(&format!("device-{n}")));
            began.elapsed()
        });
        let took = took.join().unwrap();
        for woken in held {
            woken.await.unwrap();
        }
        assert_eq!(waiting.names(), 0);
        assert!(took < std::time::Duration::from_secs(1), "{took:?}");
    }
}
