use flashjob_pki::{CertifiedKey, Chain, PrivateKey, Profile};
use jiff::SignedDuration;
use serde_json::Value;

use super::*;
use crate::edge::secrets::Registration;

fn now() -> Timestamp {
    "2026-11-19T12:00:00Z".parse().unwrap()
}

fn days(days: i64) -> Timestamp {
    now() + SignedDuration::from_hours(days * 24)
}

fn ca(name: &str, end: i64) -> CertifiedKey {
    let profile =
        Profile { ca: true, purposes: Vec::new(), ..Profile::ca(name, days(-30), days(end)) };
    CertifiedKey::self_signed(PrivateKey::generate().unwrap(), &profile).unwrap()
}

fn signed(ca: &CertifiedKey, name: &str, purpose: KeyPurpose, from: i64, end: i64) -> CertifiedKey {
    let key = PrivateKey::generate().unwrap();
    let names = if purpose == KeyPurpose::ServerAuth {
        vec!["edge.example".to_owned()]
    } else {
        Vec::new()
    };
    let profile =
        Profile { names, purposes: vec![purpose], ..Profile::leaf(name, days(from), days(end)) };
    let certificate = ca.sign(&key.public(), &profile).unwrap();
    CertifiedKey::new(Chain::new(certificate, []), key).unwrap()
}

fn holders(names: &[&str]) -> Holders {
    Holders { count: names.len(), some: names.iter().map(|name| (*name).to_owned()).collect() }
}

fn registration(secret: &str, pair: CertifiedKey) -> Registration {
    Registration { secret: secret.into(), found: Found::Read(pair) }
}

/// A site in the middle of a rotation.
fn rotating() -> (Secrets, String, String) {
    let (old, new) = (ca("old", 3000), ca("new", 3652));
    let client = KeyPurpose::ClientAuth;
    let registrations = vec![
        registration("reg-client-ca-old", signed(&old, "register", client, -3, 300)),
        registration("reg-client-ca-new", signed(&new, "register", client, -2, 363)),
        Registration {
            secret: "reg-client-ca-bad".into(),
            found: Found::Unreadable(
                "Secret reg-client-ca-bad cannot be used: client.key: it is missing".into(),
            ),
        },
    ];
    let server = signed(&new, "*", KeyPurpose::ServerAuth, -1, 364);
    let (old_id, new_id) = (id(old.leaf()), id(new.leaf()));
    let previous = Some(old.leaf().clone());
    let secrets = Secrets {
        ca: Found::Read(Authority { pair: new, previous, cross: Vec::new() }),
        server: Found::Read(server),
        registrations,
        command: None,
        answer: Some("rotated on 2026-11-18\u{1b}".into()),
        version: None,
    };
    (secrets, old_id, new_id)
}

#[test]
fn each_certificate_is_shown_with_its_end_and_who_depends_on_which_ca() {
    let (secrets, old, new) = rotating();
    let devices = DeviceKeys {
        by_ca: [(old.clone(), holders(&["edge1"]))].into(),
        unknown: holders(&["edge2", "edge3"]),
    };
    let shown = text(&status(&secrets, &devices, now()));
    let wanted = format!("\
CERTIFICATE    NAME                      SIGNED BY          ENDS         DAYS   NOTE
CA             {new}          -                  2036-11-18   3652   signs everything
previous CA    {old}          -                  2035-02-05   3000   trusted until it is retired
server         flotta-host-certificate   {new}   2027-11-18   364    edge.example
registration   reg-client-ca-old         {old}   2027-09-15   300    from before
registration   reg-client-ca-new         {new}   2027-11-17   363    handed out by bundle
depend on the CA {old}: 1 device: edge1
depend on any CA, until they are heard of: 2 devices: edge2, edge3
last answer: rotated on 2026-11-18 \nproblem: Secret reg-client-ca-bad cannot be used: client.key: it is missing. No device can be given it; delete it, and if there is no other one is made
");
    assert_eq!(shown, wanted);
}

#[test]
fn programs_are_told_the_same_and_nobody_is_shown_a_key() {
    let (secrets, old, _) = rotating();
    let devices = DeviceKeys {
        by_ca: [(old.clone(), holders(&["edge1"]))].into(),
        unknown: Holders::default(),
    };
    let status = status(&secrets, &devices, now());
    let shown = print_as(&status, crate::output::Format::Json, text).unwrap();
    let json: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(json["dependentDevices"][&old]["count"], 1);
    assert_eq!(json["certificates"][0]["daysLeft"], 3652);
    assert!(!shown.contains("PRIVATE") && !shown.contains("BEGIN"), "{shown}");
}

#[test]
fn a_ca_that_is_missing_is_a_problem_in_the_operators_words() {
    let secrets = Secrets {
        ca: Found::Missing,
        server: Found::Missing,
        registrations: Vec::new(),
        command: None,
        answer: None,
        version: None,
    };
    let devices = DeviceKeys {
        by_ca: [("a".to_owned(), holders(&["edge1"]))].into(),
        unknown: Holders::default(),
    };
    let shown = text(&status(&secrets, &devices, now()));
    assert!(
        shown.contains("problem: Secret flotta-ca is missing, but there are EdgeDevices that hold"),
        "{shown}"
    );
}
