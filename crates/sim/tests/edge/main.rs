//! Edge devices against a stand-in for the device API. The rules of the real one are the operator's to test.

mod api;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use flashjob_sim::edge::{
    Device, DeviceLedger, DeviceOptions, Fleet, FleetOptions, Identity, Manner, Operation, Outcome,
    Protocol, WireOptions,
};

use crate::api::Api;

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const DISCONNECT: &str =
    r#"{"type":"command","content":{"command":"disconnect","arguments":null}}"#;

fn options(api: &Api, manner: Manner) -> DeviceOptions {
    DeviceOptions {
        poll: Duration::from_millis(50),
        deadline: Duration::from_secs(20),
        ..DeviceOptions::new("edge1", api.address, api.bundle.clone(), manner)
    }
}

#[tokio::test]
async fn a_device_shows_what_it_is_told_to_show() -> Result<()> {
    for protocol in [Protocol::H1, Protocol::H2] {
        let api = Api::start().await?;
        let device = Device::new(DeviceOptions { protocol, ..options(&api, Manner::Ours) })?;
        assert_eq!(device.enrol().await?.code(), 208);
        assert_eq!(device.register().await?.code(), 200);
        assert_eq!(device.heartbeat().await?.code(), 200);
        device.with(Identity::Registration).heartbeat().await?;
        assert_eq!(device.renew().await?.code(), 200);
        device.with(Identity::Older(0)).heartbeat().await?;
        let who: Vec<String> = api.heard("heartbeat").into_iter().map(|h| h.who).collect();
        assert_eq!(who, ["edge1", "register", "edge1"]);
        assert!(device.with(Identity::Nobody).heartbeat().await.is_err());
        let ledger = device.ledger();
        assert!(ledger.registered());
        assert_eq!(ledger.keys_in_use().len(), 2);
        let ca = api.bundle.ca()[0].key_fingerprint();
        assert!(ledger.certificates.iter().all(|c| c.issuer.as_ref() == Some(&ca)));
        assert_eq!(ledger.count(Operation::Heartbeat, Outcome::NoAnswer), 1);
        assert_eq!(ledger.unreadable, Vec::<String>::new());
    }
    Ok(())
}

#[tokio::test]
async fn ours_keeps_its_key_until_it_has_a_certificate_and_the_originals_does_not() -> Result<()> {
    for (manner, keys) in [(Manner::Ours, 1), (Manner::Flotta, 3)] {
        let api = Api::start().await?;
        let device = Device::new(options(&api, manner))?;
        let lossy = WireOptions { lose_answers: 1000, ..WireOptions::default() };
        device.set_wire(lossy);
        for _ in 0..2 {
            assert!(device.register().await.is_err());
        }
        device.set_wire(WireOptions::default());
        device.register().await?;
        let key = |request: &serde_json::Value| {
            let pem = request["certificate_request"].as_str().unwrap_or_default();
            flashjob_pki::csr::read(pem.as_bytes()).unwrap().fingerprint()
        };
        let asked: BTreeSet<_> = api.heard("registration").iter().map(|h| key(&h.body)).collect();
        assert_eq!(asked.len(), keys, "{manner:?}");
        assert_eq!(device.ledger().keys_in_use().len(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn ours_fetches_what_is_new() -> Result<()> {
    let api = Api::start().await?;
    let (ours, original) =
        (Device::new(options(&api, Manner::Ours))?, Device::new(options(&api, Manner::Flotta))?);
    for (device, second) in [(ours, 304), (original, 200)] {
        assert_eq!(device.fetch_configuration().await?.code(), 200);
        assert_eq!(device.fetch_configuration().await?.code(), second);
        let ledger = device.ledger();
        assert_eq!(ledger.configurations.len(), 1);
        assert_eq!(ledger.configuration().unwrap().workloads, ["nginx"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_fleet_gets_in_over_a_bad_net_and_beats() -> Result<()> {
    for manner in [Manner::Flotta, Manner::Ours] {
        let api = Api::start().await?;
        let wire = WireOptions {
            lose_requests: 100,
            lose_answers: 100,
            cut: 50,
            repeat: 50,
            delay: Duration::from_millis(10),
            wait: Duration::from_millis(10),
        };
        let device = DeviceOptions { wire, ..options(&api, manner) };
        let options =
            FleetOptions { prefix: "edge".into(), stagger: Duration::from_millis(200), device };
        let mut fleet = Fleet::start(20, options)?;
        fleet.all_registered(LIMIT).await?;
        let alive = |ledger: &flashjob_sim::edge::DeviceLedger| {
            ledger.configuration().is_some() && ledger.answered(Operation::Heartbeat, 200) > 2
        };
        fleet.wait_until("all devices to beat", LIMIT, alive).await?;
        fleet.stop().await;
        assert!(fleet.ledgers().iter().all(|l| l.unreadable.is_empty() && l.stray_bodies == 0));
        let lost = fleet.counts().iter().filter(|((_, o), _)| *o == Outcome::NoAnswer).count();
        assert!(lost > 0, "{:?}", fleet.counts());
    }
    Ok(())
}

#[tokio::test]
async fn told_to_disconnect_a_device_stays_away_until_it_is_told_to_join() -> Result<()> {
    for manner in [Manner::Flotta, Manner::Ours] {
        let api = Api::start().await?;
        let device = Device::new(options(&api, manner))?;
        let (running, polls) = (device.clone(), |device: &Device| {
            device.read(|ledger| ledger.counts().values().sum::<u64>())
        });
        let life = tokio::spawn(async move { running.run(std::future::pending()).await });
        device.until("a certificate", LIMIT, |ledger| ledger.registered()).await?;
        api.answer("control in", 200, DISCONNECT);
        device.until("the end", LIMIT, |ledger| ledger.disconnects() == 1).await?;
        api.answer_as_usual("control in");
        assert_eq!(device.credential().is_some(), manner == Manner::Flotta, "{manner:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = polls(&device);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(polls(&device), before, "{manner:?}");
        let enrolled = api.heard("enrolment").len();
        device.rejoin();
        device.until("a certificate", LIMIT, |l| l.certificates.len() > 1).await?;
        assert!(api.heard("enrolment").len() > enrolled);
        life.abort();
    }
    Ok(())
}

#[tokio::test]
async fn ours_renews_when_its_certificate_is_not_taken_and_enrols_when_it_is_unknown() -> Result<()>
{
    let api = Api::start().await?;
    let device = Device::new(options(&api, Manner::Ours))?;
    let running = device.clone();
    let life = tokio::spawn(async move { running.run(std::future::pending()).await });
    device.until("a certificate", LIMIT, |ledger| ledger.registered()).await?;
    api.answer("data in", 401, "");
    device.until("a renewal", LIMIT, |l| l.answered(Operation::Renew, 200) > 0).await?;
    api.answer("data in", 404, "");
    let before = api.heard("enrolment").len();
    let knocks =
        |l: &flashjob_sim::edge::DeviceLedger| l.answered(Operation::Enrol, 208) as usize > before;
    device.until("another enrolment", LIMIT, knocks).await?;
    api.answer_as_usual("data in");
    let beats = |l: &flashjob_sim::edge::DeviceLedger| l.answered(Operation::Heartbeat, 200) > 1;
    device.until("heartbeats", LIMIT, beats).await?;
    life.abort();
    Ok(())
}

#[tokio::test]
async fn ours_waits_for_news_and_beats_meanwhile() -> Result<()> {
    for protocol in [Protocol::H1, Protocol::H2] {
        let api = Api::start().await?;
        api.hold(true);
        let device = Device::new(DeviceOptions { protocol, ..options(&api, Manner::Ours) })?;
        let running = device.clone();
        let life = tokio::spawn(async move { running.run(std::future::pending()).await });
        let asked = || ["data in", "control in"].map(|what| api.heard(what).len());
        let beats = |ledger: &DeviceLedger| ledger.answered(Operation::Heartbeat, 200);
        device.until("heartbeats", LIMIT, |ledger| beats(ledger) > 5).await?;
        assert_eq!(asked(), [2, 1], "{protocol:?}: one question is held");
        let answered = |ledger: &DeviceLedger| ledger.answered(Operation::FetchConfiguration, 304);
        api.hold(false);
        device.until("polls of one that holds nothing", LIMIT, |l| answered(l) > 2).await?;
        api.hold(true);
        let before = device.read(beats);
        device.until("heartbeats", LIMIT, |ledger| beats(ledger) > before + 5).await?;
        let [data, control] = asked();
        assert_eq!(control, data - 1, "{protocol:?}: commands after each answer");
        api.answer("data in", 404, "");
        api.answer("control in", 200, DISCONNECT);
        api.hold(false);
        device.until("the end", LIMIT, |ledger| ledger.disconnects() == 1).await?;
        assert_eq!(api.heard("enrolment").len(), 1, "{protocol:?}: before it knocks again");
        life.abort();
    }
    Ok(())
}
