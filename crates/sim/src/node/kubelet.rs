//! Plays the scheduler, the kubelet and the container runtime for the Pods of one namespace, or of all.
//!
//! A Pod is bound to a node, waits until every ConfigMap and Secret key its environment must have is there, starts,
//! runs as long as its script says, and ends with a termination message. A deleted Pod is ended, then removed. All of
//! that is written to the real API in the shapes a kubelet writes.
//!
//! It differs from the real ones in this: nothing is executed, a script says how it goes (or the flash container is a
//! process of this machine, see `process`; containers beside it are not run then); all Pods fit on one node;
//! volumes are always there; keys are looked up live, so that there is no watch lag between a key's withdrawal and a
//! container's start; and a container that is told to end takes as long as its script says, whatever its grace period.
//! A Pod past its deadline is Failed while its container still ends, as older kubelets report it.
//!
//! What [`Kubelet::starts`] returns is the truth about flashes in tests: a container that started has reached a board.

mod api;
mod env;
mod logs;
mod pod;
mod process;
mod status;
mod volumes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use self::logs::Logs;
use self::pod::{Life, Worker};
pub use self::process::Program;
use crate::observe::{Seen, observe};
use crate::usage::Usage;

/// The node every Pod is bound to.
pub const NODE: &str = "sim-node";
/// Its address.
pub const NODE_IP: &str = "198.51.100.1";

/// Calls at once. A thousand Pods must not open a thousand connections.
const CALLS: usize = 64;

/// How it goes with one Pod. The default is instant success without a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// From the binding to the start of the container: pulling images, mounting volumes.
    pub start_after: Duration,
    /// From the start of the container to its end.
    pub run_for: Duration,
    /// How it ends.
    pub end: End,
    /// How the container takes SIGTERM, be it for the deadline or for a deletion.
    pub on_sigterm: Farewell,
    /// Containers beside the first go on when it has ended, until the Pod is deleted or its deadline has passed.
    pub sidecars_run_on: bool,
}

/// How a container ends that is told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Farewell {
    /// From SIGTERM to the end of the container.
    pub after: Duration,
    /// The exit code.
    pub exit_code: i32,
    /// The termination message.
    pub message: String,
}

impl Default for Farewell {
    fn default() -> Self {
        Self { after: Duration::ZERO, exit_code: status::TERMINATED, message: String::new() }
    }
}

/// How it ends with one Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The container exits with 0.
    Success {
        /// The termination message.
        message: String,
    },
    /// The container exits with something else.
    Failure {
        /// The exit code.
        exit_code: i32,
        /// The termination message.
        message: String,
    },
    /// The container runs until the Pod is deleted or its deadline has passed.
    Never,
    /// No node takes the Pod.
    Unschedulable,
    /// The image cannot be had; the container never starts.
    ImagePullBackOff,
    /// The container is a real process and ends as that does; for [`Kubelet::start_programs`].
    Program,
    /// The node runs short and throws the Pod out after `run_for`: Failed, and no word of its containers.
    Evicted,
}

impl Default for Script {
    fn default() -> Self {
        Self::success("")
    }
}

impl Script {
    /// Instant success with a termination message.
    pub fn success(message: impl Into<String>) -> Self {
        Self::ending(End::Success { message: message.into() })
    }

    /// Instant failure with a termination message.
    pub fn failure(exit_code: i32, message: impl Into<String>) -> Self {
        Self::ending(End::Failure { exit_code, message: message.into() })
    }

    /// This end, at once.
    pub fn ending(end: End) -> Self {
        Self {
            start_after: Duration::ZERO,
            run_for: Duration::ZERO,
            end,
            on_sigterm: Farewell::default(),
            sidecars_run_on: false,
        }
    }

    /// The same, with the container running this long.
    pub fn run_for(mut self, time: Duration) -> Self {
        self.run_for = time;
        self
    }

    /// The same, with the container starting this much later.
    pub fn start_after(mut self, time: Duration) -> Self {
        self.start_after = time;
        self
    }

    /// The same, with a container that ends this long after SIGTERM, and so.
    pub fn on_sigterm(mut self, after: Duration, exit_code: i32, message: &str) -> Self {
        self.on_sigterm = Farewell { after, exit_code, message: message.to_owned() };
        self
    }

    /// The same, with sidecars that do not end with the first container.
    pub fn sidecars_run_on(mut self) -> Self {
        self.sidecars_run_on = true;
        self
    }
}

/// One start of a flash container.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod's name.
    pub pod: String,
    /// The Pod's uid.
    pub uid: String,
    /// The container's image: what is in it decides whether the board was asked at all.
    pub image: String,
    /// `HOST_ENDPOINT` in the container's environment: the board.
    pub endpoint: String,
    /// `ATTEMPT` in the container's environment.
    pub attempt: String,
    /// The whole environment, optional sources left out.
    pub env: BTreeMap<String, String>,
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
    program: Option<Program>,
    logs: Logs,
    calls: Semaphore,
    held: watch::Sender<bool>,
    starts: watch::Sender<Vec<Started>>,
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
        let pods = Api::namespaced(client.clone(), namespace);
        Self::spawn(client, pods, Box::new(script), None)
    }

    /// Starts on the current runtime, for the Pods of all namespaces.
    pub fn start_all(
        client: Client,
        script: impl Fn(&Pod) -> Script + Send + Sync + 'static,
    ) -> Self {
        let pods = Api::all(client.clone());
        Self::spawn(client, pods, Box::new(script), None)
    }

    /// Starts on the current runtime, for the Pods of all namespaces, whose first containers are processes of this
    /// machine. There is a Node then too, and `kubectl logs` works.
    pub async fn start_programs(client: Client, program: Program) -> Result<Self> {
        let pods = Api::all(client.clone());
        let script = |_: &Pod| Script::ending(End::Program);
        let kubelet = Self::spawn(client.clone(), pods, Box::new(script), Some(program));
        let port = kubelet.shared.logs.serve().await?;
        api::register(&client, port).await?;
        Ok(kubelet)
    }

    fn spawn(
        client: Client,
        pods: Api<Pod>,
        script: Box<dyn Fn(&Pod) -> Script + Send + Sync>,
        program: Option<Program>,
    ) -> Self {
        let shared = Arc::new(Shared {
            client,
            script,
            program,
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
            Some(Seen::Here(pod)) => {
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
            Some(Seen::Gone(uid)) => drop(lives.remove(&uid)),
            None => return,
        }
    }
}
