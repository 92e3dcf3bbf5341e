//! One CA takes the place of another by its annotation, while devices are at work: nobody is refused, cut off or forgotten.

use std::sync::Arc;

use anyhow::{Context, Result};
use flashjob_api::edge::EdgeDevice;
use flashjob_pki::{Certificate, CertifiedKey};
use flashjob_sim::edge::site::{EdgeSite, forged};
use flashjob_sim::edge::{
    Bundle, Credential, Device, DeviceOptions, EdgeOperator, Identity, Manner, Operation,
};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ObjectMeta, PostParams};
use serde_json::json;

use super::kit::{COMMAND, Devices, command, live};
use super::openssl::{Form, Pem, connect, flotta_ca, flotta_device};

const NAME: &str = "project-flotta.io";

/// As many of each manner are at work.
const EACH: usize = 3;

/// What a CA is called in annotations and answers.
fn id(ca: &Certificate) -> String {
    ca.key_fingerprint()[..16].to_owned()
}

/// The device's certificate, shown by somebody who trusts this CA alone.
fn trusting(device: &Device, ca: &Certificate) -> Result<Identity> {
    let own = device.credential().context("no certificate")?;
    Ok(Identity::Given(own.trusting(Arc::from([ca.clone()]))))
}

/// The same box after a new start: it has its certificate and key, and ours the CAs it was told of. The original's has the
/// CA it was delivered with.
async fn restarted(site: &EdgeSite, device: &Device) -> Result<Device> {
    let own = device.credential().context("no certificate")?;
    let shown = own.shown().context("no certificate")?.clone();
    let registration = Pem::of(device.options().bundle.key());
    let cas: String = own.trusted().iter().map(Certificate::pem).collect();
    let bundle = Bundle::from_pem(&cas, &registration.certificate, &registration.key)?;
    let options = site.options(device.id(), device.options().manner).await?;
    Device::new(DeviceOptions { bundle, own: Some(shown), ..options })
}

/// Gives every one of them a certificate of the CA there is now. Ours renews; the original's gets one when it is started
/// anew.
async fn renew(devices: &mut Devices, new: &Certificate) -> Result<()> {
    for device in devices.ours.devices() {
        assert_eq!(device.renew().await?.code(), 200, "{:?}", device.ledger());
        let trusted = device.credential().context("a certificate")?.trusted().len();
        assert_eq!(trusted, 2, "ca_bundle has both");
    }
    devices.flotta.stop().await;
    let mut lives = Vec::new();
    for device in devices.flotta.devices() {
        let codes = [device.enrol().await?.code(), device.register().await?.code()];
        assert_eq!(codes, [208, 200], "{:?}", device.ledger());
        lives.push(live(device));
    }
    devices.lives = lives;
    for device in devices.all() {
        let own = device.credential().context("a certificate")?;
        let signed = own.shown().context("a certificate")?.chain().verify(
            std::slice::from_ref(new),
            flashjob_pki::KeyPurpose::ClientAuth,
            flashjob_sim::clock::now(),
        );
        assert!(signed.is_ok(), "{} has a certificate of the new CA", device.id());
    }
    devices.poll_on(2).await
}

/// Waits until the server shows so many certificates to one who trusts this CA alone.
async fn shows(operator: &EdgeOperator, count: usize, ca: &Certificate, as_: &Pem) -> Result<()> {
    let what = format!("the server to show {count} certificates");
    eventually(&what, PATIENCE, async || {
        let chain = connect(operator.address, NAME, &ca.pem(), as_);
        Ok(chain.ok().filter(|chain| chain.iter().count() == count).map(drop))
    })
    .await
}

/// Nobody depends on the old CA any more.
async fn retire(site: &EdgeSite) -> Result<()> {
    let answer = command(site, "retire").await?;
    assert!(answer.starts_with("retired: the CA"), "{answer}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_served_all_the_way_from_one_ca_to_the_next() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let mut devices = Devices::start(&site, EACH).await?;
    let sleeper = site.registered("sleeper", Manner::Ours).await?;
    let old = site.ca().await?;
    let old_bundle = site.bundle().await?;

    let watched = devices.watch(&site);
    assert!(command(&site, "rotaet").await?.contains("\"rotaet\" is not known"));
    assert!(command(&site, "retire").await?.contains("nothing to retire"));
    let answer = command(&site, "rotate").await?;
    assert!(answer.contains("rotated on") && answer.contains(&id(old.leaf())), "{answer}");
    assert!(!site.secrets().get("flotta-ca").await?.annotations().contains_key(COMMAND));
    let new = site.ca().await?;
    assert_ne!(new.leaf().key_fingerprint(), old.leaf().key_fingerprint());
    let registration = Pem::of(old_bundle.key());
    shows(&operator, 2, old.leaf(), &registration).await?;
    devices.poll_on(5).await?;
    assert_eq!(watched.failures(&devices), Default::default());
    assert_eq!(watched.opened(&site), 0, "all are on the connections they had");

    let again = command(&site, "rotate").await?;
    assert!(again.contains("not rotated") && again.contains("retire it first"), "{again}");
    assert_eq!(site.ca().await?.leaf(), new.leaf());
    both_are_trusted(&site, &operator, &old, &new).await?;

    let refused = command(&site, "retire").await?;
    let all = format!("not retired: {} EdgeDevices", 2 * EACH + 1);
    assert!(refused.contains(&all) && refused.contains("flotta-0"), "{refused}");
    renew(&mut devices, new.leaf()).await?;
    let one = format!("not retired: 1 EdgeDevice depends on the CA {}: sleeper.", id(old.leaf()));
    let refused = command(&site, "retire").await?;
    assert!(refused.contains(&one), "{refused}");
    came_back(&site, &sleeper, &old).await?;

    let late = with_old_certificate(&site, &devices, &old, &new).await?;
    assert_eq!(late.heartbeat().await?.code(), 200, "{:?}", late.ledger());
    let (watched, opened) = (devices.watch(&site), site.dialled());
    retire(&site).await?;
    let foreign = async || Ok((late.heartbeat().await?.code() == 401).then_some(()));
    eventually("the old CA to be foreign", PATIENCE, foreign).await?;
    assert_eq!(site.dialled(), opened, "on the connection that was open");
    for operation in [Operation::Register, Operation::Enrol, Operation::FetchConfiguration] {
        let late = with_old_certificate(&site, &devices, &old, &new).await?;
        let answer = super::kit::ask(&late, Identity::Own, operation).await?;
        assert_eq!(answer.code(), 401, "{operation} on a new connection");
    }
    devices.poll_on(3).await?;
    assert_eq!(watched.failures(&devices), Default::default());
    for device in devices.all() {
        let device = restarted(&site, device).await?;
        let codes = [device.heartbeat().await?.code(), device.fetch_configuration().await?.code()];
        assert_eq!(codes, [200; 2], "{} after the end of the old CA", device.id());
    }
    Ok(())
}

/// Who trusts only one of the CAs takes the server all the same, be it openssl or rustls, and both generations of
/// certificates are served.
async fn both_are_trusted(
    site: &EdgeSite,
    operator: &EdgeOperator,
    old: &CertifiedKey,
    new: &CertifiedKey,
) -> Result<()> {
    // Delivered before the rotation, and come in after it.
    let registration = Pem::of(site.bundle().await?.key());
    let late = site.registered("late", Manner::Ours).await?;
    let shown = late.credential().context("a certificate")?;
    assert_eq!(shown.issuer(), Some(new.leaf().key_fingerprint()));
    for ca in [old.leaf(), new.leaf()] {
        let chain = connect(operator.address, NAME, &ca.pem(), &registration)?;
        assert_eq!(chain.iter().count(), 2, "the server's own and the cross certificate");
        let told = late.with(trusting(&late, ca)?).heartbeat().await?;
        assert_eq!(told.code(), 200, "by rustls");
    }
    let stranger = flotta_ca(Form::Sec1)?;
    assert!(connect(operator.address, NAME, &stranger.certificate, &registration).is_err());
    assert_eq!(late.renew().await?.code(), 200);
    super::kit::delete(site, "late").await
}

/// A device that has slept through the rotation, so long that its certificate has ended, gets in by itself.
async fn came_back(site: &EdgeSite, sleeper: &Device, old: &CertifiedKey) -> Result<()> {
    let own = sleeper.credential().context("a certificate")?;
    let key = own.shown().context("a key")?.key();
    let expired = forged(old, sleeper.id(), &site.namespace, key, -1)?;
    let options = DeviceOptions {
        own: Some(Arc::new(expired)),
        poll: std::time::Duration::from_millis(100),
        ..sleeper.options().clone()
    };
    let awake = Device::new(options)?;
    assert_eq!(awake.heartbeat().await?.code(), 401);
    let _life = live(&awake);
    let served = |l: &flashjob_sim::edge::DeviceLedger| {
        l.answered(Operation::Renew, 200) == 1 && l.answered(Operation::FetchCommands, 200) > 2
    };
    awake.until("the sleeper to be served", PATIENCE, served).await
}

/// Somebody who shows a certificate of the old CA, for a key that is in use.
async fn with_old_certificate(
    site: &EdgeSite,
    devices: &Devices,
    old: &CertifiedKey,
    new: &CertifiedKey,
) -> Result<Device> {
    let device = devices.ours.devices().first().context("a device")?;
    let own = device.credential().context("a certificate")?;
    let key = own.shown().context("a key")?.key();
    let shown = forged(old, device.id(), &site.namespace, key, 30)?;
    let options = site.options(device.id(), Manner::Ours).await?;
    let registration = Pem::of(options.bundle.key());
    let cas = old.leaf().pem() + &new.leaf().pem();
    let bundle = Bundle::from_pem(&cas, &registration.certificate, &registration.key)?;
    Device::new(DeviceOptions { bundle, own: Some(Arc::new(shown)), ..options })
}

#[tokio::test(flavor = "multi_thread")]
async fn flottas_own_ca_and_devices_are_taken_over_and_the_ca_rotated() -> Result<()> {
    taken_over(Form::Sec1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_of_an_administrator_with_rsa_is_taken_over_and_rotated() -> Result<()> {
    taken_over(Form::Pkcs1).await
}

async fn taken_over(form: Form) -> Result<()> {
    let site = EdgeSite::new().await?;
    let ca = flotta_ca(form)?;
    put_ca(&site, &ca).await?;
    let old = ca.read()?;
    let mut boxes = Vec::new();
    for device in ["one", "two"] {
        put_device(&site, device).await?;
        let shown = flotta_device(&ca, form, device, &site.namespace, 20)?;
        boxes.push((device, shown));
    }
    let operator = site.operator().await?;
    let (mut devices, mut lives) = (Vec::new(), Vec::new());
    for (device, shown) in &boxes {
        let options = site.options(*device, Manner::Flotta).await?;
        let own = Some(Arc::new(shown.read()?));
        let poll = std::time::Duration::from_millis(100);
        let deadline = std::time::Duration::from_secs(20);
        let device = Device::new(DeviceOptions { own, poll, deadline, ..options })?;
        assert_eq!(site.keys(device.id()).await?, json!(null));
        assert_eq!(device.fetch_configuration().await?.code(), 200, "{:?}", device.ledger());
        let (keys, key) = (site.keys(device.id()).await?, shown.read()?.leaf().key_fingerprint());
        assert_eq!(keys["current"]["key"], json!(key));
        assert_eq!(keys["current"]["ca"], json!(id(old.leaf())));
        let finalizers = site.devices().get(device.id()).await?.finalizers().to_vec();
        assert_eq!(finalizers, ["management.project-flotta.io/edgedevice-finalizer"]);
        lives.push(live(&device));
        devices.push(device);
    }
    assert_eq!(devices[0].renew().await?.code(), 200, "it can renew");
    assert_eq!(devices[0].heartbeat().await?.code(), 200);

    assert!(command(&site, "rotate").await?.contains("rotated on"));
    let new = site.ca().await?;
    let registration = Pem::of(site.bundle().await?.key());
    shows(&operator, 2, old.leaf(), &registration).await?;
    for device in &devices {
        for ca in [old.leaf(), new.leaf()] {
            let told = device.with(trusting(device, ca)?).heartbeat().await?;
            assert_eq!(told.code(), 200, "{} trusts one of them", device.id());
        }
    }
    assert!(command(&site, "retire").await?.contains("not retired: 2 EdgeDevices"));
    for device in &devices {
        assert_eq!(device.renew().await?.code(), 200, "{:?}", device.ledger());
        assert_eq!(device.heartbeat().await?.code(), 200);
    }
    retire(&site).await?;
    let late = |device: &Device| {
        let shown = boxes.iter().find(|(id, _)| *id == device.id()).context("a box")?.1.read()?;
        let trusted: Arc<[Certificate]> = Arc::from([old.leaf().clone(), new.leaf().clone()]);
        let clock = device.options().clock.clone();
        anyhow::Ok(Identity::Given(Credential::new(Arc::new(shown), trusted, clock)))
    };
    for device in &devices {
        let foreign = async || {
            let told = device.with(late(device)?).heartbeat().await?;
            Ok((told.code() == 401 && told.reason().is_some_and(|r| r.contains("CA")))
                .then_some(()))
        };
        eventually("Flotta's certificates to be foreign", PATIENCE, foreign).await?;
        let device = restarted(&site, device).await?;
        assert_eq!(device.heartbeat().await?.code(), 200, "{:?}", device.ledger());
    }
    Ok(())
}

/// Secret flotta-ca as Flotta or an administrator has left it.
async fn put_ca(site: &EdgeSite, ca: &Pem) -> Result<()> {
    let part = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = [("ca.crt", part(&ca.certificate)), ("ca.key", part(&ca.key))];
    let metadata = ObjectMeta { name: Some("flotta-ca".to_owned()), ..ObjectMeta::default() };
    let data = Some(data.map(|(key, value)| (key.to_owned(), value)).into());
    let secret = Secret { metadata, data, ..Secret::default() };
    site.secrets().create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// An EdgeDevice as Flotta has left it.
async fn put_device(site: &EdgeSite, name: &str) -> Result<()> {
    let device: EdgeDevice = serde_json::from_value(json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDevice",
        "metadata": {
            "name": name,
            "finalizers": ["yggdrasil-connection-finalizer", "yggdrasil-workload-finalizer"],
        },
        "spec": {},
    }))?;
    site.devices().create(&PostParams::default(), &device).await?;
    Ok(())
}
