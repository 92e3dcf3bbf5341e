//! The configurations that devices are given, made by the controller and read by the listener.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use flashjob_plan::edge::configuration::Configuration;
use jiff::Timestamp;

use super::tombstones::Place;

#[derive(Default)]
pub struct ServedConfigurations(RwLock<HashMap<Place, Served>>);

#[derive(Clone, Debug)]
pub struct Served {
    /// `None`: it cannot be made, and this process has made none before. The device keeps what it has.
    pub configuration: Option<Arc<Configuration>>,
    pub since: Timestamp,
}

impl ServedConfigurations {
    pub fn get(&self, place: &Place) -> Option<Served> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(place).cloned()
    }

    /// From now on the device is given this one. Says whether that is another than before.
    pub fn put(
        &self,
        place: &Place,
        configuration: Option<Arc<Configuration>>,
        now: Timestamp,
    ) -> bool {
        let mut served = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let version = |of: &Option<Arc<Configuration>>| of.as_ref().map(|of| of.version());
        let same = |known: &Served| version(&known.configuration) == version(&configuration);
        if served.get(place).is_some_and(same) {
            return false;
        }
        served.insert(place.clone(), Served { configuration, since: now });
        true
    }

    pub fn remove(&self, place: &Place) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(place);
    }
}
