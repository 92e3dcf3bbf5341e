//! A site: a namespace of a cluster with everything that a FlashJob meets there. Tests, chaos, benchmarks and the demo stand
//! on one; what is special to them they add themselves.
//!
//! ```text
//! Site          Akri's Instances of boards that are only names, a load balancer, a kubelet whose flash Pods are scripts
//! Site<Field>   the same with simulated boards, a registry, and flash Pods that are the real flasher
//! ```
//!
//! The operator is the real one in both, as a process with the rights `dist/install.yaml` gives it. Whoever wants one starts
//! it, with [`Site::operator`].

mod account;
mod block;
mod boards;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::FlashJob;
use flashjob_api::flashjob::instance::Instance;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client, Resource};

pub use self::account::{Account, Entry, Outcome};
pub use self::block::Block;
pub use self::boards::{NAMESPACE, SiteOptions};
use super::akri::Akri;
use super::flash_pod::{Flash, flashes};
use crate::cluster::{Cluster, Gate};
use crate::node::{AddressPool, Kubelet, LoadBalancer, Script};
use crate::{Launcher, Operator, PATIENCE, eventually};

/// The name of Akri's Configuration.
pub const CONFIGURATION: &str = "http-disc";

/// A site at work. It ends when this is dropped, and also when our process ends in whatever way.
pub struct Site<F = ()> {
    /// What stands outside of the cluster.
    pub field: F,
    pub kubelet: Arc<Kubelet>,
    pub balancer: LoadBalancer,
    /// Agent of the site's namespace.
    pub akri: Akri,
    /// Starts the operators of this site.
    pub operators: Launcher,
    /// The namespace of boards and jobs.
    pub namespace: String,
    /// What may do everything.
    pub client: Client,
    /// The same as a file.
    pub kubeconfig: PathBuf,
    pub cluster: Cluster,
}

impl Site {
    /// A fresh namespace of the cluster that all tests of this process share, whose Pods go as `script` says.
    pub async fn new(script: impl Fn(&Pod) -> Script + Send + Sync + 'static) -> Result<Site> {
        Site::on(Cluster::shared_installed().await?).start(script).await
    }

    /// A site on a cluster that has everything installed.
    pub fn on(cluster: &Cluster) -> SiteBuilder {
        SiteBuilder {
            cluster: cluster.clone(),
            namespace: None,
            pool: AddressPool::of(10),
            operators: None,
            everywhere: false,
        }
    }

    /// A board, as Akri finds it.
    pub async fn board(&self, endpoint: &str) -> Result<Instance> {
        self.akri.discover(endpoint, "esp32", "thermo", "0.1.0").await
    }

    /// So many boards, as Akri finds them: 192.0.2.11 and on.
    pub async fn boards(&self, count: usize) -> Result<Vec<Instance>> {
        let mut boards = Vec::new();
        for n in 0..count {
            boards.push(self.board(&format!("192.0.2.{}", 11 + n)).await?);
        }
        Ok(boards)
    }

    /// Two of them.
    pub async fn two_boards(&self) -> Result<[Instance; 2]> {
        Ok([self.board("192.0.2.11").await?, self.board("192.0.2.12").await?])
    }
}

impl<F> Site<F> {
    /// The objects of a kind in the site's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The FlashJobs of another namespace.
    pub fn jobs_in(&self, namespace: &str) -> Api<FlashJob> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Starts an operator.
    pub fn operator(&self) -> Result<Operator> {
        self.operator_with(&[], None)
    }

    /// The same with more flags, and behind a gate.
    pub fn operator_with(&self, flags: &[&str], gate: Option<&Gate>) -> Result<Operator> {
        self.operators.start(flags, gate)
    }

    /// A load balancer for one namespace or for all.
    pub fn load_balancer(
        &self,
        namespace: Option<&str>,
        pool: AddressPool,
    ) -> Result<LoadBalancer> {
        Ok(LoadBalancer::start(self.cluster.client("load-balancer")?, namespace, pool))
    }

    /// The boards whose flash container was started, in order of their addresses.
    pub fn flashed(&self) -> Vec<String> {
        let flashes = flashes(&self.kubelet);
        let mut boards: Vec<String> = flashes.iter().map(|f| f.endpoint().to_owned()).collect();
        boards.sort();
        boards
    }

    /// The ledgers in the site's namespace.
    pub async fn ledgers(&self) -> Result<Vec<ConfigMap>> {
        let selector = "application.flashjob.nbfc.io/ledger-shard";
        Ok(self.api::<ConfigMap>().list(&ListParams::default().labels(selector)).await?.items)
    }

    /// Waits until no Pod and no Service is left in the site's namespace.
    pub async fn cleaned_up(&self) -> Result<()> {
        self.cleaned_up_in(&[&self.namespace], PATIENCE).await
    }

    /// The same in these.
    pub async fn cleaned_up_in(&self, namespaces: &[&str], patience: Duration) -> Result<()> {
        // One is as good as all to know that something is left.
        let one = ListParams::default().limit(1);
        eventually("all Pods and Services to be gone", patience, async || {
            for namespace in namespaces {
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
                let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
                let pods = pods.list_metadata(&one).await?.items.len();
                if pods + services.list_metadata(&one).await?.items.len() > 0 {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }
}

/// How a site differs from the usual one.
pub struct SiteBuilder {
    cluster: Cluster,
    namespace: Option<String>,
    pool: AddressPool,
    operators: Option<Launcher>,
    everywhere: bool,
}

impl SiteBuilder {
    /// In this namespace, which is made if it is not there, and not in a fresh one.
    pub fn namespace(mut self, name: &str) -> Self {
        self.namespace = Some(name.to_owned());
        self
    }

    /// With these addresses for Services, and not ten.
    pub fn pool(mut self, pool: AddressPool) -> Self {
        self.pool = pool;
        self
    }

    /// With operators that are started so.
    pub fn operators(mut self, operators: Launcher) -> Self {
        self.operators = Some(operators);
        self
    }

    /// With a kubelet, a load balancer and operators for all namespaces.
    pub fn everywhere(mut self) -> Self {
        self.everywhere = true;
        self
    }

    /// Starts it. Its Pods go as `script` says.
    pub async fn start(
        mut self,
        script: impl Fn(&Pod) -> Script + Send + Sync + 'static,
    ) -> Result<Site> {
        let namespace = self.make_namespace().await?;
        let client = self.cluster.client("kubelet")?;
        let kubelet = if self.everywhere {
            Kubelet::start_all(client, script)
        } else {
            Kubelet::start(client, &namespace, script)
        };
        self.around(namespace, kubelet, ()).await
    }

    async fn make_namespace(&mut self) -> Result<String> {
        match self.namespace.take() {
            Some(name) => self.cluster.make_namespace(&name).await.map(|()| name),
            None => self.cluster.namespace("site").await,
        }
    }

    /// What stands around a kubelet.
    async fn around<F>(self, namespace: String, kubelet: Kubelet, field: F) -> Result<Site<F>> {
        let Self { cluster, pool, operators, everywhere, .. } = self;
        let mut operators = match operators {
            Some(operators) => operators,
            None => Launcher::new(&cluster).await?,
        };
        let served = if everywhere { None } else { Some(namespace.as_str()) };
        operators.flags.extend(served.map(|namespace| format!("--namespace={namespace}")));
        Ok(Site {
            field,
            kubelet: Arc::new(kubelet),
            balancer: LoadBalancer::start(cluster.client("load-balancer")?, served, pool),
            akri: Akri::new(cluster.client("akri")?, &namespace, CONFIGURATION),
            operators,
            client: cluster.client("admin")?,
            kubeconfig: cluster.admin_kubeconfig(&namespace)?,
            namespace,
            cluster,
        })
    }
}
