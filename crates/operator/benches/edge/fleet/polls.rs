//! A fleet of Flotta's agents at rest, on connections that are kept open: each asks for its configuration and for commands every
//! five seconds, gets all of it each time, and beats every minute.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_sim::edge::{Client, Protocol};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tokio::time::sleep_until;

use super::load::{Load, Record, Target, measure as load};
use super::member::{Kind, Member};
use super::{Fleet, PARALLEL};

/// How often Flotta's agent does each.
const EVERY: [(Kind, Duration); 3] = [
    (Kind::Configuration, Duration::from_secs(5)),
    (Kind::Commands, Duration::from_secs(5)),
    (Kind::Heartbeat, Duration::from_secs(60)),
];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Polls {
    pub protocol: &'static str,
    pub devices: usize,
    pub floor: Load,
    pub operator: Load,
    /// Of the operator, leases and the roll included.
    pub writes_per_second: f64,
}

impl Polls {
    pub fn cpu_ratio(&self) -> f64 {
        self.operator.cpu_micros / self.floor.cpu_micros
    }

    pub fn more_mib(&self) -> f64 {
        self.operator.mib - self.floor.mib
    }
}

pub async fn measure(fleet: &Fleet, protocol: Protocol, during: Duration) -> Result<Polls> {
    let floor = fleet.floor().await?;
    let at_rest =
        play(&fleet.members, Target { address: floor.address, pid: floor.pid() }, protocol, during)
            .await?;
    drop(floor);
    let began = flashjob_sim::clock::now();
    let operator = play(&fleet.members, fleet.target(), protocol, during).await?;
    let writes = fleet.writes_since(began).await?.len();
    Ok(Polls {
        protocol: if protocol == Protocol::H1 { "h1" } else { "h2" },
        devices: fleet.members.len(),
        floor: at_rest,
        operator,
        writes_per_second: writes as f64
            / began.duration_until(flashjob_sim::clock::now()).as_secs_f64(),
    })
}

async fn play(
    members: &[Member],
    target: Target,
    protocol: Protocol,
    during: Duration,
) -> Result<Load> {
    let open = async |member: &Member| {
        let client = member.client(target.address, protocol)?;
        member.open(&client).await?;
        anyhow::Ok(client)
    };
    let clients = stream::iter(members).map(open).buffered(PARALLEL);
    let clients: Vec<Client> = clients.try_collect().await?;
    let count = members.len();
    let timelines =
        members.iter().cloned().zip(clients).enumerate().map(|(at, (member, client))| {
            let share = at as f64 / count as f64;
            move |start, end, record| asks(member, client, share, start, end, record)
        });
    load(&target, during, timelines).await
}

/// Where it is in each interval, its `share` says.
async fn asks(
    member: Member,
    client: Client,
    share: f64,
    start: Instant,
    end: Instant,
    record: Record,
) {
    let client = Arc::new(client);
    // Configuration and commands are asked for in turn, as two loops that began at different times.
    let mut due = EVERY.map(|(kind, every)| {
        let share = if kind == Kind::Commands { (share + 0.5).fract() } else { share };
        (start + every.mul_f64(share), kind, every)
    });
    loop {
        due.sort_by_key(|(at, ..)| *at);
        let (at, kind, every) = due[0];
        if at >= end {
            return;
        }
        sleep_until(at.into()).await;
        record.take(at, member.ask(&client, kind).await);
        due[0].0 = at + every;
    }
}
