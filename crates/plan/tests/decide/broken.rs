//! Ledgers and specs that anybody may have written: whatever stands in them, nothing panics, memory is taken for what is
//! there, and a ledger that makes no sense is `LedgerLost` with a sentence about its shard.

use std::collections::BTreeMap;

use flashjob_plan::flashjob::ledger::{Ledger, MOST_DEVICES, Reader, Record};
use flashjob_plan::flashjob::spec::Spec;
use flashjob_plan::flashjob::{LedgerState, Settings, decide};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::view::view;
use crate::world::World;

type Shard = BTreeMap<String, String>;

/// A job in the middle of its way: one device done, one in back-off, one at work, one in a later batch.
fn midway() -> World {
    let rollout = json!({ "batchSize": 3, "delaySeconds": 60 });
    let mut world = World::new(&["a", "b", "c", "d"], json!({ "rollout": rollout }));
    world.settle();
    world.edit(&["a", "b", "c", "d"], json!({ "rollout": rollout, "version": "2" }));
    ["a", "b", "c"].iter().for_each(|device| world.ends(device, 0, ""));
    world.settle();
    world.ends("a", 0, r#"{"result":"succeeded","digest":"sha256:abc"}"#);
    world.ends("b", 1, r#"{"reason":"NoCallback","message":"nobody came"}"#);
    world.settle();
    assert!(world.record("c").has_permit() && world.record("b").failed().is_some());
    assert_eq!(world.ledger.as_ref().unwrap().header.history.len(), 1);
    world
}

fn shards(ledger: &Ledger) -> Vec<Shard> {
    (0..ledger.shards()).map(|shard| ledger.shard_data(shard)).collect()
}

/// Values that are wrong nearly everywhere.
fn nasty() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(1e308),
        json!(u32::MAX),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(MOST_DEVICES),
        json!(1_000_000_000),
        json!(""),
        json!("Succeeded"),
        json!("9999-12-30T22:00:00.999999999Z"),
        json!("-009999-01-02T01:59:59Z"),
        json!("2999-12-31T23:59:59Z"),
        json!("1970-01-01T00:00:00Z"),
        json!("\u{0}\u{7f}\u{202e}ä".repeat(700)),
        json!("x".repeat(5000)),
        json!([]),
        json!({}),
        json!([{ "firmware": "f" }]),
    ]
}

/// Every place in a JSON value, as pointers.
fn places(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(k, v)| places(v, format!("{at}/{k}"), all))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| places(v, format!("{at}/{i}"), all));
        }
        _ => {}
    }
    all.push(at);
}

/// The entry with every field it may have, so that each is changed.
fn whole(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    let fields = value.as_object_mut().unwrap();
    let time = "2026-01-01T00:00:00Z";
    let optional = if fields.contains_key("schema") {
        json!({ "completed": time, "batchEnded": time, "suspended": time })
    } else {
        json!({
            "open": true, "retryAt": time, "outcome": "Failed", "reason": "Timeout", "message": "m", "digest": "d",
            "ended": time, "twin": false, "selected": true, "nonce": "n", "dropped": false, "previous": "1",
        })
    };
    for (key, given) in optional.as_object().unwrap() {
        fields.entry(key).or_insert(given.clone());
    }
    value
}

/// Reads it as a new process does and goes on with it for a while, in every state the job may be in.
fn go_on_with(world: &World, data: &[Shard]) -> Result<(), String> {
    let read = Ledger::read(&world.job.uid, data);
    let state = read.as_ref().map_or_else(|e| LedgerState::Broken(e), LedgerState::Sealed);
    for recovered in [false, true] {
        let (instances, children, locks) = (&world.instances, world.children(), &world.locks);
        let plan =
            decide(&view(&world.job, state, instances, children, locks, recovered), world.now);
        let status = plan.status.expect("a job with a ledger has a status");
        if let Err(wrong) = &read {
            let message = status.message.unwrap_or_default();
            assert!(message.contains(wrong.as_str()) && message.len() < 1000, "{message}");
            assert_eq!(status.conditions[0].reason, "LedgerLost");
        }
    }
    let ledger = read?;
    assert!(ledger.records.capacity() <= 2 * 256, "memory for what is not there");
    let mut world = midway();
    world.ledger = Some(ledger);
    for suspend in [false, true, false] {
        world.edit(
            &["b", "c", "d", "e"],
            json!({ "suspend": suspend, "ttlSecondsAfterFinished": i32::MAX }),
        );
        for _ in 0..3 {
            world.step();
        }
        world.after(86_400);
    }
    world.job.deleting = true;
    world.step();
    Ok(())
}

#[test]
fn every_field_of_a_ledger_may_say_anything() {
    let (mut broken, mut fine) = (0, 0);
    let world = midway();
    let data = shards(world.ledger.as_ref().unwrap());
    for (key, text) in data[0].iter().filter(|(key, _)| !key.starts_with("permit-")) {
        let value = whole(text);
        let mut all = Vec::new();
        places(&value, String::new(), &mut all);
        for (at, nasty) in all.iter().flat_map(|at| nasty().into_iter().map(move |n| (at, n))) {
            let mut changed = value.clone();
            *changed.pointer_mut(at).unwrap() = nasty;
            let mut data = data.clone();
            data[0].insert(key.clone(), changed.to_string());
            match go_on_with(&world, &data) {
                Ok(()) => fine += 1,
                Err(wrong) => {
                    assert!(wrong.contains("shard 0"), "{wrong}");
                    broken += 1;
                }
            }
        }
    }
    assert!(broken > 500 && fine > 300, "{broken} broken, {fine} fine");
}

#[test]
fn a_ledger_that_makes_no_sense_says_what_is_wrong_with_which_shard() {
    let now = Timestamp::UNIX_EPOCH;
    let record = |n| Record::new(&"uid".into(), &format!("device {n}"), "rev", now);
    let records = (0..600).map(record).collect();
    let data = shards(&Ledger::new(&"uid".into(), 1, ("f", "v"), records, now));
    type Change = fn(&mut Vec<Shard>);
    let field = |data: &mut Vec<Shard>, shard: usize, key: &str, field: &str, to: Value| {
        let mut value: Value = serde_json::from_str(&data[shard][key]).unwrap();
        value[field] = to;
        data[shard].insert(key.to_owned(), value.to_string());
    };
    let numbers = [
        (
            0,
            "header",
            "devices",
            json!(u64::MAX),
            "devices is 18446744073709551615, at most 200000",
        ),
        (0, "header", "devices", json!(601), "1 of 601 devices are missing, from shard 2 on"),
        (0, "header", "released", json!(601), "released is 601, with 600 devices"),
        (0, "header", "batch", json!(u64::MAX), "batch is 18446744073709551615"),
        (0, "header", "started", json!("9999-12-30T22:00:00.999999999Z"), "started is 9999-12-30"),
        (0, "header", "generation", json!(-1), "generation is -1"),
        (0, "header", "sealed", json!(false), "not sealed"),
        (0, "header", "schema", json!(2), "form 2, this operator reads 1"),
        (0, "header", "jobUid", json!("other"), "the ledger of another job, uid other"),
        (
            1,
            "device-00300",
            "attempt",
            json!(u32::MAX),
            "shard 1: device-00300: attempt is 4294967295",
        ),
        (1, "device-00300", "attempt", json!(u64::MAX), "shard 1: device-00300: invalid value"),
        (1, "device-00300", "turn", json!("3000-01-01T00:00:00Z"), "turn is 3000-01-01"),
        (
            2,
            "device-00599",
            "device",
            json!("x".repeat(5000)),
            "device has 5000 bytes, at most 4096",
        ),
    ];
    for (shard, key, name, to, says) in numbers {
        let mut data = data.clone();
        field(&mut data, shard, key, name, to);
        let wrong = Ledger::read(&"uid".into(), &data).unwrap_err();
        assert!(wrong.contains(says), "{wrong}");
    }
    let shapes: [(Change, &str); 7] = [
        (|data| data.clear(), "shard 0 is missing"),
        (|data| data.swap(0, 1), "shard 0: the header is missing"),
        (|data| data.swap(1, 2), "shard 1: device-00512 is out of place"),
        (|data| data.push(data[2].clone()), "shard 3: shard 2 before it is not full: 88 devices"),
        (|data| data[1] = data[0].clone(), "shard 1: it has a header"),
        (|data| drop(data[1].remove("device-00300")), "shard 1: device-00301 is out of place"),
        (
            |data| drop(data[2].insert("device-00001".into(), "{}".into())),
            "shard 2: device-00001 is",
        ),
    ];
    for (change, says) in shapes {
        let mut data = data.clone();
        change(&mut data);
        let wrong = Ledger::read(&"uid".into(), &data).unwrap_err();
        assert!(wrong.contains(says), "{wrong}");
    }
}

#[test]
fn a_ledger_without_end_is_refused_at_its_limit() {
    let now = Timestamp::UNIX_EPOCH;
    let record = |n: usize| Record::new(&"uid".into(), &n.to_string(), "rev", now);
    let mut ledger =
        Ledger::new(&"uid".into(), 1, ("f", "v"), (0..MOST_DEVICES).map(record).collect(), now);
    let mut reader = Reader::new(&"uid".into());
    for shard in 0..ledger.shards() {
        reader.add(&ledger.shard_data(shard)).unwrap();
    }
    assert_eq!(reader.finish().unwrap().records.len(), MOST_DEVICES);
    ledger.records.push(record(MOST_DEVICES));
    let wrong = Ledger::read(&"uid".into(), &shards(&ledger)).unwrap_err();
    assert!(wrong.contains("device-200000 is one more than"), "{wrong}");
}

#[test]
fn an_edit_that_asks_for_more_devices_than_a_ledger_holds_is_refused_and_nothing_else_stops() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.settle();
    let ledger = world.ledger.as_mut().unwrap();
    let filler =
        Record { dropped: true, ..Record::new(&"job-uid".into(), "gone", "rev", world.now) };
    ledger.records.resize(MOST_DEVICES, filler);
    ledger.header.devices = MOST_DEVICES;
    world.edit(&["a", "b", "c"], json!({}));
    let plan = world.step();
    let status = plan.status.unwrap();
    assert_eq!(status.conditions[0].reason, "InvalidSpec");
    assert!(status.message.unwrap().contains("200001 devices"));
    assert_eq!(world.ledger.as_ref().unwrap().records.len(), MOST_DEVICES);
    world.ends("a", 0, "");
    world.step();
    assert!(world.record("a").outcome().is_some(), "what was under way goes on");
}

/// A spec is read where jobs are watched: a panic there would end the watch for all.
#[test]
fn every_field_of_a_spec_may_say_anything() {
    let spec = json!({
        "uuid": ["a", "b"], "firmware": "f:1", "version": "1", "flashjobPodImage": "image",
        "device": "esp32", "applicationType": "thermo", "hostEndpoint": "at", "externalIP": "192.0.2.1",
        "deviceSelector": { "configuration": "c", "device": "esp32", "version": "<1", "matchLabels": { "a": "b" } },
        "rollout": { "batchSize": "10%", "delaySeconds": 1, "maxParallel": 2, "maxFailures": 1 },
        "retry": { "limit": 1, "backoffSeconds": 1, "nonce": "n" },
        "timeouts": { "deviceSeconds": 1, "addressSeconds": 1, "offlineSeconds": 1 },
        "service": { "type": "LoadBalancer", "annotations": {}, "loadBalancerClass": "c",
                     "externalTrafficPolicy": "Local" },
        "podTemplate": { "metadata": { "labels": { "a": "b" } }, "spec": { "nodeSelector": { "a": "b" } } },
        "verify": "None", "versionPolicy": "Always", "suspend": false, "abort": false, "ttlSecondsAfterFinished": 1,
    });
    let mut all = Vec::new();
    places(&spec, String::new(), &mut all);
    let mut sound = 0;
    for (at, nasty) in all.iter().flat_map(|at| nasty().into_iter().map(move |n| (at, n))) {
        let mut changed = spec.clone();
        *changed.pointer_mut(at).unwrap() = nasty;
        let mut world = World::new(&["a", "b"], json!({}));
        world.job.spec = Spec::read(&changed, &Settings::default());
        sound += usize::from(world.job.spec.is_ok());
        for _ in 0..4 {
            world.step();
            world.after(86_400);
        }
    }
    assert!(sound > 100, "{sound} could be carried out");
}

/// Anything at all, often enough under our keys and in a form that is nearly right.
fn text() -> impl Strategy<Value = String> {
    let nearly = r#"\{"(schema|devices|attempt|turn|device)":("x"|-?[0-9]{1,20}|[\[\]{}]{0,9}|null)[,}]?.{0,40}"#;
    prop_oneof![
        any::<String>(),
        nearly,
        "[\\[{\"]{0,200}",
        prop::collection::vec(any::<u8>(), 0..200)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("header".to_owned()),
        "device-[0-9]{1,7}",
        "permit-[0-9a-f]{12}-[0-9]{1,3}",
        "[a-z]{0,9}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: prop::test_runner::RngSeed::Fixed(13),
        ..Default::default()
    })]

    #[test]
    fn arbitrary_bytes_are_no_ledger(
        data in prop::collection::vec(prop::collection::btree_map(key(), text(), 0..6), 0..5),
    ) {
        let world = midway();
        prop_assert!(go_on_with(&world, &data).is_err());
    }

    #[test]
    fn several_fields_may_say_anything_at_once(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        cut in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
    ) {
        let world = midway();
        let mut data = shards(world.ledger.as_ref().unwrap());
        let keys: Vec<String> = data[0].keys().filter(|k| !k.starts_with("permit-")).cloned().collect();
        let mut all = Vec::new();
        for key in &keys {
            let mut at = Vec::new();
            places(&whole(&data[0][key]), String::new(), &mut at);
            all.extend(at.into_iter().map(|at| (key.clone(), at)));
        }
        let mut values: BTreeMap<String, Value> = keys.iter().map(|k| (k.clone(), whole(&data[0][k]))).collect();
        for (place, value) in &changes {
            let (key, at) = place.get(&all);
            if let Some(field) = values.get_mut(key).and_then(|v| v.pointer_mut(at)) {
                *field = value.get(&nasty()).clone();
            }
        }
        data[0].extend(values.into_iter().map(|(key, value)| (key, value.to_string())));
        if let Some((key, at)) = cut {
            let text = data[0].get_mut(key.get(&keys)).unwrap();
            let place = (0..=at.index(text.len() + 1)).rev().find(|i| text.is_char_boundary(*i)).unwrap();
            text.truncate(place);
        }
        let _ = go_on_with(&world, &data);
    }
}
