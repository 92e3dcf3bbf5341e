//! Every state of a small world.
//!
//! Stories and random runs show what was thought of, or what chance came by. Here nothing is left to either: one or two
//! jobs, up to three devices, an operator that is killed at any moment, writes that arrive late or never, reads that are
//! stale. Every order in which that can happen is tried, and in every state the promises are checked:
//!
//! - no two Pods may work on one board, whatever job they belong to, and no job has more of them than maxParallel;
//! - no board is flashed a second time, and none is said to be flashed that is not;
//! - an older job does not undo what a newer one has flashed;
//! - no Pod and no Service is ended before its result is safe in the ledger;
//! - no first attempt begins when too many have failed or are tried again, none at all beyond the budget;
//! - from every state a way leads to the end, where every job is finished and nothing is left behind.
//!
//! `decide` is the real one, and so are the ledger, its patches, the locks, and the index of what was seen. The rest of the
//! operator is a few lines in `changes`, which say the same as `crates/operator/src/flashjob`. A fault is printed as the
//! shortest list of moves that leads to it. `FLASHJOB_EXPLORE=full` makes the worlds larger, for some minutes; with
//! `-- --nocapture` each tells its size.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may stop at once and say why, and tell how large it was

mod alone;
mod changes;
mod check;
mod facts;
mod moves;
mod operator;
mod search;
mod state;
#[path = "../decide/view.rs"]
mod view;

use moves::Detail;
use operator::Operator;
use serde_json::{Value, json};
use state::{Device, Faults, Job, Service, Truth, WorldState};

/// How often the operator is killed: as a rule, and when there is time.
#[expect(clippy::disallowed_methods)] // a test has no arguments
fn crashes(usually: u8, at_most: u8) -> u8 {
    let full = std::env::var("FLASHJOB_EXPLORE").is_ok_and(|what| what == "full");
    if full { at_most } else { usually }
}

/// Visits the world of these jobs, the older first. Says how many states it has.
fn explore(jobs: &[(&[&str], Value)], crashes: u8, left: Faults, detail: Detail) -> usize {
    let mut operator = Operator::new(jobs);
    let mut begun = Vec::new();
    for (number, (devices, _)) in jobs.iter().enumerate() {
        let ledger = operator.begin(number);
        let device = Device { service: Service::None, pods: Vec::new(), truth: Truth::NotFlashed };
        begun.push(Job {
            server: ledger,
            known: ledger,
            flushing: None,
            recovered: true,
            listing: false,
            holds: false,
            wants: false,
            devices: vec![device; devices.len()],
            late: Vec::new(),
            left,
        });
    }
    let first = WorldState { now: 1, jobs: begun, holder: None, crashes };
    let devices: Vec<&[&str]> = jobs.iter().map(|(devices, _)| *devices).collect();
    let began = std::time::Instant::now();
    let visited = search::visit(&mut operator, first, detail);
    let visited = visited.unwrap_or_else(|fault| panic!("{devices:?}: {fault}"));
    let (states, moves, ends) = (visited.states, visited.moves, visited.ends);
    let took = began.elapsed().as_secs_f32();
    println!(
        "{devices:?}, {crashes} crashes: {states} states, {moves} moves, {ends} ends, {took:.1} s"
    );
    states
}

/// One slot, one retry, and no device may fail.
fn strict() -> Value {
    json!({ "retry": { "limit": 1 }, "rollout": { "maxParallel": 1, "maxFailures": 0 } })
}

#[test]
fn one_device_whatever_fails_vanishes_or_comes_late() {
    let spec = json!({ "retry": { "limit": 1 } });
    let left = Faults { failures: 1, vanishes: 1 };
    let detail = Detail { services: true, slow_kubelets: false, ..Detail::default() };
    assert!(explore(&[(&["a"], spec)], crashes(2, 3), left, detail) > 50_000);
}

#[test]
fn one_device_whose_kubelet_takes_longer_than_every_deadline() {
    let spec = json!({ "retry": { "limit": 1 } });
    let left = Faults { failures: 1, vanishes: 0 };
    let detail = Detail { services: false, slow_kubelets: true, ..Detail::default() };
    assert!(explore(&[(&["a"], spec)], crashes(1, 2), left, detail) > 1_000);
}

#[test]
fn two_devices_and_one_slot_when_none_may_fail() {
    let left = Faults { failures: 1, vanishes: 0 };
    assert!(explore(&[(&["a", "b"], strict())], 2, left, Detail::default()) > 50_000);
}

#[test]
fn two_jobs_for_one_board() {
    let detail = Detail { services: true, slow_kubelets: false, ..Detail::default() };
    let jobs: [(&[&str], Value); 2] = [(&["b"], strict()), (&["b"], strict())];
    assert!(explore(&jobs, crashes(1, 2), Faults::default(), detail) > 5_000);
}

#[test]
fn two_jobs_that_share_the_second_device_of_the_older() {
    let jobs: [(&[&str], Value); 2] = [(&["a", "b"], strict()), (&["b"], strict())];
    assert!(explore(&jobs, crashes(1, 2), Faults::default(), Detail::default()) > 5_000);
}

#[test]
fn three_devices_in_two_jobs_that_share_one() {
    let jobs: [(&[&str], Value); 2] = [(&["a", "b"], strict()), (&["b", "c"], strict())];
    assert!(explore(&jobs, 0, Faults::default(), Detail::default()) > 4_500);
}

/// The largest world. That reads may be stale is left to the others: with it, it has no end in reasonable time.
#[test]
fn three_devices_in_two_jobs_and_two_crashes() {
    let jobs: [(&[&str], Value); 2] = [(&["a", "b"], strict()), (&["b", "c"], strict())];
    let detail = Detail { prompt: true, ..Detail::default() };
    assert!(explore(&jobs, 2, Faults::default(), detail) > 1_000_000);
}
