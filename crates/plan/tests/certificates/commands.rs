//! rotate and retire.

use flashjob_plan::edge::certificates::{Command, Facts, Found, Holders, Life, Step};

use super::{ca, day, decide, leaf, life, registration, said, whole};

fn asked(word: &str, previous: Option<&str>) -> Facts {
    let mut ca = ca("two");
    ca.command = Some(Command::read(word));
    ca.previous = previous.map(str::to_owned);
    Facts {
        ca: Found::Read(ca),
        server: Found::Read(leaf(-1, 365, "two")),
        registrations: vec![registration("reg-client-ca-a", leaf(-1, 365, "two"))],
        ..whole()
    }
}

fn answer(facts: &Facts) -> String {
    match &decide(facts, day(0)).steps[..] {
        [Step::Answer { message }] => message.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ca_is_rotated_and_the_cross_certificate_ends_with_the_old_one() {
    let mut facts = asked("rotate", None);
    let steps = decide(&facts, day(0)).steps;
    let [Step::Rotate { life: new, cross, message }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((*new, *cross), (life(-1, 3652), life(-1, 3652)));
    assert!(message.contains("rotated") && message.contains("two"), "{message}");

    let Found::Read(old) = &mut facts.ca else { unreachable!() };
    old.life = life(-3000, 700);
    let steps = decide(&facts, day(0)).steps;
    let [Step::Rotate { cross, .. }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(*cross, Life { not_after: day(700), ..life(-1, 0) });
}

#[test]
fn it_is_not_rotated_twice() {
    let message = answer(&asked("rotate", Some("one")));
    assert!(message.contains("not rotated") && message.contains("retire it first"), "{message}");
}

#[test]
fn after_a_rotation_the_server_and_registration_get_new_certificates() {
    let mut facts = whole();
    let mut new = ca("two");
    new.previous = Some("one".to_owned());
    facts.ca = Found::Read(new);
    let steps = decide(&facts, day(0)).steps;
    assert!(matches!(steps[..], [Step::MakeServer { .. }, Step::MakeRegistration(_)]), "{steps:?}");
    // The old registration certificate stays: images have it.
    facts.server = Found::Read(leaf(-1, 365, "two"));
    facts.registrations.push(registration("reg-client-ca-b", leaf(-1, 365, "two")));
    let plan = decide(&facts, day(0));
    assert_eq!((plan.steps, plan.problems), (vec![], vec![]));
}

#[test]
fn a_ca_is_retired_when_nobody_depends_on_it() {
    let steps = decide(&asked("retire", Some("one")), day(0)).steps;
    assert!(matches!(steps[..], [Step::Retire { .. }]), "{steps:?}");
    assert!(answer(&asked("retire", None)).contains("nothing to retire"));
}

#[test]
fn a_ca_that_devices_depend_on_is_not_retired() {
    let mut facts = asked("retire", Some("one"));
    let some = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec();
    let devices = facts.devices.as_mut().unwrap();
    devices.by_ca.insert("one".to_owned(), Holders { count: 7, some });
    devices.by_ca.insert("two".to_owned(), Holders { count: 90, some: vec!["z".to_owned()] });
    let message = answer(&facts);
    assert!(
        message.contains("7 EdgeDevices") && message.contains("a, b, c, d, e, ..."),
        "{message}"
    );
    // Who has said nothing yet may depend on it too.
    let devices = facts.devices.as_mut().unwrap();
    devices.by_ca.remove("one");
    devices.unknown = Holders { count: 1, some: vec!["silent".to_owned()] };
    assert!(answer(&facts).contains("1 EdgeDevice depends on the CA one: silent."));
}

#[test]
fn retire_waits_for_what_it_has_to_know() {
    let unlisted = Facts { devices: None, ..asked("retire", Some("one")) };
    let plan = decide(&unlisted, day(0));
    assert_eq!(plan.steps, []);
    said(&plan, &["retire waits"]);
    let behind =
        Facts { server: Found::Read(leaf(-1, 365, "one")), ..asked("retire", Some("one")) };
    let steps = decide(&behind, day(0)).steps;
    assert!(matches!(steps[..], [Step::MakeServer { .. }]), "{steps:?}");
}

#[test]
fn what_is_no_command_is_answered() {
    let message = answer(&asked(&"x".repeat(100), None));
    assert!(message.len() < 100 && message.contains("rotate or retire"), "{message}");
}
