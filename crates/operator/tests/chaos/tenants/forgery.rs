//! Objects that look as if they were the victim's: with its labels, its job as their owner, and the names the operator gives.
//!
//! The attacker is taken to know all that can be known: the uid of the victim's job, how it writes its devices, what is in
//! its ledger. None of it is a secret.

use std::collections::BTreeMap;

use flashjob_plan::flashjob::{ids, names};
use flashjob_sim::SeededRng;
use serde_json::{Map, Value, json};

use super::judge::FLASHER;
use super::world::{STUBBORN, TRUE, World};

/// The victim's job.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub name: String,
    pub uid: String,
    pub firmware: String,
    pub version: String,
    /// As the job writes them.
    pub devices: Vec<String>,
    /// The ledger's ConfigMap as the operator made it.
    pub ledger: BTreeMap<String, String>,
}

/// Where a Service gets no address from, because nobody has such a pool.
pub const NOWHERE: (&str, &str) = ("metallb.universe.tf/address-pool", "nowhere");

impl Target {
    fn owner(&self) -> Value {
        json!([{
            "apiVersion": "application.flashjob.nbfc.io/v1alpha1", "kind": "FlashJob",
            "name": self.name, "uid": self.uid, "controller": true, "blockOwnerDeletion": true,
        }])
    }

    fn device(&self, rng: &mut SeededRng) -> ids::Target {
        let device = rng.pick(&self.devices).cloned().unwrap_or_default();
        names::target(
            &self.uid.as_str().into(),
            &device,
            &names::revision(&self.firmware, &self.version),
        )
    }

    /// A part of a ledger: all done, nonsense, cut short, or with another number; the nth.
    pub fn ledger(&self, rng: &mut SeededRng, nth: usize) -> Value {
        let data = match rng.below(5) {
            0 | 1 => self.all_done(),
            2 => json!({ "header": nonsense(self.header(), rng).to_string() }),
            3 => json!({ "header": "{" }),
            _ => json!({ "device-00000": "[]" }),
        };
        let uid = self.uid.as_str().into();
        // Under the operator's name it is there once; others sort before and after it.
        let name = match rng.below(3) {
            0 => names::ledger(&self.name, &uid, 0),
            1 => format!("{}-{nth}", names::ledger(&self.name, &uid, 0)),
            _ => format!("a-{nth}"),
        };
        let shard = rng.below(3).to_string();
        let labels = json!({ names::JOB_UID: self.uid, names::SHARD: shard });
        json!({
            "metadata": { "name": name, "labels": labels, "ownerReferences": self.owner() },
            "data": data,
        })
    }

    fn header(&self) -> Value {
        let header = self.ledger.get("header").map(String::as_str).unwrap_or_default();
        serde_json::from_str(header).unwrap_or_default()
    }

    /// The victim's own ledger, with every device done.
    fn all_done(&self) -> Value {
        let mut header = self.header();
        let now = header["started"].clone();
        header["completed"] = now.clone();
        header["batchEnded"] = now.clone();
        header["released"] = header["devices"].clone();
        let records = self.ledger.iter().filter(|(key, _)| key.starts_with("device-"));
        let mut data: Map<String, Value> = records
            .map(|(key, record)| {
                let mut record: Value = serde_json::from_str(record).unwrap_or_default();
                record["outcome"] = json!("Succeeded");
                record["ended"] = now.clone();
                record["attempt"] = json!(1);
                record["open"] = json!(false);
                (key.clone(), json!(record.to_string()))
            })
            .collect();
        data.insert("header".into(), json!(header.to_string()));
        Value::Object(data)
    }

    /// A Pod that ends with exit code 0 and has not spoken to any board.
    pub fn pod(&self, rng: &mut SeededRng, nth: usize) -> Value {
        let target = self.device(rng);
        let attempt = 1 + rng.below(3) as u32;
        let name = if rng.chance(1, 2) {
            names::pod(&self.name, target, attempt)
        } else {
            format!("forged-{nth}")
        };
        let attempt = attempt.to_string();
        json!({
            "metadata": {
                "name": name, "ownerReferences": self.owner(),
                "labels": { names::JOB_UID: self.uid, names::TARGET: target.as_str(), names::ATTEMPT: attempt },
            },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "flash-container", "image": TRUE }],
            },
        })
    }

    /// A Service with an address of the attacker's, or one that never gets any.
    pub fn service(&self, rng: &mut SeededRng, nth: usize) -> Value {
        let target = self.device(rng);
        let name = if rng.chance(1, 2) {
            names::service(&self.name, target)
        } else {
            format!("forged-{nth}")
        };
        let mut service = json!({
            "metadata": {
                "name": name, "ownerReferences": self.owner(),
                "labels": { names::JOB_UID: self.uid, names::TARGET: target.as_str(), names::SPEC_HASH: "" },
            },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 4433 }] },
        });
        if rng.chance(1, 2) {
            service["metadata"]["annotations"] = json!({ NOWHERE.0: NOWHERE.1 });
        }
        service
    }
}

/// A ledger's header with something in it that nobody can calculate with.
pub fn nonsense(mut header: Value, rng: &mut SeededRng) -> Value {
    let huge = json!(u64::MAX);
    let (first, last) = (json!("-009999-01-02T01:59:59Z"), json!("9999-12-30T22:00:00Z"));
    let all = [
        ("devices", huge.clone()),
        ("total", huge.clone()),
        ("batch", huge.clone()),
        ("released", huge),
        ("generation", json!(i64::MIN)),
        ("started", first.clone()),
        ("revised", first),
        ("releasedAt", last.clone()),
        ("batchEnded", last.clone()),
        ("suspended", last),
        ("schema", json!(0)),
        ("history", json!([{}])),
    ];
    for _ in 0..1 + rng.below(3) {
        if let Some((key, value)) = rng.pick(&all) {
            header[*key] = value.clone();
        }
    }
    header
}

/// A Pod that never ends, as if a job of the attacker's had been given this board.
pub fn squatter(job: &str, uid: &str, board: &str) -> Value {
    let of = Target { name: job.to_owned(), uid: uid.to_owned(), ..Target::default() };
    let target = names::target(&uid.into(), job, "squat");
    json!({
        "metadata": {
            "name": names::pod(job, target, 1), "ownerReferences": of.owner(),
            "labels": { names::JOB_UID: uid, names::TARGET: target.as_str(), names::ATTEMPT: "1" },
        },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 86400,
            "containers": [{
                "name": "flash-container", "image": STUBBORN,
                "env": [{ "name": "HOST_ENDPOINT", "value": board }],
            }],
        },
    })
}

/// A record of a device with something in it that nobody can calculate with, or that is not the attacker's to say.
pub fn broken_record(mut record: Value, rng: &mut SeededRng, world: &World) -> Value {
    let nth = rng.below(world.paths.len());
    let (namespace, name) = world.paths[nth].split_once('/').unwrap_or_default();
    let board = &world.bench.boards[&world.devices[nth]];
    let own = record["pinned"].clone();
    let all = [
        ("attempt", json!(u32::MAX)),
        ("tries", json!(u32::MAX)),
        ("turn", json!("9999-12-30T22:00:00Z")),
        ("turn", json!("-009999-01-02T01:59:59Z")),
        ("retryAt", json!("9999-12-30T22:00:00Z")),
        ("ended", json!("-009999-01-02T01:59:59Z")),
        ("open", json!(true)),
        ("pinned", json!({ "namespace": "", "name": "", "endpoint": "" })),
        // The victim's board, under its own name and under that of one's own.
        ("pinned", json!({ "namespace": namespace, "name": name, "endpoint": board })),
        (
            "pinned",
            json!({ "namespace": own["namespace"], "name": own["name"], "endpoint": board }),
        ),
    ];
    if let Some((key, value)) = rng.pick(&all) {
        record[*key] = value.clone();
        // Its attempt is under way, or it waits for one.
        if *key == "pinned" {
            record["outcome"] = Value::Null;
            record["open"] = json!(rng.chance(1, 2));
        }
    }
    record
}

/// The spec of a FlashJob that flashes these devices with an image of the attacker's choice.
pub fn job(name: &str, devices: &[String], image: &str, more: Value) -> Value {
    let image = if image.is_empty() { FLASHER } else { image };
    let mut spec = json!({
        "uuid": devices, "firmware": "registry.example/evil:6.6.6", "version": "6.6.6",
        "flashjobPodImage": image, "retry": { "limit": 100, "backoffSeconds": 0 },
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    json!({ "metadata": { "name": name }, "spec": spec })
}
