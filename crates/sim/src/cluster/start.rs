//! Starting etcd and kube-apiserver.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Client;
use tokio::time::{Instant, sleep, timeout};

use super::{ClusterOptions, Inner};
use crate::cluster::assets::Assets;
use crate::cluster::audit;
use crate::pki::Pki;
use crate::process::{Running, Scratch};

pub(super) const AUDIT_LOG: &str = "audit.log";
pub(super) const ETCD_DATA: &str = "etcd";

/// Another program may take a port between our looking and the start.
const ATTEMPTS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// The users of the token file and their groups.
const USERS: [(&str, &str); 5] = [
    ("admin", "system:masters"),
    ("kubelet", "system:masters"),
    ("load-balancer", "system:masters"),
    ("akri", "system:masters"),
    ("nobody", ""),
];

pub(super) async fn start(options: &ClusterOptions) -> Result<Inner> {
    let assets = Assets::find()?;
    let mut attempt = 1;
    loop {
        match try_start(&assets, options).await {
            Err(error) if attempt < ATTEMPTS && port_taken(&error) => attempt += 1,
            other => return other,
        }
    }
}

fn port_taken(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("address already in use")
}

async fn try_start(assets: &Assets, options: &ClusterOptions) -> Result<Inner> {
    let scratch = Scratch::new("flashjob-cluster-")?;
    let folder = scratch.path();
    let [client_port, peer_port, api_port] = free_ports()?;

    let etcd_url = format!("http://127.0.0.1:{client_port}");
    let etcd_args = etcd_args(folder, &etcd_url, &format!("http://127.0.0.1:{peer_port}"));
    let etcd = Running::start(&assets.etcd, &etcd_args, folder.join("etcd.log"))?;
    // Nothing waits for etcd to be up: the API server tries until it is.
    let pki = Pki::create(folder)?;
    let tokens = write_tokens(&folder.join("tokens.csv"))?;
    fs::write(folder.join("audit-policy.yaml"), audit::POLICY)
        .context("cannot write the audit policy")?;
    let mut api_server_args = api_server_args(folder, &etcd_url, api_port, &pki);
    api_server_args.extend(options.api_server_args.iter().cloned());
    let log = folder.join("kube-apiserver.log");
    let api_server = Running::start(&assets.api_server, &api_server_args, log)?;

    let inner = Inner {
        api_server: Mutex::new(api_server),
        etcd: Mutex::new(etcd),
        api_server_args,
        etcd_args,
        url: format!("https://127.0.0.1:{api_port}"),
        pki,
        tokens,
        assets: assets.clone(),
        names: AtomicUsize::new(0),
        scratch,
    };
    started(&inner).await?;
    Ok(inner)
}

/// Waits until the control plane is up.
pub(super) async fn started(inner: &Inner) -> Result<()> {
    let client = client(inner)?;
    let ready = ready(&client, PATIENCE, || alive(inner)).await;
    ready.with_context(|| {
        let etcd = super::lock(&inner.etcd).last_words();
        let api_server = super::lock(&inner.api_server).last_words();
        format!("the control plane did not start\n{etcd}\n{api_server}")
    })
}

/// A client that does not wait in the server's stead: a 503 is an answer here.
fn client(inner: &Inner) -> Result<Client> {
    let mut config = kube::Config::new(inner.url.parse().context("not a URL")?);
    config.root_cert = Some(vec![inner.pki.ca_der.clone()]);
    config.auth_info.token = inner.tokens.get("admin").cloned().map(Into::into);
    config.default_retry = false;
    Client::try_from(config).context("cannot make a client")
}

fn alive(inner: &Inner) -> Result<()> {
    for running in [&inner.etcd, &inner.api_server] {
        let mut running = super::lock(running);
        if running.has_ended() {
            bail!("{} has ended", running.name());
        }
    }
    Ok(())
}

/// Waits until the API server says that it is ready, as long as `check` sees nothing wrong.
pub(super) async fn ready(
    client: &Client,
    patience: Duration,
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let end = Instant::now() + patience;
    loop {
        let request = http::Request::get("/readyz").body(Vec::new())?;
        let answer = timeout(Duration::from_secs(2), client.request_text(request)).await;
        match answer {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) if Instant::now() >= end => {
                return Err(error).context("the API server does not get ready");
            }
            Err(_) if Instant::now() >= end => bail!("the API server does not answer"),
            _ => check()?,
        }
        sleep(POLL).await;
    }
}

/// Ports nobody listens on. All are held while they are looked for, so that they differ.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// Tokens are random: other users of the machine reach the loopback too.
fn write_tokens(path: &Path) -> Result<BTreeMap<&'static str, String>> {
    let random = || RandomState::new().build_hasher().finish();
    let tokens: BTreeMap<&'static str, String> = USERS
        .iter()
        .map(|(user, _)| (*user, format!("{:016x}{:016x}", random(), random())))
        .collect();
    let lines: Vec<String> = USERS
        .iter()
        .map(|(user, group)| format!("{},{user},{user},\"{group}\"\n", tokens[user]))
        .collect();
    fs::write(path, lines.concat()).context("cannot write the token file")?;
    Ok(tokens)
}

fn etcd_args(folder: &Path, client: &str, peer: &str) -> Vec<String> {
    vec![
        format!("--data-dir={}", folder.join(ETCD_DATA).display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
        // A job of 100,000 devices writes more between two compactions than the 2 GiB that etcd allows by itself.
        format!("--quota-backend-bytes={}", 8_u64 << 30),
        "--logger=zap".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn api_server_args(folder: &Path, etcd: &str, port: u16, pki: &Pki) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers={etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", pki.server_cert.display()),
        format!("--tls-private-key-file={}", pki.server_key.display()),
        format!("--cert-dir={}", folder.display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", pki.service_account_public_key.display()),
        format!("--service-account-signing-key-file={}", pki.service_account_key.display()),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        // For Services of type NodePort: boards dial 4433.
        "--service-node-port-range=4433-32767".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--allow-privileged".to_owned(),
        // As on every newer server: Pods get projected tokens, and none waits for a controller to make a Secret.
        "--feature-gates=BoundServiceAccountTokenVolume=true".to_owned(),
        // No Endpoints for the API server itself: a loopback address is not allowed there.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file(AUDIT_LOG)),
        "--audit-log-mode=blocking".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

pub(super) fn controller_manager_args(
    kubeconfig: &Path,
    pki: &Pki,
    controllers: &[&str],
) -> Vec<String> {
    let controllers = if controllers.is_empty() { "*".to_owned() } else { controllers.join(",") };
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={controllers}"),
        format!("--service-account-private-key-file={}", pki.service_account_key.display()),
        format!("--root-ca-file={}", pki.ca_file.display()),
        "--leader-elect=false".to_owned(),
        // It serves nothing we ask for.
        "--port=0".to_owned(),
        "--secure-port=0".to_owned(),
    ]
}
