//! One CA takes the place of another, and nobody is shut out.

use flashjob_plan::edge::certificates::Holders;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_is_rotated_and_retired() {
    let place = Place::new().await;
    let mut process = place.start();
    let before = process.look(0).await;
    let old_ca = place.text("flotta-ca", "ca.crt").await.unwrap();
    let old_key = place.text("flotta-ca", "ca.key").await.unwrap();
    let old_device = issue(&before, 0);

    place.command("rotate").await;
    let both = process.look(1).await;
    assert!(place.message().await.contains("rotated on 2026-11-19"));
    let new_ca = place.text("flotta-ca", "ca.crt").await.unwrap();
    assert_ne!(place.text("flotta-ca", "ca.key").await.unwrap(), old_key);
    assert_eq!(place.text("flotta-ca", "previous.crt").await.as_ref(), Some(&old_ca));
    let [old_name, new_name] =
        [&old_ca, &new_ca].map(|ca| openssl(&["x509", "-noout", "-subject"], ca));
    assert_ne!(old_name, new_name);

    // A device that has slept through it trusts the old CA alone, one that begins now perhaps the new one alone.
    let new_device = issue(&both, 1);
    assert_eq!(new_device.issued.ca_bundle_pem, format!("{new_ca}{old_ca}"));
    for anchors in [&old_ca, &new_ca, &new_device.issued.ca_bundle_pem] {
        assert!(takes(anchors, &both, "localhost", day(1)));
    }
    assert_eq!(issuer(&both, &old_device).as_ref(), Some(&old_device.ca));
    assert_eq!(issuer(&both, &new_device).as_ref(), Some(&new_device.ca));
    assert_ne!(old_device.ca, new_device.ca);
    assert!(both.trust.as_ref().unwrap().generation > before.trust.as_ref().unwrap().generation);
    assert_eq!(place.registrations().await.len(), 2);
    assert_ne!(both.registration, before.registration);

    // The same after a restart, without a write.
    let versions = place.versions().await;
    let again = place.start().look(2).await;
    assert_eq!(place.versions().await, versions);
    assert!(takes(&old_ca, &again, "localhost", day(2)));

    place.command("rotate").await;
    process.look(2).await;
    assert!(place.message().await.contains("not rotated"));
    assert_eq!(place.text("flotta-ca", "ca.crt").await.as_ref(), Some(&new_ca));

    let holders = Holders { count: 1, some: vec!["device-1".to_owned()] };
    process.devices = Some(DeviceKeys {
        by_ca: [(old_device.ca.clone(), holders)].into(),
        ..DeviceKeys::default()
    });
    place.command("retire").await;
    process.look(3).await;
    let message = place.message().await;
    assert!(message.contains("1 EdgeDevice depends") && message.contains("device-1"), "{message}");

    process.devices = Some(DeviceKeys::default());
    place.command("retire").await;
    let after = process.look(4).await;
    assert!(place.message().await.contains("retired"));
    assert_eq!(place.text("flotta-ca", "previous.crt").await, None);
    assert_eq!(issuer(&after, &old_device), None);
    assert_eq!(issuer(&after, &new_device).as_ref(), Some(&new_device.ca));
    for anchors in [&old_ca, &new_ca] {
        assert!(takes(anchors, &after, "localhost", day(4)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_knows_only_the_first_ca_takes_the_server_of_the_third() {
    let place = Place::new().await;
    let mut process = place.start();
    let begun = process.look(0).await;
    let first = issue(&begun, 0);
    let mut cas = vec![place.text("flotta-ca", "ca.crt").await.unwrap()];
    for days in [1, 3] {
        place.command("rotate").await;
        process.look(days).await;
        cas.push(place.text("flotta-ca", "ca.crt").await.unwrap());
        place.command("retire").await;
        process.look(days + 1).await;
        assert!(place.message().await.starts_with("retired: the CA"));
    }
    let now = process.now();
    for anchors in &cas {
        assert!(takes(anchors, &now, "localhost", day(5)));
    }
    assert_eq!(issuer(&now, &first), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_answered_and_changes_nothing() {
    let place = Place::new().await;
    let mut process = place.start();
    process.look(4).await;
    let ca = place.text("flotta-ca", "ca.crt").await;
    place.command("retire").await;
    process.look(5).await;
    assert!(place.message().await.contains("nothing to retire"));
    place.command("rotaet").await;
    process.look(5).await;
    assert!(place.message().await.contains("\"rotaet\" is not known"));
    assert_eq!(place.text("flotta-ca", "ca.crt").await, ca);
}

/// Somebody changes the Secret between the look and the write.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_somebody_has_just_put_there_is_not_written_over() {
    let place = Place::new().await;
    place.start().look(0).await;
    let theirs = place.secrets.get("flotta-host-certificate").await.unwrap();
    let (name, secrets) = ("flotta-host-certificate", place.secrets.clone());
    let client = super::kills::before_each_write(&place.client, move |count| {
        let (secrets, mark) =
            (secrets.clone(), json!({ "metadata": { "labels": { "touched": "1" } } }));
        async move {
            if count == 0 {
                let patch = Patch::Merge(&mark);
                secrets.patch(name, &PatchParams::default(), &patch).await.unwrap();
            }
            true
        }
    });
    let mut process = place.start_with(client, settings(&["edge.example"]));
    let certificates = process.look(1).await;
    let now = place.secrets.get(name).await.unwrap();
    assert_eq!(now.labels()["touched"], "1");
    assert_ne!(now.data, theirs.data, "it was tried again with what is there now");
    let ca = place.text("flotta-ca", "ca.crt").await.unwrap();
    assert!(takes(&ca, &certificates, "edge.example", day(1)));
}
