//! Every cell of the table: which certificate may do what, over h1 and h2, with ids in lower and upper case.
//!
//! A column is an operation: configuration, commands, connection status, heartbeat, enrolment, registration.

use std::sync::Arc;

use anyhow::{Context, Result};
use flashjob_pki::{CertifiedKey, PrivateKey, Profile};
use flashjob_sim::edge::site::{EdgeSite, forged};
use flashjob_sim::edge::{
    Call, Clock, Credential, Device, DeviceOptions, Identity, Manner, Operation, Protocol,
};

use super::kit::{COLUMNS, approve, ask, codes, delete};

const ENROL: usize = 4;

/// How a device is called, and over what it speaks.
const WAYS: [(&str, Protocol); 3] =
    [("h1", Protocol::H1), ("h2", Protocol::H2), ("UPPER", Protocol::H2)];

/// A site whose devices have one way.
struct Way<'a> {
    site: &'a EdgeSite,
    name: &'a str,
    protocol: Protocol,
}

impl Way<'_> {
    fn id(&self, id: &str) -> String {
        let id = format!("{}-{id}", self.name);
        if self.name == "UPPER" { id.to_uppercase() } else { id }
    }

    async fn device(&self, id: &str) -> Result<Device> {
        let options = self.site.options(self.id(id), Manner::Ours).await?;
        Device::new(DeviceOptions { protocol: self.protocol, ..options })
    }

    /// One that was let in.
    async fn approved(&self, id: &str) -> Result<Device> {
        let device = self.device(id).await?;
        ask(&device, Identity::Current, Operation::Enrol).await?;
        approve(self.site, device.id()).await?;
        Ok(device)
    }

    /// One that has a certificate and uses it.
    async fn registered(&self, id: &str) -> Result<Device> {
        let device = self.approved(id).await?;
        let columns = [Operation::Register, Operation::Heartbeat];
        let told = codes(&device, Identity::Current, &columns).await;
        assert_eq!(told, [200, 200], "{:?}", device.ledger());
        Ok(device)
    }

    /// Somebody who shows this.
    fn showing(&self, shown: CertifiedKey, device: &Device) -> Identity {
        let trusted = device.options().bundle.ca().clone();
        Identity::Given(Credential::new(Arc::new(shown), trusted, Clock::default()))
    }

    /// A certificate of this CA for the device's name, and a new key.
    async fn own(&self, id: &str, days: i64) -> Result<CertifiedKey> {
        self.site.forge(&self.id(id).to_lowercase(), &PrivateKey::generate()?, days).await
    }

    /// The device's own key, in a certificate that ended yesterday.
    async fn expired(&self, device: &Device) -> Result<Identity> {
        let own = device.credential().context("a certificate")?;
        let key = own.shown().context("a key")?.key();
        let id = device.id().to_lowercase();
        Ok(self.showing(self.site.forge(&id, key, -1).await?, device))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_person_approves() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator_with(&["--edge-auto-approval=false"], None).await?;
    for (name, protocol) in WAYS {
        let way = Way { site: &site, name, protocol };
        worthless(&way).await?;
        registration(&way).await?;
        own(&way).await?;
        unknown_and_deleted(&way).await?;
    }
    Ok(())
}

/// Those who may do nothing at all.
async fn worthless(way: &Way<'_>) -> Result<()> {
    let device = way.registered("a").await?;
    let all = |code| vec![code; COLUMNS.len()];
    let judge = async |what: &str, identity, wanted: u16| {
        assert_eq!(codes(&device, identity, &COLUMNS).await, all(wanted), "{what}, {}", way.name);
    };
    judge("no certificate: no handshake", Identity::Nobody, 0).await;

    let foreign = CertifiedKey::self_signed(
        PrivateKey::generate()?,
        &Profile::ca("flotta-ca", "2020-01-01T00:00:00Z".parse()?, "2040-01-01T00:00:00Z".parse()?),
    )?;
    let (id, key) = (device.id().to_lowercase(), PrivateKey::generate()?);
    let stranger = forged(&foreign, &id, &way.site.namespace, &key, 30)?;
    judge("foreign CA", way.showing(stranger, &device), 401).await;
    let stranger = forged(&foreign, "register", &way.site.namespace, &key, 30)?;
    judge("foreign CA, register", way.showing(stranger, &device), 401).await;

    let late = forged(&way.site.ca().await?, "register", &way.site.namespace, &key, -1)?;
    judge("registration certificate, expired", way.showing(late, &device), 401).await;

    let other = way.own("b", 30).await?;
    judge("another's", way.showing(other, &device), 403).await;
    let other = way.own("b", -1).await?;
    judge("another's, expired", way.showing(other, &device), 401).await;

    let renewed = codes(&device, Identity::Own, &[Operation::Renew, Operation::Heartbeat]).await;
    assert_eq!(renewed, [200, 200], "the new key comes into use");
    judge("replaced key", Identity::Older(0), 401).await;
    let replaced = codes(&device, Identity::Own, &COLUMNS[..ENROL]).await;
    assert_eq!(replaced, [200; ENROL], "and the new one is not concerned");
    Ok(())
}

async fn registration(way: &Way<'_>) -> Result<()> {
    let bundle = Identity::Registration;
    let device = way.device("c").await?;
    let first = codes(&device, bundle.clone(), &COLUMNS).await;
    assert_eq!(first, [403, 403, 403, 403, 200, 404], "not approved, {}", way.name);
    approve(way.site, device.id()).await?;
    let approved = codes(&device, bundle.clone(), &COLUMNS).await;
    assert_eq!(approved, [403, 403, 403, 403, 208, 200], "approved, {}", way.name);
    assert_eq!(codes(&device, Identity::Own, &[Operation::Heartbeat]).await, [200]);
    let in_use = codes(&device, bundle, &COLUMNS).await;
    assert_eq!(in_use, [403, 403, 403, 403, 208, 403], "in use, {}", way.name);
    let never = way.device("d").await?;
    let early = codes(&never, Identity::Registration, &[Operation::Register]).await;
    assert_eq!(early, [404], "it never asked, {}", way.name);
    Ok(())
}

async fn own(way: &Way<'_>) -> Result<()> {
    let device = way.registered("e").await?;
    let expired = way.expired(&device).await?;
    let late = codes(&device, expired, &COLUMNS).await;
    assert_eq!(late, [401, 401, 401, 401, 208, 200], "own, expired, {}", way.name);
    let beat = codes(&device, Identity::Own, &[Operation::Heartbeat]).await;
    assert_eq!(beat, [200], "what it was given then is good");
    let valid = codes(&device, Identity::Own, &COLUMNS).await;
    assert_eq!(valid, [200, 200, 200, 200, 208, 200], "own, {}", way.name);
    let again = device.fetch_configuration().await?.code();
    assert_eq!(again, 304, "it has that configuration, {}", way.name);
    Ok(())
}

async fn unknown_and_deleted(way: &Way<'_>) -> Result<()> {
    let device = way.device("f").await?;
    let own = way.showing(way.own("f", 30).await?, &device);
    let unknown = codes(&device, own.clone(), &COLUMNS).await;
    assert_eq!(unknown, [404, 404, 404, 404, 200, 404], "unknown, {}", way.name);
    approve(way.site, device.id()).await?;
    let approved = codes(&device, own, &COLUMNS[ENROL..]).await;
    assert_eq!(approved, [208, 200], "unknown, then approved, {}", way.name);

    let device = way.registered("g").await?;
    delete(way.site, device.id()).await?;
    let without_commands: Vec<_> =
        COLUMNS.into_iter().filter(|column| *column != Operation::FetchCommands).collect();
    let deleted = codes(&device, Identity::Own, &without_commands).await;
    assert_eq!(deleted, [404, 404, 404, 403, 404], "deleted, {}", way.name);
    let told = device.with(Identity::Own).fetch_commands().await?;
    assert_eq!((told.code(), device.ledger().disconnects()), (200, 1), "{}", way.name);
    // That it is gone may not be known yet.
    assert_eq!(ask(&device, Identity::Current, Operation::Enrol).await?.code(), 200);
    let bundle = codes(&device, Identity::Registration, &COLUMNS[ENROL..]).await;
    assert_eq!(bundle, [200, 404], "deleted and told so, {}", way.name);
    approve(way.site, device.id()).await?;
    let anew = codes(&device, Identity::Registration, &COLUMNS[ENROL..]).await;
    assert_eq!(anew, [208, 200], "deleted, told so and approved anew, {}", way.name);
    Ok(())
}

/// Where nobody has to approve, enrolment and registration let in who is unknown. All other cells are the same.
#[tokio::test(flavor = "multi_thread")]
async fn where_devices_come_in_by_themselves() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    for (name, protocol) in WAYS {
        let way = Way { site: &site, name, protocol };
        let device = way.device("a").await?;
        let first = codes(&device, Identity::Registration, &COLUMNS).await;
        assert_eq!(first, [403, 403, 403, 403, 208, 200], "enrolled, {name}");
        let device = way.device("b").await?;
        let first = codes(&device, Identity::Registration, &[Operation::Register]).await;
        assert_eq!(first, [200], "without enrolment, {name}");
        let device = way.device("c").await?;
        let own = way.showing(way.own("c", 30).await?, &device);
        let unknown = codes(&device, own, &COLUMNS).await;
        assert_eq!(unknown, [404, 404, 404, 404, 208, 200], "unknown, {name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_no_name_is_refused_whoever_comes_with_it() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let device = site.registered("a", Manner::Ours).await?;
    for id in ["register", "Register", "a_b", "-a", "a%20b", &"a".repeat(254)] {
        for identity in [Identity::Own, Identity::Registration] {
            let call = Call::get(format!("/data/{id}/in"));
            let told = device.with(identity).send(Operation::FetchConfiguration, call).await?;
            assert_eq!((told.code(), told.body.len()), (422, 0), "{id}");
        }
    }
    Ok(())
}
