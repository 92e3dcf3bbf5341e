//! A status that the API server does not take, now or ever: the job says so, and says how it stands all the same.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use flashjob_api::flashjob::{FlashJobStatus, Phase};
use flashjob_sim::cluster::{Call, CallFate, Gate};
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use flashjob_sim::{Operator, PATIENCE, eventually};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use flashjob_sim::http::{answers, free_address};

/// As an API server says it whose CRD, or a policy, does not have it so.
const WORDS: &str = "FlashJob \"flashjob\" is invalid: status.completedUUIDs: Too many: 2: must have at most 0 items";

/// An operator behind a gate that refuses statuses as long as it is told to.
struct Refusing {
    gate: Gate,
    operator: Operator,
    metrics: SocketAddr,
    refuses: Arc<AtomicBool>,
}

impl Refusing {
    /// Refuses what `refused` says, with this code.
    async fn start(site: &Site, code: u16, refused: fn(&Call) -> bool) -> Result<Refusing> {
        let refuses = Arc::new(AtomicBool::new(true));
        let answer = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": WORDS, "reason": "Invalid", "code": code,
        });
        let judge = {
            let refuses = refuses.clone();
            move |call: &Call| {
                if is_status(call) && refused(call) && refuses.load(Ordering::Acquire) {
                    CallFate::Answer(code, answer.to_string())
                } else {
                    CallFate::Pass
                }
            }
        };
        let gate = Gate::start(&site.cluster, judge).await?;
        let metrics = free_address().await?;
        let flag = format!("--metrics-bind-address={metrics}");
        let operator = site.operator_with(&[&flag], Some(&gate))?;
        Ok(Refusing { gate, operator, metrics, refuses })
    }

    fn statuses(&self) -> Vec<Call> {
        self.gate.calls().into_iter().filter(is_status).collect()
    }

    /// The writes of the status, once there are so many.
    async fn sent(&self, count: usize) -> Result<Vec<Call>> {
        let what = format!("{count} writes of the status");
        eventually(&what, PATIENCE, async || {
            Ok(Some(self.statuses()).filter(|sent| sent.len() >= count))
        })
        .await
    }
}

fn is_status(call: &Call) -> bool {
    call.resource() == "flashjobs" && call.subresource() == Some("status")
}

fn lists_devices(call: &Call) -> bool {
    let field = b"\"completedUUIDs\":";
    call.body.windows(field.len()).any(|part| part == field)
}

fn refusal(status: &FlashJobStatus) -> Option<&str> {
    let refused = status.conditions.iter().find(|c| c.type_ == "StatusRefused")?;
    (refused.status == "True").then_some(refused.message.as_str())
}

/// The events of this namespace that tell of a refused status.
async fn refusals_told(site: &Site) -> Result<Vec<Event>> {
    let events = site.api::<Event>();
    let mut events = events.list(&ListParams::default()).await?.items;
    events.retain(|event| event.reason.as_deref() == Some("StatusRefused"));
    Ok(events)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_refused_is_told_and_written_without_its_lists() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let refusing = Refusing::start(&site, 422, lists_devices).await?;
    site.flash("flashjob", &boards).await?;

    let done = site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("2/2"));
    assert_eq!(done.counts.map(|c| (c.total, c.succeeded)), Some((2, 2)));
    assert_eq!((done.completed_uuids.len(), done.truncated), (0, true));
    assert!(done.completion_time.is_some());
    assert!(refusal(&done).is_some_and(|words| words.contains(WORDS)), "{done:#?}");
    assert!(done.message.as_deref().is_some_and(|words| words.contains(WORDS)), "{done:#?}");
    let complete = done.conditions.iter().find(|c| c.type_ == "Complete");
    assert_eq!(complete.map(|c| c.status.as_str()), Some("True"));
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "each board once");

    // Told once, however often it is tried.
    let before = refusing.statuses();
    let tried = refusing.sent(before.len() + 1).await?;
    let tried: Vec<bool> = tried[before.len()..].iter().map(lists_devices).collect();
    assert_eq!(tried, [true], "what stands is not written again");
    let told = refusals_told(&site).await?;
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(told[0].type_.as_deref(), Some("Warning"));
    let note = told[0].note.clone().unwrap_or_default();
    assert!(note.contains(WORDS) && note.contains("without its lists"), "{note}");
    let log = refusing.operator.log();
    let warnings = log.lines().filter(|line| line.contains(" WARN ") && line.contains("status"));
    assert_eq!(warnings.count(), 1, "{log}");
    answers(refusing.metrics, "/metrics", 200, "flashjob_status_refused_total{form=\"full\"}")
        .await?;

    // The cause goes away, and nobody touches the job.
    refusing.refuses.store(false, Ordering::Release);
    let full = site.status("flashjob", "the full status", |s| s.completed_uuids.len() == 2);
    let full = full.await?;
    assert_eq!((refusal(&full), full.truncated), (None, false));
    assert_eq!(full.message.as_deref(), Some("2 of 2 devices done"));
    assert_eq!(full.completion_time, done.completion_time);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_status_is_refused_whatever_it_says_is_flashed_and_told() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let refusing = Refusing::start(&site, 403, |_| true).await?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(2).await;
    answers(refusing.metrics, "/metrics", 200, "flashjob_status_refused_total{form=\"reduced\"}")
        .await?;
    let told = eventually("both refusals to be told", PATIENCE, async || {
        Ok(Some(refusals_told(&site).await?).filter(|told| told.len() == 2))
    });
    for event in told.await? {
        assert!(event.note.clone().unwrap_or_default().contains(WORDS), "{event:#?}");
    }
    site.cleaned_up().await?;
    assert_eq!(site.jobs().get("flashjob").await?.status, None);

    refusing.refuses.store(false, Ordering::Release);
    let done = site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("2/2"));
    let full = site.status("flashjob", "the full status", |s| refusal(s).is_none());
    assert_eq!(full.await?.completed_uuids.len(), 2);
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "each board once");
    Ok(())
}

/// A JSON Patch whose test fails is answered with 422, as what is invalid is.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_changed_meanwhile_is_no_refusal() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let first = AtomicBool::new(true);
    let judge = move |call: &Call| {
        if is_status(call) && first.swap(false, Ordering::AcqRel) {
            CallFate::Hold
        } else {
            CallFate::Pass
        }
    };
    let gate = Gate::start(&site.cluster, judge).await?;
    let operator = site.operator_with(&[], Some(&gate))?;
    site.flash_with("flashjob", json!({ "uuid": uids(&boards) })).await?;
    gate.held().await;
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "changed": "yes" } } }));
    site.jobs().patch("flashjob", &PatchParams::default(), &patch).await?;
    gate.release();
    let done = site.phase("flashjob", Phase::Completed).await?;
    assert_eq!((done.completed_uuids.len(), done.truncated), (2, false));
    let answers = gate.answers();
    let answered = answers.iter().find(|(call, _)| is_status(call)).map(|(_, code)| *code);
    assert_eq!(answered, Some(422));
    assert!(!operator.log().contains("refuse"), "{}", operator.log());
    assert_eq!(refusals_told(&site).await?, []);
    Ok(())
}
