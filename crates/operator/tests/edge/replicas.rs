//! Several processes and one lease: one of them serves, another takes over, and no device is told anything that is not true any
//! more.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::edge::wire::{Heartbeat, Message, directive};
use flashjob_sim::cluster::Gate;
use flashjob_sim::edge::client::BASE;
use flashjob_sim::edge::site::{EdgeSite, listens_at};
use flashjob_sim::edge::{Device, DeviceOptions, Manner, Outcome};
use flashjob_sim::{Operator, PATIENCE, eventually};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::kit::Devices;
use super::openssl::{Line, Pem};

const LABEL: &str = "management.project-flotta.io/serving";
const LEASE: &str = "b9eebab3.project-flotta.io";

/// A process and its Pod.
pub struct Replica {
    pub operator: Operator,
    pod: &'static str,
}

fn pods(site: &EdgeSite) -> Api<Pod> {
    Api::namespaced(site.client.clone(), &site.home)
}

/// A Pod of the Deployment. What runs in it is a process of this machine.
pub async fn make_pod(site: &EdgeSite, name: &str) -> Result<()> {
    let pod = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "edge", "image": "flashjob" }] },
    }))?;
    pods(site).create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// Starts a process, as one of several, by the environment of its Pod.
pub fn start(site: &EdgeSite, pod: &'static str) -> Result<Replica> {
    start_behind(site, pod, None)
}

/// The same, and its calls go through a gate.
pub fn start_behind(site: &EdgeSite, pod: &'static str, gate: Option<&Gate>) -> Result<Replica> {
    let launcher = site.operators.clone().with_env("HOSTNAME", pod).with_env("POD_NAME", pod);
    Ok(Replica { operator: launcher.start(&[], gate)?, pod })
}

/// The Pods that the Service selects.
async fn labelled(site: &EdgeSite) -> Result<Vec<String>> {
    let serving = ListParams::default().labels(&format!("{LABEL}=true"));
    Ok(pods(site).list(&serving).await?.iter().map(ResourceExt::name_any).collect())
}

/// Waits until these Pods are labelled and no others.
async fn are_labelled(site: &EdgeSite, wanted: &[&str]) -> Result<()> {
    let what = format!("the label on {wanted:?}");
    eventually(&what, PATIENCE, async || Ok((labelled(site).await? == wanted).then_some(()))).await
}

/// Waits until it serves devices and has the label, and sends devices there as the Service would.
pub async fn serves(site: &EdgeSite, replica: &Replica) -> Result<()> {
    replica.operator.says("serving devices address=").await?;
    let what = format!("the label on {}", replica.pod);
    let there =
        async || Ok(labelled(site).await?.iter().any(|pod| pod == replica.pod).then_some(()));
    eventually(&what, PATIENCE, there).await?;
    site.lead_to(listens_at(&replica.operator));
    Ok(())
}

/// Waits until it waits for the lease. Till then it has not listened.
pub async fn stands_by(replica: &Replica) -> Result<()> {
    replica.operator.says("standing by: another process holds the lease").await?;
    assert_eq!(listens_at(&replica.operator), None);
    Ok(())
}

/// Everything that went wrong for devices is that for a while nobody was there or ready.
fn nobody_was_misled(devices: &Devices) {
    for device in devices.all() {
        let ledger = device.ledger();
        let since_it_registered = ledger.told.iter().rev().take_while(|told| {
            told.reason.as_deref().is_none_or(|reason| !reason.contains("registration certificate"))
        });
        for told in since_it_registered {
            let fine = match told.outcome {
                Outcome::Status(code) => [200, 208, 304, 503].contains(&code),
                Outcome::NoAnswer => true,
            };
            assert!(fine, "{}: {told:?}", ledger.device);
        }
        assert_eq!((ledger.disconnects(), ledger.keys_in_use().len()), (0, 1), "{ledger:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_serves_and_the_other_takes_over_when_it_dies_or_is_told_to_stop() -> Result<()> {
    let site = EdgeSite::new().await?;
    for pod in ["a", "b"] {
        make_pod(&site, pod).await?;
    }
    let mut a = start(&site, "a")?;
    serves(&site, &a).await?;
    let mut b = start(&site, "b")?;
    stands_by(&b).await?;
    are_labelled(&site, &["a"]).await?;
    let devices = Devices::start(&site, 2).await?;

    a.operator.kill();
    site.lead_to(None);
    serves(&site, &b).await?;
    devices.poll_on(2).await?;
    assert_eq!(labelled(&site).await?, ["a", "b"], "nobody takes it off a Pod that is gone");
    let a = start(&site, "a")?;
    stands_by(&a).await?;
    are_labelled(&site, &["b"]).await?;

    let finished = half_a_heartbeat(&devices, &b)?;
    b.operator.terminate()?;
    b.operator.says("asked to stop").await?;
    let address = listens_at(&b.operator).context("no address")?;
    let closed = async || Ok(TcpStream::connect(address).is_err().then_some(()));
    eventually("the end of the listener", PATIENCE, closed).await?;
    assert!(finished()?.starts_with("HTTP/1.1 200"));
    let (code, _) = b.operator.ended().await?;
    assert!(code == 0 && b.operator.log().contains("gave the lease back"), "{}", b.operator.log());
    serves(&site, &a).await?;
    are_labelled(&site, &["a"]).await?;
    devices.poll_on(2).await?;
    nobody_was_misled(&devices);
    Ok(())
}

/// Sends the head and half of the body. What comes back finishes it, and says the first line of the answer.
fn half_a_heartbeat(devices: &Devices, to: &Replica) -> Result<impl FnOnce() -> Result<String>> {
    let device = devices.ours.devices().first().context("a device")?;
    let own = device.credential().context("a certificate")?;
    let address = listens_at(&to.operator).context("no address")?;
    let mut line = Line::open(address, &Pem::of(own.shown().context("a certificate")?))?;
    let message = Message {
        directive: directive::HEARTBEAT.to_owned(),
        message_id: "1".to_owned(),
        content: json!(Heartbeat { status: "up".to_owned(), ..Heartbeat::default() }),
        ..Message::default()
    };
    let body = serde_json::to_string(&message)?;
    let (half, rest) = body.split_at(body.len() / 2);
    let (half, rest) = (half.to_owned(), rest.to_owned());
    line.write(&format!(
        "POST {BASE}/data/{}/out HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        device.id(),
        body.len()
    ))?;
    // It says so when it reads the body.
    let go_on = line.read()?;
    anyhow::ensure!(go_on.starts_with("HTTP/1.1 100"), "{go_on}");
    line.read()?;
    line.write(&half)?;
    Ok(move || {
        line.write(&rest)?;
        line.read()
    })
}

/// While it stands still another one takes over, and keys are replaced. When it goes on, requests wait in its sockets.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_slept_through_the_end_of_its_lease_answers_nobody() -> Result<()> {
    let site = EdgeSite::new().await?;
    for pod in ["a", "b"] {
        make_pod(&site, pod).await?;
    }
    let mut a = start(&site, "a")?;
    serves(&site, &a).await?;
    let (mut devices, mut late) = (Vec::new(), Vec::new());
    for i in 0..4 {
        // Their connections lead to the process that will stand still, and are given up soon.
        let options = site.options(format!("device-{i}"), Manner::Ours).await?;
        let device = Device::new(DeviceOptions { deadline: Duration::from_secs(3), ..options })?;
        let codes = [device.enrol().await?.code(), device.register().await?.code()];
        assert_eq!(codes, [208, 200], "{:?}", device.ledger());
        // The same box on a connection of its own, straight to the process.
        let server = listens_at(&a.operator).context("no address")?;
        let own = device.credential().and_then(|own| own.shown().cloned());
        let deadline = PATIENCE;
        let options = DeviceOptions { server, own, deadline, ..device.options().clone() };
        let same = Device::new(options)?;
        assert_eq!(same.heartbeat().await?.code(), 200);
        devices.push(device);
        late.push(same);
    }
    let b = start(&site, "b")?;
    stands_by(&b).await?;

    a.operator.pause()?;
    serves(&site, &b).await?;
    for device in &devices {
        let renewed = async || Ok(device.renew().await.ok().filter(|told| told.code() == 200));
        eventually("a new certificate", PATIENCE, renewed).await?;
        assert_eq!(device.heartbeat().await?.code(), 200, "it replaces the old one");
    }
    let late = Arc::new(late);
    let asked: Vec<_> = (0..late.len())
        .map(|i| {
            let late = late.clone();
            tokio::spawn(async move { late[i].fetch_configuration().await })
        })
        .collect();
    let port = listens_at(&a.operator).context("no address")?.port();
    let sent = async || Ok((unread(port)? >= late.len()).then_some(()));
    eventually("the requests to lie there", PATIENCE, sent).await?;
    a.operator.resume()?;
    for asked in asked {
        let answer = asked.await?;
        let told = answer.as_ref().map(|answer| answer.code());
        assert!(told.is_err() || matches!(told, Ok(503)), "with a key that was replaced: {told:?}");
    }
    let (code, _) = a.operator.ended().await?;
    assert!(code != 0 && a.operator.log().contains("the lease is lost"), "{}", a.operator.log());
    let a = start(&site, "a")?;
    stands_by(&a).await?;
    are_labelled(&site, &["b"]).await?;
    for device in &devices {
        assert_eq!(device.heartbeat().await?.code(), 200);
        assert_eq!(device.ledger().disconnects(), 0);
    }
    Ok(())
}

/// How many connections to a port of this machine have something that was not read yet.
pub fn unread(port: u16) -> Result<usize> {
    let all = std::fs::read_to_string("/proc/net/tcp")?;
    let unread = all.lines().filter(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let local = fields.get(1).is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
        let queue = fields.get(4).and_then(|queues| queues.split(':').nth(1));
        local && fields.get(3) == Some(&"01") && queue.is_some_and(|queue| queue != "00000000")
    });
    Ok(unread.count())
}

/// The original holds its lease, and no process of ours serves devices beside it.
#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_the_original_keeps_ours_from_serving() -> Result<()> {
    let site = EdgeSite::new().await?;
    make_pod(&site, "c").await?;
    let on = json!({ "metadata": { "labels": { (LABEL): "true" } } });
    pods(&site).patch("c", &PatchParams::default(), &Patch::Merge(on)).await?;
    let leases: Api<Lease> = Api::namespaced(site.client.clone(), &site.home);
    let duration = Duration::from_secs(8);
    let spec = |holder: &str| LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(8),
        renew_time: Some(MicroTime(flashjob_sim::clock::now())),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
    let held = Lease { metadata, spec: Some(spec("flotta-operator_original")) };
    leases.create(&PostParams::default(), &held).await?;

    let ours = start(&site, "c")?;
    stands_by(&ours).await?;
    are_labelled(&site, &[]).await?;
    let began = tokio::time::Instant::now();
    eventually("more than the lease's duration", PATIENCE, async || {
        let renewed = json!({ "spec": spec("flotta-operator_original") });
        leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(renewed)).await?;
        Ok((began.elapsed() > duration + duration / 4).then_some(()))
    })
    .await?;
    assert_eq!(listens_at(&ours.operator), None, "{}", ours.operator.log());
    assert!(site.secrets().get_opt("flotta-ca").await?.is_none(), "it has made nothing");

    let released = json!({ "spec": spec("") });
    leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(released)).await?;
    serves(&site, &ours).await?;
    site.registered("device", Manner::Flotta).await?;
    Ok(())
}
