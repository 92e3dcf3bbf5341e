//! Many boards, some of them faulty, in one job.

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::site::{Account, Outcome};
use flashjob_sim::flashjob::{Fault, Site, Times};
use serde_json::json;

use crate::{NEW, site};

/// What is wrong with a board, and what has to come of it.
fn faults() -> Vec<(Fault, Times, Result<(), &'static str>)> {
    let other = flashjob_sim::flashjob::board::MacAddress::nth(60_000);
    vec![
        (Fault::Answers500, Times::First(1), Ok(())),
        (Fault::AnswerLost, Times::First(1), Ok(())),
        (Fault::DropsAt(20_000), Times::First(1), Ok(())),
        (Fault::RebootsSlowly(Duration::from_secs(20)), Times::Always, Ok(())),
        (Fault::Answers500, Times::Always, Err("DeviceRefused")),
        (Fault::NeverCallsBack, Times::Always, Err("NoCallback")),
        (Fault::DropsAt(20_000), Times::Always, Err("TransferInterrupted")),
        (Fault::RejectsImage, Times::Always, Err("ImageRejected")),
        (Fault::BootsOldSlot, Times::Always, Err("VersionMismatch")),
        (Fault::ShowsCertificateOf(other), Times::Always, Err("IdentityMismatch")),
    ]
}

/// Every tenth board is faulty. The job's account must be the boards', and every failure must have its reason.
async fn rollout(site: &Site<Field>, spec: serde_json::Value) -> Result<()> {
    let faults = faults();
    let expected = |number: usize| match number % 10 {
        3 => Some(&faults[number / 10 % faults.len()]),
        _ => None,
    };
    for (number, board) in site.field.boards.iter().enumerate() {
        if let Some((fault, times, _)) = expected(number) {
            board.inject(fault.clone(), *times);
        }
    }
    site.flash("fleet", NEW, spec).await?;
    let status = site.finished("fleet", Duration::from_secs(600)).await?;
    let account = Account::take(site, &status, NEW);
    assert_eq!(account.disagreements(), Vec::<String>::new());
    assert_eq!(account.entries.len(), site.field.boards.len());
    for (number, board) in site.field.boards.iter().enumerate() {
        let entry = account.entries.iter().find(|e| e.endpoint == board.endpoint()).unwrap();
        let wanted = match expected(number).map(|(_, _, end)| end) {
            Some(Err(reason)) => Outcome::Failed((*reason).to_owned()),
            _ => Outcome::Succeeded,
        };
        assert_eq!(entry.outcome, wanted, "board {number}: {:#?}", board.ledger());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_boards_of_two_kinds_and_every_tenth_is_faulty() -> Result<()> {
    let (site, _operator) = site(200, &["esp32s2", "esp32c3"]).await?;
    let spec = json!({
        "rollout": { "maxParallel": 25 },
        "retry": { "limit": 1, "backoffSeconds": 1 },
        "timeouts": { "deviceSeconds": 120 },
    });
    rollout(&site, spec).await
}
