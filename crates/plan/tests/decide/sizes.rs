//! Large fleets: a job of 100,000 devices runs to its end, and its status fits at every moment.

use flashjob_api::flashjob::Phase;
use serde_json::json;

use crate::phase;
use crate::world::{World, ended};

/// What the API server and etcd take, with room to spare.
const MOST_BYTES: usize = 512 * 1024;

/// So many devices, all flashed in one go.
fn run(devices: usize) -> flashjob_api::flashjob::FlashJobStatus {
    let mut world = World::new(&[], json!({ "uuid": ["placeholder"] }));
    for number in 0..devices {
        world.discover(&format!("board-{number:06}"));
    }
    let rollout = json!({ "maxParallel": 500 });
    let selector = json!({ "device": "esp32" });
    world.edit(&[], json!({ "uuid": [], "deviceSelector": selector, "rollout": rollout }));
    // As many at once as there are: the reconciles are what is tried here, not their number.
    world.job.spec.as_mut().unwrap().max_parallel = devices;
    world.job.generation = 1;
    for _ in 0..20 {
        let plan = world.step();
        let status = plan.status.clone().unwrap_or_default();
        let bytes = serde_json::to_string(&status).unwrap().len();
        assert!(bytes < MOST_BYTES, "{bytes} bytes: {:?}", status.message);
        if plan.finished {
            assert_eq!(phase(&plan), Phase::Completed);
            return status;
        }
        for (target, attempt, pod) in world.pods() {
            world.see_pod(target, attempt, ended(pod, 0, ""));
        }
    }
    panic!("it has no end: {:?}", world.decide().status.map(|s| s.message));
}

#[test]
fn a_hundred_thousand_devices_run_to_their_end_and_the_status_says_what_it_leaves_out() {
    let status = run(100_000);
    assert_eq!(status.done.as_deref(), Some("100000/100000"));
    assert_eq!((status.completed_uuids.len(), status.truncated), (5000, true));
}

#[test]
fn a_status_that_lists_all_says_so() {
    let status = run(300);
    assert_eq!((status.completed_uuids.len(), status.truncated), (300, false));
}
