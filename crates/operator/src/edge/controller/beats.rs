//! What devices say, and that some say nothing: heartbeats, their events, who is missing, and the roll.

use std::collections::BTreeMap;
use std::time::Duration;

use flashjob_plan::edge::heartbeat::events::DeviceEvent;
use flashjob_plan::edge::heartbeat::flips::{self, Mass};
use flashjob_plan::edge::heartbeat::liveness::Live;
use flashjob_plan::edge::heartbeat::report::merge_hardware;
use flashjob_plan::edge::heartbeat::roll::{self, Entry};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{EdgeController, Unlisted};
use crate::edge::beats::Beat;
use crate::edge::events::{News, publish};
use crate::edge::input::{Input, NewHeartbeat};
use crate::edge::metrics::Lacks;
use crate::edge::roll::{RollLoaded, write};
use crate::edge::tombstones::Place;
use crate::process::client::error_message;
use crate::process::clock;

/// From one count of what devices lack to the next.
const SURVEY_EVERY: Duration = Duration::from_secs(10);

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
        let Some(mut report) = report else { return };
        if !self.states.contains_key(&place) {
            // It has come in a moment ago, or this process has.
            self.look_at_devices(&place.1);
            self.shared.hear(&place, &report);
        }
        let Some(state) = self.states.get_mut(&place) else { return };
        state.has_our_agent = report.agent.as_ref().is_some_and(|agent| agent.is_ours());
        // What is not written yet is not said again.
        let unwritten = state.report.take().and_then(|report| report.hardware);
        report.hardware = merge_hardware(unwritten, report.hardware.as_ref());
        state.report = Some(Box::new(report));
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
        let DeviceEvent { reason, message, warning } = event;
        self.send_event(reference, News { warning, reason, message });
    }

    fn send_event(&self, regarding: ObjectReference, news: News) {
        let caller = self.caller("/events", regarding.namespace.as_deref().unwrap_or_default());
        tokio::spawn(async move {
            if let Err(error) = publish(&caller, regarding, news).await {
                let error = error_message(&error);
                tracing::warn!(error, "an event could not be written");
            }
        });
    }

    /// A second has passed: looks for devices that are missing and for those that are back, and writes to the roll. Heartbeats
    /// wait meanwhile, so it looks at each device once.
    pub(super) fn tick(&mut self) {
        let (now, clock) = (self.shared.beats.now(), clock::boottime());
        let due = if self.roll_busy { None } else { self.roll.due(clock) };
        let mut beats = self.shared.beats.lock();
        let (mut turned, mut waiting, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let (mut reporting, mut missing, mut never) = (0, 0, 0);
        for (place, beat) in beats.iter_mut() {
            let live = beat.liveness.state(now, self.started);
            match live {
                Live::Reporting => reporting += 1,
                Live::Missing { .. } => missing += 1,
                Live::Grace { .. } | Live::Never => never += 1,
            }
            if beat.turns(live) {
                if waiting.len() < flips::AT_ONCE {
                    waiting.push(place.clone());
                }
            } else if live != beat.shown {
                beat.shown = live;
                turned.push(place.clone());
            }
            match beat.liveness.shard() {
                Some(shard) if due == Some(shard) => {
                    beat.is_written();
                    entries.extend(entry(place, beat));
                }
                Some(shard) if beat.is_news() => self.roll.change(shard),
                None if beat.liveness.last_seen().is_some() => {
                    self.roll.join().into_iter().for_each(|shard| beat.liveness.put_into(shard));
                }
                _ => {}
            }
        }
        let all = beats.len();
        let mass = self.flips.count(missing, all);
        for place in waiting {
            if !self.flips.take(clock) {
                break;
            }
            if let Some(beat) = beats.get_mut(&place) {
                beat.shown = beat.liveness.state(now, self.started);
                if beat.shown != Live::Reporting {
                    self.shared.metrics.missed(beat.liveness.missed(now));
                }
                turned.push(place);
            }
        }
        drop(beats);
        self.shared.metrics.devices(reporting, missing, never);
        turned.iter().for_each(|place| self.queue.enqueue_at(&place.1, Instant::now()));
        if let Some(mass) = mass {
            self.tell_of_mass(mass, missing, all);
        }
        if let Some(shard) = due {
            self.write_roll(shard, roll::encode(entries, now));
        }
        self.survey();
        self.tick_absent();
    }

    /// Counts what devices lack, now and then.
    fn survey(&mut self) {
        if self.surveyed.is_some_and(|at| at.elapsed() < SURVEY_EVERY) {
            return;
        }
        self.surveyed = Some(Instant::now());
        let states = self.states.values();
        let lacks = Lacks {
            held: states.clone().filter(|state| state.held).count(),
            behind: states.clone().filter(|state| state.behind.is_some()).count(),
            behind_since: states.clone().filter_map(|state| state.behind).min(),
            expiring: states.filter(|state| state.expiring).count(),
        };
        self.shared.metrics.lacks(lacks);
    }

    /// One sentence in place of thousands.
    fn tell_of_mass(&self, mass: Mass, missing: usize, all: usize) {
        let warning = mass == Mass::Began;
        let (reason, message) = if warning {
            let message = format!(
                "{missing} of {all} devices are missing at once; look at the way from them to here first"
            );
            ("FleetMissing", message)
        } else {
            let message =
                format!("{missing} of {all} devices are missing; the others report again");
            ("FleetBack", message)
        };
        tracing::warn!(missing, all, "{message}");
        let deployment = ObjectReference {
            namespace: Some(self.home.clone()),
            ..reference("apps/v1", "Deployment", "flotta-edge-api")
        };
        self.send_event(deployment, News { warning, reason: reason.to_owned(), message });
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
                let device = devices.entry(name).and_then(|entry| entry.device(namespace));
                device.is_some_and(|device| !device.being_deleted)
            })
        };
        for (_, gone) in self.remembered.extract_if(|place, _| !is_there(place)) {
            if let Some(shard) = gone.shard() {
                self.roll.leave(shard);
            }
        }
    }

    fn write_roll(&mut self, shard: u16, data: BTreeMap<String, String>) {
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

fn entry((namespace, name): &Place, beat: &Beat) -> Option<Entry> {
    Entry::of(format!("{namespace}/{name}"), &beat.liveness)
}

fn reference(api_version: &str, kind: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}
