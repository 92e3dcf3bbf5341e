//! The operator is killed in the middle of a rollout, and another takes over.

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::eventually;
use flashjob_sim::flashjob::site::Account;
use flashjob_sim::flashjob::{Fault, Times};
use serde_json::json;

use crate::{NEW, site};

/// Long enough for another operator to get the lease, and for the flashes.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_twice_loses_nothing_and_flashes_nothing_twice() -> Result<()> {
    let (site, mut operator) = site(30, &["esp32s2"]).await?;
    // One that is in the middle of a flash for as long as nobody leads.
    site.field.boards[3].inject(Fault::RebootsSlowly(Duration::from_secs(300)), Times::Always);
    let spec = json!({ "rollout": { "maxParallel": 6 }, "retry": { "backoffSeconds": 1 } });
    site.flash("fleet", NEW, spec).await?;
    for flashed in [4, 15] {
        eventually("some boards to be flashed", PATIENCE, async || {
            let new = site.field.boards.iter().filter(|board| board.version() == NEW).count();
            Ok((new >= flashed).then_some(()))
        })
        .await?;
        // The old one is gone before the new one starts.
        operator.kill();
        operator = site.operator()?;
    }
    let status = site.finished("fleet", PATIENCE).await?;
    let account = Account::take(&site, &status, NEW);
    assert_eq!(account.disagreements(), Vec::<String>::new());
    assert_eq!(status.counts.map(|counts| counts.succeeded), Some(30));
    for (number, board) in site.field.boards.iter().enumerate() {
        let ledger = board.ledger();
        assert_eq!((ledger.updates.len(), ledger.overlaps), (1, 0), "board {number}: {ledger:#?}");
    }
    Ok(())
}
