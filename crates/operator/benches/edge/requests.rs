//! What a request of a registered device costs the operator in CPU, on connections that are kept open.
//!
//! All devices of the fleet ask for the same thing, so many at a time, each the next when it has its answer; and the same
//! devices ask the floor the same, before each time. A device keeps well within what it may ask for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flashjob_api::edge::wire::{Heartbeat, Message, MessageType, UpgradeStatus, directive};
use flashjob_sim::Usage;
use flashjob_sim::edge::{Answer, Call, Client, Credential, Device, Protocol};
use futures::{StreamExt, TryStreamExt, stream};
use http::HeaderValue;
use http::header::IF_NONE_MATCH;
use serde::Serialize;
use serde_json::json;
use tokio::time::sleep;

use crate::bed::median;
use crate::floor::Floor;
use crate::options::Options;
use crate::registrations::Fleet;

/// A device may ask twenty times a second, and two of them may share that.
const EVERY: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(30);

/// One kind of request, over one protocol.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    pub protocol: &'static str,
    pub what: &'static str,
    /// In each round.
    pub requests: usize,
    /// The length of the answer's body.
    pub bytes: usize,
    /// CPU of each round, in µs a request.
    pub floor: Vec<f64>,
    pub operator: Vec<f64>,
    /// Answers a second, in the fastest round. The clients have the same cores.
    pub per_second: f64,
}

impl Requests {
    pub fn ratio(&self) -> f64 {
        median(&self.operator) / median(&self.floor)
    }
}

/// What a device asks for.
#[derive(Clone, Copy)]
enum Kind {
    Unchanged,
    Configuration,
    Commands,
    Heartbeat,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Unchanged, Kind::Configuration, Kind::Commands, Kind::Heartbeat];

    fn words(self) -> &'static str {
        match self {
            Kind::Unchanged => "configuration, 304",
            Kind::Configuration => "configuration, 200",
            Kind::Commands => "commands",
            Kind::Heartbeat => "heartbeat",
        }
    }

    fn status(self) -> u16 {
        if matches!(self, Kind::Unchanged) { 304 } else { 200 }
    }

    fn call(self, poller: &Poller) -> Call {
        let path = |channel: &str, way: &str| format!("/{channel}/{}/{way}", poller.id);
        match self {
            Kind::Unchanged => {
                Call::get(path("data", "in")).with(IF_NONE_MATCH, poller.etag.clone())
            }
            Kind::Configuration => Call::get(path("data", "in")),
            Kind::Commands => Call::get(path("control", "in")),
            Kind::Heartbeat => Call::post(path("data", "out"), poller.heartbeat.clone()),
        }
    }
}

/// A registered device.
struct Poller {
    id: String,
    credential: Arc<Credential>,
    /// Of its configuration.
    etag: HeaderValue,
    heartbeat: Vec<u8>,
}

/// Its connections to one server.
type Clients = Vec<Client>;

/// Measures each kind of request, and adds it to the report.
pub async fn measure(fleet: &Fleet, options: &Options, report: &mut Vec<Requests>) -> Result<()> {
    let pollers = stream::iter(&fleet.devices).map(poller).buffered(options.parallel);
    let pollers: Vec<Poller> = pollers.try_collect().await?;
    // They have just registered, and may have used up all they may ask for at once.
    let mut rested = Instant::now() + EVERY * 10;
    for (protocol, name) in [(Protocol::H1, "h1"), (Protocol::H2, "h2")] {
        let bench = Bench { fleet, pollers: &pollers, protocol, options };
        for kind in Kind::ALL {
            report.push(bench.kind(kind, name, &mut rested).await?);
        }
    }
    Ok(())
}

async fn poller(device: &Device) -> Result<Poller> {
    let answer = device.fetch_configuration().await?;
    let etag = answer.etag().context("a configuration without an ETag")?;
    let configuration: Message = answer.json()?;
    let beat = Heartbeat {
        status: "up".to_owned(),
        version: configuration.content["version"].as_str().unwrap_or_default().to_owned(),
        upgrade: Some(UpgradeStatus {
            current_commit_id: "unknown".to_owned(),
            ..UpgradeStatus::default()
        }),
        ..Heartbeat::default()
    };
    let heartbeat = Message {
        type_: MessageType::Data,
        message_id: configuration.message_id,
        version: Message::VERSION,
        sent: configuration.sent,
        directive: directive::HEARTBEAT.to_owned(),
        content: json!(beat),
        ..Message::default()
    };
    Ok(Poller {
        id: device.id().to_owned(),
        credential: device.credential().context("a device that is not registered")?,
        etag: HeaderValue::try_from(etag)?,
        heartbeat: serde_json::to_vec(&heartbeat)?,
    })
}

struct Bench<'a> {
    fleet: &'a Fleet,
    pollers: &'a [Poller],
    protocol: Protocol,
    options: &'a Options,
}

impl Bench<'_> {
    /// `rested`: when all devices may ask the operator again, as often as they like.
    async fn kind(
        &self,
        kind: Kind,
        protocol: &'static str,
        rested: &mut Instant,
    ) -> Result<Requests> {
        let operator = &self.fleet.operator;
        let to_operator = self.connect(operator.address).await?;
        let first = self.pollers.first().context("no devices")?;
        let answer = ask(&to_operator[0], first, kind).await?;
        let floor = Floor::start(&self.fleet.site, [(("", ""), &answer)]).await?;
        let to_floor = self.connect(floor.address).await?;

        let each = self.options.requests / self.pollers.len();
        let requests = each * self.pollers.len();
        let mut measured = Requests {
            protocol,
            what: kind.words(),
            requests,
            bytes: answer.body.len(),
            floor: Vec::new(),
            operator: Vec::new(),
            per_second: 0.0,
        };
        for _ in 0..self.options.rounds {
            let used = self.round(&to_floor, kind, each, || floor.usage()).await?;
            measured.floor.push(used.micros / requests as f64);
            sleep(rested.saturating_duration_since(Instant::now())).await;
            *rested = Instant::now() + EVERY * u32::try_from(each)?;
            let used = self.round(&to_operator, kind, each, || operator.operator.usage()).await?;
            measured.operator.push(used.micros / requests as f64);
            measured.per_second = measured.per_second.max(requests as f64 / used.seconds);
        }
        Ok(measured)
    }

    /// A connection of each device, so that no handshake is measured.
    async fn connect(&self, server: std::net::SocketAddr) -> Result<Clients> {
        let client = async |poller: &Poller| {
            let client = Client::new(server, "project-flotta.io", self.protocol)?;
            client.open(&poller.credential, DEADLINE).await?;
            Ok(client)
        };
        let all = stream::iter(self.pollers).map(client).buffered(self.options.parallel);
        all.try_collect().await
    }

    /// All devices ask so often. What the server has used for it.
    async fn round(
        &self,
        clients: &Clients,
        kind: Kind,
        each: usize,
        usage: impl Fn() -> Result<Usage>,
    ) -> Result<Used> {
        let (before, began) = (usage()?.cpu_seconds, Instant::now());
        for _ in 0..each {
            let asked = stream::iter(clients.iter().zip(self.pollers));
            let asked = asked.map(|(client, poller)| ask(client, poller, kind));
            asked.buffer_unordered(self.options.parallel).try_for_each(async |_| Ok(())).await?;
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(Used { micros: (usage()?.cpu_seconds - before) * 1e6, seconds })
    }
}

struct Used {
    micros: f64,
    seconds: f64,
}

async fn ask(client: &Client, poller: &Poller, kind: Kind) -> Result<Answer> {
    let answer = client.send(&poller.credential, &kind.call(poller), DEADLINE).await?;
    let code = answer.code();
    ensure!(code == kind.status(), "{}: {code} {:?}", kind.words(), answer.reason());
    Ok(answer)
}
