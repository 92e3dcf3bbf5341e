//! Starts a cluster, prints the process ids of its parts and its folder, and waits to be killed.
//!
//! A test kills it with SIGKILL and looks whether anything is left.

use anyhow::Result;
use flashjob_sim::Cluster;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the test reads it")]
async fn main() -> Result<()> {
    let started = std::time::Instant::now();
    let cluster = Cluster::start().await?;
    let [etcd, api_server] = cluster.pids();
    println!("{etcd} {api_server} {}", cluster.scratch().display());
    println!("ready after {:?}", started.elapsed());
    std::future::pending().await
}
