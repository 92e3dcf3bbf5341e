//! The watches: one per kind, each turning objects into facts before they go any further.
//!
//! Lists are quorum reads, and they begin after the lease was won, so that nothing a former holder wrote is missed. Every
//! kind is listed again from time to time (resync): an event that never came would otherwise be waited for until a restart.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::process::crds::{MissingCrds, Needed};
use crate::process::metrics::SystemMetrics;

/// From a watch that cannot go on where it was to the next list.
const PAUSE: Duration = Duration::from_secs(1);

/// What a watch says of one kind.
#[derive(Debug)]
pub enum WatchEvent<T> {
    /// What follows, up to `Synced`, is all there is.
    Listing,
    /// This is there.
    There(T),
    /// This has left the watch.
    Left(T),
    /// The list is complete.
    Synced,
}

/// What the watches of a system need. `I` is its input.
pub struct Watches<I> {
    pub client: Client,
    pub namespace: Option<String>,
    pub missing: MissingCrds,
    pub metrics: SystemMetrics,
    pub resync: Resync,
    pub inputs: Sender<I>,
}

/// How long after its list a watch is trusted to have left nothing out.
#[derive(Clone, Copy, Debug)]
pub struct Resync {
    pub usual: Duration,
    /// If it has failed meanwhile. The cluster may have been restored from a backup, and a watch that goes on after a version
    /// that is yet to come says nothing.
    pub after_failure: Duration,
}

impl Resync {
    pub fn every(pause: Duration) -> Self {
        Self { usual: pause, after_failure: pause }
    }
}

impl<I: Send + 'static> Watches<I> {
    /// The same, for kinds that are listed as often as this.
    pub fn with_resync(&self, resync: Resync) -> Self {
        Self {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            missing: self.missing.clone(),
            metrics: self.metrics.clone(),
            resync,
            inputs: self.inputs.clone(),
        }
    }

    /// All objects of a kind, or those of the one namespace that is looked after.
    pub fn scoped<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// Starts the watch of a kind, once its CRD is there. `read` keeps what is wanted of an object. It ends when nobody takes
    /// what it says any more.
    pub fn spawn<K, T>(
        &self,
        kind: &'static str,
        needed: Option<Needed>,
        api: Api<K>,
        config: watcher::Config,
        read: impl Fn(K) -> Option<T> + Send + Sync + 'static,
        input: impl Fn(WatchEvent<T>) -> I + Send + Sync + 'static,
    ) -> JoinHandle<()>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        T: Send,
    {
        let (missing, metrics) = (self.missing.clone(), self.metrics.clone());
        let (resync, inputs) = (self.resync, self.inputs.clone());
        tokio::spawn(async move {
            if let Some(needed) = needed {
                missing.wait_for(needed).await;
            }
            while !inputs.is_closed() {
                let events = watcher(api.clone(), config.clone()).default_backoff();
                let followed = follow(kind, events, resync, &read, &input, &metrics, &inputs);
                if followed.await == Ended::CannotGoOn {
                    sleep(PAUSE).await;
                }
            }
        })
    }
}

/// Why a watch was followed no further.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// It is time for a list.
    Resync,
    /// It cannot go on where it was.
    CannotGoOn,
}

/// Passes on what a watch says, for as long as it can go on and is trusted. A list may take
/// longer than that, as long as it moves on: to begin it again would never come to an end.
async fn follow<K: Resource, T, I>(
    kind: &'static str,
    events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>>,
    resync: Resync,
    read: &impl Fn(K) -> Option<T>,
    input: &impl Fn(WatchEvent<T>) -> I,
    metrics: &SystemMetrics,
    inputs: &Sender<I>,
) -> Ended {
    let mut events = std::pin::pin!(events);
    let mut until = Instant::now() + resync.usual;
    loop {
        let event = match timeout_at(until, events.next()).await {
            Ok(Some(event)) => event,
            Ok(None) => return Ended::CannotGoOn,
            Err(_) => return Ended::Resync,
        };
        metrics.watch_heard(kind);
        if let Ok(watcher::Event::InitApply(_) | watcher::Event::InitDone) = &event {
            until = Instant::now() + resync.usual;
        }
        let seen = match event {
            Ok(watcher::Event::Init) => Some(WatchEvent::Listing),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                read(object).map(WatchEvent::There)
            }
            Ok(watcher::Event::Delete(object)) => read(object).map(WatchEvent::Left),
            Ok(watcher::Event::InitDone) => Some(WatchEvent::Synced),
            Err(error) => {
                metrics.watch_failed(kind);
                until = until.min(Instant::now() + resync.after_failure);
                tracing::warn!(kind, %error, "the watch failed and will be tried again");
                // kube asks for the same past again and again when the server has forgotten it: only a list helps.
                if let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = &error
                    && status.code == 410
                {
                    return Ended::CannotGoOn;
                }
                None
            }
        };
        if let Some(seen) = seen
            && inputs.send(input(seen)).await.is_err()
        {
            return Ended::CannotGoOn;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use k8s_openapi::api::core::v1::Service;
    use tokio::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_list_that_takes_longer_than_a_watch_is_trusted_comes_to_its_end() {
        let resync = Duration::from_secs(2);
        let began = Instant::now();
        let pages = stream::iter(0..6).then(async |_| {
            sleep(resync / 4).await;
            Ok(watcher::Event::InitApply(Service::default()))
        });
        let done = stream::iter([Ok(watcher::Event::InitDone)]);
        let events = pages.chain(done).chain(stream::pending());
        let ((inputs, mut arriving), metrics) = (channel(16), SystemMetrics::default());
        let input = |event: WatchEvent<Service>| event;
        let every = Resync::every(resync);
        let followed = follow("services", events, every, &Some, &input, &metrics, &inputs);
        assert_eq!(followed.await, Ended::Resync);
        assert!(began.elapsed() >= 6 * resync / 4 + resync);
        let mut seen = Vec::new();
        while let Ok(event) = arriving.try_recv() {
            seen.push(event);
        }
        assert_eq!(seen.len(), 7);
        assert!(matches!(seen.last(), Some(WatchEvent::Synced)));
    }
    #[tokio::test]
    async fn a_watch_that_has_failed_is_trusted_for_a_shorter_time() {
        let resync =
            Resync { usual: Duration::from_secs(3600), after_failure: Duration::from_millis(100) };
        let failure = || watcher::Error::NoResourceVersion;
        let events = stream::iter([Ok(watcher::Event::InitDone), Err(failure())]);
        let events = events.chain(stream::pending::<Result<watcher::Event<Service>, _>>());
        let ((inputs, _arriving), metrics) = (channel(16), SystemMetrics::default());
        let input = |event: WatchEvent<Service>| event;
        let followed = follow("services", events, resync, &Some, &input, &metrics, &inputs);
        let ended = timeout_at(Instant::now() + Duration::from_secs(60), followed).await;
        assert_eq!(ended.unwrap(), Ended::Resync);
    }
}
