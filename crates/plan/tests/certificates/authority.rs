//! The CA is made once, and never again where there was one.

use flashjob_plan::edge::certificates::{Facts, Found, Holders, Step, device_life};
use jiff::SignedDuration;

use super::{ca, day, decide, empty, leaf, life, registration, running, said, spoilt, whole};

#[test]
fn an_empty_cluster_gets_a_ca_and_nothing_else_before_it_is_there() {
    let plan = decide(&empty(), day(0));
    assert_eq!(plan.steps, [Step::MakeCa(life(-1, 3652))]);
}

#[test]
fn no_ca_is_made_before_the_devices_are_known() {
    let plan = decide(&Facts { devices: None, ..empty() }, day(0));
    assert_eq!(plan.steps, []);
    said(&plan, &["flotta-ca is missing"]);
}

#[test]
fn a_ca_that_was_lost_is_not_made_anew() {
    let holders = Holders { count: 1, some: vec!["a".to_owned()] };
    let mut devices = empty();
    devices.devices.as_mut().unwrap().by_ca.insert("gone".to_owned(), holders.clone());
    let mut unknown = empty();
    unknown.devices.as_mut().unwrap().unknown = holders;
    let register = registration("reg-client-ca-a", leaf(-1, 365, "x"));
    for (facts, word) in [
        (Facts { server: spoilt(), ..empty() }, "flotta-host-certificate"),
        (Facts { server: Found::Read(leaf(-1, 365, "x")), ..empty() }, "flotta-host-certificate"),
        (Facts { registrations: vec![register], ..empty() }, "reg-client-ca=true"),
        (devices, "EdgeDevices"),
        (unknown, "EdgeDevices"),
    ] {
        let plan = decide(&facts, day(0));
        assert_eq!(plan.steps, [], "{facts:?}");
        said(&plan, &[word, "Restore the Secret", "delete"]);
    }
}

#[test]
fn what_cannot_be_read_is_said_and_nothing_is_written() {
    let plan = decide(&Facts { ca: spoilt(), ..whole() }, day(0));
    assert_eq!(plan.steps, []);
    said(&plan, &["ca.key cannot be read", "restored"]);
    let plan = decide(&Facts { ca: spoilt(), ..empty() }, day(0));
    assert_eq!(plan.steps, []);
}

#[test]
fn a_running_process_puts_back_what_was_deleted_and_leaves_what_was_spoilt() {
    let plan = decide(&Facts { ca: Found::Missing, ..running() }, day(0));
    assert_eq!(plan.steps, [Step::PutBackCa]);
    let everything = Facts {
        ca: Found::Missing,
        server: Found::Missing,
        registrations: Vec::new(),
        ..running()
    };
    assert_eq!(decide(&everything, day(0)).steps, [Step::PutBackCa]);
    let plan = decide(&Facts { ca: spoilt(), ..running() }, day(0));
    assert_eq!(plan.steps, []);
    said(&plan, &["ca.key cannot be read", "What was read before"]);
    // And goes on working with what it has.
    let due = Facts { ca: spoilt(), server: Found::Read(leaf(-300, 65, "one")), ..running() };
    assert!(matches!(decide(&due, day(0)).steps[..], [Step::MakeServer { .. }]));
}

#[test]
fn the_end_of_a_ca_is_said_half_a_year_ahead_and_nothing_outlives_it() {
    let mut facts = whole();
    let mut short = ca("one");
    short.life = life(-3000, 100);
    facts.ca = Found::Read(short);
    facts.server = Found::Missing;
    let plan = decide(&facts, day(0));
    said(&plan, &["ends on 2027-02-26", "rotate"]);
    let [Step::MakeServer { life: made, .. }] = &plan.steps[..] else { panic!("{plan:?}") };
    assert_eq!(*made, life(-1, 100));

    // One that ends with its CA is not made again and again.
    let until_the_end = leaf(-1, 100, "one");
    facts.server = Found::Read(until_the_end.clone());
    facts.registrations = vec![registration("reg-client-ca-a", until_the_end)];
    assert_eq!(decide(&facts, day(99)).steps, []);
    let plan = decide(&facts, day(101));
    assert_eq!(plan.steps, []);
    said(&plan, &["ended on 2027-02-26, so nothing can be signed"]);
}

#[test]
fn a_device_gets_what_is_left_of_the_ca_and_nothing_of_one_that_is_over() {
    assert_eq!(device_life(day(0), 365, day(3652)), Some(life(-1, 365)));
    assert_eq!(device_life(day(0), 365, day(10)), Some(life(-1, 10)));
    assert_eq!(device_life(day(0), 365, day(0)), None);
    assert_eq!(device_life(day(0), 0, day(10)), None);
    assert!(device_life(day(0), u32::MAX, jiff::Timestamp::MAX).is_some());
}

#[test]
fn it_looks_again_when_something_is_due_but_not_all_the_time() {
    let (facts, minute) = (whole(), SignedDuration::from_mins(1));
    let renewal = day(-1) + SignedDuration::from_hours(24 * 366) / 3 * 2;
    assert_eq!(decide(&facts, renewal - minute * 5).again, renewal);
    assert_eq!(decide(&facts, renewal - minute / 2).again, renewal + minute / 2);
}
