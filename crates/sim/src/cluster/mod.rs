//! A real control plane: etcd and kube-apiserver on free loopback ports, in a scratch folder.
//!
//! It stands for a cluster's control plane and differs from one in what does not run: no scheduler, no kubelet, no
//! controller-manager (unless a test asks for it with [`Cluster::controller_manager`]), and etcd does not fsync.
//! Authentication is by a token file, authorization is RBAC, and every call is in the audit log.
//!
//! Nothing here belongs to a tokio runtime, because each `#[tokio::test]` has its own and the cluster is shared by
//! all tests of a process. A [`kube::Client`] does belong to one: ask for it in each test.

pub(crate) mod apply;
pub(crate) mod assets;
pub mod audit;
mod backup;
pub mod gate;
mod kubeconfig;
mod start;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::lock;
use crate::pki::Pki;
use crate::process::{Running, Scratch};
use apply::apply;
use assets::Assets;

pub use audit::AuditEntry;
pub use backup::Backup;
pub use gate::{Call, CallFate, Event, EventFate, Gate};

/// How a cluster differs from the usual one.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// More arguments for kube-apiserver.
    pub api_server_args: Vec<String>,
}

/// A running control plane. Clones share it; it ends with the last of them, or with the process.
#[derive(Debug, Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

/// Fields are dropped in this order: the server before its store, the folder last.
#[derive(Debug)]
struct Inner {
    api_server: Mutex<Running>,
    etcd: Mutex<Running>,
    api_server_args: Vec<String>,
    etcd_args: Vec<String>,
    url: String,
    pki: Pki,
    tokens: BTreeMap<&'static str, String>,
    assets: Assets,
    names: AtomicUsize,
    scratch: Scratch,
}

impl Cluster {
    /// Starts a control plane and waits until it is ready.
    pub async fn start() -> Result<Self> {
        Self::start_with(&ClusterOptions::default()).await
    }

    /// Starts a control plane that differs from the usual one.
    pub async fn start_with(options: &ClusterOptions) -> Result<Self> {
        let inner = start::start(options).await?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The cluster this test process shares: started on first use, gone when the process ends.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// The address of the API server.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// The certificate of the CA that signed the API server's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.inner.pki.ca_pem
    }

    /// The bearer token of a user: `admin`, `kubelet`, `load-balancer`, `akri` (these may do anything), or `nobody`.
    pub fn token(&self, user: &str) -> Option<&str> {
        self.inner.tokens.get(user).map(String::as_str)
    }

    /// How `user` reaches the API server. A user without a token is anonymous, and refused.
    pub fn config(&self, user: &str) -> kube::Config {
        self.config_with(self.token(user).map(str::to_owned))
    }

    fn config_with(&self, token: Option<String>) -> kube::Config {
        let url = self.inner.url.parse().unwrap_or_default();
        let mut config = kube::Config::new(url);
        config.root_cert = Some(vec![self.inner.pki.ca_der.clone()]);
        config.auth_info.token = token.map(Into::into);
        config
    }

    /// A client for `user`. It belongs to the current runtime.
    pub fn client(&self, user: &str) -> Result<Client> {
        Client::try_from(self.config(user)).context("cannot make a client")
    }

    /// A client for whoever the bearer token is of. It belongs to the current runtime.
    pub fn client_with_token(&self, token: &str) -> Result<Client> {
        Client::try_from(self.config_with(Some(token.to_owned()))).context("cannot make a client")
    }

    /// A kubeconfig file for a bearer token. `server` is another address, such as that of a gate.
    pub fn kubeconfig(
        &self,
        token: &str,
        namespace: &str,
        server: Option<&str>,
    ) -> Result<PathBuf> {
        let file = format!("kubeconfig-{}", self.next());
        let path = self.inner.scratch.path().join(file);
        let server = server.unwrap_or(&self.inner.url);
        kubeconfig::write(&path, server, &self.inner.pki.ca_file, token, namespace)?;
        Ok(path)
    }

    /// A kubeconfig file that may do everything.
    pub fn admin_kubeconfig(&self, namespace: &str) -> Result<PathBuf> {
        self.kubeconfig(self.token("admin").unwrap_or_default(), namespace, None)
    }

    /// A token of a ServiceAccount, by the TokenRequest API. It is good for an hour.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client("admin")?, namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token for the ServiceAccount {namespace}/{name}"))?;
        let status = answer.status.context("a TokenRequest without a token")?;
        Ok(status.token)
    }

    /// A fresh namespace, `<prefix>-<number>`, with the `default` ServiceAccount that Pods need.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let name = format!("{prefix}-{}", self.next());
        self.make_namespace(&name).await?;
        Ok(name)
    }

    /// A namespace of this name with its `default` ServiceAccount; one that is there already will do.
    pub async fn make_namespace(&self, name: &str) -> Result<()> {
        let client = self.client("admin")?;
        let named =
            |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata: named(name), ..Namespace::default() };
        let params = PostParams::default();
        let created = Api::<Namespace>::all(client.clone()).create(&params, &namespace).await;
        there(created).with_context(|| format!("cannot create the namespace {name}"))?;
        let account = ServiceAccount { metadata: named("default"), ..ServiceAccount::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(client, name);
        there(accounts.create(&params, &account).await)
            .with_context(|| format!("cannot create the default ServiceAccount of {name}"))
    }

    /// Lets no more than so many objects of a kind be made in a namespace. No controller works out what is used, so this says
    /// it: nothing. (The API server itself counts what is made from here on.)
    pub async fn allow(&self, namespace: &str, kind: &str, count: u32) -> Result<()> {
        let quotas: Api<ResourceQuota> = Api::namespaced(self.client("admin")?, namespace);
        let hard = json!({ kind: count.to_string() });
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "tight" }, "spec": { "hard": hard },
        });
        let params = PatchParams::apply("sim").force();
        quotas.patch("tight", &params, &Patch::Apply(quota)).await?;
        let used = json!({ "status": { "hard": hard, "used": { kind: "0" } } });
        quotas.patch_status("tight", &PatchParams::default(), &Patch::Merge(used)).await?;
        Ok(())
    }

    /// Applies every document of a manifest in order, as `kubectl apply --server-side` would. A CRD is waited for.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<()> {
        apply(&self.client("admin")?, None, yaml).await
    }

    /// Applies a manifest; its namespaced objects all go to `namespace`.
    pub async fn apply_yaml_in(&self, namespace: &str, yaml: &str) -> Result<()> {
        apply(&self.client("admin")?, Some(namespace), yaml).await
    }

    /// Every call the API server has answered, in the order of the answers.
    pub fn audit(&self) -> Result<Vec<AuditEntry>> {
        audit::read(&self.inner.scratch.path().join(start::AUDIT_LOG))
    }

    /// The calls that were to change something in a namespace, refused ones included.
    pub fn writes(&self, namespace: &str) -> Result<Vec<AuditEntry>> {
        let mut entries = self.audit()?;
        entries.retain(|entry| entry.is_write() && entry.namespace.as_deref() == Some(namespace));
        Ok(entries)
    }

    /// The real kube-controller-manager with these controllers; all of them when none is named. `None`: the assets
    /// have no such program. It ends when the handle is dropped.
    pub async fn controller_manager(&self, controllers: &[&str]) -> Result<Option<Running>> {
        let Some(program) = &self.inner.assets.controller_manager else { return Ok(None) };
        let kubeconfig = self.admin_kubeconfig("default")?;
        let log = format!("kube-controller-manager-{}.log", self.next());
        let log = self.inner.scratch.path().join(log);
        let args = start::controller_manager_args(&kubeconfig, &self.inner.pki, controllers);
        Running::start(program, &args, log).map(Some)
    }

    /// Stops the API server where it stands: connections stay open and nobody answers.
    pub async fn pause_api_server(&self) -> Result<()> {
        lock(&self.inner.api_server).pause()
    }

    /// Lets a paused API server go on, and waits until it answers.
    pub async fn resume_api_server(&self) -> Result<()> {
        lock(&self.inner.api_server).resume()?;
        let client = self.client("admin")?;
        start::ready(&client, Duration::from_secs(30), || Ok(())).await
    }

    /// Ends the control plane now, whoever else holds a clone.
    pub async fn stop(&self) {
        lock(&self.inner.api_server).stop();
        lock(&self.inner.etcd).stop();
    }

    /// The process ids of etcd and kube-apiserver.
    pub fn pids(&self) -> [i32; 2] {
        [lock(&self.inner.etcd).pid(), lock(&self.inner.api_server).pid()]
    }

    /// The folder that holds the data, logs and keys.
    pub fn scratch(&self) -> &std::path::Path {
        self.inner.scratch.path()
    }

    /// The programs it was started from.
    pub(crate) fn assets(&self) -> &Assets {
        &self.inner.assets
    }

    fn next(&self) -> usize {
        self.inner.names.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A create that finds the object there has what it wanted.
fn there<T>(created: kube::Result<T>) -> kube::Result<()> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}
