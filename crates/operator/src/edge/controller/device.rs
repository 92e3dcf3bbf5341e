//! What a device is to have, and what its status says: worked out anew whenever anything that they depend on has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flashjob_plan::edge::configuration::{
    Configuration, Lack, Needs, Placed, Rendered, RenderedSettings, Serve, SettingsText, Wanted,
    heartbeat_period, render_settings, serve, unsupported, workloads_of,
};
use flashjob_plan::edge::facts::{EdgeDeviceFacts, HardwareFacts, StatusFacts};
use flashjob_plan::edge::heartbeat::liveness::Liveness;
use flashjob_plan::edge::heartbeat::report::{Report, Told};
use flashjob_plan::edge::heartbeat::status::DEPLOYING;
use flashjob_plan::edge::heartbeat::told;
use flashjob_plan::edge::problem::Problem;
use flashjob_plan::edge::workloads::referred;
use jiff::Timestamp;

use super::EdgeController;
use super::storage::ClaimState;
use crate::edge::beats::Beat;
use crate::edge::sources::Owner;
use crate::edge::tombstones::Place;
use crate::engine::status::Throttle;
use crate::process::clock;

/// What is said of storage begins with it.
const STORAGE: &str = "storage.s3";

/// What is kept of an EdgeDevice beside what is on record of it.
#[derive(Default)]
pub struct DeviceState {
    /// What it is to run, and why it is not sent as it is wanted.
    pub wanted: BTreeMap<String, Option<Problem>>,
    /// Those of them that its labels are to name.
    pub references: BTreeSet<String>,
    /// It keeps the configuration that it has.
    pub held: bool,
    /// What is wrong with its settings.
    pub problems: Vec<Problem>,
    pub storage: Option<Result<(), Problem>>,
    pub claim: ClaimState,
    pub unsupported: Vec<&'static str>,
    /// What it has said since its status was written. At rest there is nothing.
    pub report: Option<Box<Report>>,
    /// Its agent, by its last heartbeat, is ours.
    pub has_our_agent: bool,
    /// How its workloads are, by the status that was decided last.
    pub told: BTreeMap<String, Told>,
    /// What an earlier process may have had it run, by its labels, until this one has served it something.
    may_run: BTreeSet<String>,
    /// Workloads that are others in the configuration that is served than in the one that the device has carried out.
    pub unsynced: BTreeSet<String>,
    /// The hardware that was written last.
    pub hardware: Option<HardwareFacts>,
    /// Its status as this process has written it, or found it with nothing to add.
    pub settled: Option<StatusFacts>,
    /// By the status that was decided last: it reports; it is behind, and since when; its certificate ends soon.
    pub reporting: bool,
    pub behind: Option<Timestamp>,
    pub expiring: bool,
    pub throttle: Throttle,
}

impl EdgeController {
    /// Everything of this place is forgotten: its EdgeDevice is gone.
    pub(super) fn forget_device(&mut self, place: &Place) {
        self.shared.served.remove(place);
        if let Some(beat) = self.shared.beats.lock().remove(place)
            && let Some(shard) = beat.liveness.shard()
        {
            self.roll.leave(shard);
        }
        if let Some(state) = self.states.remove(place) {
            self.belongs_to(place, state.wanted.keys(), &BTreeSet::new());
        }
        let owner = Owner::Device(place.0.clone(), place.1.clone());
        drop(self.sources.want(&owner, &place.0, &Needs::default()));
        self.shared.wake(&place.1);
    }

    /// Works out what a device is to have, and serves it.
    pub(super) fn configure(&mut self, place: &Place, device: &EdgeDeviceFacts) {
        let (namespace, name) = place;
        let own = device.settings.as_deref();
        let (settings, problems) = self.sets.settings_of(namespace, &device.labels, own);
        let (claimed, read) = self.storage_of(place, device, &settings, problems.is_empty());
        let bucket = claimed.bucket.as_ref();
        let mut rendered = render_settings(namespace, &settings, bucket, &self.sources);
        rendered.unread |= claimed.unread;
        let text = (!rendered.unread).then(|| SettingsText::new(&rendered.configuration));
        let mut workloads = self.workloads_of(place, device);
        let absent = self.absent_of(namespace, &device.labels);
        let last = self.shared.served.get(place).and_then(|served| served.configuration);
        let state =
            self.states.entry(place.clone()).or_insert_with(|| DeviceState::new(device).into());
        let mut runs = state.runs();
        for (name, problem) in absent {
            runs.insert(name.clone());
            workloads.entry(name).or_insert_with(|| Err(Lack::Problems(vec![problem])));
        }
        let served = serve(Wanted {
            device: name,
            settings: text.as_ref(),
            workloads: &workloads,
            runs: &runs,
            last: last.as_ref(),
            labels: Some(&device.labels),
        });

        let why =
            |name: &String| served.problems.get(name).and_then(|found| found.first().cloned());
        let wanted = workloads.keys().map(|name| (name.clone(), why(name))).collect();
        let before = std::mem::replace(&mut state.wanted, wanted);
        state.references = served.references;
        let after: BTreeSet<String> = state.wanted.keys().cloned().collect();
        let is_other = |name: &&String| before.get(*name) != state.wanted.get(*name);
        let others: Vec<String> = after.iter().filter(is_other).cloned().collect();
        let fragments: Vec<_> =
            workloads.values().filter_map(|of| of.as_ref().ok().cloned()).collect();
        state.unsupported = unsupported(&rendered.configuration, &fragments);
        // Before everything that it needs was read it is neither held nor served.
        let lacks = !served.problems.is_empty() || rendered.unread && !rendered.problems.is_empty();
        state.take_problems(problems, rendered, claimed.said);
        let (configuration, held) = match served.serve {
            Serve::New(configuration) => (Some(Arc::new(configuration)), false),
            Serve::Keep(kept) => (kept, lacks),
        };
        state.held = held;
        self.belongs_to(place, before.keys(), &after);
        others.iter().for_each(|name| self.recount(namespace, name));
        read.into_iter().for_each(|source| self.read_source(source));

        if configuration.is_some() || held {
            self.publish_configuration(place, last.as_deref(), configuration);
        }
        self.follow(place, heartbeat_period(&settings));
    }

    fn publish_configuration(
        &mut self,
        place: &Place,
        last: Option<&Configuration>,
        configuration: Option<Arc<Configuration>>,
    ) {
        if let (Some(state), Some(new)) = (self.states.get_mut(place), &configuration) {
            state.may_run.clear();
            // Of what an earlier process has served nobody knows what it was.
            let other = |name: &&String| last.is_some_and(|last| !last.has_same(name, new));
            let others: Vec<_> = state.wanted.keys().filter(other).cloned().collect();
            state.unsynced.extend(others.clone());
            state.unsynced.retain(|name| state.wanted.contains_key(name));
            if !others.is_empty() {
                // It may have carried that out before, and then says what it said last.
                self.shared.beats.forget(place);
            }
            others.iter().for_each(|name| self.recount(&place.0, name));
        }
        if self.shared.served.put(place, configuration, clock::now()) {
            self.shared.metrics.rendered();
            self.shared.wake(&place.1);
        }
    }

    /// From now on it is known when the device was heard of last.
    fn follow(&mut self, place: &Place, period_seconds: i64) {
        let mut beats = self.shared.beats.lock();
        let beat = beats.entry(place.clone()).or_insert_with(|| {
            let remembered = self.remembered.remove(&format!("{}/{}", place.0, place.1));
            let liveness = remembered.unwrap_or_else(|| Liveness::new(period_seconds));
            let now = self.shared.beats.now();
            // Nobody was silent before all were listed.
            let started = if self.unlisted.is_empty() { self.started } else { now };
            Beat::new(liveness, now, started)
        });
        beat.liveness.give(period_seconds);
    }

    /// The workloads of a device as they are sent.
    fn workloads_of(&self, place: &Place, device: &EdgeDeviceFacts) -> Rendered {
        let (namespace, name) = place;
        // Its labels say what it has; if somebody has taken one off, its state does.
        let served = self.states.get(place).into_iter().flat_map(|state| state.wanted.keys());
        let device = Placed { namespace, name, labels: &device.labels };
        workloads_of(&self.workloads, device, served.map(String::as_str), |workload| {
            let key = (namespace.clone(), workload.name.clone());
            self.fragments.get(&key).cloned().unwrap_or(Err(Lack::Unread(Vec::new())))
        })
    }
}

impl DeviceState {
    /// What the device said to an earlier process is in its status, and what it was sent in its labels.
    pub fn new(device: &EdgeDeviceFacts) -> Self {
        let status = device.status.value();
        let told = told(&status);
        let may_run = referred(&device.labels).map(str::to_owned).collect();
        let claim = ClaimState::new(status["dataObc"].is_string());
        Self { told, may_run, claim, ..Self::default() }
    }

    /// What the device is known to run, or may run.
    fn runs(&self) -> BTreeSet<String> {
        let told = self.told.iter().filter(|(_, told)| told.phase != DEPLOYING);
        let said = self.report.iter().flat_map(|report| report.workloads.keys());
        told.map(|(name, _)| name).chain(said).chain(&self.may_run).cloned().collect()
    }

    /// There are no workloads for it, and nothing is wrong with it.
    pub fn has_nothing_to_tell(&self) -> bool {
        self.wanted.is_empty() && self.problems.is_empty() && self.storage.is_none()
    }

    /// `claimed`: what is said of its claim, if it is to have one. Else it may have a bucket of somebody's own.
    fn take_problems(
        &mut self,
        found: Vec<Problem>,
        rendered: RenderedSettings,
        claimed: Option<Result<(), Problem>>,
    ) {
        let is_storage = |problem: &Problem| problem.message.contains(STORAGE);
        let (storage, others): (Vec<_>, Vec<_>) =
            rendered.problems.into_iter().partition(is_storage);
        let sent = rendered.configuration.storage.is_some().then_some(Ok(()));
        if !rendered.unread {
            self.storage = claimed.or(storage.into_iter().next().map(Err)).or(sent);
        }
        self.problems = found;
        self.problems.extend(others);
    }
}
