//! EdgeDeviceSets and EdgeDeviceGroups: who is in one that has changed is looked at.

use std::collections::BTreeSet;

use flashjob_plan::edge::facts::EdgeDeviceFacts;
use flashjob_plan::edge::sets::{SetKind, SetSettings, set_of};
use tokio::time::Instant;

use super::{EdgeController, Unlisted};
use crate::engine::watch::WatchEvent;

impl EdgeController {
    pub(super) fn take_set(
        &mut self,
        kind: SetKind,
        namespace: &str,
        event: WatchEvent<(String, SetSettings)>,
    ) {
        let is_end = matches!(event, WatchEvent::Synced);
        let one = |name, is_new: bool| is_new.then_some(name).into_iter().collect();
        let changed: BTreeSet<String> = match event {
            WatchEvent::Listing => {
                self.sets.begin(kind, namespace);
                BTreeSet::new()
            }
            WatchEvent::There((name, settings)) => {
                let is_new = self.sets.see(kind, namespace, &name, settings);
                one(name, is_new)
            }
            WatchEvent::Left((name, _)) => {
                self.sets.lose(kind, namespace, &name);
                one(name, true)
            }
            WatchEvent::Synced => self.sets.end(kind, namespace),
        };
        if !changed.is_empty() {
            let devices = self.shared.devices();
            let is_in =
                |of: &EdgeDeviceFacts| set_of(&of.labels).is_some_and(|set| changed.contains(set));
            let members = devices.of_namespace(namespace).filter(|(_, facts)| is_in(facts));
            let members: Vec<String> = members.map(|(device, _)| device.clone()).collect();
            drop(devices);
            members.iter().for_each(|device| self.queue.enqueue_at(device, Instant::now()));
        }
        if is_end {
            self.known(Unlisted::Sets(kind, namespace.to_owned()));
        }
    }
}
