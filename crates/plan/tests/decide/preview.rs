//! What is foreseen is what then happens.

use flashjob_plan::flashjob::Settings;
use flashjob_plan::flashjob::preview::{Fate, Foreseen, preview};
use serde_json::{Value, json};

use crate::world::World;
use crate::{at_work, lock};

fn foreseen(world: &World) -> Vec<Foreseen> {
    let World { job, instances, locks, now, .. } = world;
    preview(job, &Settings::default(), instances, locks, *now).unwrap()
}

/// Plays a rollout in which all goes well: the devices of each batch, as they began.
fn played(world: &mut World) -> Vec<Vec<String>> {
    let mut batches = Vec::new();
    loop {
        world.settle();
        let began = at_work(world);
        if began.is_empty() {
            return batches;
        }
        for device in &began {
            world.ends(device, 0, "");
        }
        batches.push(began);
        world.settle();
        world.after(3600);
    }
}

#[test]
fn batches_are_those_that_then_begin() {
    let devices: Vec<String> = (0..11).map(|n| format!("d{n:02}")).collect();
    let mut devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    // One board under a second name takes no place.
    devices.insert(3, "uid-d01");
    for size in [json!(null), json!(1), json!(3), json!(11), json!(20), json!("25%"), json!("100%")]
    {
        let spec =
            json!({ "rollout": { "batchSize": size, "delaySeconds": 60, "maxParallel": 0 } });
        let mut world = World::new(&[], json!({ "deviceSelector": { "device": "esp32" } }));
        for device in devices.iter().filter(|d| !d.starts_with("uid")) {
            world.discover(device);
        }
        world.edit(&devices, spec);
        world.job.generation = 1;
        let told = foreseen(&world);
        let last = told.iter().filter_map(|d| d.batch).max().unwrap();
        let batch = |n: usize| told.iter().filter(move |d| d.batch == Some(n));
        let told: Vec<Vec<String>> =
            (1..=last).map(|n| batch(n).map(|d| d.device.clone()).collect()).collect();
        assert_eq!(told, played(&mut world), "{size}");
    }
}

#[test]
fn each_device_that_would_not_be_flashed_says_why() {
    let spec =
        json!({ "device": "esp32", "versionPolicy": "IfDifferent", "rollout": { "batchSize": 1 } });
    let mut world = World::new(&["a", "b", "away", "c", "d"], spec);
    world.instances.remove("ns", "away");
    let mut other = world.instances.get("ns", "b").unwrap().clone();
    other.device = "esp32c3".into();
    world.instances.insert(other.clone());
    let mut current = world.instances.get("ns", "c").unwrap().clone();
    current.version = "1".into();
    world.instances.insert(current);
    world.introduce("old", "ns/old", -10);
    for job in ["old", "job-uid"] {
        world.locks.know(&job.into(), &"at-d".into());
    }
    world.locks.hold(&"old".into(), vec![lock("at-d")]);
    let told = foreseen(&world);
    let told: Vec<(&str, Fate, &str)> =
        told.iter().map(|d| (d.device.as_str(), d.fate, d.why.as_str())).collect();
    let wanted = [
        ("a", Fate::Flash, ""),
        ("b", Fate::Refuse, "WrongDevice: the firmware is for esp32, this device is esp32c3"),
        ("away", Fate::Offline, "no Akri Instance for this device now"),
        ("c", Fate::Skip, "it reports 1 already"),
        ("d", Fate::Blocked, "ns/old comes first with this device"),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn a_held_job_is_foreseen_as_if_it_went_and_one_that_cannot_begin_says_so() {
    let world = World::new(&["a"], json!({ "suspend": true }));
    assert_eq!(foreseen(&world)[0].fate, Fate::Flash);
    let refused = |more: Value| {
        let world = World::new(&["a"], more);
        let World { job, instances, locks, now, .. } = &world;
        preview(job, &Settings::default(), instances, locks, *now).unwrap_err()
    };
    let nothing = json!({ "uuid": null, "deviceSelector": { "device": "toaster" } });
    assert_eq!(refused(nothing), "no device fits spec.deviceSelector yet");
    assert!(refused(json!({ "rollout": { "maxParallel": -1 } })).contains("maxParallel"));
}

#[test]
fn six_thousand_devices_in_batches_of_one_are_no_matter() {
    let devices: Vec<String> = (0..6_000).map(|n| format!("d{n}")).collect();
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let world = World::new(&devices, json!({ "rollout": { "batchSize": 1 } }));
    let told = foreseen(&world);
    assert_eq!(told[5_999].batch, Some(6_000));
    assert!(told.iter().all(|d| d.fate == Fate::Flash));
}
