//! What an edited spec does to the ledger: another firmware, devices added, devices taken out, a job held and released.
//!
//! Edits touch nothing that is under way: an open attempt goes on to its end. They are taken in once per generation.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use crate::flashjob::endpoint::BoardKey;
use crate::flashjob::facts::View;
use crate::flashjob::finding::pin;
use crate::flashjob::ledger::{Change, Header, Ledger, MOST_DEVICES, Record, SHARD_SIZE};
use crate::flashjob::spec::Spec;
use crate::time::later;

/// What the spec's newest generation asks for.
#[derive(Default)]
pub struct Edits {
    /// Devices taken out (true) or taken in again (false), by their place.
    pub dropped: HashMap<usize, bool>,
    /// So many devices there would be, which is more than a ledger may have: nothing of the edit is taken in.
    pub too_many: usize,
    added: Vec<Record>,
    header: Option<Header>,
}

impl Edits {
    /// Compares the spec with what the ledger says of it.
    pub fn of(view: &View<'_>, ledger: &Ledger, now: Timestamp) -> Edits {
        let job = view.job;
        let Ok(spec) = &job.spec else { return Edits::default() };
        let records = &ledger.records;
        let header = &ledger.header;
        if header.generation == job.generation && header.devices == records.len() {
            return Edits::default();
        }
        // A selector chooses from all there are.
        let listing = view.instances.is_some_and(|instances| instances.listing);
        if listing && spec.selector.is_some() {
            return Edits::default();
        }
        let wanted: HashSet<&str> = spec.devices.iter().map(String::as_str).collect();
        let known: HashSet<&str> = records.iter().map(|r| r.device.as_str()).collect();
        let again = header.revision != spec.revision;
        let leaves = |record: &Record| {
            let chosen = record.selected && still_chosen(view, spec, record, again);
            !chosen && !wanted.contains(record.device.as_str())
        };
        let changed = records.iter().enumerate().filter(|(_, r)| leaves(r) != r.dropped);
        let dropped: HashMap<usize, bool> = changed.map(|(index, r)| (index, leaves(r))).collect();
        // New devices go to the end, one shard at a time, so that records are acknowledged in order.
        let room = SHARD_SIZE - records.len() % SHARD_SIZE;
        let new = spec.devices.iter().filter(|device| !known.contains(device.as_str()));
        let record = |device: &String| Record {
            nonce: spec.nonce.clone(),
            ..Record::new(&job.uid, device, &spec.revision, now)
        };
        let mut more = new.clone().count();
        let mut added: Vec<Record> = new.map(record).take(room).collect();
        let released = header.suspended.is_some() && !spec.suspend;
        if added.is_empty() && (released || again) {
            added = chosen(view, spec, records, now);
            more = added.len();
            added.truncate(room);
        }
        if records.len() + more > MOST_DEVICES {
            return Edits { too_many: records.len() + more, ..Edits::default() };
        }
        // The header says that all of this is written down, so it comes last, or with it.
        let whole = ledger.shards() == 1 || dropped.is_empty();
        let header =
            (added.is_empty() && whole).then(|| next_header(ledger, spec, job.generation, now));
        Edits { dropped, too_many: 0, added, header }
    }

    /// Adds the edits to what the devices' own steps have changed.
    pub fn merge(self, ledger: &Ledger, change: &mut Change, now: Timestamp) {
        for (index, dropped) in self.dropped {
            let Some(record) = ledger.records.get(index) else { continue };
            let record = change.records.entry(index).or_insert_with(|| record.clone());
            record.dropped = dropped;
            record.turn = now;
        }
        let next = ledger.records.len();
        change.records.extend(self.added.into_iter().enumerate().map(|(n, r)| (next + n, r)));
        let Some(mut header) = self.header else { return };
        if let (Some(since), None) = (ledger.header.suspended, header.suspended) {
            // Released: clocks that stood still go on where they were. Most devices go by the clock of their batch, which
            // the header has, so that a large ledger is not written anew.
            let stood = now.duration_since(since);
            let go_on = |clock: Timestamp| later(clock, stood).min(now.max(clock));
            let batch = ledger.header.released_at;
            header.released_at = go_on(batch);
            for (index, record) in ledger.records.iter().enumerate() {
                if record.outcome().is_none() && !record.dropped && record.turn > batch {
                    let record = change.records.entry(index).or_insert_with(|| record.clone());
                    record.turn = go_on(record.turn);
                }
            }
        }
        change.header = Some(header);
    }
}

/// Whether a device that the selector has chosen before stays. Other firmware is another choice: who does not fit any more
/// leaves, so that no board gets what was meant for others. Its version alone is no reason, for that is what a job changes;
/// nor is that Akri does not see it now. Within one revision a choice is kept.
fn still_chosen(view: &View<'_>, spec: &Spec, record: &Record, again: bool) -> bool {
    let Some(selector) = &spec.selector else { return false };
    let pinned = view.instances.zip(record.pinned.as_ref());
    let instance = pinned.and_then(|(all, p)| all.find_again(&p.namespace, &p.name, &p.endpoint));
    match instance {
        None => !record.dropped,
        Some(instance) if record.dropped => selector.matches(instance),
        Some(instance) => !again || selector.fits_any_version(instance),
    }
}

/// The devices the selector chooses beside those that are in the job already. Instances with one address are one device.
pub fn chosen(view: &View<'_>, spec: &Spec, records: &[Record], now: Timestamp) -> Vec<Record> {
    let (Some(selector), Some(instances)) = (&spec.selector, view.instances) else {
        return Vec::new();
    };
    let mut instances_taken: HashSet<(&str, &str)> = HashSet::new();
    let mut boards_taken: HashSet<BoardKey<'_>> = HashSet::new();
    for pinned in records.iter().filter_map(|r| r.pinned.as_ref()) {
        instances_taken.insert((&pinned.namespace, &pinned.name));
        boards_taken.insert(pinned.endpoint.board());
    }
    let own = &view.job.namespace;
    let mut chosen = Vec::new();
    for instance in instances.iter().filter(|i| selector.matches(i)) {
        let namespace = instance.namespace.as_str();
        let reachable = view.settings.device_namespaces.allows(own, namespace);
        let taken = instances_taken.contains(&(namespace, instance.name.as_str()));
        if reachable && !taken && boards_taken.insert(instance.endpoint.board()) {
            let device = format!("{namespace}/{}", instance.name);
            chosen.push(Record {
                pinned: Some(pin(spec, instance)),
                selected: true,
                nonce: spec.nonce.clone(),
                ..Record::new(&view.job.uid, &device, &spec.revision, now)
            });
        }
    }
    chosen
}

fn next_header(ledger: &Ledger, spec: &Spec, generation: i64, now: Timestamp) -> Header {
    let old = &ledger.header;
    let again = old.revision != spec.revision;
    let devices = ledger.records.iter().filter(|r| !r.dropped).count();
    Header {
        total: if again { devices } else { old.total },
        batch: if again { 0 } else { old.batch },
        released: if again { 0 } else { old.released },
        batch_ended: old.batch_ended.filter(|_| !again),
        revised: if again { now } else { old.revised },
        generation,
        revision: spec.revision.clone(),
        firmware: spec.firmware.clone(),
        version: spec.version.clone(),
        history: if again { ledger.remembered() } else { old.history.clone() },
        devices: ledger.records.len(),
        completed: old.completed.filter(|_| !again),
        suspended: spec.suspend.then(|| old.suspended.unwrap_or(now)),
        ..old.clone()
    }
}
