//! What the controller knows, for the device API on its own thread: it reads, and never waits for the controller to answer a
//! device that nothing has to be written for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use flashjob_plan::edge::devices::Devices;
use flashjob_plan::edge::facts::Settings;
use tokio::sync::watch;

use super::certificates::Certificates;
use super::metrics::EdgeMetrics;

pub struct Shared {
    pub settings: Settings,
    pub certificates: watch::Receiver<Arc<Certificates>>,
    pub metrics: EdgeMetrics,
    devices: RwLock<Devices>,
    ready: AtomicBool,
}

impl Shared {
    pub fn new(
        settings: Settings,
        certificates: watch::Receiver<Arc<Certificates>>,
        metrics: EdgeMetrics,
        devices: Devices,
    ) -> Self {
        let (devices, ready) = (RwLock::new(devices), AtomicBool::new(false));
        Self { settings, certificates, metrics, devices, ready }
    }

    pub fn devices(&self) -> RwLockReadGuard<'_, Devices> {
        self.devices.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change(&self) -> RwLockWriteGuard<'_, Devices> {
        self.devices.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything was listed. Before that nobody is told that there is no such device.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }
}
