//! What several of these tests do.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::edge::EdgeDeviceSignedRequest;
use flashjob_sim::edge::device::FIELD_POLL;
use flashjob_sim::edge::site::{EdgeSite, patiently};
use flashjob_sim::edge::{
    Answer, Device, DeviceLedger, DeviceOptions, Fleet, FleetOptions, Identity, Manner, Operation,
    Outcome,
};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Devices that live by themselves do so twenty times as fast as in the field. Any faster, and they would ask more often than they
/// may.
pub const POLL: Duration = FIELD_POLL.checked_div(20).unwrap();

/// How long they ask to be held, in the field: for a second here.
const WAIT: Duration = Duration::from_secs(20);

/// The annotations of Secret flotta-ca.
pub const COMMAND: &str = "management.project-flotta.io/ca";
pub const MESSAGE: &str = "management.project-flotta.io/ca-message";

/// Every operation of a device, in the order of the table in docs/edge-security.md.
pub const COLUMNS: [Operation; 6] = [
    Operation::FetchConfiguration,
    Operation::FetchCommands,
    Operation::SayConnectionStatus,
    Operation::Heartbeat,
    Operation::Enrol,
    Operation::Register,
];

/// Does one of these with that certificate, and once more if the machine was too busy for an answer in time.
pub async fn ask(device: &Device, identity: Identity, operation: Operation) -> Result<Answer> {
    patiently(async || ask_once(device, identity.clone(), operation).await).await
}

async fn ask_once(device: &Device, identity: Identity, operation: Operation) -> Result<Answer> {
    let device = device.with(identity);
    match operation {
        Operation::FetchConfiguration => device.fetch_configuration().await,
        Operation::FetchCommands => device.fetch_commands().await,
        Operation::SayConnectionStatus => device.say_connection_status().await,
        Operation::Heartbeat => device.heartbeat().await,
        Operation::Enrol => device.enrol().await,
        Operation::Register => device.register().await,
        Operation::Renew => device.renew().await,
    }
}

/// What each of them is answered; 0 if there is no answer. A refusal says why, and where any body would be taken for a message
/// it has none.
pub async fn codes(device: &Device, identity: Identity, columns: &[Operation]) -> Vec<u16> {
    let mut codes = Vec::new();
    for operation in columns {
        let Ok(answer) = ask(device, identity.clone(), *operation).await else {
            codes.push(0);
            continue;
        };
        let code = answer.code();
        if code >= 400 {
            assert!(answer.reason().is_some(), "{operation} of {}: {answer:?}", device.id());
            assert!(!operation.is_in() || answer.body.is_empty(), "{operation}: {answer:?}");
        }
        codes.push(code);
    }
    codes
}

/// Approves what a device has asked for, and waits until it says that the device may register.
pub async fn approve(site: &EdgeSite, device: &str) -> Result<()> {
    patch_request(site, device, json!({ "spec": { "approved": true } })).await?;
    phase(site, device, "approved").await
}

/// Waits until a request for approval says this.
pub async fn phase(site: &EdgeSite, device: &str, wanted: &str) -> Result<()> {
    let (requests, name) = (site.api::<EdgeDeviceSignedRequest>(), device.to_lowercase());
    let what = format!("the EdgeDeviceSignedRequest {name} to be {wanted}");
    eventually(&what, PATIENCE, async || {
        let phase = requests.get(&name).await?.status.and_then(|status| status.phase);
        Ok((phase.as_deref() == Some(wanted)).then_some(()))
    })
    .await
}

pub async fn patch_request(site: &EdgeSite, device: &str, change: Value) -> Result<()> {
    let requests: Api<EdgeDeviceSignedRequest> = site.api();
    let (params, patch) = (PatchParams::default(), Patch::Merge(change));
    requests.patch(&device.to_lowercase(), &params, &patch).await?;
    Ok(())
}

/// Deletes the EdgeDevice, and waits until it is gone.
pub async fn delete(site: &EdgeSite, device: &str) -> Result<()> {
    let (devices, name) = (site.devices(), device.to_lowercase());
    devices.delete(&name, &DeleteParams::default()).await?;
    gone(site, &name).await
}

/// Waits until the EdgeDevice is gone.
pub async fn gone(site: &EdgeSite, device: &str) -> Result<()> {
    let (devices, what) = (site.devices(), format!("the end of the EdgeDevice {device}"));
    eventually(&what, PATIENCE, async || Ok(devices.get_opt(device).await?.is_none().then_some(())))
        .await
}

/// Changes an EdgeDevice as a person with kubectl would.
pub async fn patch_device(site: &EdgeSite, device: &str, change: Value) -> Result<()> {
    site.devices().patch(device, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Devices that live by themselves, some with the agent of the original and some with ours. They poll often and wait long for
/// an answer: where nobody may be refused, a busy machine is no refusal.
pub struct Devices {
    pub flotta: Fleet,
    pub ours: Fleet,
    /// Of those that were stopped and started again.
    pub lives: Vec<JoinSet<()>>,
}

impl Devices {
    /// So many of each, registered and at work.
    pub async fn start(site: &EdgeSite, each: usize) -> Result<Self> {
        let (poll, deadline) = (POLL, Duration::from_secs(20));
        let fleet = async |prefix: &str, manner| {
            let options = site.options("", manner).await?;
            let device = DeviceOptions { poll, deadline, wait: WAIT, ..options };
            let options =
                FleetOptions { prefix: prefix.to_owned(), stagger: Duration::ZERO, device };
            Fleet::start(each, options)
        };
        let devices = Self {
            flotta: fleet("flotta", Manner::Flotta).await?,
            ours: fleet("ours", Manner::Ours).await?,
            lives: Vec::new(),
        };
        // The original's registers twice.
        let settled = |l: &DeviceLedger| l.answered(Operation::Register, 200) >= 2;
        devices.flotta.wait_until("both registrations", PATIENCE, settled).await?;
        devices.ours.all_registered(PATIENCE).await?;
        devices.poll_on(2).await?;
        Ok(devices)
    }

    pub fn fleets(&self) -> [&Fleet; 2] {
        [&self.flotta, &self.ours]
    }

    pub fn all(&self) -> impl Iterator<Item = &Device> {
        self.fleets().into_iter().flat_map(Fleet::devices)
    }

    /// Waits until each has fetched its configuration so many times more.
    pub async fn poll_on(&self, times: u64) -> Result<()> {
        let before: BTreeMap<String, u64> =
            self.all().map(|d| (d.id().to_owned(), d.read(polls))).collect();
        for fleet in self.fleets() {
            let more = |l: &DeviceLedger| polls(l) >= before[&l.device] + times;
            fleet.wait_until("more polls", PATIENCE, more).await?;
        }
        Ok(())
    }

    /// From here on everything that they are told is looked at.
    pub fn watch(&self, site: &EdgeSite) -> Watched {
        Watched { before: self.counts(), dialled: site.dialled() }
    }

    fn counts(&self) -> Counts {
        let mut all = self.flotta.counts();
        for (what, count) in self.ours.counts() {
            *all.entry(what).or_default() += count;
        }
        all
    }
}

fn polls(ledger: &DeviceLedger) -> u64 {
    [200, 304].map(|code| ledger.answered(Operation::FetchConfiguration, code)).iter().sum()
}

type Counts = BTreeMap<(Operation, Outcome), u64>;

/// What devices had been told when they were first looked at.
pub struct Watched {
    before: Counts,
    dialled: usize,
}

impl Watched {
    /// What went wrong since: refusals, and requests without an answer.
    pub fn failures(&self, devices: &Devices) -> Counts {
        let fine = [200, 208, 304].map(Outcome::Status);
        let mut failed = devices.counts();
        failed.retain(|what, count| {
            *count -= self.before.get(what).copied().unwrap_or_default();
            *count > 0 && !fine.contains(&what.1)
        });
        failed
    }

    /// How many connections were opened since.
    pub fn opened(&self, site: &EdgeSite) -> usize {
        site.dialled() - self.dialled
    }
}

/// Such a device.
pub async fn quick(site: &EdgeSite, id: &str, manner: Manner) -> Result<DeviceOptions> {
    Ok(DeviceOptions { poll: POLL, wait: WAIT, ..site.options(id, manner).await? })
}

/// One that is registered already.
pub async fn quick_and_registered(site: &EdgeSite, id: &str, manner: Manner) -> Result<Device> {
    let own = site.registered(id, manner).await?.credential().and_then(|own| own.shown().cloned());
    let device = Device::new(DeviceOptions { own, ..quick(site, id, manner).await? })?;
    assert_eq!(codes(&device, Identity::Own, &[Operation::Heartbeat]).await, [200]);
    Ok(device)
}

/// Lets a device live by itself until what this returns is dropped.
pub fn live(device: &Device) -> JoinSet<()> {
    let (device, mut life) = (device.clone(), JoinSet::new());
    life.spawn(async move { device.run(std::future::pending()).await });
    life
}

/// Waits until a device that lives by itself has beaten once more, and was answered that all is well.
pub async fn beats(device: &Device) -> Result<()> {
    let taken = |ledger: &DeviceLedger| ledger.answered(Operation::Heartbeat, 200);
    let before = device.read(taken);
    device.until("a heartbeat to be taken", PATIENCE, |ledger| taken(ledger) > before).await
}

/// The fingerprint of the key that a device has in use.
pub fn key(device: &Device) -> Result<String> {
    let own = device.credential().context("no certificate of its own")?;
    Ok(own.shown().context("no key")?.leaf().key_fingerprint())
}

/// Waits until the record says that the device's key is in use, and that it needs no registration certificate any more.
pub async fn in_use(site: &EdgeSite, device: &Device) -> Result<()> {
    let what = format!("the key of {} to be the one in use", device.id());
    eventually(&what, PATIENCE, async || {
        let there = site.devices().get(device.id()).await?;
        let current = site.keys(device.id()).await?["current"]["key"].clone();
        let unclaimed = there.labels().contains_key("edgedeviceSignedRequest");
        Ok((current == json!(key(device)?) && !unclaimed).then_some(()))
    })
    .await
}

/// The names of all EdgeDevices of the site.
pub async fn names(site: &EdgeSite) -> Result<Vec<String>> {
    let all = site.devices().list(&ListParams::default()).await?;
    Ok(all.iter().map(ResourceExt::name_any).collect())
}

/// What is written down of devices that were deleted.
pub async fn tombstones(site: &EdgeSite) -> Result<Vec<Value>> {
    let maps: Api<ConfigMap> = Api::namespaced(site.client.clone(), &site.home);
    let label = ListParams::default().labels("management.project-flotta.io/tombstones=true");
    let maps = maps.list(&label).await?.items;
    let texts = maps.into_iter().flat_map(|map| map.data.unwrap_or_default().into_values());
    texts.map(|text| Ok(serde_json::from_str(&text)?)).collect()
}

/// Asks something of the CA by its annotation, and waits for the answer.
pub async fn command(site: &EdgeSite, command: &str) -> Result<String> {
    let annotations = json!({ COMMAND: command, MESSAGE: null });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    site.secrets().patch("flotta-ca", &PatchParams::default(), &patch).await?;
    let what = format!("an answer to {command}");
    eventually(&what, PATIENCE, async || {
        let ca = site.secrets().get("flotta-ca").await?;
        Ok(ca.annotations().get(MESSAGE).cloned())
    })
    .await
}
