//! The floor of registrations: what the API server makes of the same writes when nobody waits for anything else.
//!
//! A bare loop over devices, as many at a time as register at once. For each it creates an EdgeDevice and patches it as the
//! operator does, with the same client, as the same ServiceAccount, and word for word with what the operator sends: one
//! device registers behind a gate, and what was sent for it is kept as text. A copy for another device differs in the names,
//! the uid and the version alone.
//!
//! It **is** the price of the writes that a registration needs at the least, on this machine, now. It is **not** something an
//! operator could reach: it shakes no hands, signs nothing, watches nothing and waits for no device.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use flashjob_sim::cluster::{Call, CallFate, Gate};
use flashjob_sim::edge::{EdgeSite, Manner};
use flashjob_sim::{PATIENCE, eventually};
use futures::{StreamExt, TryStreamExt, stream};
use http::header::CONTENT_TYPE;
use kube::Client;
use serde::Deserialize;

use crate::bed::Bed;

/// What an operator sent for one device.
pub struct Template {
    namespace: String,
    device: String,
    /// In their order: the EdgeDevice, then its patches.
    calls: Vec<Call>,
    uid: String,
}

/// The part of an answer that the next write depends on.
#[derive(Deserialize)]
struct Written {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
}

impl Template {
    /// Lets an operator register one device, and keeps what it sent. It warms the API server up, too.
    pub async fn take(bed: &Bed) -> Result<Template> {
        let site = bed.site().await?;
        let gate = Gate::start(&bed.cluster, |_| CallFate::Pass).await?;
        let _operator = site.operator_with(&[], Some(&gate)).await?;
        let device = name(0);
        site.registered(&device, Manner::Ours).await?;
        eventually("the status of the first heartbeat", PATIENCE, async || {
            let status = site.devices().get(&device).await?.status.unwrap_or_default();
            Ok(status.phase.is_some().then_some(()))
        })
        .await?;
        let mut calls = gate.calls();
        calls.retain(|call| call.resource() == "edgedevices");
        let uids = calls.iter().filter_map(Call::json);
        let mut uids = uids.filter_map(|patch| Some(patch["metadata"]["uid"].as_str()?.to_owned()));
        let uid = uids.next().context("no patch of the operator names a uid")?;
        Ok(Template { namespace: site.namespace.clone(), device, calls, uid })
    }

    pub fn writes(&self) -> usize {
        self.calls.len()
    }

    /// Seconds for the writes of so many devices.
    pub async fn measure(&self, bed: &Bed, devices: usize, parallel: usize) -> Result<f64> {
        let site = bed.site().await?;
        let client = bed.cluster.client_with_token(&site.operators.token)?;
        let began = Instant::now();
        let all = stream::iter(1..=devices).map(|number| self.register(&client, &site, number));
        all.buffer_unordered(parallel).try_collect::<()>().await?;
        Ok(began.elapsed().as_secs_f64())
    }

    async fn register(&self, client: &Client, site: &EdgeSite, number: usize) -> Result<()> {
        let device = name(number);
        let mut written: Option<Written> = None;
        for call in &self.calls {
            let named = |text: &str| {
                text.replace(&self.device, &device).replace(&self.namespace, &site.namespace)
            };
            let body = std::str::from_utf8(&call.body).context("a body that is no text")?;
            let mut body = named(body);
            if let Some(Written { metadata }) = &written {
                body = body.replace(&self.uid, &metadata.uid);
                if let Some(version) = version(call) {
                    let field = |version: &str| format!("\"resourceVersion\":\"{version}\"");
                    body = body.replace(&field(&version), &field(&metadata.resource_version));
                }
            }
            let query = call.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
            let request = http::Request::builder()
                .method(call.method.as_str())
                .uri(format!("{}{query}", named(&call.path)))
                .header(CONTENT_TYPE, content_type(call))
                .body(body.into_bytes())?;
            let answer = client.request(request).await;
            written = Some(answer.with_context(|| format!("{} for {device}", call.method))?);
        }
        ensure!(written.is_some(), "the operator has written nothing");
        Ok(())
    }
}

/// Of the object that a patch is for, if it says.
fn version(call: &Call) -> Option<String> {
    Some(call.json()?["metadata"]["resourceVersion"].as_str()?.to_owned())
}

fn content_type(call: &Call) -> &'static str {
    match call.method.as_str() {
        "PATCH" if call.body.starts_with(b"[") => "application/json-patch+json",
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    }
}

/// All as long as each other.
pub fn name(number: usize) -> String {
    format!("bench-{number:06}")
}
