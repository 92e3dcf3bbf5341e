//! A site of Edge: two namespaces of a cluster, one for the operator and one for devices, with what `dist/install-edge.yaml`
//! makes there, and an address that devices dial.
//!
//! The operator is the real one, as a process with the rights that the shipped manifest gives it. What differs are the names
//! of the two namespaces, so that many sites fit on one cluster, and the Service: connections to [`EdgeSite::address`] are
//! carried to the process that was started last, whatever the label on its Pod says.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use flashjob_api::edge::EdgeDevice;
use flashjob_pki::{CertifiedKey, Chain, KeyPurpose, PrivateKey, Profile};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};

use super::{Answer, Bundle, Device, DeviceOptions, Manner};
use crate::cluster::{Cluster, Gate};
use crate::node::forward::{Forwarder, To};
use crate::{Launcher, Operator, PATIENCE, eventually, programs};

/// What users apply.
pub const INSTALL: &str = include_str!("../../../../dist/install-edge.yaml");
const ACCOUNT: &str = "flotta-edge-api";
const LISTENS: &str = "serving devices address=";

/// A site.
pub struct EdgeSite {
    pub cluster: Cluster,
    /// May do anything.
    pub client: Client,
    /// The operator's namespace, with its Secrets.
    pub home: String,
    /// Where devices are.
    pub namespace: String,
    pub operators: Launcher,
    forwarder: Forwarder,
    leads_to: watch::Sender<Option<SocketAddr>>,
}

/// An operator at work.
pub struct EdgeOperator {
    pub operator: Operator,
    /// Where it serves devices.
    pub address: SocketAddr,
}

impl EdgeSite {
    /// Two fresh namespaces of the cluster that all tests of this process share.
    pub async fn new() -> Result<Self> {
        static CRDS: OnceCell<()> = OnceCell::const_new();
        let cluster = Cluster::shared().await?;
        CRDS.get_or_try_init(async || install_crds(cluster).await).await?;
        Self::with_crds(cluster, programs::built("flashjob-operator").await?).await
    }

    /// Two fresh namespaces of this cluster, for this program.
    pub async fn on(cluster: &Cluster, program: PathBuf) -> Result<Self> {
        install_crds(cluster).await?;
        Self::with_crds(cluster, program).await
    }

    /// As users have it: the namespaces are `flotta` and `default`.
    pub async fn as_shipped(cluster: &Cluster, program: PathBuf) -> Result<Self> {
        install_crds(cluster).await?;
        cluster.make_namespace("flotta").await?;
        Self::in_namespaces(cluster, program, "flotta".to_owned(), "default".to_owned()).await
    }

    async fn with_crds(cluster: &Cluster, program: PathBuf) -> Result<Self> {
        let (home, namespace) =
            (cluster.namespace("edge-home").await?, cluster.namespace("edge").await?);
        Self::in_namespaces(cluster, program, home, namespace).await
    }

    async fn in_namespaces(
        cluster: &Cluster,
        program: PathBuf,
        home: String,
        namespace: String,
    ) -> Result<Self> {
        for document in documents()?.into_iter().filter(|document| !is_crd(document)) {
            if let Some(document) = moved(document, &home, &namespace) {
                cluster.apply_yaml(&document.to_string()).await?;
            }
        }
        let operators = Launcher::at_home(program, cluster, &home, ACCOUNT).await?;
        let operators = operators
            .with("--controllers=edge")
            .with("--edge-bind-address=127.0.0.1:0")
            .with(format!("--edge-namespaces={namespace}"));
        let (leads_to, latest) = watch::channel(None);
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let forwarder = Forwarder::start(anywhere, To::Latest(latest)).await?;
        let (client, cluster) = (cluster.client("admin")?, cluster.clone());
        Ok(Self { cluster, client, home, namespace, operators, forwarder, leads_to })
    }

    /// Where devices dial.
    pub fn address(&self) -> SocketAddr {
        self.forwarder.address()
    }

    /// How many connections were opened to it so far.
    pub fn dialled(&self) -> usize {
        self.forwarder.dialled()
    }

    /// From now on devices get to this address, or nowhere.
    pub fn lead_to(&self, address: Option<SocketAddr>) {
        self.leads_to.send_replace(address);
    }

    /// Starts an operator, and waits until it serves devices.
    pub async fn operator(&self) -> Result<EdgeOperator> {
        self.operator_with(&[], None).await
    }

    /// The same with more flags, and behind a gate.
    pub async fn operator_with(&self, flags: &[&str], gate: Option<&Gate>) -> Result<EdgeOperator> {
        let started = self.started(flags, gate)?;
        self.listening(started).await
    }

    /// One that may not get as far as to serve devices.
    pub fn started(&self, flags: &[&str], gate: Option<&Gate>) -> Result<Operator> {
        self.lead_to(None);
        self.operators.start(flags, gate)
    }

    /// Waits until it listens. From then on devices get to it.
    pub async fn listening(&self, operator: Operator) -> Result<EdgeOperator> {
        operator.says(LISTENS).await?;
        let address = listens_at(&operator).context("no address")?;
        self.lead_to(Some(address));
        Ok(EdgeOperator { operator, address })
    }

    /// What a device is delivered with, once the operator has made it.
    pub async fn bundle(&self) -> Result<Bundle> {
        eventually("the registration certificate", PATIENCE, async || {
            let Some(ca) = self.secrets().get_opt("flotta-ca").await? else { return Ok(None) };
            let ca = text(&ca, "ca.crt").unwrap_or_default();
            let label = ListParams::default().labels("reg-client-ca=true");
            let mut made = self.secrets().list(&label).await?.items;
            // Those of a CA that was retired stay.
            made.retain(|secret| is_signed_by(&ca, secret).unwrap_or_default());
            made.sort_by_key(|secret| secret.metadata.creation_timestamp.clone());
            let Some(newest) = made.pop() else { return Ok(None) };
            let [certificate, key] =
                ["client.crt", "client.key"].map(|part| text(&newest, part).unwrap_or_default());
            Bundle::from_pem(&ca, &certificate, &key).map(Some)
        })
        .await
    }

    /// A device as this site has them.
    pub async fn options(&self, id: impl Into<String>, manner: Manner) -> Result<DeviceOptions> {
        Ok(DeviceOptions {
            target_namespace: self.namespace.clone(),
            ..DeviceOptions::new(id, self.address(), self.bundle().await?, manner)
        })
    }

    /// One that has enrolled, registered and used its certificate.
    pub async fn registered(&self, id: &str, manner: Manner) -> Result<Device> {
        let device = Device::new(self.options(id, manner).await?)?;
        let said = |what: &str| format!("{id} to {what}");
        in_the_end(&said("enrol"), 208, async || device.enrol().await).await?;
        in_the_end(&said("register"), 200, async || device.register().await).await?;
        in_the_end(&said("beat"), 200, async || device.heartbeat().await).await?;
        Ok(device)
    }

    /// The objects of a kind in the devices' namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn devices(&self) -> Api<EdgeDevice> {
        self.api()
    }

    /// Those of the operator's own namespace.
    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.home)
    }

    /// What is on record of a device's keys; null if nothing is.
    pub async fn keys(&self, device: &str) -> Result<Value> {
        let device = self.devices().get(device).await?;
        let keys = device.annotations().get("management.project-flotta.io/keys");
        Ok(keys.map_or(Ok(Value::Null), |keys| serde_json::from_str(keys))?)
    }

    /// The CA with its key, as only the operator and an administrator have it.
    pub async fn ca(&self) -> Result<CertifiedKey> {
        let ca = self.secrets().get("flotta-ca").await?;
        let [crt, key] = ["ca.crt", "ca.key"].map(|part| text(&ca, part).unwrap_or_default());
        Ok(CertifiedKey::from_pem(crt.as_bytes(), key.as_bytes())?)
    }

    /// A certificate as the operator makes them, for a device of this site and this key, that ends so many days from now.
    /// What has ended was made a year before.
    pub async fn forge(&self, id: &str, key: &PrivateKey, days: i64) -> Result<CertifiedKey> {
        forged(&self.ca().await?, id, &self.namespace, key, days)
    }
}

/// Asks until the answer is this one. As long as the cluster or the machine is busy, a device asks again; any other answer is one.
async fn in_the_end(what: &str, code: u16, ask: impl AsyncFn() -> Result<Answer>) -> Result<()> {
    eventually(what, PATIENCE, async || match ask().await {
        Ok(answer) if answer.code() == code => Ok(Some(())),
        Ok(answer) if ![429, BUSY].contains(&answer.code()) => anyhow::bail!("{what}: {answer:?}"),
        _ => Ok(None),
    })
    .await
}

/// The same by this CA, for a device of this namespace.
pub fn forged(
    ca: &CertifiedKey,
    id: &str,
    namespace: &str,
    key: &PrivateKey,
    days: i64,
) -> Result<CertifiedKey> {
    let day = SignedDuration::from_hours(24);
    let end: Timestamp = crate::clock::now() + day * i32::try_from(days)?;
    let profile = Profile {
        organization: Some("flotta-operator".to_owned()),
        organizational_unit: Some(namespace.to_owned()),
        purposes: vec![KeyPurpose::ClientAuth, KeyPurpose::ServerAuth],
        ..Profile::leaf(id, end - day * 366, end)
    };
    let certificate = ca.sign(&key.public(), &profile)?;
    Ok(CertifiedKey::from_pem(certificate.pem().as_bytes(), key.pem().as_bytes())?)
}

impl EdgeOperator {
    /// Ends it as the end of its node would.
    pub fn kill(&mut self) {
        self.operator.kill();
    }

    pub fn log(&self) -> String {
        self.operator.log()
    }
}

/// Where an operator has said that it serves devices; `None` if it does not.
pub fn listens_at(operator: &Operator) -> Option<SocketAddr> {
    let log = operator.log();
    log.split_once(LISTENS)?.1.split_whitespace().next()?.parse().ok()
}

/// Whether a registration certificate is of this CA.
fn is_signed_by(ca: &str, registration: &Secret) -> Result<bool> {
    let ca = Chain::from_pem(ca.as_bytes())?;
    let certificate = text(registration, "client.crt").unwrap_or_default();
    let certificate = Chain::from_pem(certificate.as_bytes())?;
    let anchor = std::slice::from_ref(ca.leaf());
    Ok(certificate.verify(anchor, KeyPurpose::ClientAuth, crate::clock::now()).is_ok())
}

/// What an operator says while it cannot keep up, or its cluster cannot.
const BUSY: u16 = 503;

/// Asks until the answer is another than 503: a busy machine does not always answer in time.
pub async fn patiently(ask: impl AsyncFn() -> Result<Answer>) -> Result<Answer> {
    let answer = async || Ok(Some(ask().await?).filter(|answer| answer.code() != BUSY));
    eventually("another answer than 503", PATIENCE, answer).await
}

/// One part of a Secret as text.
pub fn text(secret: &Secret, part: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(part)?.0.clone()).ok()
}

fn documents() -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(INSTALL)?)
}

fn is_crd(document: &Value) -> bool {
    document["kind"] == "CustomResourceDefinition"
}

async fn install_crds(cluster: &Cluster) -> Result<()> {
    for crd in documents()?.iter().filter(|document| is_crd(document)) {
        cluster.apply_yaml(&crd.to_string()).await?;
    }
    Ok(())
}

/// The document in other namespaces than the shipped ones, `flotta` and `default`; `None` for what nobody needs here: Pods of
/// the Deployment are processes of this machine.
fn moved(mut document: Value, home: &str, devices: &str) -> Option<Value> {
    let kind = document["kind"].as_str()?.to_owned();
    if ["Namespace", "Deployment", "NetworkPolicy"].contains(&kind.as_str()) {
        return None;
    }
    match document["metadata"]["namespace"].as_str() {
        Some("flotta") => document["metadata"]["namespace"] = json!(home),
        Some(_) => document["metadata"]["namespace"] = json!(devices),
        // A binding for the whole cluster is one of many there.
        None if kind == "ClusterRoleBinding" => {
            let name = document["metadata"]["name"].as_str()?;
            document["metadata"]["name"] = json!(format!("{name}-{home}"));
        }
        None => {}
    }
    let subjects = document.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        subject["namespace"] = json!(home);
    }
    Some(document)
}
