//! First start, restart, renewal, and Secrets that are deleted or spoilt.

use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_makes_all_and_a_restart_keeps_it() {
    let place = Place::new().await;
    let first = place.start().look(0).await;
    assert_eq!(first.problems, Vec::<String>::new());
    let ca = place.text("flotta-ca", "ca.crt").await.unwrap();
    let said = openssl(&["x509", "-noout", "-text"], &ca);
    for wanted in ["CA:TRUE", "O = flotta-operator, CN = flotta-ca ", "prime256v1", "2036 GMT"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    for name in ["project-flotta.io", "localhost", "127.0.0.1", "::1"] {
        assert!(takes(&ca, &first, name, day(1)), "{name}");
    }
    assert!(!takes(&ca, &first, "other.example", day(1)));
    let names = place.registrations().await;
    assert_eq!(names.len(), 1);
    assert_eq!(first.registration.as_ref(), names.first());
    let random = names[0].strip_prefix("reg-client-ca-").unwrap();
    assert!(
        random.len() == 10 && random.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    );
    let client = place.text(&names[0], "client.crt").await.unwrap();
    let said = openssl(&["x509", "-noout", "-text"], &client);
    for wanted in
        ["O = flotta-operator, CN = register", "Client Authentication", "Nov 18 12:00:00 2027"]
    {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }

    let versions = place.versions().await;
    let again = place.start().look(1).await;
    assert_eq!(place.versions().await, versions, "a restart has written something");
    assert_eq!(again.registration, first.registration);
    assert!(first.ca_days(day(0)).unwrap() > 3650.0 && again.server_days(day(1)).unwrap() == 364.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_gets_what_flottas_devices_have() {
    let place = Place::new().await;
    let certificates = place.start().look(0).await;
    let key = PrivateKey::generate().unwrap().public();
    let device = given(&certificates, &key, "site-a", day(0)).unwrap();
    let said = openssl(&["x509", "-noout", "-text"], &device.issued.certificate_pem);
    for wanted in [
        "O = flotta-operator, OU = site-a, CN = device-1",
        "Not Before: Nov 17 12:00:00 2026",
        "Not After : Nov 18 12:00:00 2027",
        "TLS Web Client Authentication, TLS Web Server Authentication",
        "Digital Signature",
        "CA:FALSE",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let chain = Chain::from_pem(device.issued.certificate_pem.as_bytes()).unwrap();
    assert_eq!(chain.leaf().key_fingerprint(), key.fingerprint());
    assert_eq!((device.ca.len(), device.not_after), (16, day(365)));
    assert_eq!(issuer(&certificates, &device), Some(device.ca.clone()));
    assert_eq!(Some(device.issued.ca_bundle_pem), place.text("flotta-ca", "ca.crt").await);
    // Somebody else's operator does not take it.
    let elsewhere = Place::new().await.start().look(0).await;
    let foreign = issue(&elsewhere, 0);
    assert_eq!(issuer(&certificates, &foreign), None);
    // Nobody is certified by a CA that is over, nor beyond its end.
    let late = given(&certificates, &key, "default", day(3600)).unwrap();
    assert_eq!(late.not_after, day(3652));
    assert!(given(&certificates, &key, "default", day(3652)).is_err());
    assert!(given(&Certificates::default(), &key, "default", day(0)).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_at_two_thirds_and_old_registrations_go() {
    let place = Place::new().await;
    let mut process = place.start();
    let first = process.look(0).await;
    let (ca, trust) = (place.text("flotta-ca", "ca.crt").await, first.trust.clone().unwrap());
    let early = process.look(200).await;
    assert!(Arc::ptr_eq(early.server.as_ref().unwrap(), first.server.as_ref().unwrap()));
    let renewed = process.look(244).await;
    assert_ne!(renewed.server.as_ref().unwrap().cert, first.server.as_ref().unwrap().cert);
    assert!(takes(ca.as_ref().unwrap(), &renewed, "localhost", day(400)));
    assert_ne!(renewed.registration, first.registration);
    assert_eq!(place.registrations().await.len(), 2, "the old one is good until it ends");
    assert!(Arc::ptr_eq(renewed.trust.as_ref().unwrap(), &trust));
    process.look(366).await;
    assert_eq!(place.registrations().await, [renewed.registration.clone().unwrap()]);
    assert_eq!(place.text("flotta-ca", "ca.crt").await, ca);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_names_make_another_server_certificate_once() {
    let place = Place::new().await;
    place.start().look(0).await;
    let more = settings(&["edge.example", "192.0.2.7", "FE80::1"]);
    let certificates = place.start_with(place.client.clone(), more.clone()).look(1).await;
    let ca = place.text("flotta-ca", "ca.crt").await.unwrap();
    for name in ["edge.example", "192.0.2.7", "fe80::1", "project-flotta.io"] {
        assert!(takes(&ca, &certificates, name, day(1)), "{name}");
    }
    let versions = place.versions().await;
    place.start_with(place.client.clone(), more).look(2).await;
    assert_eq!(place.versions().await, versions);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_while_it_runs_is_put_back_from_memory() {
    let place = Place::new().await;
    let mut process = place.start();
    let before = process.look(0).await;
    let registration = before.registration.clone().unwrap();
    let parts = [
        ("flotta-ca", "ca.key"),
        ("flotta-host-certificate", "server.key"),
        (&registration, "client.key"),
    ];
    let mut kept = Vec::new();
    for (name, key) in parts {
        kept.push(place.text(name, key).await.unwrap());
        place.delete(name).await;
    }
    let after = process.look(0).await;
    for ((name, key), text) in parts.into_iter().zip(kept) {
        assert_eq!(place.text(name, key).await, Some(text), "{name}");
    }
    assert_eq!(after.problems, Vec::<String>::new());
    assert_eq!(place.registrations().await, [registration]);
    assert!(Arc::ptr_eq(after.trust.as_ref().unwrap(), before.trust.as_ref().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_spoilt_while_it_runs_is_left_and_served_from_memory() {
    let place = Place::new().await;
    let mut process = place.start();
    let before = process.look(0).await;
    place.change("flotta-ca", json!({ "data": { "ca.key": "c3BvaWx0" } })).await;
    place.change("flotta-host-certificate", json!({ "data": { "server.crt": null } })).await;
    let registration = before.registration.clone().unwrap();
    place.change(&registration, json!({ "data": { "client.key": "c3BvaWx0" } })).await;
    let versions = place.versions().await;
    let after = process.look(1).await;
    let made = after.registration.clone().unwrap();
    let others = place.versions().await.into_iter().filter(|(name, _)| *name != made);
    assert_eq!(others.collect::<Vec<_>>(), versions, "something was written over");
    assert_ne!(made, registration, "there is another to hand out");
    said(&after, &["flotta-ca cannot be used: ca.crt and ca.key", "server.crt: it is missing"]);
    assert!(Arc::ptr_eq(after.server.as_ref().unwrap(), before.server.as_ref().unwrap()));
    assert_eq!(issuer(&after, &issue(&after, 1)), Some(issue(&before, 1).ca));

    // A process that begins has nothing to go on with, and writes nothing.
    let begun = place.start().look(1).await;
    assert_eq!(place.versions().await.len(), versions.len() + 1);
    assert!(begun.trust.is_none() && begun.server.is_none());
    said(&begun, &["flotta-ca cannot be used", "until it is restored"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_that_was_lost_is_not_made_anew() {
    let place = Place::new().await;
    place.start().look(0).await;
    place.delete("flotta-ca").await;
    let versions = place.versions().await;
    let begun = place.start().look(1).await;
    assert_eq!(place.versions().await, versions);
    said(&begun, &["flotta-ca is missing", "Restore the Secret"]);
    // Until the others are deleted, too.
    place.delete("flotta-host-certificate").await;
    for name in place.registrations().await {
        place.delete(&name).await;
    }
    let anew = place.start().look(1).await;
    assert!(anew.trust.is_some() && anew.problems.is_empty(), "{anew:?}");
}
