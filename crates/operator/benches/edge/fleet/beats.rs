//! A fleet at rest whose devices open a new connection for each heartbeat, once a minute: so many devices have no place with
//! connections that are kept open. Nearly all of it is the handshake.

use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_sim::edge::Protocol;
use serde::Serialize;
use tokio::time::sleep_until;

use super::Fleet;
use super::load::{Load, Record, Target, measure as load};
use super::member::{Kind, Member};

const EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Beats {
    pub devices: usize,
    pub floor: Load,
    pub operator: Load,
    /// Of the operator, leases and the roll included.
    pub writes_per_second: f64,
}

impl Beats {
    pub fn p99_ratio(&self) -> f64 {
        self.operator.p99_ms / self.floor.p99_ms
    }
}

pub async fn measure(fleet: &Fleet, during: Duration) -> Result<Beats> {
    let floor = fleet.floor().await?;
    // The floor is the same all the time.
    let at_floor = Target { address: floor.address, pid: floor.pid() };
    let at_rest = play(&fleet.members, at_floor, during.min(EVERY)).await?;
    drop(floor);
    let began = flashjob_sim::clock::now();
    let operator = play(&fleet.members, fleet.target(), during).await?;
    let writes = fleet.writes_since(began).await?.len();
    let took = began.duration_until(flashjob_sim::clock::now()).as_secs_f64();
    let writes_per_second = writes as f64 / took;
    Ok(Beats { devices: fleet.members.len(), floor: at_rest, operator, writes_per_second })
}

async fn play(members: &[Member], target: Target, during: Duration) -> Result<Load> {
    let count = members.len();
    let timelines = members.iter().cloned().enumerate().map(|(at, member)| {
        let first = EVERY.mul_f64(at as f64 / count as f64);
        move |start, end, record| beats(member, target, start + first, end, record)
    });
    load(&target, during, timelines).await
}

async fn beats(member: Member, target: Target, mut due: Instant, end: Instant, record: Record) {
    while due < end {
        sleep_until(due.into()).await;
        let beat = async {
            let client = member.client(target.address, Protocol::H1)?;
            member.ask(&client, Kind::Heartbeat).await
        };
        record.take(due, beat.await);
        due += EVERY;
    }
}
