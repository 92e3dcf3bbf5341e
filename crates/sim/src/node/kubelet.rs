//! Plays the scheduler, the kubelet and the container runtime for the Pods of one namespace, or of all.
//!
//! A Pod is bound to a node. Its init containers run one after the other, then all others side by side, each as soon as every
//! ConfigMap and Secret key its environment must have is there. What ends is started again as `restartPolicy` says, with a
//! back-off; exit codes and termination messages are each container's own. A deleted Pod is ended, then removed. All of that
//! is written to the real API in the shapes a kubelet writes.
//!
//! A container whose image is in the table [`Images`] is a process of this machine (see `process`). Any other plays a
//! [`Script`], in which nothing is executed.
//!
//! It differs from the real ones in this: all Pods fit on one node; where nothing is executed, volumes are always there, and
//! a container that is told to end takes as long as its script says, whatever its grace period; keys are looked up live, so
//! that there is no watch lag between a key's withdrawal and a container's start; a back-off is never forgotten. A Pod past its
//! deadline is Failed while its containers still end, as older kubelets report it. An init container with a `restartPolicy` of
//! its own (a sidecar) is taken for any other, and so is waited for, as kubelets before 1.28 do. Of probes there is readiness
//! by `exec`, and there are no hooks, resources or readiness gates.
//!
//! What [`Kubelet::starts`] returns is the truth about what ran in tests.

mod api;
mod container;
mod env;
mod folder;
mod hosts;
mod images;
mod logs;
mod pod;
mod probe;
mod process;
mod run;
mod script;
mod status;
mod volumes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

pub use self::folder::Root;
pub use self::images::{Env, Images, Program};
use self::logs::Logs;
use self::pod::{Life, Worker};
pub use self::script::{Farewell, Script, ScriptEnd};
use crate::observe::{Change, observe};
use crate::usage::Usage;

/// The node every Pod is bound to.
pub const NODE: &str = "sim-node";
/// Its address.
pub const NODE_IP: &str = "198.51.100.1";

/// The first back-off of a container that is started again, and more than once.
const BACK_OFF: Duration = Duration::from_secs(10);

/// Calls at once. A thousand Pods must not open a thousand connections.
const CALLS: usize = 64;

/// One start of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod's name.
    pub pod: String,
    /// The Pod's uid.
    pub uid: String,
    /// The container's name.
    pub container: String,
    /// Its image.
    pub image: String,
    /// The environment that the Pod gives it; for one that plays a script, optional sources are left out.
    pub env: Env,
    /// When the container started.
    pub at: jiff::Timestamp,
    /// When it ended; `None` while it runs.
    pub ended_at: Option<jiff::Timestamp>,
    /// How it ended; `None` while it runs, and when nobody was there to see it.
    pub exit_code: Option<i32>,
    /// What it had used up shortly before it ended, if it was a process.
    pub usage: Option<Usage>,
}

/// What all Pods share.
struct Shared {
    client: Client,
    script: Box<dyn Fn(&Pod) -> Script + Send + Sync>,
    images: Option<Images>,
    back_off: Duration,
    logs: Logs,
    calls: Semaphore,
    held: watch::Sender<bool>,
    starts: watch::Sender<Vec<Started>>,
}

/// How a kubelet differs from the usual one.
#[derive(Debug, Clone)]
pub struct KubeletOptions {
    /// Whose Pods it runs; those of all namespaces if none is named.
    pub namespace: Option<String>,
    /// The images whose containers are processes.
    pub images: Option<Images>,
    /// The first back-off of a container that is started again, and more than once. It doubles, up to thirty times as much.
    pub back_off: Duration,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self { namespace: None, images: None, back_off: BACK_OFF }
    }
}

/// A running kubelet. When dropped it falls silent, as a node does that lost its network.
pub struct Kubelet {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Starts on the current runtime, for the Pods of one namespace.
    pub fn start(
        client: Client,
        namespace: &str,
        script: impl Fn(&Pod) -> Script + Send + Sync + 'static,
    ) -> Self {
        let namespace = Some(namespace.to_owned());
        let options = KubeletOptions { namespace, ..KubeletOptions::default() };
        Self::spawn(client, options, Box::new(script))
    }

    /// Starts on the current runtime, for the Pods of all namespaces.
    pub fn start_all(
        client: Client,
        script: impl Fn(&Pod) -> Script + Send + Sync + 'static,
    ) -> Self {
        Self::spawn(client, KubeletOptions::default(), Box::new(script))
    }

    /// Starts on the current runtime. There is a Node then too, and `kubectl logs` works for containers that are processes.
    /// Where several do so in one cluster, it works for those of the last.
    pub async fn start_with(
        client: Client,
        options: KubeletOptions,
        script: impl Fn(&Pod) -> Script + Send + Sync + 'static,
    ) -> Result<Self> {
        let kubelet = Self::spawn(client.clone(), options, Box::new(script));
        let port = kubelet.shared.logs.serve().await?;
        api::register(&client, port).await?;
        Ok(kubelet)
    }

    fn spawn(
        client: Client,
        options: KubeletOptions,
        script: Box<dyn Fn(&Pod) -> Script + Send + Sync>,
    ) -> Self {
        let pods = match &options.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let shared = Arc::new(Shared {
            client,
            script,
            images: options.images,
            back_off: options.back_off,
            logs: Logs::default(),
            calls: Semaphore::new(CALLS),
            held: watch::Sender::new(false),
            starts: watch::Sender::new(Vec::new()),
        });
        let task = tokio::spawn(run(pods, shared.clone()));
        Self { shared, task }
    }

    /// Every container start so far, in order.
    pub fn starts(&self) -> Vec<Started> {
        self.shared.starts.borrow().clone()
    }

    /// Waits until so many containers have started, and returns all starts.
    pub async fn started(&self, count: usize) -> Vec<Started> {
        self.starts_when(|starts| starts.len() >= count).await
    }

    /// Waits until the starts are as the test wants them, and returns them. Ends of containers count as changes.
    pub async fn starts_when(&self, wanted: impl Fn(&[Started]) -> bool) -> Vec<Started> {
        let mut starts = self.shared.starts.subscribe();
        // The sender is ours, so the wait cannot fail.
        let _ = starts.wait_for(|starts| wanted(starts)).await;
        self.starts()
    }

    /// From now on no container starts: Pods stay in ContainerCreating.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    /// Lets containers start again.
    pub fn release(&self) {
        self.shared.held.send_replace(false);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(pods: Api<Pod>, shared: Arc<Shared>) {
    let mut events = Box::pin(observe(pods));
    let mut lives: HashMap<String, watch::Sender<Life>> = HashMap::new();
    // Owned here, so that the Pods' tasks end with this one.
    let mut tasks = JoinSet::new();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            Some(_) = tasks.join_next() => continue,
        };
        match event {
            Some(Change::Here(pod)) => {
                let uid = pod.uid().unwrap_or_default();
                let life = match pod.metadata.deletion_timestamp {
                    None => Life::Wanted,
                    Some(_) => Life::Leaving,
                };
                match lives.get(&uid) {
                    Some(sender) => drop(sender.send_replace(life)),
                    None => {
                        let (sender, receiver) = watch::channel(life);
                        lives.insert(uid, sender);
                        tasks.spawn(Worker::new(shared.clone(), *pod, receiver).run());
                    }
                }
            }
            // The sender is dropped, which tells the task that the Pod is gone.
            Some(Change::Gone(uid)) => drop(lives.remove(&uid)),
            None => return,
        }
    }
}
