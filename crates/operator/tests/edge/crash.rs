//! The operator is killed before and after each of its writes, and the next one goes on. No device is locked out by that, none
//! is there twice, and none is told to disconnect that was not deleted.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_sim::cluster::{CallFate, Gate};
use flashjob_sim::edge::ledger::News;
use flashjob_sim::edge::site::{EdgeSite, listens_at};
use flashjob_sim::edge::{Device, DeviceOptions, EdgeOperator, Manner, Operation};
use flashjob_sim::{Operator, PATIENCE, clock, eventually, lock};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::kit::{
    approve, beats, command, delete, gone, in_use, key, live, names, quick, quick_and_registered,
    tombstones,
};

/// So many schedules are under way at once. Each is two operators that mostly wait.
const AT_ONCE: usize = 4;
/// For so long a disconnect is told again.
const REPEATED: SignedDuration = SignedDuration::from_secs(60);
/// Nobody is to wait until the lease of a dead process has run out.
pub const FLAGS: [&str; 1] = ["--leader-elect=false"];
/// How long an operator that has written takes to die of it, at most.
const LAST_BREATH: Duration = Duration::from_secs(1);
const BY_HAND: [&str; 2] = ["--leader-elect=false", "--edge-auto-approval=false"];

/// Where operators die, one after the other.
pub struct Deaths {
    points: Vec<String>,
    died: AtomicUsize,
    /// Since when the last of them has served devices.
    serves_since: Mutex<Timestamp>,
}

impl Deaths {
    fn at(points: Vec<String>) -> Self {
        let serves_since = Mutex::new(Timestamp::UNIX_EPOCH);
        Self { points, died: AtomicUsize::new(0), serves_since }
    }

    /// Has an operator at work that dies at its point, and then the next, and in the end one that lives on, until the story is
    /// over. Says how many writes it took if nobody was to die.
    pub async fn during(
        &self,
        site: &EdgeSite,
        flags: &[&str],
        story: impl Future<Output = Result<()>>,
    ) -> Result<usize> {
        let gate = match self.points.as_slice() {
            [] => Some(Gate::start(&site.cluster, |_| CallFate::Pass).await?),
            _ => None,
        };
        let mut story = pin!(story);
        for point in self.points.iter().map(Some).chain([None]) {
            let point = point.map(|point| format!("--crash-at={point}"));
            let flags: Vec<&str> = flags.iter().copied().chain(point.as_deref()).collect();
            let mut operator = site.started(&flags, gate.as_ref())?;
            let done = tokio::select! {
                ended = self.life(site, &mut operator) => {
                    ended?;
                    ensure!(point.is_some(), "an operator has died by itself:\n{}", operator.log());
                    self.died.fetch_add(1, Ordering::AcqRel);
                    continue;
                }
                done = &mut story => done,
            };
            done.with_context(|| format!("the operator said:\n{}", operator.log()))?;
            // What it has written may be seen before it has died of that.
            if point.is_some() && timeout(LAST_BREATH, operator.died()).await.is_ok() {
                self.died.fetch_add(1, Ordering::AcqRel);
            }
            break;
        }
        let calls = gate.map(|gate| gate.calls()).unwrap_or_default();
        Ok(calls.iter().filter(|call| call.number > 0).count())
    }

    /// Leads devices to an operator until it has ended.
    async fn life(&self, site: &EdgeSite, operator: &mut Operator) -> Result<()> {
        let mut led = false;
        while !operator.has_ended() {
            if !led && let Some(address) = listens_at(operator) {
                *lock(&self.serves_since) = clock::now();
                site.lead_to(Some(address));
                led = true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

/// Plays something on a site of its own for each write: an operator dies before it, or after it, and another goes on. And
/// once one after the other dies, each of them a bit later than the one before it, until there is nothing left to write. A play
/// may take so many writes fewer than the one that was counted, and then nobody dies before or after the last of them.
pub async fn at_every_write(
    fewer: usize,
    play: impl AsyncFn(&EdgeSite, &Deaths) -> Result<usize>,
) -> Result<()> {
    at_every_write_on(EdgeSite::new, fewer, play).await
}

/// The same on sites of this kind.
pub async fn at_every_write_on(
    site: impl AsyncFn() -> Result<EdgeSite>,
    fewer: usize,
    play: impl AsyncFn(&EdgeSite, &Deaths) -> Result<usize>,
) -> Result<()> {
    let writes = play(&site().await?, &Deaths::at(vec![])).await?;
    let point = |number| ["before", "after"].map(|side| format!("{side}:{number}"));
    let points: Vec<String> = (1..=writes).flat_map(point).collect();
    let mut schedules: Vec<_> = points.iter().map(|point| vec![point.clone()]).collect();
    schedules.push(points);
    let plays = stream::iter(schedules).map(async |points| {
        let deaths = Deaths::at(points);
        let played = play(&site().await?, &deaths).await;
        played.with_context(|| format!("with the deaths {:?}", deaths.points))?;
        anyhow::Ok(deaths.died.into_inner())
    });
    let died: Vec<usize> = plays.buffered(AT_ONCE).try_collect().await?;
    println!("{writes} writes; so many have died: {died:?}");
    let (singly, one_by_one) = died.split_at(2 * writes);
    let certain = &singly[..2 * writes.saturating_sub(fewer)];
    assert!(writes > 0 && certain.iter().chain(one_by_one).all(|died| *died > 0), "{died:?}");
    Ok(())
}

/// Looks at the record whenever the device is given a certificate. It ends with one whose key is not there.
async fn on_record(
    site: &EdgeSite,
    device: &str,
    mut news: mpsc::UnboundedReceiver<News>,
) -> Result<()> {
    while let Some(news) = news.recv().await {
        if let News::Certificate(given) = news {
            let keys = site.keys(device).await?;
            let known = ["current", "next"].map(|which| keys[which]["key"] == given.fingerprint);
            ensure!(known.contains(&true), "{device} was given {given:?}, on record are {keys}");
        }
    }
    Ok(())
}

/// A device comes in and uses its certificate.
async fn comes_in(
    site: &EdgeSite,
    flags: &[&str],
    manner: Manner,
    deaths: &Deaths,
) -> Result<usize> {
    prepared(site, flags).await?;
    let (say, news) = mpsc::unbounded_channel();
    let options = DeviceOptions { news: Some(say), ..quick(site, "box", manner).await? };
    let device = Device::new(options)?;
    let _life = live(&device);
    let story = async {
        if flags == BY_HAND {
            let asked = device.until("to be let in", PATIENCE, |ledger| {
                ledger.answered(Operation::Enrol, 200) > 0
            });
            asked.await?;
            approve(site, device.id()).await?;
        }
        // The original's agent registers once more before it beats for the first time.
        beats(&device).await?;
        in_use(site, &device).await?;
        beats(&device).await
    };
    let writes = deaths.during(site, flags, async {
        tokio::select! {
            done = story => done,
            wrong = on_record(site, device.id(), news) => wrong,
        }
    });
    let writes = writes.await?;
    assert_eq!(names(site).await?, ["box"]);
    assert_eq!(device.ledger().disconnects(), 0);
    assert_eq!(site.keys("box").await?["current"]["key"], json!(key(&device)?));
    Ok(writes)
}

/// What is made for a site without any device is no part of the story: the certificates, and the record of CRDs. It is the work of
/// an operator that is killed when it is dropped.
pub async fn prepared(site: &EdgeSite, flags: &[&str]) -> Result<EdgeOperator> {
    let operator = site.operator_with(flags, None).await?;
    site.bundle().await?;
    let maps: Api<ConfigMap> = Api::namespaced(site.client.clone(), &site.home);
    eventually("the record of CRDs", PATIENCE, async || {
        maps.get_opt("edge-crds").await.map_err(Into::into)
    })
    .await?;
    Ok(operator)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_of_ours_comes_in_by_itself() -> Result<()> {
    at_every_write(1, async |site, deaths| comes_in(site, &FLAGS, Manner::Ours, deaths).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_of_flotta_comes_in_by_itself() -> Result<()> {
    at_every_write(1, async |site, deaths| comes_in(site, &FLAGS, Manner::Flotta, deaths).await)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_comes_in_when_somebody_approves() -> Result<()> {
    at_every_write(1, async |site, deaths| comes_in(site, &BY_HAND, Manner::Ours, deaths).await)
        .await
}

/// A device is deleted, while it polls or while it is off.
async fn goes(site: &EdgeSite, manner: Manner, on: bool, deaths: &Deaths) -> Result<usize> {
    let operator = prepared(site, &FLAGS).await?;
    let device = quick_and_registered(site, "box", manner).await?;
    drop(operator);
    let life = on.then(|| live(&device));
    site.devices().delete("box", &DeleteParams::default()).await?;
    let writes = deaths.during(site, &FLAGS, async {
        gone(site, "box").await?;
        if on { told(site, &device, deaths).await } else { Ok(()) }
    });
    let writes = writes.await?;
    assert_eq!(tombstones(site).await?.len(), 1);
    let _life = life.unwrap_or_else(|| live(&device));
    comes_again(site, &device).await?;
    Ok(writes)
}

/// A device was deleted while it was off, and fetches its disconnect.
async fn fetches(site: &EdgeSite, manner: Manner, deaths: &Deaths) -> Result<usize> {
    let operator = prepared(site, &FLAGS).await?;
    let device = quick_and_registered(site, "box", manner).await?;
    delete(site, "box").await?;
    drop(operator);
    let _life = live(&device);
    let writes = deaths.during(site, &FLAGS, told(site, &device, deaths)).await?;
    comes_again(site, &device).await?;
    Ok(writes)
}

/// Waits until the device was told to disconnect, and until that is written down, or who has told it is dead.
async fn told(site: &EdgeSite, device: &Device, deaths: &Deaths) -> Result<()> {
    // Who has told it may be dead by the time that this is seen, and another serve.
    let told = eventually("a disconnect", PATIENCE, async || {
        Ok(device.read(|ledger| ledger.disconnects.first().copied()))
    })
    .await?;
    eventually("the disconnect to be written down", PATIENCE, async || {
        let fetched = |tombstone: &Value| tombstone["fetched"].is_string();
        let written = tombstones(site).await?.iter().all(fetched);
        Ok((written || *lock(&deaths.serves_since) > told).then_some(()))
    })
    .await
}

/// Whoever was told to disconnect is started again and comes in. The original's agent keeps its certificate, and may be told
/// again for a minute.
async fn comes_again(site: &EdgeSite, device: &Device) -> Result<()> {
    let _operator = site.operator_with(&FLAGS, None).await?;
    device.until("a disconnect", PATIENCE, |ledger| ledger.disconnects() > 0).await?;
    eventually("the device to be back", PATIENCE, async || {
        device.rejoin();
        Ok(device.read(|ledger| ledger.answered(Operation::Heartbeat, 200) > 1).then_some(()))
    })
    .await?;
    in_use(site, device).await?;
    assert_eq!(tombstones(site).await?, [] as [Value; 0]);
    let told = device.ledger().disconnects;
    let once = told.len() == 1 || device.options().manner == Manner::Flotta;
    assert!(once && told[told.len() - 1].duration_since(told[0]) < REPEATED, "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_on_is_deleted() -> Result<()> {
    at_every_write(1, async |site, deaths| goes(site, Manner::Ours, true, deaths).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_off_is_deleted() -> Result<()> {
    at_every_write(1, async |site, deaths| goes(site, Manner::Flotta, false, deaths).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_device_fetches_its_disconnect() -> Result<()> {
    at_every_write(1, async |site, deaths| fetches(site, Manner::Flotta, deaths).await).await
}

/// A CA is rotated while devices are connected, they get new certificates in the course of time, and the old CA is retired.
async fn rotates(site: &EdgeSite, deaths: &Deaths) -> Result<usize> {
    let operator = prepared(site, &FLAGS).await?;
    let ours = quick_and_registered(site, "ours", Manner::Ours).await?;
    let theirs = quick_and_registered(site, "theirs", Manner::Flotta).await?;
    drop(operator);
    let _lives = [live(&ours), live(&theirs)];
    let writes = deaths.during(site, &FLAGS, async {
        let told = command(site, "rotate").await?;
        ensure!(told.starts_with("rotated on"), "{told}");
        tokio::try_join!(beats(&ours), beats(&theirs))?;
        eventually("a new certificate", PATIENCE, async || {
            Ok(ours.renew().await.ok().filter(|answer| answer.code() == 200))
        })
        .await?;
        in_use(site, &ours).await?;
        let told = command(site, "retire").await?;
        let one =
            told.starts_with("not retired: 1 EdgeDevice depends on") && told.contains(": theirs.");
        ensure!(one, "{told}");
        site.devices().delete("theirs", &DeleteParams::default()).await?;
        gone(site, "theirs").await?;
        theirs.until("a disconnect", PATIENCE, |ledger| ledger.disconnects() > 0).await?;
        let told = command(site, "retire").await?;
        ensure!(told.starts_with("retired: the CA"), "{told}");
        beats(&ours).await
    });
    let writes = writes.await?;
    let _operator = site.operator_with(&FLAGS, None).await?;
    beats(&ours).await?;
    site.registered("new", Manner::Ours).await?;
    assert_eq!(names(site).await?, ["new", "ours"]);
    assert_eq!((ours.ledger().disconnects(), theirs.ledger().disconnects()), (0, 1));
    in_use(site, &ours).await?;
    Ok(writes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_is_rotated_and_retired() -> Result<()> {
    at_every_write(1, rotates).await
}
