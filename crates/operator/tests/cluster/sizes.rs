//! Many jobs, and jobs with many devices.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::cluster::{AuditEntry, Cluster};
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::{AddressPool, Script};
use flashjob_sim::{PATIENCE, eventually};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_finished_jobs_get_no_writes_also_from_a_new_operator() -> Result<()> {
    let site = Site::on(Cluster::shared_installed().await?).pool(AddressPool::of(100));
    let site = site.start(|_| Script::default()).await?;
    let boards = site.boards(100).await?;
    let first = site.operator_with(&["--leader-elect=false"], None)?;
    for (n, board) in boards.iter().enumerate() {
        site.flash(&format!("job-{n}"), std::slice::from_ref(board)).await?;
    }
    let jobs = site.jobs();
    eventually("all jobs to be Completed", PATIENCE, async || {
        let all = jobs.list(&ListParams::default()).await?.items;
        let phases = all.into_iter().filter_map(|job| job.status?.phase);
        Ok((phases.filter(|phase| *phase == Phase::Completed).count() == 100).then_some(()))
    })
    .await?;
    site.cleaned_up().await?;
    // The last events are on their way. A busy server logs a call long after it came in: later is what came in later.
    let mut last = None;
    eventually("two seconds without a write", PATIENCE, async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = site.operators.writes(&site.namespace)?.iter().map(|write| write.at).max();
        Ok((std::mem::replace(&mut last, now) == now).then_some(()))
    })
    .await?;
    drop(first);

    let second = site.operator_with(&["--leader-elect=false"], None)?;
    for kind in ["flashjobs", "pods", "services", "instances"] {
        second.has_listed(kind, PATIENCE).await?;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut writes = site.operators.writes(&site.namespace)?;
    writes.retain(|write| Some(write.at) > last);
    assert_eq!(writes, []);
    assert_eq!(site.flashed().len(), 100);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn six_thousand_devices_in_one_job_are_applied_counted_and_flashed_if_they_are_there()
-> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let mut uuid: Vec<String> =
        (0..6_000).map(|n| format!("5f1c7e0a-{:04x}-4b1d-9a52-{n:012x}", n % 65_536)).collect();
    uuid[17] = boards[0].uid().unwrap();
    uuid[5_999] = boards[1].uid().unwrap();
    let _operator = site.operator()?;
    let job = json!({
        "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
        "kind": "FlashJob",
        "metadata": { "name": "fleet", "namespace": site.namespace },
        "spec": {
            "uuid": uuid, "firmware": "registry.example/esp32:0.2.0", "version": "0.2.0",
            "flashjobPodImage": "registry.example/flasher:1",
        },
    });
    site.cluster.apply_yaml(&job.to_string()).await?;
    let working = site.status("fleet", "the two that are there to be flashed", |s| {
        s.counts.is_some_and(|c| c.succeeded == 2 && c.offline == 5_998)
    });
    let working = working.await?;
    assert_eq!(working.counts.map(|c| c.total), Some(6_000));
    assert_eq!(working.message.as_deref(), Some("2 of 6000 devices done, 5998 offline"));
    assert_eq!(working.completed_uuids, [uuid[17].clone(), uuid[5_999].clone()]);
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"]);
    let ledgers = site.ledgers().await?;
    assert_eq!(ledgers.len(), 24);
    let sealed = |data: &str| data.contains("\"sealed\":true");
    let header = ledgers.iter().flat_map(|l| l.data.iter().flat_map(|d| d.values()));
    assert_eq!(
        header.filter(|value| sealed(value)).count(),
        1,
        "the first says that all are there"
    );

    // All of the rest fail at once: the largest status there is, less those it does not list.
    site.edit("fleet", json!({ "timeouts": { "offlineSeconds": 0 } })).await?;
    let failed = site.phase("fleet", Phase::Failed).await?;
    assert_eq!(failed.counts.map(|c| (c.succeeded, c.failed)), Some((2, 5_998)));
    assert_eq!(failed.failures.len(), 100);
    let size = serde_json::to_vec(&failed)?.len();
    assert!(size < 100_000, "the status has {size} bytes");
    // A 5xx is the server's own trouble, such as giving out cluster addresses to many at once, and is tried again.
    let refused = |w: &AuditEntry| (400..500).contains(&w.code) && w.code != 409;
    let refused: Vec<AuditEntry> =
        site.operators.writes(&site.namespace)?.into_iter().filter(refused).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    Ok(())
}
