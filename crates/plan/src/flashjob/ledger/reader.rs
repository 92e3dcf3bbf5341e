//! Reads a ledger, and checks everything in it before it is used.
//!
//! Whoever may write ConfigMaps in a job's namespace may write anything into its ledger. So every number, time and text has
//! a bound, every key has its place, and memory is taken for what is there, never for what a header says. A ledger that
//! does not fit is broken; what is wrong with which shard is said in a sentence.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use super::{
    HEADER, Header, Ledger, REMEMBERED, Record, SCHEMA, SHARD_SIZE, Stored, message, record_key,
};
use crate::flashjob::ids::JobUid;
use crate::flashjob::names;
use crate::time;

/// The most devices that one job can have over its whole life, those that were taken out included.
pub const MOST_DEVICES: usize = 200_000;
/// The highest number of an attempt: a hundred thousand years of trying, and far from where numbers end.
const MOST_ATTEMPTS: u32 = 1_000_000_000;
/// The longest an attempt may take, in seconds: what timeouts.deviceSeconds can be, and more.
const LONGEST_ATTEMPT: i64 = 2_592_000;
/// The longest text, in bytes: the CRD's 1024 characters of an image or an address, in any script.
const LONGEST_TEXT: usize = 4096;

/// Takes in the ConfigMaps of one ledger, one by one, in their order.
pub struct Reader {
    job_uid: JobUid,
    header: Option<Header>,
    records: Vec<Record>,
    shards: usize,
}

impl Reader {
    /// For the ledger of this job.
    pub fn new(job_uid: &JobUid) -> Reader {
        Reader { job_uid: job_uid.clone(), header: None, records: Vec::new(), shards: 0 }
    }

    /// Takes in the data of the next ConfigMap: shard 0, then 1, and so on. After an error nothing more is to be had.
    pub fn add(&mut self, data: &BTreeMap<String, String>) -> Result<(), String> {
        let shard = self.shards;
        self.shards += 1;
        // Cut, because it may quote what is there.
        self.take(shard, data).map_err(|wrong| message(&format!("shard {shard}: {wrong}")))
    }

    /// How many ConfigMaps there should be by what was read: those that the header speaks of, and while the last one is full,
    /// one more, since new devices are written down before the header says so.
    pub fn expects(&self) -> usize {
        let said = self.header.as_ref().map_or(1, |header| header.devices.div_ceil(SHARD_SIZE));
        let full = self.records.len() == self.shards * SHARD_SIZE;
        said.max(self.shards + usize::from(full))
    }

    /// There are no more ConfigMaps: the ledger, if that was all of it.
    pub fn finish(self) -> Result<Ledger, String> {
        let header = self.header.ok_or("shard 0 is missing")?;
        let (devices, found) = (header.devices, self.records.len());
        if found < devices {
            let shard = found / SHARD_SIZE;
            let missing = devices - found;
            return Err(format!(
                "{missing} of {devices} devices are missing, from shard {shard} on"
            ));
        }
        if header.released > found {
            let released = header.released;
            return Err(format!("shard 0: header: released is {released}, with {found} devices"));
        }
        Ok(Ledger { header, records: self.records })
    }

    fn take(&mut self, shard: usize, data: &BTreeMap<String, String>) -> Result<(), String> {
        match (shard, data.get(HEADER)) {
            (0, None) => return Err("the header is missing".into()),
            (0, Some(text)) => self.header = Some(self.read_header(text)?),
            (_, None) => {}
            (_, Some(_)) => return Err("it has a header, which only shard 0 may have".into()),
        }
        let first = self.records.len();
        if first != shard * SHARD_SIZE {
            let last = first - (shard - 1) * SHARD_SIZE;
            return Err(format!("shard {} before it is not full: {last} devices", shard - 1));
        }
        let keys = (first..first + SHARD_SIZE).map(record_key);
        let there = keys.map_while(|key| data.get_key_value(&key));
        for (key, text) in there {
            if self.records.len() == MOST_DEVICES {
                return Err(format!("{key} is one more than the {MOST_DEVICES} a job may have"));
            }
            let record = self.read_record(text, data).map_err(|wrong| format!("{key}: {wrong}"))?;
            self.records.push(record);
        }
        // A gap, or a device of another shard: what is behind it must not be lost in silence.
        let placed: HashSet<String> = (first..self.records.len()).map(record_key).collect();
        let mut devices = data.keys().filter(|key| key.starts_with("device-"));
        match devices.find(|key| !placed.contains(*key)) {
            Some(stray) => Err(format!("{stray} is out of place")),
            None => Ok(()),
        }
    }

    fn read_header(&self, text: &str) -> Result<Header, String> {
        let header: Header = parse(text).map_err(|error| format!("{HEADER}: {error}"))?;
        if header.schema != SCHEMA {
            return Err(format!("it has form {}, this operator reads {SCHEMA}", header.schema));
        }
        if header.job_uid != self.job_uid {
            return Err(format!("it is the ledger of another job, uid {}", header.job_uid));
        }
        check_header(&header).map_err(|wrong| format!("{HEADER}: {wrong}"))?;
        Ok(header)
    }

    fn read_record(&self, text: &str, data: &BTreeMap<String, String>) -> Result<Record, String> {
        let stored: Stored<'_> = parse(text)?;
        check_record(&stored)?;
        let target = names::target(&self.job_uid, &stored.device, &stored.revision);
        let permit = data.contains_key(&names::permit(target, stored.attempt));
        Ok(stored.into_record(target, permit))
    }
}

fn check_header(header: &Header) -> Result<(), String> {
    let Header { devices, total, batch, released, history, .. } = header;
    if !header.sealed {
        return Err("it is not sealed".into());
    }
    if header.generation < 0 {
        return Err(format!("generation is {}", header.generation));
    }
    if history.len() > REMEMBERED {
        return Err(format!("history has {} revisions, at most {REMEMBERED}", history.len()));
    }
    let counts = [("devices", devices), ("total", total), ("batch", batch), ("released", released)];
    let past = history.iter().flat_map(|past| {
        [
            ("history.total", &past.total),
            ("history.done", &past.done),
            ("history.failed", &past.failed),
        ]
    });
    if let Some((field, count)) = counts.into_iter().chain(past).find(|(_, n)| **n > MOST_DEVICES) {
        return Err(format!("{field} is {count}, at most {MOST_DEVICES}"));
    }
    let past = history.iter().flat_map(|past| {
        [("history.began", Some(past.began)), ("history.completed", past.completed)]
    });
    let times = [
        ("started", Some(header.started)),
        ("revised", Some(header.revised)),
        ("completed", header.completed),
        ("releasedAt", Some(header.released_at)),
        ("batchEnded", header.batch_ended),
        ("suspended", header.suspended),
    ];
    check_times(times.into_iter().chain(past))?;
    let past = history.iter().flat_map(|past| {
        [("history.firmware", past.firmware.as_str()), ("history.version", &past.version)]
    });
    let texts = [
        ("revision", header.revision.as_str()),
        ("firmware", &header.firmware),
        ("version", &header.version),
    ];
    check_texts(texts.into_iter().chain(past))
}

fn check_record(record: &Stored<'_>) -> Result<(), String> {
    for (field, number) in [("attempt", record.attempt), ("tries", record.tries)] {
        if number > MOST_ATTEMPTS {
            return Err(format!("{field} is {number}, at most {MOST_ATTEMPTS}"));
        }
    }
    if let Some(seconds) = record.deadline_seconds.filter(|s| !(1..=LONGEST_ATTEMPT).contains(s)) {
        return Err(format!("deadlineSeconds is {seconds}, from 1 to {LONGEST_ATTEMPT}"));
    }
    check_times([
        ("turn", Some(record.turn)),
        ("retryAt", record.retry_at),
        ("ended", record.ended),
    ])?;
    let pinned = record.pinned.iter().flat_map(|pinned| {
        let (namespace, name) = (pinned.namespace.as_str(), pinned.name.as_str());
        [("namespace", namespace), ("name", name), ("endpoint", pinned.endpoint.as_str())]
    });
    let optional = [
        ("previous", &record.previous),
        ("reason", &record.reason),
        ("message", &record.message),
        ("digest", &record.digest),
        ("nonce", &record.nonce),
    ];
    let optional = optional.into_iter().filter_map(|(field, text)| Some((field, text.as_deref()?)));
    let texts = [("device", &*record.device), ("revision", &*record.revision)];
    check_texts(texts.into_iter().chain(pinned).chain(optional))
}

fn check_times<'a>(
    times: impl IntoIterator<Item = (&'a str, Option<Timestamp>)>,
) -> Result<(), String> {
    let insane = |(field, at): (&'a str, Option<Timestamp>)| {
        at.filter(|at| !time::is_sane(*at)).map(|at| format!("{field} is {at}"))
    };
    times.into_iter().find_map(insane).map_or(Ok(()), Err)
}

fn check_texts<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), String> {
    let long = |(field, text): (&'a str, &'a str)| {
        let length = text.len();
        (length > LONGEST_TEXT)
            .then(|| format!("{field} has {length} bytes, at most {LONGEST_TEXT}"))
    };
    texts.into_iter().find_map(long).map_or(Ok(()), Err)
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
