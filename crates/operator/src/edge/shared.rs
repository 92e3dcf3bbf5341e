//! What the controller knows, for the device API on its own thread: it reads, and never waits for the controller to answer a
//! device that nothing has to be written for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use flashjob_plan::edge::devices::Devices;
use flashjob_plan::edge::facts::Settings;
use flashjob_plan::edge::heartbeat::report::Report;
use tokio::sync::watch;

use super::beats::Beats;
use super::certificates::Certificates;
use super::metrics::EdgeMetrics;
use super::served::ServedConfigurations;
use super::tombstones::Place;
use super::waiting::Waiting;
use crate::process::client::WriteWindow;

pub struct Shared {
    pub settings: Settings,
    pub certificates: watch::Receiver<Arc<Certificates>>,
    pub metrics: EdgeMetrics,
    /// What devices are given.
    pub served: ServedConfigurations,
    /// When they were heard of.
    pub beats: Beats,
    /// Requests that are held until something has changed.
    pub waiting: Waiting,
    devices: RwLock<Devices>,
    serving: AtomicBool,
    ready: AtomicBool,
    window: WriteWindow,
}

impl Shared {
    pub fn new(
        settings: Settings,
        certificates: watch::Receiver<Arc<Certificates>>,
        metrics: EdgeMetrics,
        window: WriteWindow,
    ) -> Self {
        Self {
            settings,
            certificates,
            metrics,
            served: ServedConfigurations::default(),
            beats: Beats::default(),
            waiting: Waiting::default(),
            devices: RwLock::default(),
            serving: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            window,
        }
    }

    pub fn devices(&self) -> RwLockReadGuard<'_, Devices> {
        self.devices.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change(&self) -> RwLockWriteGuard<'_, Devices> {
        self.devices.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A heartbeat. Whether it says anything new; also if the device is not known here yet.
    pub fn hear(&self, place: &Place, report: &Report) -> bool {
        let is_served = || {
            let configuration = self.served.get(place).and_then(|served| served.configuration);
            configuration.is_some_and(|served| report.version == Some(served.version()))
        };
        let heard = self.beats.hear(place, report, is_served);
        self.metrics.missed(heard.as_ref().map_or(0, |heard| heard.missed));
        heard.is_none_or(|heard| heard.is_new)
    }

    /// Something has changed, and can be seen by now, that this device may be concerned by.
    pub fn wake(&self, name: &str) {
        self.waiting.wake(name);
    }

    /// The same for all devices.
    pub fn wake_all(&self) {
        self.waiting.wake_all();
    }

    /// Whether all that configurations are made of was listed: a device whose EdgeDevice was listed is served by now.
    pub fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    pub fn set_serving(&self) {
        self.serving.store(true, Ordering::Release);
    }

    /// Whether the EdgeDevices were listed, too. Before that nobody is told that there is no such device.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether what is known here is still the truth. Without the lease another process may have changed it, and a process that
    /// stood still for a while finds requests in its sockets before it finds out.
    pub fn holds_the_lease(&self) -> bool {
        self.window.allows_writing()
    }
}
