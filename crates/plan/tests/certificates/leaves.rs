//! The server's certificate and those for registration.

use flashjob_plan::edge::certificates::{
    Facts, Found, RegistrationFacts, Step, current_registration,
};

use super::{day, decide, leaf, life, names, registration, running, said, spoilt, whole};

fn with(server: Found<super::LeafFacts>) -> Facts {
    Facts { server, ..whole() }
}

fn makes_server(facts: &Facts, at: i64) -> bool {
    let steps = decide(facts, day(at)).steps;
    steps.iter().any(|step| matches!(step, Step::MakeServer { .. }))
}

#[test]
fn what_is_missing_is_made_for_a_year() {
    let facts = Facts { registrations: Vec::new(), ..with(Found::Missing) };
    let server = Step::MakeServer { life: life(-1, 365), names: names() };
    assert_eq!(decide(&facts, day(0)).steps, [server, Step::MakeRegistration(life(-1, 365))]);
}

#[test]
fn the_server_is_renewed_at_two_thirds() {
    let facts = with(Found::Read(leaf(0, 300, "one")));
    assert!(!makes_server(&facts, 199) && makes_server(&facts, 200) && makes_server(&facts, 400));
}

#[test]
fn the_server_gets_other_names_at_once_and_their_order_does_not_matter() {
    let mut server = leaf(-1, 365, "one");
    server.names.reverse();
    server.names[0].make_ascii_uppercase();
    assert!(!makes_server(&with(Found::Read(server.clone())), 0));
    server.names.pop();
    assert!(makes_server(&with(Found::Read(server)), 0));
}

#[test]
fn a_certificate_of_somebody_else_is_used_and_never_written_over() {
    let mut server = leaf(-300, 20, "one");
    (server.signed_by, server.names) = (None, vec!["other.example".to_owned()]);
    for (at, word) in [(-100, "have to trust"), (0, "It ends on"), (30, "It ended on")] {
        let plan = decide(&with(Found::Read(server.clone())), day(at));
        assert_eq!(plan.steps, []);
        said(&plan, &["flotta-host-certificate was not signed", "used as it is", word]);
    }
}

#[test]
fn an_unreadable_server_secret_is_left() {
    let plan = decide(&with(spoilt()), day(0));
    assert_eq!(plan.steps, []);
    said(&plan, &["Devices cannot be served"]);
    let plan = decide(&Facts { server: spoilt(), ..running() }, day(0));
    assert_eq!(plan.steps, []);
    said(&plan, &["What was read before is served"]);
}

#[test]
fn deleted_ones_are_put_back() {
    let facts = Facts { server: Found::Missing, registrations: Vec::new(), ..running() };
    let plan = decide(&facts, day(0));
    assert_eq!(plan.steps, [Step::PutBackServer, Step::PutBackRegistration]);
    said(&plan, &["flotta-host-certificate was deleted", "reg-client-ca-a was deleted"]);
    // Also where an older one is left, but not where somebody has made a newer one.
    let other = |from| {
        let registrations = vec![registration("reg-client-ca-b", leaf(from, 365, "one"))];
        decide(&Facts { registrations, ..running() }, day(1)).steps
    };
    assert_eq!(other(-20), [Step::PutBackRegistration]);
    assert_eq!(other(0), []);
}

#[test]
fn the_newest_registration_certificate_is_kept_and_renewed_at_two_thirds() {
    let mut facts = whole();
    facts.registrations.push(registration("reg-client-ca-b", leaf(100, 400, "one")));
    assert_eq!(current_registration(&facts, day(150)), Some("reg-client-ca-b"));
    assert_eq!(
        decide(&Facts { server: Found::Read(leaf(100, 465, "one")), ..facts.clone() }, day(299))
            .steps,
        []
    );
    let server = Found::Read(leaf(300, 665, "one"));
    let steps = decide(&Facts { server, ..facts }, day(300)).steps;
    assert_eq!(steps, [Step::MakeRegistration(life(299, 665))]);
}

#[test]
fn expired_ones_are_deleted_once_there_is_a_good_one() {
    let mut facts = whole();
    facts.registrations.push(registration("reg-client-ca-old", leaf(-400, -10, "one")));
    facts.registrations.push(registration("somebody-elses", leaf(-400, -10, "one")));
    let gone = Step::DeleteExpiredRegistration("reg-client-ca-old".to_owned());
    assert_eq!(decide(&facts, day(0)).steps, [gone]);
    facts.registrations.remove(0);
    assert_eq!(decide(&facts, day(0)).steps, [Step::MakeRegistration(life(-1, 365))]);
}

#[test]
fn what_nobody_can_register_with_is_said() {
    let mut foreign = leaf(-1, 365, "one");
    foreign.signed_by = None;
    let mut facts = whole();
    facts.registrations.push(registration("reg-client-ca-f", foreign));
    let found = spoilt();
    facts.registrations.push(RegistrationFacts { secret: "reg-client-ca-s".to_owned(), found });
    let plan = decide(&facts, day(0));
    assert_eq!(plan.steps, []);
    said(&plan, &["reg-client-ca-f was not signed", "No device can be given it"]);
    // It takes no good one's place.
    facts.registrations.remove(0);
    assert_eq!(decide(&facts, day(0)).steps, [Step::MakeRegistration(life(-1, 365))]);
}
