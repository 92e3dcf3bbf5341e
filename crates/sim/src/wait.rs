//! Waiting for a condition, with an end.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// How long anything may take before a test gives up; far longer than it takes.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often a condition is looked at that nothing announces.
const POLL: Duration = Duration::from_millis(25);

/// Asks until `probe` has an answer. When `limit` is over, the error names `what` was waited for.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = probe().await? {
            return Ok(answer);
        }
        if Instant::now() >= end {
            bail!("waited {limit:?} in vain for {what}");
        }
        sleep(POLL).await;
    }
}
