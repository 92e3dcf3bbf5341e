//! Starts a cluster, prints the process ids of its parts and its folder, and waits to be killed.
//!
//! A test kills it with SIGKILL and looks whether anything is left.

use anyhow::Result;
use flashjob_sim::cluster::Cluster;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the test reads it")]
async fn main() -> Result<()> {
    let cluster = Cluster::start().await?;
    let [etcd, api_server] = cluster.pids();
    println!("{etcd} {api_server} {}", cluster.scratch().display());
    // One line: the test stops reading after it, and a second could end this process before the test kills it.
    std::future::pending().await
}
