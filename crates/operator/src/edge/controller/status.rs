//! When the status of a device is written: only when it says something else, at once after a rest, and then every ten seconds
//! with whatever is newest.

use std::time::Duration;

use flashjob_api::edge::{DeviceStatus, DeviceWorkload, Hardware};
use flashjob_plan::edge::facts::EdgeDeviceFacts;
use flashjob_plan::edge::heartbeat::changes::{UPLOADS_EVERY, Urgency, urgency};
use flashjob_plan::edge::heartbeat::liveness::Live;
use flashjob_plan::edge::heartbeat::report::Told;
use flashjob_plan::edge::heartbeat::status::{Served, StatusView, Wanted, device_status};
use serde_json::Value;
use tokio::time::Instant;

use super::EdgeController;
use crate::edge::act::DeviceStatusWrite;
use crate::edge::input::{Input, There, Written};
use crate::edge::observe;
use crate::edge::tombstones::Place;
use crate::engine::status::difference;
use crate::process::clock;

/// From the answer to one write of a device's status to the next.
const PAUSE: Duration = Duration::from_secs(10);

impl EdgeController {
    /// Decides what the status of a device says, and has it written when its time has come.
    pub(super) fn tell(&mut self, place: &Place, device: &EdgeDeviceFacts) {
        let before = device.status.value();
        let known = self.known_status(place, device).unwrap_or_else(|| before.clone());
        let Some((status, hardware)) = self.decide_status(place, device, &known) else { return };
        let Some(state) = self.states.get_mut(place) else { return };
        let hardware = hardware.filter(|hardware| {
            let said = observe::hardware_facts(hardware);
            let is_there = device.status.hardware.is_some_and(|there| there.knows(&said));
            !is_there && state.hardware != Some(said)
        });
        let after = difference(&known, &status, clock::now()).unwrap_or(known);
        let pause = match urgency(&before, &after) {
            Urgency::Nothing if hardware.is_none() => {
                // All that the device has said is in its status.
                (state.report, state.settled) = (None, Some(device.status.clone()));
                return;
            }
            Urgency::UploadOnly if hardware.is_none() => UPLOADS_EVERY,
            _ => PAUSE,
        };
        let now = Instant::now();
        if state.throttle.busy {
            return;
        }
        if let Some(at) = state.throttle.after(pause).filter(|at| *at > now) {
            self.queue.enqueue_at(&place.1, at);
            return;
        }
        state.throttle.sent(now, 0);
        state.hardware = hardware.as_ref().map(observe::hardware_facts).or(state.hardware);
        let write = DeviceStatusWrite { before, after, hardware };
        let started = self.start(&place.1, &place.0);
        let (device, place, inputs) = (device.clone(), place.clone(), self.inputs.clone());
        self.shared.metrics.status_write();
        tokio::spawn(async move {
            let written = Box::new(started.device_status(&device, write).await);
            // Nobody listens any more when the process ends.
            let _ = inputs.send(Input::DeviceStatus(place, written)).await;
        });
    }

    /// The status as it was, if somebody else has written to it since: what the device said last is nowhere else. Of its hardware
    /// the device has to tell once more.
    fn known_status(&mut self, place: &Place, device: &EdgeDeviceFacts) -> Option<Value> {
        let state = self.states.get_mut(place).filter(|state| !state.throttle.busy)?;
        let settled = state.settled.as_ref().filter(|settled| **settled != device.status)?;
        let known = settled.value();
        if settled.hardware != device.status.hardware {
            state.hardware = None;
            self.shared.beats.forget(place);
        }
        Some(known)
    }

    fn decide_status(
        &mut self,
        place: &Place,
        device: &EdgeDeviceFacts,
        before: &Value,
    ) -> Option<(DeviceStatus, Option<Hardware>)> {
        let live = self.shared.beats.lock().get(place).map_or(Live::Never, |beat| beat.shown);
        let served = self.shared.served.get(place);
        let version = served.as_ref().and_then(|served| served.configuration.as_ref());
        let version = version.map(|configuration| configuration.version());
        let state = self.states.get_mut(place)?;
        let is_new = before.get("conditions").is_none()
            && state.report.is_none()
            && device.settings.is_none();
        if is_new && matches!(live, Live::Grace { .. }) && state.has_nothing_to_tell() {
            // It has just come in, and speaks for itself soon.
            return None;
        }
        let said = state.report.as_ref().and_then(|report| report.version.as_ref());
        let is_synced = said.is_some() && said == version.as_ref();
        let carried_out = is_synced && !std::mem::take(&mut state.unsynced).is_empty();
        let workloads: Vec<_> = state
            .wanted
            .iter()
            .map(|(name, problem)| Wanted { name, problem: problem.as_ref() })
            .collect();
        let keys = device.keys.as_ref().ok();
        let view = StatusView {
            generation: device.generation,
            before,
            report: state.report.as_deref(),
            workloads: &workloads,
            served: version
                .as_deref()
                .zip(served.as_ref())
                .map(|(version, served)| Served { version, since: served.since }),
            held: state.held,
            live,
            registered: keys.and_then(|keys| keys.current.as_ref()).map(|key| key.since),
            problems: &state.problems,
            storage: state.storage.as_ref().map(|storage| storage.as_ref().copied()),
            certificate_end: keys.and_then(|keys| keys.until),
            unsupported: if state.has_our_agent { &state.unsupported } else { &[] },
            data_obc: state.claim.is_there.then_some(&place.1),
        };
        let decided = device_status(&view, clock::now());
        let mut status = decided.status;
        let told = status.workloads.iter().map(told).collect();
        let changed = std::mem::replace(&mut state.told, told) != state.told || carried_out;
        // A process that cannot know yet leaves that as it is.
        let reporting = holds(&status, "Ready", "True");
        let changed = std::mem::replace(&mut state.reporting, reporting) != reporting || changed;
        let behind = holds(&status, "Synced", "False") && reporting && !state.held;
        state.behind = served.filter(|_| behind).map(|served| served.since);
        state.expiring = holds(&status, "CertificateExpiring", "True");
        if changed {
            let names: Vec<String> = state.wanted.keys().cloned().collect();
            names.iter().for_each(|name| self.recount(&place.0, name));
        }
        if let Some(at) = decided.look_again {
            self.queue.enqueue_at(&place.1, clock::instant(at));
        }
        let hardware = status.hardware.take();
        Some((status, hardware))
    }

    /// The status of a device was written, or was not.
    pub(super) fn status_written(&mut self, place: &Place, written: Written) {
        let went_well = written.error.is_none();
        if let Some(error) = &written.error
            && !error.conflict
        {
            let (namespace, device) = place;
            let error = &error.message;
            tracing::warn!(device, namespace, error, "the status of a device could not be written");
        }
        let there = match &written.there {
            There::Device(_, Some(device)) if went_well => Some(device.status.clone()),
            _ => None,
        };
        self.take_there(&place.1, written.there, None);
        let Some(state) = self.states.get_mut(place) else { return };
        state.settled = there;
        let now = Instant::now();
        state.throttle.answered(now);
        if went_well {
            state.throttle.succeeded();
            self.queue.enqueue_at(&place.1, now);
        } else {
            state.hardware = None;
            let again = state.throttle.failed(now);
            self.queue.enqueue_at(&place.1, again);
        }
    }
}

/// What a workload's own status counts of it.
fn told(workload: &DeviceWorkload) -> (String, Told) {
    let phase = workload.phase.clone().unwrap_or_default();
    (workload.name.clone(), Told { phase, exit_code: workload.exit_code, ..Told::default() })
}

fn holds(status: &DeviceStatus, condition: &str, as_this: &str) -> bool {
    status.conditions.iter().any(|c| c.type_ == condition && c.status == as_this)
}
