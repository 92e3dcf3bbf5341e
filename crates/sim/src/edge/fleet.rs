//! Many devices in one process, each living by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::credential::Credential;
use super::device::{Device, DeviceOptions};
use super::ledger::{DeviceLedger, Outcome};
use super::operation::Operation;
use crate::SeededRng;
use crate::wait::eventually;

/// How many of those that are not as wished an error names.
const NAMED: usize = 5;

/// A fleet to be started.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Devices are called `<prefix>-<i>`, from 0.
    pub prefix: String,
    /// Within so long all have started, one after the other.
    pub stagger: Duration,
    /// What they are all like. Each has an id of its own and a seed that follows from this one's.
    pub device: DeviceOptions,
}

/// Running devices. They stop when this is dropped.
pub struct Fleet {
    devices: Vec<Device>,
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Fleet {
    /// Starts so many on the current runtime.
    pub fn start(count: usize, options: FleetOptions) -> Result<Self> {
        let FleetOptions { prefix, stagger, device } = options;
        let (ca, key) = (device.bundle.ca().clone(), device.bundle.key().clone());
        let registration = Credential::new(key, ca, device.clock.clone());
        let mut seeds = SeededRng::new(device.seed);
        let mut devices = Vec::with_capacity(count);
        for i in 0..count {
            let (id, seed) = (format!("{prefix}-{i}"), seeds.next());
            let options = DeviceOptions { id, seed, ..device.clone() };
            devices.push(Device::with_registration(options, registration.clone())?);
        }
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (i, device) in devices.iter().cloned().enumerate() {
            let (late, mut stopped) = (stagger.mul_f64(i as f64 / count as f64), stopped.clone());
            tasks.spawn(async move {
                sleep(late).await;
                let stop = async {
                    // A fleet that is gone has stopped, too.
                    let _ = stopped.wait_for(|stop| *stop).await;
                };
                device.run(stop).await;
            });
        }
        Ok(Self { devices, tasks, stop })
    }

    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What all of them were told so far.
    pub fn ledgers(&self) -> Vec<DeviceLedger> {
        self.devices.iter().map(Device::ledger).collect()
    }

    /// How often each operation ended in each way, over all.
    pub fn counts(&self) -> BTreeMap<(Operation, Outcome), u64> {
        let mut all = BTreeMap::new();
        for device in &self.devices {
            device.read(|ledger| {
                for (what, count) in ledger.counts() {
                    *all.entry(*what).or_default() += count;
                }
            });
        }
        all
    }

    /// How many are as wished.
    pub fn how_many(&self, wish: impl Fn(&DeviceLedger) -> bool) -> usize {
        self.devices.iter().filter(|device| device.read(&wish)).count()
    }

    /// Waits until all are as wished. The error names some that are not, and what they were told.
    pub async fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        wish: impl Fn(&DeviceLedger) -> bool,
    ) -> Result<()> {
        let all = self.devices.len();
        let waited =
            eventually(what, limit, async || Ok((self.how_many(&wish) == all).then_some(())));
        waited.await.with_context(|| {
            let others = self.devices.iter().filter(|device| !device.read(&wish));
            let last =
                |device: &Device| device.read(|l| format!("{}: {:?}", l.device, l.told.back()));
            let named: Vec<_> = others.map(last).collect();
            let count = named.len();
            format!("{count} of {all} are not:\n{}", named[..count.min(NAMED)].join("\n"))
        })
    }

    /// Waits until all have certificates of their own.
    pub async fn all_registered(&self, limit: Duration) -> Result<()> {
        self.wait_until("all devices to be registered", limit, DeviceLedger::registered).await
    }

    /// Stops all of them. What they were told is still there.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}
