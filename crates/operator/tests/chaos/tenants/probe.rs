//! What a kubelet does with the operator's Pod: it asks whether it is well, and ends it when it gets no answer.

use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::{Result, ensure};
use flashjob_sim::http::get;
use tokio::time::timeout;

/// The path it asks.
pub const LIVENESS: &str = "/healthz";
pub const READINESS: &str = "/readyz";
/// How long an answer may take, and how many may be missing in a row: what holds when the Deployment says nothing else.
const ANSWER: Duration = Duration::from_secs(1);
pub const MOST_MISSED: usize = 3;
/// Between two questions. A schedule takes seconds, so this is sooner than the 20 s of the Deployment.
pub const PERIOD: Duration = Duration::from_millis(250);
/// A process is not asked before it is so old.
pub const FIRST: Duration = Duration::from_secs(2);

/// Asks once.
pub async fn ask(address: SocketAddrV4, path: &str) -> Result<()> {
    let (status, body) = timeout(ANSWER, get(address.into(), path)).await??;
    ensure!(status == 200, "{path}: {status} {body}");
    Ok(())
}
