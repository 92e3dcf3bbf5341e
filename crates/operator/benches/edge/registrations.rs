//! Registrations, first use of the certificate included, in a closed loop: so many devices at a time, the next when one is done.
//!
//! Each enrols and registers on a connection with the registration certificate, and says its first heartbeat on another one
//! with its own, as in the field. It calls the operator directly: a forwarder in between would cost as much as the device.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use flashjob_sim::Usage;
use flashjob_sim::edge::{Device, DeviceOptions, EdgeOperator, EdgeSite, Manner, Operation};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tokio::time::sleep;

use crate::bed::{Bed, quantile};
use crate::objects::{Template, name};
use crate::options::Options;

/// What a device waits when the operator could not have it written down in time; the operator asks for a second.
const PAUSE: Duration = Duration::from_secs(1);
const MOST_RETRIES: usize = 30;

/// Registrations and their floors.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Registrations {
    pub devices: usize,
    pub parallel: usize,
    pub seconds: f64,
    /// What was told to try again.
    pub retries: usize,
    /// Of one device, from its first connection to the answer to its heartbeat.
    pub median_seconds: f64,
    pub p99_seconds: f64,
    /// Before and after.
    pub floor_seconds: [f64; 2],
    /// Of each device in the floor.
    pub floor_writes: usize,
    /// The operator's writes of EdgeDevices, by verb and resource.
    pub writes: BTreeMap<String, usize>,
    /// Those of them that the API server refused.
    pub refused: usize,
    /// The operator's, start included.
    #[serde(flatten)]
    pub usage: Usage,
    /// Of the operator, for all registrations.
    pub registration_cpu_seconds: f64,
}

impl Registrations {
    pub fn per_second(&self) -> f64 {
        self.devices as f64 / self.seconds
    }

    /// The mean of the two.
    pub fn floor_per_second(&self) -> f64 {
        2.0 * self.devices as f64 / self.floor_seconds.iter().sum::<f64>()
    }

    pub fn ratio(&self) -> f64 {
        self.floor_per_second() / self.per_second()
    }

    pub fn writes_each(&self) -> f64 {
        self.writes.values().sum::<usize>() as f64 / self.devices as f64
    }

    pub fn cpu_ms_each(&self) -> f64 {
        1000.0 * self.registration_cpu_seconds / self.devices as f64
    }
}

/// A site whose devices are registered.
pub struct Fleet {
    pub site: EdgeSite,
    pub operator: EdgeOperator,
    pub devices: Vec<Device>,
}

/// Measures the operator between two floors.
pub async fn measure(bed: &Bed, options: &Options) -> Result<(Registrations, Fleet)> {
    let Options { registrations: count, parallel, .. } = *options;
    let template = Template::take(bed).await?;
    let before = template.measure(bed, count, parallel).await?;

    let fleet = Fleet::start(bed, count).await?;
    let usage_before = fleet.operator.operator.usage()?;
    let began = Instant::now();
    let all = stream::iter(&fleet.devices).map(register).buffer_unordered(parallel);
    let all: Vec<Registered> = all.try_collect().await?;
    let seconds = began.elapsed().as_secs_f64();
    let usage = fleet.operator.operator.usage()?;
    let entries = fleet.site.operators.writes_settled(&fleet.site.namespace).await?;
    let mut writes = BTreeMap::new();
    for entry in &entries {
        *writes.entry(entry.kind()).or_default() += 1;
    }

    let after = template.measure(bed, count, parallel).await?;
    let each: Vec<f64> = all.iter().map(|one| one.seconds).collect();
    let registrations = Registrations {
        devices: count,
        parallel,
        seconds,
        retries: all.iter().map(|one| one.retries).sum(),
        median_seconds: quantile(&each, 0.5),
        p99_seconds: quantile(&each, 0.99),
        floor_seconds: [before, after],
        floor_writes: template.writes(),
        refused: entries.iter().filter(|entry| entry.code >= 400).count(),
        writes,
        usage,
        registration_cpu_seconds: usage.cpu_seconds - usage_before.cpu_seconds,
    };
    Ok((registrations, fleet))
}

impl Fleet {
    /// Devices that nobody knows yet.
    async fn start(bed: &Bed, count: usize) -> Result<Fleet> {
        let site = bed.site().await?;
        let operator = site.operator().await?;
        let options = DeviceOptions {
            server: operator.address,
            ..site.options("bench", Manner::Ours).await?
        };
        let device = |number| {
            let seed = u64::try_from(number)?;
            Device::new(DeviceOptions { id: name(number), seed, ..options.clone() })
        };
        let devices = (1..=count).map(device).collect::<Result<_>>()?;
        Ok(Fleet { site, operator, devices })
    }
}

struct Registered {
    seconds: f64,
    retries: usize,
}

/// What it does, and the answer that it goes on with: the first is told that it is let in already.
const STEPS: [(Operation, u16); 3] =
    [(Operation::Enrol, 208), (Operation::Register, 200), (Operation::Heartbeat, 200)];

async fn register(device: &Device) -> Result<Registered> {
    let (began, mut retries) = (Instant::now(), 0);
    for (step, wanted) in STEPS {
        loop {
            let answer = match step {
                Operation::Enrol => device.enrol().await?,
                Operation::Register => device.register().await?,
                _ => device.heartbeat().await?,
            };
            match answer.code() {
                code if code == wanted => break,
                503 if retries < MOST_RETRIES => retries += 1,
                code => bail!("{step} of {device:?}: {code} {:?}", answer.reason()),
            }
            sleep(PAUSE).await;
        }
    }
    Ok(Registered { seconds: began.elapsed().as_secs_f64(), retries })
}
