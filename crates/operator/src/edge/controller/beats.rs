//! What devices say, and that some say nothing: heartbeats, their events, who is missing, and the roll.

use std::collections::BTreeMap;

use flashjob_plan::edge::heartbeat::events::DeviceEvent;
use flashjob_plan::edge::heartbeat::flips::Mass;
use flashjob_plan::edge::heartbeat::liveness::Live;
use flashjob_plan::edge::heartbeat::roll::{self, Entry};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};
use tokio::time::Instant;

use super::{EdgeController, Unlisted};
use crate::edge::input::{Input, NewHeartbeat};
use crate::edge::roll::{RollLoaded, write};
use crate::edge::tombstones::Place;
use crate::process::clock;

impl EdgeController {
    /// A device has said something new.
    pub(super) fn heartbeat(&mut self, heartbeat: NewHeartbeat) {
        let NewHeartbeat { place, report, events, more_events } = heartbeat;
        self.shared.metrics.events_dropped(more_events);
        for event in events {
            let device = format!("{}/{}", place.0, place.1);
            if self.event_limits.take(&device, clock::boottime()) {
                self.publish(&place, event);
            } else {
                self.shared.metrics.events_dropped(1);
            }
        }
        let Some(report) = report else { return };
        let Some(state) = self.states.get_mut(&place) else {
            // It is not known here yet, and has to say it again.
            self.shared.beats.forget(&place);
            return;
        };
        state.has_our_agent = report.agent.as_ref().is_some_and(|agent| agent.is_ours());
        state.report = Some(report);
        self.queue.enqueue_at(&place.1, Instant::now());
    }

    fn publish(&self, place: &Place, event: DeviceEvent) {
        let devices = self.shared.devices();
        let device = devices.entry(&place.1).and_then(|entry| entry.device(&place.0));
        let Some(uid) = device.map(|device| device.uid.clone()) else { return };
        drop(devices);
        let reference = ObjectReference {
            uid: Some(uid),
            namespace: Some(place.0.clone()),
            ..reference("management.project-flotta.io/v1alpha1", "EdgeDevice", &place.1)
        };
        let type_ = if event.warning { EventType::Warning } else { EventType::Normal };
        self.send_event(type_, event.reason, event.message, reference);
    }

    fn send_event(
        &self,
        type_: EventType,
        reason: String,
        note: String,
        reference: ObjectReference,
    ) {
        let namespace = reference.namespace.clone().unwrap_or_default();
        let event =
            Event { type_, reason, note: Some(note), action: "Report".into(), secondary: None };
        let (caller, recorder) = (self.caller("/events", &namespace), self.recorder.clone());
        tokio::spawn(async move {
            if let Err(error) = caller.call(recorder.publish(&event, &reference)).await {
                tracing::warn!(%error, "an event could not be written");
            }
        });
    }

    /// A second has passed: looks for devices that are missing and for those that are back.
    pub(super) fn tick(&mut self) {
        let (now, clock) = (clock::now(), clock::boottime());
        let mut beats = self.shared.beats.lock();
        let (mut turned, mut waiting) = (Vec::new(), Vec::new());
        let (mut reporting, mut missing, mut never) = (0, 0, 0);
        for (place, beat) in beats.iter_mut() {
            let live = beat.liveness.state(now, self.started);
            match live {
                Live::Reporting => reporting += 1,
                Live::Missing { .. } => missing += 1,
                Live::Grace { .. } | Live::Never => never += 1,
            }
            let is_turn = |live: &Live| matches!(live, Live::Reporting | Live::Missing { .. });
            let both = is_turn(&live) && is_turn(&beat.shown);
            if both && (live == Live::Reporting) != (beat.shown == Live::Reporting) {
                waiting.push(place.clone());
            } else if live != beat.shown {
                beat.shown = live;
                turned.push(place.clone());
            }
        }
        let all = beats.len();
        let mass = self.flips.count(missing, all);
        for place in waiting {
            if self.flips.take(clock).is_err() {
                break;
            }
            if let Some(beat) = beats.get_mut(&place) {
                beat.shown = beat.liveness.state(now, self.started);
                turned.push(place);
            }
        }
        drop(beats);
        self.shared.metrics.devices(reporting, missing, never);
        turned.iter().for_each(|place| self.queue.enqueue_at(&place.1, Instant::now()));
        if let Some(mass) = mass {
            self.tell_of_mass(mass, missing, all);
        }
        self.write_roll();
    }

    /// One sentence in place of thousands.
    fn tell_of_mass(&self, mass: Mass, missing: usize, all: usize) {
        let (type_, reason, note) = match mass {
            Mass::Began => (
                EventType::Warning,
                "FleetMissing",
                format!(
                    "{missing} of {all} devices are missing at once; look at the way from them to here first"
                ),
            ),
            Mass::Ended => (
                EventType::Normal,
                "FleetBack",
                format!("{missing} of {all} devices are missing; the others report again"),
            ),
        };
        tracing::warn!(missing, all, "{note}");
        let deployment = ObjectReference {
            namespace: Some(self.home.clone()),
            ..reference("apps/v1", "Deployment", "flotta-edge-api")
        };
        self.send_event(type_, reason.to_owned(), note, deployment);
    }

    pub(super) fn roll_loaded(&mut self, loaded: &RollLoaded) {
        let maps = loaded.0.iter().map(|(shard, data)| (*shard, data));
        let remembered = roll::read(maps, self.started);
        if remembered.left_out > 0 {
            tracing::warn!(
                lines = remembered.left_out,
                "lines of the roll cannot be read and are left out"
            );
        }
        (self.roll, self.remembered) = (remembered.roll, remembered.devices);
        self.known(Unlisted::Roll);
    }

    /// Those of the roll whose EdgeDevices are gone leave it.
    pub(super) fn forget_the_gone(&mut self) {
        let devices = self.shared.devices();
        let is_there = |place: &str| {
            let place = place.split_once('/');
            place.is_some_and(|(namespace, name)| {
                devices.entry(name).is_some_and(|entry| entry.device(namespace).is_some())
            })
        };
        for (_, gone) in self.remembered.extract_if(|place, _| !is_there(place)) {
            if let Some(shard) = gone.shard() {
                self.roll.leave(shard);
            }
        }
    }

    fn write_roll(&mut self) {
        if self.roll_busy {
            return;
        }
        let mut beats = self.shared.beats.lock();
        for beat in beats.values_mut() {
            match beat.liveness.shard() {
                Some(shard) if beat.is_news() => self.roll.change(shard),
                None if beat.liveness.last_seen().is_some() => {
                    if let Some(shard) = self.roll.join() {
                        beat.liveness.put_into(shard);
                    }
                }
                _ => {}
            }
        }
        let Some(shard) = self.roll.due(clock::boottime()) else { return };
        let here = beats.iter_mut().filter(|(_, beat)| beat.liveness.shard() == Some(shard));
        let entries = here.filter_map(|((namespace, name), beat)| {
            beat.is_written();
            Entry::of(format!("{namespace}/{name}"), &beat.liveness)
        });
        let data: BTreeMap<_, _> = roll::encode(entries, clock::now());
        drop(beats);
        self.roll_busy = true;
        let (caller, home, inputs) =
            (self.caller("/roll", &self.home), self.home.clone(), self.inputs.clone());
        tokio::spawn(async move {
            let written = write(caller, home, shard, data).await;
            let _ = inputs.send(Input::RollWritten(shard, written)).await;
        });
    }

    pub(super) fn roll_written(&mut self, shard: u16, written: Result<(), String>) {
        self.roll_busy = false;
        if let Err(error) = written {
            tracing::warn!(
                shard,
                error,
                "the roll could not be written; it is tried again at its next turn"
            );
            self.roll.change(shard);
        }
    }
}

fn reference(api_version: &str, kind: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}
