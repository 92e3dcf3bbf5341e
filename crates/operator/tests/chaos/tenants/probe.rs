//! What a kubelet does with the operator's Pod: it asks whether it is well, and ends it when it gets no answer.

use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
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
    timeout(ANSWER, answered(address, path)).await?
}

async fn answered(address: SocketAddrV4, path: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    Ok(())
}
