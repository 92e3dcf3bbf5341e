//! The start of a process among a fleet that is there already: until it serves each of them, and what it says before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flashjob_sim::edge::site::listens_at;
use flashjob_sim::edge::{EdgeOperator, Protocol};
use kube::Client;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Fleet;
use super::member::{Kind, Member};

/// So many of them ask from the first moment on, spread over all names.
const ASKING: usize = 40;
const EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(600);
/// As the operator lists devices.
const PAGE: u32 = 100;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    pub devices: usize,
    /// A bare list in the same pages.
    pub list_seconds: f64,
    /// From the start of the process.
    pub first_served_seconds: f64,
    pub all_served_seconds: f64,
    /// What those were told who asked meanwhile, and how often.
    pub answers: BTreeMap<String, usize>,
    pub writes: usize,
    pub peak_mi_b: f64,
}

impl Start {
    pub fn ratio(&self) -> f64 {
        self.all_served_seconds / self.list_seconds
    }
}

pub async fn measure(fleet: &mut Fleet) -> Result<Start> {
    let client = fleet.site.cluster.client_with_token(&fleet.site.operators.token)?;
    let list_seconds = list(&client, &fleet.site.namespace).await?;
    let at = flashjob_sim::clock::now();
    let started = fleet.restart().await?;
    let began = Instant::now();
    let address = loop {
        match listens_at(&started) {
            Some(address) => break address,
            None => sleep(Duration::from_millis(10)).await,
        }
    };
    let answers = Arc::new(Mutex::new(BTreeMap::new()));
    let mut asking = JoinSet::new();
    let step = (fleet.members.len() / ASKING).max(1);
    let last = fleet.members.last().into_iter();
    for member in fleet.members.iter().step_by(step).chain(last).cloned() {
        asking.spawn(served(member, address, began, answers.clone()));
    }
    let mut seconds = Vec::new();
    while let Some(one) = asking.join_next().await {
        seconds.push(one??);
    }
    seconds.sort_by(f64::total_cmp);
    fleet.operator = EdgeOperator { operator: started, address };
    fleet.rest().await?;
    let writes = fleet.writes_since(at).await?.len();
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Start {
        devices: fleet.members.len(),
        list_seconds,
        first_served_seconds: seconds.first().copied().unwrap_or_default(),
        all_served_seconds: seconds.last().copied().unwrap_or_default(),
        answers,
        writes,
        peak_mi_b: fleet.target().usage()?.peak_mi_b,
    })
}

/// Asks until it is served. When that was.
async fn served(
    member: Member,
    address: std::net::SocketAddr,
    began: Instant,
    answers: Arc<Mutex<BTreeMap<String, usize>>>,
) -> Result<f64> {
    let client = member.client(address, Protocol::H1)?;
    while began.elapsed() < PATIENCE {
        let answered = member.ask(&client, Kind::Configuration).await;
        let word = match &answered {
            Ok(_) => "200".to_owned(),
            Err(error) => code(&error.to_string()),
        };
        *answers.lock().unwrap_or_else(PoisonError::into_inner).entry(word).or_default() += 1;
        if answered.is_ok() {
            return Ok(began.elapsed().as_secs_f64());
        }
        sleep(EVERY).await;
    }
    anyhow::bail!("{} is not served after {PATIENCE:?}", member.id)
}

/// The status in what a member says of an answer.
fn code(error: &str) -> String {
    let word = error.split_whitespace().find(|word| word.len() == 3 && word.parse::<u16>().is_ok());
    word.unwrap_or("no answer").to_owned()
}

#[derive(Deserialize)]
struct Page {
    metadata: Metadata,
    items: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Seconds for a list of all devices in pages, past the API server's cache, of which nothing is kept.
async fn list(client: &Client, namespace: &str) -> Result<f64> {
    let (began, mut next, mut count) = (Instant::now(), Some(String::new()), 0);
    while let Some(token) = next.take() {
        let path = format!(
            "/apis/management.project-flotta.io/v1alpha1/namespaces/{namespace}/edgedevices?limit={PAGE}&continue={token}"
        );
        let request = http::Request::get(path).body(Vec::new())?;
        let page: Page = client.request(request).await.context("the list")?;
        count += page.items.len();
        next = page.metadata.next.filter(|token| !token.is_empty());
    }
    anyhow::ensure!(count > 0, "no devices were listed");
    Ok(began.elapsed().as_secs_f64())
}
