//! A device of the fleet, as far as the server can tell: it has a certificate, asks, and beats. It keeps no record and has no
//! moods, because ten thousand of them share a core with the API server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use flashjob_api::edge::wire::{
    Heartbeat, Message, MessageType, UpgradeStatus, WorkloadStatus, directive,
};
use flashjob_sim::edge::device::hardware;
use flashjob_sim::edge::{Answer, Call, Client, Credential, Protocol};
use http::header::IF_NONE_MATCH;
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::time::sleep;

const DEADLINE: Duration = Duration::from_secs(30);
/// Until the operator has heard of an EdgeDevice.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a question may be held.
const WAIT: Duration = Duration::from_secs(60);

/// What Flotta's agent asks for and says, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Configuration,
    Commands,
    Heartbeat,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Configuration, Kind::Commands, Kind::Heartbeat];

    /// Of all its requests this is in the path of no other.
    pub fn path(self) -> (&'static str, &'static str) {
        match self {
            Kind::Configuration => ("/data/", "/in"),
            Kind::Commands => ("/control/", "/in"),
            Kind::Heartbeat => ("/data/", "/out"),
        }
    }
}

/// Copies of it are the same device.
#[derive(Clone)]
pub struct Member {
    pub id: String,
    credential: Arc<Credential>,
    known: Arc<Mutex<Known>>,
}

/// What it was told last, and what it says of it.
#[derive(Clone, Default)]
struct Known {
    etag: Option<HeaderValue>,
    heartbeat: Bytes,
}

impl Member {
    pub fn new(id: String, credential: Arc<Credential>) -> Member {
        Member { id, credential, known: Arc::default() }
    }

    pub fn client(&self, server: SocketAddr, protocol: Protocol) -> Result<Client> {
        Client::new(server, "project-flotta.io", protocol)
    }

    pub async fn open(&self, client: &Client) -> Result<()> {
        client.open(&self.credential, DEADLINE).await
    }

    /// Asks for its configuration, and says for the first time how it is and what it is made of. Then it says what it will
    /// go on saying.
    pub async fn introduce(&self, server: SocketAddr) -> Result<()> {
        let client = self.client(server, Protocol::H1)?;
        let answer = self.first_configuration(&client).await?;
        let version = self.take(&answer)?;
        let first = Heartbeat { hardware: Some(hardware(&self.id)), ..heartbeat(&version, &[]) };
        self.send(&client, Call::post(self.path("data", "out"), message(&first)?)).await?;
        self.ask(&client, Kind::Heartbeat).await?;
        Ok(())
    }

    /// The operator may hear of its EdgeDevice a moment later than it was made.
    async fn first_configuration(&self, client: &Client) -> Result<Answer> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.ask(client, Kind::Configuration).await {
                Err(_) if Instant::now() < until => sleep(Duration::from_millis(200)).await,
                answered => return answered,
            }
        }
    }

    /// Anything but 200 is an error.
    pub async fn ask(&self, client: &Client, kind: Kind) -> Result<Answer> {
        let call = match kind {
            Kind::Configuration => Call::get(self.path("data", "in")),
            Kind::Commands => Call::get(self.path("control", "in")),
            Kind::Heartbeat => Call::post(self.path("data", "out"), self.known().heartbeat.clone()),
        };
        self.send(client, call).await
    }

    /// Its configuration as soon as it is another; `None` if it is the same after a while.
    pub async fn news(&self, client: &Client) -> Result<Option<Answer>> {
        let etag = self.known().etag.clone();
        let wait = HeaderValue::try_from(format!("wait={}", WAIT.as_secs()))?;
        let call = Call::get(self.path("data", "in"))
            .with(IF_NONE_MATCH, etag.context("it has no configuration yet")?)
            .with(HeaderName::from_static("prefer"), wait);
        let answer = client.send(&self.credential, &call, DEADLINE + WAIT).await?;
        match answer.code() {
            200 => Ok(Some(answer)),
            304 => Ok(None),
            code => anyhow::bail!("{}: {code} {:?}", self.id, answer.reason()),
        }
    }

    /// Carries it out: what it runs from now on is in its heartbeats. Returns the version.
    pub fn take(&self, answer: &Answer) -> Result<String> {
        let etag = HeaderValue::try_from(answer.etag().context("no ETag")?)?;
        let content = answer.json::<Message>()?.content;
        let version = content["version"].as_str().unwrap_or_default().to_owned();
        let workloads = content["workloads"].as_array().map(Vec::as_slice).unwrap_or_default();
        let heartbeat = message(&heartbeat(&version, workloads))?.into();
        *self.known() = Known { etag: Some(etag), heartbeat };
        Ok(version)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, channel: &str, way: &str) -> String {
        format!("/{channel}/{}/{way}", self.id)
    }

    async fn send(&self, client: &Client, call: Call) -> Result<Answer> {
        let answer = client.send(&self.credential, &call, DEADLINE).await?;
        let code = answer.code();
        ensure!(code == 200, "{} {}: {code} {:?}", call.method, call.path, answer.reason());
        Ok(answer)
    }
}

fn heartbeat(version: &str, workloads: &[Value]) -> Heartbeat {
    let running = |workload: &Value| WorkloadStatus {
        name: workload["name"].as_str().unwrap_or_default().to_owned(),
        status: "Running".to_owned(),
        ..WorkloadStatus::default()
    };
    Heartbeat {
        status: "up".to_owned(),
        version: version.to_owned(),
        workloads: workloads.iter().map(running).collect(),
        upgrade: Some(UpgradeStatus {
            current_commit_id: "unknown".to_owned(),
            ..UpgradeStatus::default()
        }),
        ..Heartbeat::default()
    }
}

fn message(heartbeat: &Heartbeat) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&Message {
        type_: MessageType::Data,
        message_id: "b0a2a0a5-5a5f-4b4e-9d5c-4ad3b7a30f6a".to_owned(),
        version: Message::VERSION,
        directive: directive::HEARTBEAT.to_owned(),
        content: json!(heartbeat),
        ..Message::default()
    })?)
}
