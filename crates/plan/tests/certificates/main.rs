//! The rules about certificates, each as a short story.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod authority;
mod commands;
mod leaves;

use flashjob_plan::edge::certificates::{
    AuthorityFacts, DeviceKeys, Facts, Found, LeafFacts, Life, Plan, RegistrationFacts, decide,
    server_names,
};
use jiff::{SignedDuration, Timestamp};

/// Days after the beginning of all stories.
fn day(days: i64) -> Timestamp {
    let begin: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
    begin + SignedDuration::from_hours(24 * days)
}

fn life(from: i64, until: i64) -> Life {
    Life { not_before: day(from), not_after: day(until) }
}

fn names() -> Vec<String> {
    server_names("project-flotta.io", &[], true).0
}

fn ca(id: &str) -> AuthorityFacts {
    AuthorityFacts { id: id.to_owned(), life: life(-1, 3652), previous: None, command: None }
}

fn leaf(from: i64, until: i64, ca: &str) -> LeafFacts {
    LeafFacts { life: life(from, until), names: names(), signed_by: Some(ca.to_owned()) }
}

fn registration(name: &str, leaf: LeafFacts) -> RegistrationFacts {
    RegistrationFacts { secret: name.to_owned(), found: Found::Read(leaf) }
}

/// Nothing is there, and no device either.
fn empty() -> Facts {
    Facts {
        ca: Found::Missing,
        server: Found::Missing,
        registrations: Vec::new(),
        ca_in_memory: None,
        server_in_memory: None,
        registration_in_memory: None,
        devices: Some(DeviceKeys::default()),
        names: names(),
        settings_problems: Vec::new(),
    }
}

/// All is there and new.
fn whole() -> Facts {
    Facts {
        ca: Found::Read(ca("one")),
        server: Found::Read(leaf(-1, 365, "one")),
        registrations: vec![registration("reg-client-ca-a", leaf(-1, 365, "one"))],
        ..empty()
    }
}

/// The same, and the process has read it before.
fn running() -> Facts {
    Facts {
        ca_in_memory: Some(ca("one")),
        server_in_memory: Some(leaf(-1, 365, "one")),
        registration_in_memory: Some(("reg-client-ca-a".to_owned(), leaf(-1, 365, "one"))),
        ..whole()
    }
}

fn spoilt<T>() -> Found<T> {
    Found::Unreadable("Secret x: ca.key cannot be read".to_owned())
}

fn said(plan: &Plan, words: &[&str]) {
    let all = plan.problems.join("\n");
    for word in words {
        assert!(all.contains(word), "{word}: {all}");
    }
}

#[test]
fn names_are_taken_once_and_in_one_form() {
    let given = ["Edge.Example.", "edge.example", "0:0::1", "*.x.example", "a b", "bücher.example"]
        .map(str::to_owned);
    let (names, problems) = server_names("project-flotta.io", &given, true);
    let wanted =
        ["project-flotta.io", "edge.example", "::1", "*.x.example", "localhost", "127.0.0.1"];
    assert_eq!(names, wanted);
    assert_eq!(problems.len(), 2);
    assert!(problems[0].contains("\"a b\"") && problems[0].contains("--edge-server-names"));
    assert_eq!(server_names("d.example", &[], false).0, ["d.example"]);
}

#[test]
fn nothing_is_done_where_all_is_well() {
    for facts in [whole(), running()] {
        let plan = decide(&facts, day(0));
        assert_eq!((plan.steps, plan.problems), (vec![], vec![]));
        assert_eq!(plan.again, day(0) + SignedDuration::from_hours(1));
    }
}
