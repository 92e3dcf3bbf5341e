//! One reconcile of a large job, in the moment that Akri has found all of its devices: what it costs for each of them must
//! not grow with their number. The floor is one copy of the ledger's records, which is the least that a reconcile which
//! changes all of them can do.

#![allow(clippy::print_stdout, clippy::expect_used)] // a bench prints its table, and may stop at once and say why

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flashjob_plan::flashjob::addresses::Addresses;
use flashjob_plan::flashjob::instances::{Instance, Instances};
use flashjob_plan::flashjob::ledger::{Ledger, Record};
use flashjob_plan::flashjob::locks::Locks;
use flashjob_plan::flashjob::{Job, LedgerPlan, LedgerState, Settings, View, decide, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

/// Each figure is the best of so many.
const RUNS: usize = 5;
/// The goal, for a reconcile in which every device is found.
const MOST_MICROS: f64 = 5.0;

fn main() {
    println!(
        "One reconcile in which Akri has found every device of a waiting job (best of {RUNS})\n"
    );
    println!("{:>9}  {:>10}  {:>12}  {:>8}", "devices", "reconcile", "per device", "x floor");
    for devices in [1_000, 10_000, 40_000, 100_000] {
        let (took, floor) = measure(devices);
        let each = took.as_secs_f64() * 1e6 / devices as f64;
        let ratio = took.as_secs_f64() / floor.as_secs_f64().max(1e-9);
        println!("{devices:>9}  {took:>10.1?}  {each:>9.2} us  {ratio:>8.1}");
    }
    println!("\nThe goal is at most {MOST_MICROS} us for each device, at every size.");
}

fn measure(devices: usize) -> (Duration, Duration) {
    let now = Timestamp::from_second(1_000).expect("a time");
    let names: Vec<String> = (0..devices).map(|n| format!("board-{n:06}")).collect();
    let spec = json!({
        "uuid": ["board-000000"], "firmware": "f:1", "version": "1", "flashjobPodImage": "image",
    });
    let metadata = ObjectMeta {
        namespace: Some("ns".into()),
        name: Some("job".into()),
        uid: Some("uid".into()),
        generation: Some(1),
        finalizers: Some(vec![names::FINALIZER.into()]),
        annotations: Some([(names::LEDGER.into(), names::ledger("job", &"uid".into(), 0))].into()),
        ..ObjectMeta::default()
    };
    let settings = Settings::default();
    let mut job = Job::read(&metadata, &spec, &settings);
    let spec = job.spec.as_mut().expect("a spec that can be read");
    spec.devices.clone_from(&names);
    let record = |name: &String| Record::new(&job.uid, name, &spec.revision, now);
    let records: Vec<Record> = names.iter().map(record).collect();
    let ledger = Ledger::new(&job.uid, 1, (&spec.firmware, &spec.version), records, now);
    let mut instances = Instances::default();
    for (number, name) in names.iter().enumerate() {
        instances.insert(Instance {
            uid: format!("uid-{number}"),
            namespace: "ns".into(),
            name: name.clone(),
            endpoint: format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255)
                .into(),
            ..Instance::default()
        });
    }
    let (children, locks, addresses) = (HashMap::new(), Locks::default(), Addresses::default());
    let view = View {
        job: &job,
        first_seen: job.created,
        settings: &settings,
        ledger: LedgerState::Sealed(&ledger),
        instances: Some(&instances),
        children: &children,
        recovered: true,
        trouble: None,
        locks: &locks,
        addresses: &addresses,
        status_due: true,
    };
    let took = best(|| {
        let plan = decide(&view, now);
        let LedgerPlan::Update(change) = plan.ledger else { panic!("nothing was found") };
        assert_eq!(change.records.len(), devices, "every device was found");
    });
    (took, best(|| drop(std::hint::black_box(ledger.records.clone()))))
}

fn best(mut what: impl FnMut()) -> Duration {
    let times = (0..RUNS).map(|_| {
        let began = Instant::now();
        what();
        began.elapsed()
    });
    times.min().unwrap_or_default()
}
