use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use flashjob_sim::eventually;
use rustix::process::{Pid, test_kill_process};

use crate::LIMIT;

/// Cargo builds examples before it runs tests, into a folder beside that of the tests.
fn example(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let target = test.parent().and_then(Path::parent).context("no target folder")?;
    Ok(target.join("examples").join(name))
}

fn lives(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

#[tokio::test]
async fn nothing_is_left_of_a_process_that_was_killed() -> Result<()> {
    let mut process = Command::new(example("hold")?)
        .stdout(Stdio::piped())
        .spawn()
        .context("no example `hold`: run `cargo test` without `--test`, or build it")?;
    let output = process.stdout.take().context("no output")?;
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map(|_| line)
    })
    .await??;
    let [etcd, api_server, folder] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        anyhow::bail!("the example said {line:?}");
    };
    let pids: [i32; 2] = [etcd.parse()?, api_server.parse()?];
    assert!(pids.into_iter().all(lives));
    // SIGKILL: no destructor runs.
    process.kill()?;
    process.wait()?;
    eventually("everything to be gone", LIMIT, || async {
        let left = pids.into_iter().any(lives) || Path::new(folder).exists();
        Ok((!left).then_some(()))
    })
    .await
}
