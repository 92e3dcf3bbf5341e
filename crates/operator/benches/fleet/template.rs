//! The objects of one device, word for word as the operator sends them.
//!
//! The floor must write what the operator writes, today and after the next change to the Pod. So it has no objects of
//! its own: an operator flashes one board behind a gate, and what it sent is kept as text. A copy for another device
//! differs in namespace and target alone, and so not in size.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use flashjob_api::flashjob::Phase;
use flashjob_sim::cluster::{Call, CallFate, Gate};
use flashjob_sim::node::Script;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::bed::{Bed, boards, flash, patience, reaches, ready_operator};

const TARGET: &str = "application.flashjob.nbfc.io/target";

/// Devices that share a ConfigMap of the ledger.
const SHARD: usize = 256;

/// What an operator sent for one device.
pub struct Template {
    namespace: String,
    target: String,
    service: String,
    pod: String,
    /// The ledger's name and what it holds of a device.
    ledger: String,
    record: String,
}

impl Template {
    /// Lets an operator flash one board, and keeps what it sent. It warms the API server up, too.
    pub async fn take(bed: &Bed) -> Result<Template> {
        let site = bed.site(Script::default()).await?;
        let boards = boards(&site, 1).await?;
        let gate = Gate::start(&bed.cluster, |_| CallFate::Pass).await?;
        let _operator = ready_operator(&site, Some(&gate)).await?;
        flash(&site, json!({ "uuid": boards }), 1).await?;
        reaches(&site, Phase::Completed, patience(1)).await?;
        Template::from_calls(&site.namespace, &gate.calls())
    }

    fn from_calls(namespace: &str, calls: &[Call]) -> Result<Template> {
        let created = |resource: &str| {
            let mut created = calls.iter().filter(|call| call.method == "POST");
            let call = created.find(|call| call.resource() == resource);
            let call = call.with_context(|| format!("the operator has made no {resource}"))?;
            String::from_utf8(call.body.to_vec()).context("a body that is no text")
        };
        let pod: Pod = parse(&created("pods")?)?;
        let labels = pod.metadata.labels.unwrap_or_default();
        let ledger: ConfigMap = parse(&created("configmaps")?)?;
        // Beside the device there is the header, which is shorter or about as long.
        let record = ledger.data.unwrap_or_default().into_values().max_by_key(String::len);
        Ok(Template {
            namespace: namespace.to_owned(),
            target: labels.get(TARGET).context("a Pod without a target")?.clone(),
            service: created("services")?,
            pod: created("pods")?,
            ledger: ledger.metadata.name.context("a ledger without a name")?,
            record: record.unwrap_or_default(),
        })
    }

    /// The Service of the device with this number.
    pub fn service(&self, namespace: &str, number: usize) -> Result<Service> {
        parse(&self.fill(&self.service, namespace, number))
    }

    /// Its Pod.
    pub fn pod(&self, namespace: &str, number: usize) -> Result<Pod> {
        parse(&self.fill(&self.pod, namespace, number))
    }

    /// The ConfigMaps that hold the permits of so many devices: without them the kubelet starts no Pod, and it reads
    /// them whole, so they are as large as the operator's.
    pub fn ledger(&self, namespace: &str, devices: usize) -> Vec<ConfigMap> {
        let shards = (0..devices).step_by(SHARD);
        shards.map(|first| self.shard(namespace, first..devices.min(first + SHARD))).collect()
    }

    fn shard(&self, namespace: &str, numbers: std::ops::Range<usize>) -> ConfigMap {
        let name = self.shard_name(numbers.start);
        let records = numbers.clone().map(|n| (format!("device-{n}"), self.record.clone()));
        let permits = numbers.map(|n| (format!("permit-{}-1", target(n)), String::new()));
        let data: BTreeMap<String, String> = records.chain(permits).collect();
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        }
    }

    fn shard_name(&self, number: usize) -> String {
        let base = self.ledger.trim_end_matches(|c: char| c.is_ascii_digit());
        format!("{base}{}", number / SHARD)
    }

    fn fill(&self, text: &str, namespace: &str, number: usize) -> String {
        text.replace(&self.target, &target(number))
            .replace(&self.ledger, &self.shard_name(number))
            .replace(&format!("\"{}\"", self.namespace), &format!("\"{namespace}\""))
    }
}

/// As long as a real one.
fn target(number: usize) -> String {
    format!("{number:012x}")
}

fn parse<K: DeserializeOwned>(text: &str) -> Result<K> {
    serde_json::from_str(text).context("the operator's object cannot be read")
}
