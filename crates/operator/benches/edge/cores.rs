//! Which cores a program may use. The server has one for itself, so that the load does not take away what is measured; the load,
//! API server and etcd share the others. On a machine with one core everybody shares that, and the latencies say little.

use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

const SERVER: usize = 0;

/// Lets a server run on the first core alone.
pub fn for_a_server(pid: i32) -> Result<()> {
    pin(pid, |core| core == SERVER)
}

/// Lets a program run on the other cores.
pub fn for_the_others(pid: i32) -> Result<()> {
    pin(pid, |core| core != SERVER)
}

/// All threads that a program has; those it makes later are where the ones are that make them.
fn pin(pid: i32, may: impl Fn(usize) -> bool) -> Result<()> {
    let cores = available().context("the machine does not say how many cores it has")?;
    if cores < 2 {
        return Ok(());
    }
    let mut set = CpuSet::new();
    (0..cores).filter(|core| may(*core)).for_each(|core| set.set(core));
    // Whoever was made while the list was read is in the next one.
    for _ in 0..2 {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?.file_name().to_string_lossy().parse().ok();
            let Some(thread) = thread.and_then(Pid::from_raw) else { continue };
            // It may have ended.
            let _ = sched_setaffinity(Some(thread), &set);
        }
    }
    Ok(())
}

/// Asked once, before anybody was pinned: what a thread may use is all that it sees.
fn available() -> Option<usize> {
    static CORES: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().ok().map(Into::into))
}
