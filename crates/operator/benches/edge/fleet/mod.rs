//! A fleet that has registered long ago: so many EdgeDevices, and for each a certificate that its EdgeDevice speaks of.
//!
//! One device registers as in the field. The others are copies of its EdgeDevice, each with a key of its own, since what a
//! registration costs is measured elsewhere. Their statuses are the operator's, from a first heartbeat of each.
//!
//! The period that they are given is an hour, so that nobody is missed while a floor is measured. They beat every minute all
//! the same.

pub mod beats;
pub mod edit;
pub mod load;
pub mod member;
pub mod polls;
pub mod start;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flashjob_api::edge::EdgeDevice;
use flashjob_pki::PrivateKey;
use flashjob_sim::cluster::AuditEntry;
use flashjob_sim::edge::site::{forged, listens_at};
use flashjob_sim::edge::{Answer, Credential, EdgeOperator, EdgeSite, Manner, Protocol};
use flashjob_sim::http::{free_address, get};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bed::Bed;
use crate::cores;
use crate::floor::Floor;
use crate::objects::name;
use load::Target;
use member::{Kind, Member};

/// What the operator logs when it knows all devices, which may take it a while.
const LISTED: &str = "everything is listed";
const PATIENCE: Duration = Duration::from_secs(600);
const KEYS: &str = "management.project-flotta.io/keys";
/// How many have something under way at a time while the fleet is made.
const PARALLEL: usize = 64;
/// Longer than anything that an operator puts off: without a write for so long it has none to make.
const REST: Duration = Duration::from_secs(13);

pub struct Fleet {
    pub site: EdgeSite,
    pub operator: EdgeOperator,
    pub members: Vec<Member>,
    metrics: SocketAddr,
}

impl Fleet {
    pub async fn make(bed: &Bed, count: usize) -> Result<Fleet> {
        let (site, metrics) = (bed.site().await?, free_address().await?);
        let operator = site.operator_with(&[&flag(metrics)], None).await?;
        let began = Instant::now();
        let first = name(0);
        site.registered(&first, Manner::Flotta).await?;
        let pattern = serde_json::to_value(site.devices().get(&first).await?)?;
        let (ca, bundle) = (site.ca().await?, site.bundle().await?);
        let mut members = Vec::with_capacity(count);
        let mut objects = Vec::with_capacity(count);
        for number in 1..=count {
            let (id, key) = (name(number), PrivateKey::generate()?);
            objects.push(copy(&pattern, &first, &id, &key.public().fingerprint())?);
            let shown = forged(&ca, &id, &site.namespace, &key, 300)?;
            let clock = Default::default();
            let credential = Credential::new(shown.into(), bundle.ca().clone(), clock);
            members.push(Member::new(id, credential));
        }
        let (api, params) = (site.devices(), PostParams::default());
        let created = stream::iter(&objects).map(|object| api.create(&params, object));
        created.buffer_unordered(PARALLEL).try_for_each(async |_| Ok(())).await?;
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "  {count} EdgeDevices are made after {seconds:.0} s; each says its first heartbeat ..."
        );

        let fleet = Fleet { site, operator, members, metrics };
        let address = fleet.operator.address;
        let introduced = stream::iter(&fleet.members).map(|member| member.introduce(address));
        introduced.buffer_unordered(PARALLEL).try_for_each(async |()| Ok(())).await?;
        fleet.rest().await?;
        println!("  all is written after {:.0} s", began.elapsed().as_secs_f64());
        fleet.pin(bed)?;
        Ok(fleet)
    }

    /// The operator has a core for itself.
    fn pin(&self, bed: &Bed) -> Result<()> {
        bed.cluster.pids().into_iter().try_for_each(cores::for_the_others)?;
        cores::for_the_others(i32::try_from(std::process::id())?)?;
        cores::for_a_server(self.operator.operator.pid())
    }

    /// The operator as what load is put on.
    pub fn target(&self) -> Target {
        Target { address: self.operator.address, pid: self.operator.operator.pid() }
    }

    /// A floor that says what the operator says to the first member, on the core that the operator has else.
    pub async fn floor(&self) -> Result<Floor> {
        let member = self.members.first().context("a fleet of nobody")?;
        let client = member.client(self.operator.address, Protocol::H1)?;
        let mut answers: Vec<(Kind, Answer)> = Vec::new();
        for kind in Kind::ALL {
            answers.push((kind, member.ask(&client, kind).await?));
        }
        let answers = answers.iter().map(|(kind, answer)| (kind.path(), answer));
        let floor = Floor::start(&self.site, answers).await?;
        cores::for_a_server(floor.pid())?;
        Ok(floor)
    }

    /// Waits until the operator writes no more.
    pub async fn rest(&self) -> Result<()> {
        let (mut before, mut since) = (None, Instant::now());
        while since.elapsed() < REST {
            sleep(Duration::from_secs(1)).await;
            let (_, text) = get(self.metrics, "/metrics").await?;
            // What has been sent: a status may have been decided, and wait for its turn.
            let written = text.lines().filter(|line| line.starts_with("edge_writes_total"));
            let written: Vec<String> = written.map(str::to_owned).collect();
            ensure!(!written.is_empty(), "there is no count of writes");
            if before.as_ref() != Some(&written) {
                (before, since) = (Some(written), Instant::now());
            }
        }
        Ok(())
    }

    /// What the operator has written since then, leases included.
    pub async fn writes_since(&self, at: Timestamp) -> Result<Vec<AuditEntry>> {
        let mut writes = self.site.operators.writes_settled(&self.site.namespace).await?;
        writes.extend(self.site.operators.writes(&self.site.home)?);
        writes.retain(|entry| entry.at >= at);
        Ok(writes)
    }

    /// Another operator in place of the one that is there, at work and at rest: what that one still holds of a load that is over
    /// is not to be measured with the next.
    pub async fn begin_anew(&mut self) -> Result<()> {
        let operator = self.restart().await?;
        operator.says_within(PATIENCE, LISTED).await?;
        let address = listens_at(&operator).context("the operator serves nobody")?;
        self.operator = EdgeOperator { operator, address };
        self.rest().await
    }

    /// Ends the operator in good order and starts another one, without waiting for it.
    pub async fn restart(&mut self) -> Result<flashjob_sim::Operator> {
        self.operator.operator.terminate()?;
        self.operator.operator.ended().await?;
        let started = self.site.started(&[&flag(self.metrics)], None)?;
        cores::for_a_server(started.pid())?;
        Ok(started)
    }
}

fn flag(metrics: SocketAddr) -> String {
    format!("--metrics-bind-address={metrics}")
}

/// The EdgeDevice of another device, in use with this key.
fn copy(pattern: &Value, first: &str, id: &str, fingerprint: &str) -> Result<EdgeDevice> {
    let mut object: Value = serde_json::from_str(&pattern.to_string().replace(first, id))?;
    let metadata = object["metadata"].as_object_mut().context("an object without metadata")?;
    metadata.retain(|key, _| {
        ["name", "namespace", "labels", "annotations", "finalizers"].contains(&key.as_str())
    });
    let keys = metadata["annotations"][KEYS].as_str().context("a device without keys")?;
    let mut keys: Value = serde_json::from_str(keys)?;
    keys["current"]["key"] = json!(fingerprint);
    metadata["annotations"][KEYS] = json!(keys.to_string());
    object["spec"]["heartbeat"] = json!({ "periodSeconds": 3600 });
    object["status"] = Value::Null;
    Ok(serde_json::from_value(object)?)
}
