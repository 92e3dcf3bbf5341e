//! An EdgeDeployment or EdgeWorkload as people look at it, whatever anybody has written into it.

use anyhow::{Result, bail};
use flashjob_api::edge::{EdgeDeployment, EdgeReason, EdgeWorkload, WorkloadCounts};
use flashjob_plan::edge::read::workload;
use flashjob_plan::edge::workloads::{WorkloadKind, accept};
use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::Value;

use crate::edge::device::{Condition, entries};
use crate::edge::read::{Kind, text};
use crate::read::{dynamic, pages_of};
use crate::shell::clean;

/// The longest name that Kubernetes takes.
const LONGEST: usize = 253;

#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub kind: WorkloadKind,
    pub namespace: String,
    pub name: String,
    pub since: Option<Timestamp>,
    pub being_deleted: bool,
    pub version: String,
    pub conditions: Vec<Condition>,
    pub counts: WorkloadCounts,
    /// Devices that run it, of all it is for, such as "3/5".
    pub running: String,
    pub message: String,
    /// The status speaks of the spec as it is now.
    pub is_current: bool,
    /// Its pod is one that is to come to an end.
    pub ends: bool,
}

impl Workload {
    pub fn read(kind: WorkloadKind, object: &DynamicObject) -> Workload {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let observed = status.pointer("/observedGeneration").and_then(Value::as_i64);
        let accepted = accept(&workload(kind, &object.metadata, spec));
        Workload {
            kind,
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            since: object.creation_timestamp().map(|time| time.0),
            being_deleted: object.metadata.deletion_timestamp.is_some(),
            version: object.resource_version().unwrap_or_default(),
            conditions: entries(status, "/conditions"),
            counts: WorkloadCounts::deserialize(&status["counts"]).unwrap_or_default(),
            running: text(status, "/running"),
            message: text(status, "/message"),
            is_current: observed.is_some() && observed == object.metadata.generation,
            ends: accepted.is_ok_and(|accepted| accepted.ends),
        }
    }

    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Why it is sent to no device, as far as the operator has looked at it.
    pub fn refused(&self) -> Option<&Condition> {
        self.condition("Accepted").filter(|accepted| accepted.status == "False")
    }

    /// Every device that it is for runs it as it is now.
    pub fn is_complete(&self) -> bool {
        self.is_current && self.condition("Complete").is_some_and(|c| c.status == "True")
    }

    /// What there is to do about it as a whole.
    pub fn advice(&self) -> Option<&'static str> {
        let reason = self.refused().or(self.condition("Complete"))?.reason.as_str();
        EdgeReason::parse(reason).map(EdgeReason::advice)
    }
}

impl Kind for Workload {
    const KIND: &'static str = "EdgeDeployment or EdgeWorkload";
    const PLURAL: &'static str = "EdgeDeployments and EdgeWorkloads";
    const LISTS: &'static str = "kubectl flashjob edge workloads";

    async fn pages(
        client: &Client,
        namespace: Option<&str>,
        choice: &ListParams,
    ) -> kube::Result<Vec<Self>> {
        let mut all = Vec::new();
        for kind in WorkloadKind::ALL {
            let objects = match kind {
                WorkloadKind::EdgeDeployment => dynamic::<EdgeDeployment>(client, namespace),
                WorkloadKind::EdgeWorkload => dynamic::<EdgeWorkload>(client, namespace),
            };
            let read = |object| Workload::read(kind, &object);
            all.extend(pages_of(&objects, choice.clone(), read).await?);
        }
        // Of two with one name the one that devices are sent comes first: the older.
        all.sort_by_key(|workload| (workload.being_deleted, workload.since, workload.kind));
        Ok(all)
    }

    fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    fn name(written: &str) -> Result<String> {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if written.is_empty() || written.len() > LONGEST || !written.chars().all(letter) {
            bail!("{} cannot be the name of a workload", clean(written));
        }
        Ok(written.to_owned())
    }
}
