//! An open loop: each request has a time at which it is due, whatever became of those before it, and its latency runs from then.
//! A closed loop would ask a slow server less, and so find it fast.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_sim::Usage;
use serde::Serialize;
use tokio::time::sleep_until;

use crate::bed::quantile;

/// From the end of the preparations to the first request.
const LEAD: Duration = Duration::from_secs(2);

/// A server that load is put on.
#[derive(Clone, Copy)]
pub struct Target {
    pub address: SocketAddr,
    pub pid: i32,
}

impl Target {
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.pid.unsigned_abs())
    }
}

/// What became of a load.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    pub requests: usize,
    /// Why some came to nothing, and how many.
    pub lost: BTreeMap<String, usize>,
    pub per_second: f64,
    /// From when a request was due to the end of its answer.
    pub median_ms: f64,
    pub p99_ms: f64,
    pub worst_ms: f64,
    /// The server's, for each request, in µs.
    pub cpu_micros: f64,
    /// The server's memory at the end.
    pub mib: f64,
}

impl Load {
    pub fn all_lost(&self) -> usize {
        self.lost.values().sum()
    }
}

/// Takes down how each request went.
#[derive(Clone, Default)]
pub struct Record(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    millis: Vec<f64>,
    lost: BTreeMap<String, usize>,
}

impl Record {
    pub fn take<T>(&self, due: Instant, outcome: Result<T>) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(_) => taken.millis.push(due.elapsed().as_secs_f64() * 1000.0),
            Err(error) => *taken.lost.entry(kind(&error)).or_default() += 1,
        }
    }

    /// What was taken down, and nothing of it is left.
    pub fn millis(&self) -> Vec<f64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).millis)
    }
}

/// The same sentence for all that went wrong alike: without the names and addresses in it.
fn kind(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let words = text
        .split_whitespace()
        .filter(|word| !word.contains(|c: char| c.is_ascii_digit()) || word.len() == 3);
    words.take(16).collect::<Vec<_>>().join(" ")
}

/// Plays all timelines for so long, and says what became of it. `play` gets the start and the end.
pub async fn measure<P: Future<Output = ()> + Send + 'static>(
    target: &Target,
    during: Duration,
    timelines: impl Iterator<Item = impl FnOnce(Instant, Instant, Record) -> P>,
) -> Result<Load> {
    let (record, start) = (Record::default(), Instant::now() + LEAD);
    let tasks: Vec<_> =
        timelines.map(|play| tokio::spawn(play(start, start + during, record.clone()))).collect();
    sleep_until(start.into()).await;
    let before = target.usage()?;
    sleep_until((start + during).into()).await;
    let after = target.usage()?;
    for task in tasks {
        task.await?;
    }
    let mut taken = record.0.lock().unwrap_or_else(PoisonError::into_inner);
    let (millis, lost) = (std::mem::take(&mut taken.millis), std::mem::take(&mut taken.lost));
    let requests = millis.len() + lost.values().sum::<usize>();
    Ok(Load {
        requests,
        lost,
        per_second: requests as f64 / during.as_secs_f64(),
        median_ms: quantile(&millis, 0.5),
        p99_ms: quantile(&millis, 0.99),
        worst_ms: quantile(&millis, 1.0),
        cpu_micros: (after.cpu_seconds - before.cpu_seconds) * 1e6 / requests.max(1) as f64,
        mib: after.mi_b,
    })
}
