//! A real node: controller-manager, scheduler, containerd and kubelet beside a [`Cluster`], so that Pods are containers.
//!
//! Whatever Pods talk to outside of the cluster are processes of this machine on addresses of the Pods' bridge. It differs from a
//! node in the field in that there is no kube-proxy and no DNS: the API server's address and those of load-balanced Services
//! are carried by a [`Forwarder`], and other Services lead nowhere.
//!
//! A node changes the machine it runs on. So it starts only behind `hack/fence.sh`, where nothing it does is left.

mod machine;
mod runtime;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;

use self::runtime::Runtime;
use crate::cluster::{Cluster, ClusterOptions};
use crate::lock;
use crate::node::forward::{Forwarder, To};
use crate::node::load_balancer::{AddressPool, LoadBalancer};
use crate::pki::SERVICE_ADDRESS;
use crate::process::{Running, Scratch};
use crate::wait::eventually;

/// The node's name.
pub const NAME: &str = "node";
/// Its address, and the gateway of its Pods.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
/// How long anything may take to come about; far longer than it does.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a node is made of.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The folder that `hack/node.sh` prints.
    pub programs: PathBuf,
    /// Archives of the images that Pods run, and of `localhost/pause:e2e`, which holds their namespaces.
    pub images: Vec<PathBuf>,
    /// The cgroup that `hack/fence.sh` has made.
    pub cgroup: String,
    /// How many addresses the load balancer has.
    pub addresses: u8,
    /// The port that Services have there.
    pub port: u16,
}

/// A node at work. It ends when this is dropped, and also when our process ends in whatever way.
pub struct Node {
    _forwarders: Vec<Forwarder>,
    _balancer: LoadBalancer,
    kubelet: Mutex<Option<Running>>,
    _controllers: Vec<Running>,
    _runtime: Runtime,
    /// The control plane.
    pub cluster: Cluster,
    options: NodeOptions,
    scratch: Scratch,
}

impl Node {
    /// Starts a control plane and its node, and waits until the node is ready. `tell` hears what is done next.
    pub async fn start(options: NodeOptions, tell: &dyn Fn(&str)) -> Result<Self> {
        machine::claim()?;
        let scratch = Scratch::new("flashjob-node-")?;
        tell("etcd and kube-apiserver");
        // Its own name for itself leads nowhere here, and it asks the kubelet for logs.
        let args = ["--kubelet-preferred-address-types=InternalIP".to_owned()];
        let cluster = Cluster::start_with(&ClusterOptions { api_server_args: args.into() }).await?;

        tell("kube-controller-manager and kube-scheduler");
        let mut controllers = Vec::new();
        let manager = cluster.controller_manager(&[]).await?;
        controllers.push(manager.context("no kube-controller-manager: run `make assets`")?);
        controllers.push(scheduler(&cluster, scratch.path())?);

        tell("containerd, with the images");
        machine::give(SERVICE_ADDRESS.parse()?)?;
        let runtime = Runtime::start(&options, scratch.path()).await?;

        tell("load balancer");
        let api_server = cluster.url().trim_start_matches("https://").parse()?;
        let inside = SocketAddr::new(SERVICE_ADDRESS.parse()?, 443);
        let mut forwarders = vec![Forwarder::start(inside, To::Address(api_server)).await?];
        let mut pool = Vec::new();
        for number in 1..=options.addresses {
            let address = Ipv4Addr::new(10, 88, 1, number);
            machine::give(address)?;
            let services = To::Services(cluster.client("load-balancer")?);
            forwarders.push(Forwarder::start((address, options.port).into(), services).await?);
            pool.push(address.to_string());
        }
        let client = cluster.client("load-balancer")?;
        let balancer = LoadBalancer::start(client, None, AddressPool::Addresses(pool));

        let node = Self {
            _forwarders: forwarders,
            _balancer: balancer,
            kubelet: Mutex::default(),
            _controllers: controllers,
            _runtime: runtime,
            cluster,
            options,
            scratch,
        };
        tell("kubelet");
        node.start_kubelet()?;
        node.until_ready(true).await?;
        Ok(node)
    }

    /// Starts the kubelet, or starts it again.
    pub fn start_kubelet(&self) -> Result<()> {
        let program = self.cluster.assets().kubelet.as_deref();
        let program = program.context("no kubelet: run `make assets ASSETS=node`")?;
        let token = self.cluster.token("kubelet").unwrap_or_default();
        let kubeconfig = self.cluster.kubeconfig(token, "default", None)?;
        let folder = self.scratch.path();
        let args = kubelet_args(&kubeconfig, folder, &self.options.cgroup);
        let env = runtime::environment(&self.options.programs);
        let kubelet = Running::start_with(program, &args, Some(&env), folder.join("kubelet.log"))?;
        *self.kubelet() = Some(kubelet);
        Ok(())
    }

    /// Ends the kubelet at once. Containers go on, and nobody starts, watches or ends one.
    pub fn stop_kubelet(&self) {
        *self.kubelet() = None;
    }

    /// Waits until the cluster takes the node for ready, or no longer does.
    pub async fn until_ready(&self, ready: bool) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.cluster.client("admin")?);
        let what = if ready { "the node to be ready" } else { "the node to be missed" };
        let waited = eventually(what, PATIENCE, async || {
            if self.kubelet().as_mut().is_some_and(Running::has_ended) {
                bail!("the kubelet has ended");
            }
            let node = nodes.get_opt(NAME).await?;
            let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
            let now = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
            Ok((now == ready).then_some(()))
        });
        waited
            .await
            .with_context(|| self.kubelet().as_ref().map(Running::last_words).unwrap_or_default())
    }

    /// An address of this machine that Pods reach, for the device of this number.
    pub fn device(&self, number: u8, port: u16) -> Result<SocketAddrV4> {
        let address = Ipv4Addr::new(10, 88, 2, number);
        machine::give(address)?;
        Ok(SocketAddrV4::new(address, port))
    }

    /// A kubeconfig with all rights.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let token = self.cluster.token("admin").unwrap_or_default();
        self.cluster.kubeconfig(token, "default", None)
    }

    fn kubelet(&self) -> MutexGuard<'_, Option<Running>> {
        lock(&self.kubelet)
    }
}

fn scheduler(cluster: &Cluster, folder: &Path) -> Result<Running> {
    let program = cluster.assets().scheduler.as_deref();
    let program = program.context("no kube-scheduler: run `make assets ASSETS=node`")?;
    let token = cluster.token("admin").unwrap_or_default();
    let kubeconfig = cluster.kubeconfig(token, "default", None)?;
    let args = [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        // It serves nothing we ask for.
        "--port=0".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    Running::start(program, &args, folder.join("kube-scheduler.log"))
}

fn kubelet_args(kubeconfig: &Path, folder: &Path, cgroup: &str) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-dir={}", folder.join("kubelet").display()),
        format!("--cert-dir={}", folder.join("kubelet/pki").display()),
        format!("--volume-plugin-dir={}", folder.join("kubelet/volume-plugins").display()),
        format!("--hostname-override={NAME}"),
        format!("--node-ip={HOST}"),
        format!("--address={HOST}"),
        "--read-only-port=0".to_owned(),
        "--healthz-port=0".to_owned(),
        "--container-runtime=remote".to_owned(),
        format!("--container-runtime-endpoint=unix://{}", runtime::SOCKET),
        "--cgroup-driver=cgroupfs".to_owned(),
        format!("--cgroup-root={cgroup}"),
        "--enforce-node-allocatable=".to_owned(),
        // The fence shows it the settings it wants; should it want another, it has to say so and not set it.
        "--protect-kernel-defaults=true".to_owned(),
        "--make-iptables-util-chains=false".to_owned(),
        "--oom-score-adj=0".to_owned(),
        "--fail-swap-on=false".to_owned(),
        // A developer's full disk is no reason to end Pods.
        "--eviction-hard=".to_owned(),
        "--image-gc-high-threshold=100".to_owned(),
        // There is no DNS behind the fence.
        "--resolv-conf=".to_owned(),
    ]
}
