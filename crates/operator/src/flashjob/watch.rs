//! The watches: one per kind, each turning objects into facts before they go any further.
//!
//! Lists are quorum reads, and they begin after the lease was won, so that nothing a former holder wrote is missed. Every
//! kind is listed anew from time to time: an event that never came would otherwise be waited for until a restart.

use std::fmt::Debug;
use std::time::Duration;

use flashjob_plan::flashjob::children::Foreign;
use flashjob_plan::flashjob::facts::{Pod, Service};
use flashjob_plan::flashjob::instances::Instance;
use flashjob_plan::flashjob::names;
use futures::{Stream, StreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout_at};

use super::engine::Input;
use super::observe::{self, Child};
use super::slim;
use crate::process::crds::{FLASHJOBS, INSTANCES, Missing, Needed};
use crate::process::metrics::Metrics;

/// From a watch that cannot go on where it was to the next list.
const PAUSE: Duration = Duration::from_secs(1);

/// Jobs that are listed at once.
const JOBS_PER_PAGE: u32 = 8;

/// What a watch says of one kind.
#[derive(Debug)]
pub enum Seen<T> {
    /// What follows, up to `Synced`, is all there is.
    Listing,
    /// This is there.
    There(T),
    /// This has left the watch.
    Left(T),
    /// The list is complete.
    Synced,
}

/// An object that says it belongs to a job, or one that has our labels and no more.
pub type Claimed<T> = Result<Box<Child<T>>, Box<Foreign>>;

/// What any of the watches says.
#[derive(Debug)]
pub enum Sight {
    Job(Seen<Box<slim::FlashJob>>),
    Instance(Seen<Box<Instance>>),
    Pod(Seen<Claimed<Pod>>),
    Service(Seen<Claimed<Service>>),
}

/// What the watches need.
#[derive(Clone)]
pub struct Watches {
    pub client: Client,
    pub namespace: Option<String>,
    pub missing: Missing,
    pub metrics: Metrics,
    pub list_anew: Duration,
    pub inputs: Sender<Input>,
}

impl Watches {
    /// Starts the watch of jobs. Each may be a megabyte large: small pages keep the memory flat.
    pub fn start_jobs(&self) {
        let jobs: Api<slim::FlashJob> = self.scoped();
        let read = |object| Some(Box::new(object));
        let all = watcher::Config::default().page_size(JOBS_PER_PAGE);
        self.spawn("flashjobs", Some(FLASHJOBS), jobs, all, read, Sight::Job);
    }

    /// Starts the watch of Instances. They may be in any namespace; which of them a job may use is a decision.
    pub fn start_instances(&self) {
        let instances: Api<slim::Instance> = Api::all(self.client.clone());
        let read = |object| observe::instance(object).map(Box::new);
        let all = watcher::Config::default();
        self.spawn("instances", Some(INSTANCES), instances, all, read, Sight::Instance);
    }

    /// Starts the watches of what belongs to jobs. The jobs are known by now: whether there is one that an object belongs to
    /// can be told at once.
    pub fn start_children(&self) {
        let ours = watcher::Config::default().labels(names::JOB_UID);
        let pods: Api<slim::Pod> = self.scoped();
        let read = |object| Some(observe::pod(object).map(Box::new).map_err(Box::new));
        self.spawn("pods", None, pods, ours.clone(), read, Sight::Pod);

        let services: Api<slim::Service> = self.scoped();
        let read = |object| Some(observe::service(object).map(Box::new).map_err(Box::new));
        self.spawn("services", None, services, ours, read, Sight::Service);
    }

    fn scoped<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn spawn<K, T>(
        &self,
        kind: &'static str,
        needed: Option<Needed>,
        api: Api<K>,
        config: watcher::Config,
        read: impl Fn(K) -> Option<T> + Send + Sync + 'static,
        say: impl Fn(Seen<T>) -> Sight + Send + Sync + 'static,
    ) where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        T: Send,
    {
        let Watches { missing, metrics, list_anew, inputs, .. } = self.clone();
        tokio::spawn(async move {
            if let Some(needed) = needed {
                missing.wait_for(needed).await;
            }
            while !inputs.is_closed() {
                let events = watcher(api.clone(), config.clone()).default_backoff();
                let followed = follow(kind, events, list_anew, &read, &say, &metrics, &inputs);
                if followed.await == Ended::CannotGoOn {
                    sleep(PAUSE).await;
                }
            }
        });
    }
}

/// Why a watch was followed no further.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// It is time for a list.
    ListAnew,
    /// It cannot go on where it was.
    CannotGoOn,
}

/// Passes on what a watch says, for as long as it can go on, but not longer than `list_anew` after its list. A list may take
/// longer than that, as long as it moves on: to begin it again would never come to an end.
async fn follow<K: Resource, T>(
    kind: &'static str,
    events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>>,
    list_anew: Duration,
    read: &impl Fn(K) -> Option<T>,
    say: &impl Fn(Seen<T>) -> Sight,
    metrics: &Metrics,
    inputs: &Sender<Input>,
) -> Ended {
    let mut events = std::pin::pin!(events);
    let mut until = Instant::now() + list_anew;
    loop {
        let event = match timeout_at(until, events.next()).await {
            Ok(Some(event)) => event,
            Ok(None) => return Ended::CannotGoOn,
            Err(_) => return Ended::ListAnew,
        };
        metrics.watch_heard(kind);
        if let Ok(watcher::Event::InitApply(_) | watcher::Event::InitDone) = &event {
            until = Instant::now() + list_anew;
        }
        let seen = match event {
            Ok(watcher::Event::Init) => Some(Seen::Listing),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                read(object).map(Seen::There)
            }
            Ok(watcher::Event::Delete(object)) => read(object).map(Seen::Left),
            Ok(watcher::Event::InitDone) => Some(Seen::Synced),
            Err(error) => {
                metrics.watch_failed(kind);
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
            && inputs.send(Input::Sight(say(seen))).await.is_err()
        {
            return Ended::CannotGoOn;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use tokio::sync::mpsc::channel;

    use super::*;

    fn service() -> slim::Service {
        serde_json::from_value(serde_json::json!({ "metadata": { "name": "a" } })).unwrap()
    }

    #[tokio::test]
    async fn a_list_that_takes_longer_than_a_watch_is_trusted_comes_to_its_end() {
        let list_anew = Duration::from_secs(2);
        let began = Instant::now();
        let pages = stream::iter(0..6).then(async |_| {
            sleep(list_anew / 4).await;
            Ok(watcher::Event::InitApply(service()))
        });
        let done = stream::iter([Ok(watcher::Event::InitDone)]);
        let events = pages.chain(done).chain(stream::pending());
        let ((inputs, mut arriving), metrics) = (channel(16), Metrics::new());
        let read = |object| Some(observe::service(object).map(Box::new).map_err(Box::new));
        let followed =
            follow("services", events, list_anew, &read, &Sight::Service, &metrics, &inputs);
        assert_eq!(followed.await, Ended::ListAnew);
        assert!(began.elapsed() >= 6 * list_anew / 4 + list_anew);
        let mut seen = Vec::new();
        while let Ok(Input::Sight(Sight::Service(sight))) = arriving.try_recv() {
            seen.push(sight);
        }
        assert_eq!(seen.len(), 7);
        assert!(matches!(seen.last(), Some(Seen::Synced)));
    }
}
