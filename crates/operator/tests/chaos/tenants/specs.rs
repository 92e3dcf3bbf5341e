//! Specs of FlashJobs that the API server takes: each field at its bounds, past what makes sense, and together with others
//! that it does not go with.

use flashjob_sim::SeededRng;
use serde_json::{Map, Value, json};

use super::forgery::NOWHERE;
use super::judge::FLASHER;
use super::world::{TRUE, World};

/// How many names there are, so that jobs meet others of the same name.
const NAMES: usize = 12;

/// A name for a job: some are the victim's, some as long as they may be, with every character there is.
pub fn name(rng: &mut SeededRng) -> String {
    match rng.below(NAMES) {
        0 => "rollout".to_owned(),
        1 => "alone".to_owned(),
        2 => format!("9.{}.z", "x".repeat(240)),
        3 => "a--b.c--d".to_owned(),
        n => format!("any-{n}"),
    }
}

/// Up to four fields of a spec.
pub fn any(rng: &mut SeededRng, world: &World, nth: usize) -> Value {
    let mut spec = Map::new();
    for _ in 0..1 + rng.below(4) {
        let field = match rng.below(6) {
            0 => devices(rng, world),
            1 => pace(rng),
            2 => limits(rng),
            3 => service(rng, world),
            4 => pod(rng),
            _ => words(rng, nth),
        };
        spec.extend(field.as_object().cloned().unwrap_or_default());
    }
    Value::Object(spec)
}

fn one(rng: &mut SeededRng, all: &[Value]) -> Value {
    rng.pick(all).cloned().unwrap_or_default()
}

/// Which boards. Those of the victim are among them by path; it is for the operator to say no.
fn devices(rng: &mut SeededRng, world: &World) -> Value {
    let own = &world.own_paths;
    let twice: Vec<&String> = own.iter().chain(own).collect();
    one(
        rng,
        &[
            json!({ "uuid": own }),
            json!({ "uuid": twice }),
            json!({ "uuid": ["", " ", "no/such/device", "../x", "\u{202e}\u{0}é"] }),
            json!({ "uuid": (0..300).map(|n| format!("ns-{n}/x")).collect::<Vec<_>>() }),
            json!({ "uuid": null, "deviceSelector": {} }),
            json!({ "uuid": null, "deviceSelector": { "configuration": "http-disc" } }),
            json!({ "deviceSelector": { "version": ">=0.0.0-0", "device": "ESP_32" } }),
            json!({ "deviceSelector": { "version": "<<<" } }),
            json!({ "deviceSelector": { "matchLabels": { "a": "b" } } }),
            json!({ "uuid": world.paths, "suspend": true }),
        ],
    )
}

fn pace(rng: &mut SeededRng) -> Value {
    one(
        rng,
        &[
            json!({ "rollout": { "batchSize": 1, "delaySeconds": 2_592_000 } }),
            json!({ "rollout": { "batchSize": "1%", "maxParallel": 0 } }),
            json!({ "rollout": { "batchSize": i32::MAX, "maxParallel": 500 } }),
            json!({ "rollout": { "maxFailures": 0 } }),
            json!({ "rollout": { "maxFailures": "100%" } }),
            json!({ "suspend": true }),
            json!({ "suspend": false, "abort": true }),
            json!({ "abort": false }),
            json!({ "ttlSecondsAfterFinished": 0 }),
            json!({ "ttlSecondsAfterFinished": i32::MAX }),
        ],
    )
}

fn limits(rng: &mut SeededRng) -> Value {
    one(
        rng,
        &[
            json!({ "retry": { "limit": 100, "backoffSeconds": 0 } }),
            json!({ "retry": { "limit": 0, "backoffSeconds": 300 } }),
            json!({ "retry": { "nonce": "n".repeat(253) } }),
            json!({ "timeouts": { "deviceSeconds": 1, "addressSeconds": 1, "offlineSeconds": 0 } }),
            json!({ "timeouts": { "deviceSeconds": 86_400, "addressSeconds": 86_400 } }),
            json!({ "timeouts": { "offlineSeconds": 2_592_000 } }),
        ],
    )
}

fn service(rng: &mut SeededRng, world: &World) -> Value {
    // An address of the victim's pool, and one of its boards.
    let address = format!("{}1", world.bench.addresses);
    let board = world.bench.boards.values().next();
    one(
        rng,
        &[
            json!({ "service": { "type": "NodePort" } }),
            json!({ "service": { "type": "None" } }),
            json!({ "service": { "type": "LoadBalancer", "loadBalancerClass": "a/b" } }),
            json!({ "service": { "annotations": { NOWHERE.0: NOWHERE.1 } } }),
            json!({ "service": { "annotations": { "metallb.io/allow-shared-ip": "x" } } }),
            json!({ "service": { "externalTrafficPolicy": "Local" } }),
            json!({ "externalIP": address }),
            json!({ "externalIP": "not an address" }),
            json!({ "hostEndpoint": "http://[::1" }),
            json!({ "hostEndpoint": "x".repeat(1024) }),
            json!({ "hostEndpoint": board, "flashjobPodImage": TRUE }),
        ],
    )
}

fn pod(rng: &mut SeededRng) -> Value {
    one(
        rng,
        &[
            json!({ "flashjobPodImage": FLASHER }),
            json!({ "flashjobPodImage": "" }),
            json!({ "verify": "None", "versionPolicy": "IfDifferent" }),
            json!({ "verify": "Restart" }),
            json!({ "podTemplate": { "metadata": { "labels": { "app": "rollout" } } } }),
            json!({ "podTemplate": { "spec": { "nodeSelector": { "no": "where" } } } }),
            json!({ "podTemplate": { "spec": { "hostNetwork": true, "hostPID": true } } }),
            json!({ "podTemplate": { "spec": { "containers": "many" } } }),
            json!({ "podTemplate": { "spec": { "priorityClassName": "system-node-critical" } } }),
        ],
    )
}

fn words(rng: &mut SeededRng, nth: usize) -> Value {
    one(
        rng,
        &[
            json!({ "version": format!("6.7.{nth}") }),
            json!({ "version": "é".repeat(60), "firmware": " x " }),
            json!({ "firmware": format!("registry.example/{}:1", "f".repeat(900)) }),
            json!({ "device": "nrf52", "applicationType": "\n" }),
            json!({ "device": "ESP-32" }),
        ],
    )
}
