//! The Secrets on a real API server, judged by openssl.

mod kills;
mod life;
mod rotation;
mod taken_over;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use flashjob_pki::{Chain, PrivateKey, PublicKey};
use flashjob_plan::edge::certificates::{CA_SECRET, DeviceKeys};
use flashjob_sim::cluster::Cluster;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;

use super::keeper::Keeper;
use super::published::{Certificates, Issued, NotIssued};
use super::{CertificateSettings, start};
use crate::engine::fair_queue::Flow;
use crate::engine::pool::{Caller, Pool};

fn day(days: i64) -> Timestamp {
    let begin: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
    begin + SignedDuration::from_hours(24 * days)
}

fn settings(more: &[&str]) -> CertificateSettings {
    let more: Vec<_> = more.iter().map(|name| (*name).to_owned()).collect();
    CertificateSettings::new("project-flotta.io", &more, true, 365)
}

fn caller(client: Client) -> Caller {
    Pool::new(client, 4).caller(Flow::default(), false)
}

/// A namespace with Secrets.
struct Place {
    namespace: String,
    client: Client,
    secrets: Api<Secret>,
}

impl Place {
    async fn new() -> Place {
        let cluster = Cluster::shared().await.unwrap();
        let namespace = cluster.namespace("certificates").await.unwrap();
        let client = cluster.client("admin").unwrap();
        let secrets = Api::namespaced(client.clone(), &namespace);
        Place { namespace, client, secrets }
    }

    fn start(&self) -> Process {
        self.start_with(self.client.clone(), settings(&[]))
    }

    /// A process that begins, with nothing in its memory.
    fn start_with(&self, client: Client, settings: CertificateSettings) -> Process {
        let (sender, seen) = watch::channel(Arc::default());
        let keeper = Keeper::new(caller(client), &self.namespace, settings, sender);
        Process { keeper, seen, devices: Some(DeviceKeys::default()) }
    }

    async fn put(&self, name: &str, parts: &[(&str, &str)]) {
        let data: BTreeMap<_, _> = parts
            .iter()
            .map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())))
            .collect();
        let labels = name
            .starts_with("reg-")
            .then(|| BTreeMap::from([("reg-client-ca".to_owned(), "true".to_owned())]));
        let metadata = ObjectMeta { name: Some(name.to_owned()), labels, ..ObjectMeta::default() };
        let secret = Secret { metadata, data: Some(data), ..Secret::default() };
        self.secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    async fn text(&self, name: &str, key: &str) -> Option<String> {
        let data = self.secrets.get_opt(name).await.unwrap()?.data?;
        Some(String::from_utf8(data.get(key)?.0.clone()).unwrap())
    }

    async fn change(&self, name: &str, change: serde_json::Value) {
        let patch = Patch::Merge(&change);
        self.secrets.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Puts the annotation on flotta-ca.
    async fn command(&self, word: &str) {
        let annotations = json!({ "management.project-flotta.io/ca": word });
        self.change(CA_SECRET, json!({ "metadata": { "annotations": annotations } })).await;
    }

    /// What came of it, and that the command is gone.
    async fn message(&self) -> String {
        let secret = self.secrets.get(CA_SECRET).await.unwrap();
        assert!(!secret.annotations().contains_key("management.project-flotta.io/ca"));
        secret.annotations()["management.project-flotta.io/ca-message"].clone()
    }

    async fn delete(&self, name: &str) {
        self.secrets.delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn registrations(&self) -> Vec<String> {
        let label = ListParams::default().labels("reg-client-ca=true");
        self.secrets.list(&label).await.unwrap().iter().map(ResourceExt::name_any).collect()
    }

    /// Every Secret with its version: nothing was written if it stays the same.
    async fn versions(&self) -> Vec<(String, Option<String>)> {
        let all = self.secrets.list(&ListParams::default()).await.unwrap();
        all.iter().map(|secret| (secret.name_any(), secret.resource_version())).collect()
    }
}

struct Process {
    keeper: Keeper,
    seen: watch::Receiver<Arc<Certificates>>,
    devices: Option<DeviceKeys>,
}

impl Process {
    async fn look(&mut self, days: i64) -> Arc<Certificates> {
        self.keeper.look(|| self.devices.clone(), day(days)).await.unwrap();
        self.now()
    }

    fn now(&self) -> Arc<Certificates> {
        self.seen.borrow().clone()
    }
}

/// A device's certificate.
fn issue(certificates: &Certificates, days: i64) -> Given {
    let key = PrivateKey::generate().unwrap().public();
    given(certificates, &key, "default", day(days)).unwrap()
}

/// A device's certificate, with what was offered.
struct Given {
    issued: Issued,
    ca: String,
    not_after: Timestamp,
}

fn given(
    certificates: &Certificates,
    key: &PublicKey,
    namespace: &str,
    now: Timestamp,
) -> Result<Given, NotIssued> {
    let offer = certificates.offer(now)?;
    let issued = certificates.issue(&offer, key, "device-1", namespace)?;
    Ok(Given { issued, ca: offer.ca, not_after: offer.life.not_after })
}

/// The id of the CA that counts for it.
fn issuer(certificates: &Certificates, given: &Given) -> Option<String> {
    let chain = Chain::from_pem(given.issued.certificate_pem.as_bytes()).unwrap();
    let trust = certificates.trust.as_ref().unwrap();
    let issuer = || trust.issuer(chain.leaf()).map(|anchor| anchor.id.clone());
    let found = issuer();
    assert_eq!(issuer(), found, "what was verified once is known again");
    found
}

fn said(certificates: &Certificates, words: &[&str]) {
    let all = certificates.problems.join("\n");
    for word in words {
        assert!(all.contains(word), "{word}: {all}");
    }
}

fn try_openssl(args: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new("openssl")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cannot run openssl; Debian has it in the package openssl");
    // It may end without reading all of it, and then says why.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
    if output.status.success() { Ok(out) } else { Err(format!("{args:?}: {out}{err}")) }
}

fn openssl(args: &[&str], input: &str) -> String {
    try_openssl(args, input).unwrap_or_else(|error| panic!("{error}"))
}

/// Whether a device that trusts these takes what the server shows, by this name or address.
fn takes(anchors: &str, certificates: &Certificates, name: &str, at: Timestamp) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let shown = &certificates.server.as_ref().unwrap().cert;
    let pem = |der: &[u8]| {
        let path = dir.path().join("der");
        std::fs::write(&path, der).unwrap();
        openssl(&["x509", "-inform", "DER", "-in", path.to_str().unwrap()], "")
    };
    let leaf = pem(&shown[0]);
    let between: String = shown[1..].iter().map(|der| pem(der)).collect();
    let [anchors, between] = [("anchors", anchors), ("between", &between)].map(|(file, pem)| {
        let path = dir.path().join(file);
        std::fs::write(&path, pem).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let at = at.as_second().to_string();
    let named =
        if name.parse::<std::net::IpAddr>().is_ok() { "-verify_ip" } else { "-verify_hostname" };
    let mut args = vec!["verify", "-x509_strict", "-attime", &at, "-purpose", "sslserver"];
    args.extend([named, name, "-no-CApath", "-no-CAstore", "-CAfile", &anchors]);
    if shown.len() > 1 {
        args.extend(["-untrusted", &between]);
    }
    try_openssl(&args, &leaf).is_ok()
}

const RESYNC: std::time::Duration = std::time::Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn the_task_makes_all_and_puts_back_what_is_deleted() {
    let place = Place::new().await;
    let (listed, devices) = watch::channel(None);
    let caller = caller(place.client.clone());
    let mut seen = start(caller, &place.namespace, settings(&[]), RESYNC, devices, || day(0));
    let waits = |c: &Arc<Certificates>| c.problems.iter().any(|p| p.contains("is missing"));
    seen.wait_for(waits).await.unwrap();
    listed.send_replace(Some(Arc::new(DeviceKeys::default)));
    let whole = |c: &Arc<Certificates>| c.server.is_some() && c.registration.is_some();
    seen.wait_for(whole).await.unwrap();
    let crt = place.text("flotta-host-certificate", "server.crt").await;
    place.delete("flotta-host-certificate").await;
    for _ in 0..100 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        if place.text("flotta-host-certificate", "server.crt").await == crt {
            return;
        }
    }
    panic!("it was not put back: {:?}", seen.borrow().problems);
}
