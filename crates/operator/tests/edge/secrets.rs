//! The Secrets with certificates are deleted, spoilt and outdated while devices are at work, and the settings of the original
//! that certificates depend on.

use anyhow::{Context, Result};
use flashjob_pki::{KeyPurpose, PrivateKey, Profile};
use flashjob_sim::clock;
use flashjob_sim::edge::site::{EdgeSite, text};
use flashjob_sim::edge::{Device, DeviceOptions, Manner};
use flashjob_sim::{PATIENCE, eventually};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::kit::{Devices, approve};
use super::openssl::{Pem, connect, shown};

const SERVER: &str = "flotta-host-certificate";
const NAME: &str = "project-flotta.io";
const RUBBISH: &str = "nobody-may-read-this";
const DAY: SignedDuration = SignedDuration::from_hours(24);

async fn registrations(site: &EdgeSite) -> Result<Vec<String>> {
    let label = ListParams::default().labels("reg-client-ca=true");
    Ok(site.secrets().list(&label).await?.iter().map(ResourceExt::name_any).collect())
}

async fn set(site: &EdgeSite, secret: &str, key: &str, text: &str) -> Result<()> {
    let data = json!({ "data": { (key): ByteString(text.as_bytes().to_vec()) } });
    site.secrets().patch(secret, &PatchParams::default(), &Patch::Merge(data)).await?;
    Ok(())
}

/// Deletes a Secret, and waits until it is there again as it was.
async fn delete(site: &EdgeSite, name: &str) -> Result<()> {
    let before = site.secrets().get(name).await?;
    site.secrets().delete(name, &DeleteParams::default()).await?;
    eventually(&format!("Secret {name} to be put back"), PATIENCE, async || {
        Ok(site.secrets().get_opt(name).await?.filter(|after| after.data == before.data))
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_or_spoilt_is_named_and_nobody_is_refused() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let devices = Devices::start(&site, 2).await?;
    let watched = devices.watch(&site);
    let registration = registrations(&site).await?.pop().context("a registration Secret")?;
    let secrets =
        [("flotta-ca", "ca.key"), (SERVER, "server.crt"), (registration.as_str(), "client.key")];

    for name in ["flotta-ca", SERVER, &registration] {
        delete(&site, name).await?;
        let said = format!("Secret {name} was deleted; it is put back as it was");
        operator.operator.says(&said).await?;
        devices.poll_on(2).await?;
    }
    for (name, key) in secrets {
        let good = site.secrets().get(name).await?;
        set(&site, name, key, RUBBISH).await?;
        operator.operator.says(&format!("Secret {name} cannot be used: ")).await?;
        devices.poll_on(2).await?;
        let new = site.registered(&format!("new-{key}"), Manner::Ours).await;
        // Its bundle may have been read from what is spoilt.
        assert!(name != SERVER || new.is_ok(), "{new:?}");
        if name == "flotta-ca" {
            let device = devices.ours.devices().first().context("a device")?;
            assert_eq!(device.renew().await?.code(), 200, "what was read before still signs");
            set(&site, name, key, &text(&good, key).context("a part")?).await?;
        } else {
            site.secrets().delete(name, &DeleteParams::default()).await?;
        }
        let usable = async || Ok(site.bundle().await.ok());
        eventually("a bundle for new devices", PATIENCE, usable).await?;
    }
    let server = eventually("the server's Secret to be put back", PATIENCE, async || {
        Ok(site.secrets().get_opt(SERVER).await?)
    });
    let chain = shown(operator.address, &Pem::of(site.bundle().await?.key()))?;
    assert_eq!(Some(chain.leaf().pem()), leaf(&server.await?));
    assert_ne!(registrations(&site).await?, [registration], "there is another one");
    site.registered("last", Manner::Ours).await?;
    devices.poll_on(2).await?;
    assert_eq!(watched.failures(&devices), Default::default());
    let log = operator.log();
    assert!(!log.contains(RUBBISH) && !log.contains("PRIVATE KEY"), "{log}");
    Ok(())
}

fn leaf(secret: &Secret) -> Option<String> {
    text(secret, "server.crt")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_certificate_is_renewed_and_no_connection_is_dropped() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let devices = Devices::start(&site, 2).await?;
    let watched = devices.watch(&site);
    let (ca, now) = (site.ca().await?, clock::now());
    let names = ["project-flotta.io", "localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let old = Profile {
        organization: Some("flotta-operator".to_owned()),
        names: names.to_vec(),
        purposes: vec![KeyPurpose::ClientAuth, KeyPurpose::ServerAuth],
        ..Profile::leaf("*", now - DAY * 250, now + DAY * 115)
    };
    let key = PrivateKey::generate()?;
    let old = ca.sign(&key.public(), &old)?.pem();
    let part = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = json!({ "data": { "server.crt": part(&old), "server.key": part(&key.pem()) } });
    site.secrets().patch(SERVER, &PatchParams::default(), &Patch::Merge(data)).await?;

    let registration = Pem::of(site.bundle().await?.key());
    let young = eventually("another certificate", PATIENCE, async || {
        let chain = connect(operator.address, NAME, &ca.leaf().pem(), &registration)?;
        let in_secret = leaf(&site.secrets().get(SERVER).await?);
        let new = chain.leaf().not_after() > now + DAY * 300
            && in_secret.as_ref().is_some_and(|pem| *pem != old);
        Ok((new && in_secret == Some(chain.leaf().pem())).then(|| chain.leaf().clone()))
    });
    assert_eq!(young.await?.names(), names);
    devices.poll_on(5).await?;
    assert_eq!(watched.failures(&devices), Default::default());
    assert_eq!(watched.opened(&site), 0, "all are on the connections they had");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_gets_the_names_that_it_is_started_with() -> Result<()> {
    let mut site = EdgeSite::new().await?;
    let local = ["localhost", "127.0.0.1", "::1"];
    for (env, flags, wanted, not) in [
        (&[][..], &[][..], [&["project-flotta.io"][..], &local].concat(), "edge.example"),
        (
            &[("DOMAIN", "Edge.Example"), ("TLS_LOCALHOST_ENABLED", "false")],
            &["--edge-server-names=alias.example,10.0.0.7"],
            vec!["edge.example", "alias.example", "10.0.0.7"],
            "localhost",
        ),
        (
            &[("DOMAIN", "edge.example"), ("TLS_LOCALHOST_ENABLED", "f")],
            &["--edge-domain=flag.example", "--edge-localhost=true"],
            [&["flag.example"][..], &local].concat(),
            "edge.example",
        ),
    ] {
        site.operators.env = env.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let mut operator = site.operator_with(flags, None).await?;
        let (ca, bundle) = (site.ca().await?.leaf().pem(), site.bundle().await?);
        let registration = Pem::of(bundle.key());
        let renewed = eventually("the names", PATIENCE, async || {
            let chain = shown(operator.address, &registration)?;
            Ok(Some(chain.leaf().clone()).filter(|leaf| sorted(&leaf.names()) == sorted(&wanted)))
        });
        renewed.await.with_context(|| format!("{wanted:?}"))?;
        for name in &wanted {
            connect(operator.address, name, &ca, &registration)
                .with_context(|| (*name).to_owned())?;
        }
        assert!(connect(operator.address, not, &ca, &registration).is_err(), "{not}");
        operator.operator.stop().await?;
    }
    Ok(())
}

fn sorted(names: &[impl AsRef<str>]) -> Vec<String> {
    let mut names: Vec<_> = names.iter().map(|name| name.as_ref().to_owned()).collect();
    names.sort();
    names
}

/// A device with a certificate, and for how many days that is good.
async fn days(site: &EdgeSite, id: &str) -> Result<i64> {
    let device = site.registered(id, Manner::Ours).await?;
    let received = device.ledger().certificates.pop().context("a certificate")?;
    let now: Timestamp = clock::now() + SignedDuration::from_mins(1);
    Ok(received.not_after.duration_since(now).as_hours() / 24 + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_of_the_original_works_and_flags_win() -> Result<()> {
    let mut site = EdgeSite::new().await?;
    // An empty RUST_LOG is none, and sim sets one.
    for (name, value) in [
        ("DOMAIN", "edge.example"),
        ("TLS_LOCALHOST_ENABLED", "true"),
        ("CLIENT_CERT_EXPIRATION_DAYS", "7"),
        ("AUTO_APPROVAL_PROCESS", "false"),
        ("OBC_AUTO_CREATE", "false"),
        ("LOG_LEVEL", "debug"),
        ("RUST_LOG", ""),
    ] {
        site.operators = site.operators.clone().with_env(name, value);
    }
    let mut operator = site.operator().await?;
    let options = async |id: &str| {
        let server_name = "edge.example".to_owned();
        anyhow::Ok(DeviceOptions { server_name, ..site.options(id, Manner::Ours).await? })
    };
    let device = Device::new(options("waits").await?)?;
    assert_eq!(device.enrol().await?.code(), 200, "somebody has to approve it");
    approve(&site, "waits").await?;
    assert_eq!(device.register().await?.code(), 200);
    let received = device.ledger().certificates.pop().context("a certificate")?;
    let life = received.not_after.duration_since(received.not_before);
    assert_eq!(life.as_hours(), 8 * 24, "7 days, and one back");
    operator.operator.says(" DEBUG ").await?;
    operator.operator.stop().await?;

    let flags = [
        "--edge-domain=project-flotta.io",
        "--edge-client-days=3",
        "--edge-auto-approval=true",
        "--edge-auto-buckets=true",
        "--log=info",
    ];
    let mut operator = site.operator_with(&flags, None).await?;
    // It begins with the certificate that is there.
    let registration = Pem::of(site.bundle().await?.key());
    eventually("its own name", PATIENCE, async || {
        let names = shown(operator.address, &registration)?.leaf().names();
        Ok(names.iter().any(|name| name == NAME).then_some(()))
    })
    .await?;
    assert_eq!(days(&site, "by-flags").await?, 3);
    assert!(!operator.log().contains(" DEBUG "), "{}", operator.log());
    operator.operator.stop().await?;

    for (name, flag) in [
        ("CLIENT_CERT_EXPIRATION_DAYS", "--edge-client-days"),
        ("AUTO_APPROVAL_PROCESS", "--edge-auto-approval"),
        ("TLS_LOCALHOST_ENABLED", "--edge-localhost"),
        ("OBC_AUTO_CREATE", "--edge-auto-buckets"),
    ] {
        let launcher = site.operators.clone().with_env(name, "perhaps");
        let mut wrong = launcher.start(&[], None)?;
        let (code, _) = wrong.ended().await?;
        assert_eq!(code, 2, "{name}");
        assert!(wrong.log().contains("perhaps") && wrong.log().contains(flag), "{}", wrong.log());
    }
    Ok(())
}
