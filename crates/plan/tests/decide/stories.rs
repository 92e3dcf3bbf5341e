//! The rules as a newcomer may read them: each test tells one story, and `stories/` has the texts.
//!
//! `UPDATE_GOLDEN=1 cargo test -p flashjob-plan --test decide stories` writes them anew after a rule has changed.

use serde_json::{Value, json};

use crate::story::Story;
use crate::world::World;

fn one(title: &str, rule: &str, devices: &[&str], more: Value) -> Story {
    Story::new(title, rule, vec![World::new(devices, more)])
}

/// Nothing special happens.
fn nothing(_: &mut [World]) {}

#[test]
fn a_device_from_pending_to_succeeded() {
    let mut story = one(
        "A device from Pending to Succeeded",
        "The ledger comes first, then the Service, then the permit, then the Pod; they go when the result is written down.",
        &["a"],
        json!({}),
    );
    story.then("a job for a is applied", nothing);
    story.after(2, "the load balancer gives its Service an address", |w| w[0].gets_address("a"));
    story.after(1, "a kubelet starts the container: the permit is there", |w| w[0].runs("a"));
    story.after(40, "the container ends with exit code 0", |w| w[0].ends("a", 0, ""));
    story.ends("a-device.txt");
}

#[test]
fn a_missing_device() {
    let mut story = one(
        "A device that is not there",
        "A device is waited for from its turn on. Once it has a Pod, Akri is not asked for it any more.",
        &["a", "b"],
        json!({}),
    );
    story.then("a job for a and b is applied, and Akri knows neither", |w| {
        for device in ["a", "b"] {
            w[0].instances.remove("ns", device);
        }
    });
    story.after(60, "Akri finds a", |w| w[0].discover("a"));
    story.after(3, "its Service gets an address", |w| w[0].gets_address("a"));
    story.after(1, "Akri loses a again: the board reboots while it is flashed", |w| {
        w[0].runs("a");
        w[0].instances.remove("ns", "a");
    });
    story.after(30, "the container ends well", |w| w[0].ends("a", 0, ""));
    story.after(206, "b has been missing for timeouts.offlineSeconds", nothing);
    story.ends("a-missing-device.txt");
}

#[test]
fn a_failed_attempt_and_its_retry() {
    let more = json!({ "retry": { "limit": 1, "backoffSeconds": 10 } });
    let mut story = one(
        "A failed attempt, a retry, and the end",
        "An attempt counts if its Pod was made. Each has a number of its own, and the Service stays between them.",
        &["a"],
        more,
    );
    story.then("a job for a is applied; one retry after 10 s", nothing);
    story.after(1, "its Service gets an address", |w| w[0].gets_address("a"));
    story.after(20, "the flasher says that the board did not come back", |w| {
        w[0].ends("a", 1, r#"{"reason":"NotBack","message":"no answer for 60 s"}"#);
    });
    story.after(10, "the pause is over; the Service is still there", nothing);
    story.after(5, "somebody removes the Pod while its container runs", |w| {
        w[0].runs("a");
        w[0].loses_pod("a");
    });
    story.ends("a-retry.txt");
}

#[test]
fn batches_with_a_pause() {
    let more = json!({ "rollout": { "batchSize": 2, "delaySeconds": 60 } });
    let mut story = one(
        "Batches of two with a pause of a minute",
        "A batch ends when each of its devices has a result; the pause runs from there.",
        &["a", "b", "c"],
        more,
    );
    story.then("a job for a, b and c is applied", nothing);
    story.after(1, "a and b get addresses", |w| {
        w[0].gets_address("a");
        w[0].gets_address("b");
    });
    story.after(20, "a is done", |w| w[0].ends("a", 0, ""));
    story.after(10, "b is done, and with it the batch", |w| w[0].ends("b", 0, ""));
    story.after(60, "the pause is over", nothing);
    story.ends("batches.txt");
}

#[test]
fn the_budget() {
    let more =
        json!({ "rollout": { "maxParallel": 2, "maxFailures": 1 }, "retry": { "limit": 0 } });
    let mut story = one(
        "One device may fail",
        "When more have failed than maxFailures allows, nothing new begins, and what is flashing finishes.",
        &["a", "b", "c", "d"],
        more,
    );
    story.then("a job for four devices is applied, two at once, maxFailures 1", nothing);
    story.after(1, "a and b get addresses", |w| {
        w[0].gets_address("a");
        w[0].gets_address("b");
    });
    story.after(20, "a fails, and that is allowed", |w| w[0].ends("a", 1, "no route to board"));
    story.after(1, "c gets an address", |w| w[0].gets_address("c"));
    story.after(20, "b fails: one too many; c is being flashed and is not cut off", |w| {
        w[0].runs("c");
        w[0].ends("b", 1, "no route to board");
    });
    story.after(20, "c is done", |w| w[0].ends("c", 0, ""));
    story.ends("the-budget.txt");
}

#[test]
fn two_jobs_and_one_board() {
    let jobs = vec![
        World::named("site/old", 0, &["ns/a"], json!({ "suspend": true })),
        World::named("lab/new", 60, &["ns/a"], json!({ "firmware": "f:2" })),
    ];
    let mut story = Story::new(
        "Two jobs and one board",
        "One job at a time has a board, and an older job does not undo what a newer one has flashed.",
        jobs,
    );
    for world in &mut story.jobs {
        world.discover("a");
    }
    story.then("site/old is applied, held; lab/new wants the same board", nothing);
    story.after(2, "new's Service gets an address", |w| w[1].gets_address("ns/a"));
    story.after(8, "old is let go while new is at work", |w| {
        w[1].runs("ns/a");
        w[0].edit(&["ns/a"], json!({}));
    });
    story.after(30, "new is done: old does not undo what came after it", |w| {
        w[1].ends("ns/a", 0, "");
    });
    story.ends("two-jobs-one-board.txt");
}

#[test]
fn suspend_and_resume() {
    let more = json!({ "rollout": { "maxParallel": 1 } });
    let mut story = one(
        "Held, and let go on",
        "A held job begins nothing and gives back the addresses it does not need; what is flashing finishes.",
        &["a", "b"],
        more,
    );
    story.then("a job for a and b is applied, one at a time", nothing);
    story.after(1, "a gets an address", |w| w[0].gets_address("a"));
    story.after(1, "a is being flashed, and spec.suspend is set", |w| {
        w[0].runs("a");
        w[0].edit(&["a", "b"], json!({ "rollout": { "maxParallel": 1 }, "suspend": true }));
    });
    story.after(20, "a ends well", |w| w[0].ends("a", 0, ""));
    story.after(3600, "an hour later spec.suspend is taken back", |w| {
        w[0].edit(&["a", "b"], json!({ "rollout": { "maxParallel": 1 } }));
    });
    story.ends("suspend-and-resume.txt");
}

#[test]
fn a_new_leader() {
    let mut story = one(
        "A new leader settles what another began",
        "Permits are withdrawn first, so what has not started never will; what has started is adopted.",
        &["a", "b", "c"],
        json!({}),
    );
    story.then("a job for a, b and c is applied", nothing);
    story.after(1, "all get addresses", |w| {
        for device in ["a", "b", "c"] {
            w[0].gets_address(device);
        }
    });
    story.after(
        5,
        "the operator is killed: a runs, b's Pod waits, the create of c's Pod was lost",
        |w| {
            w[0].runs("a");
            w[0].forget_pod("c");
            w[0].recovered = false;
        },
    );
    story.after(20, "all end well", |w| {
        for device in ["a", "b", "c"] {
            w[0].ends(device, 0, "");
        }
    });
    story.ends("a-new-leader.txt");
}

#[test]
fn scarce_addresses() {
    let more = json!({ "rollout": { "maxParallel": 2 } });
    let mut story = one(
        "One address for three devices",
        "A Service that waits keeps new ones from being made, and no clock runs out while addresses move.",
        &["a", "b", "c"],
        more,
    );
    story.then("a job for a, b and c is applied, two at a time", nothing);
    story.after(1, "a gets the only address there is", |w| w[0].gets_address("a"));
    story.after(100, "a ends well and gives its address back", |w| w[0].ends("a", 0, ""));
    story.after(100, "b gets it: addressSeconds ran from the last time an address moved", |w| {
        w[0].gets_address("b");
    });
    story.after(30, "b ends well", |w| w[0].ends("b", 0, ""));
    story.after(120, "nobody gives c an address", nothing);
    story.ends("scarce-addresses.txt");
}

#[test]
fn abort() {
    let more = json!({ "rollout": { "maxParallel": 1 } });
    let mut story = one(
        "Aborted",
        "Nothing new begins, what is flashing finishes, and then the job has failed.",
        &["a", "b"],
        more,
    );
    story.then("a job for a and b is applied, one at a time", nothing);
    story.after(1, "a gets an address", |w| w[0].gets_address("a"));
    story.after(1, "a is being flashed, and spec.abort is set", |w| {
        w[0].runs("a");
        w[0].edit(&["a", "b"], json!({ "rollout": { "maxParallel": 1 }, "abort": true }));
    });
    story.after(20, "a ends well", |w| w[0].ends("a", 0, ""));
    story.ends("abort.txt");
}
