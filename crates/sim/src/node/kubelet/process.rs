//! Containers that are processes of this machine.
//!
//! A process gets the environment of its container and, in the place of mounts, a folder with the same files, which it finds
//! as its working directory: `work/file` is what is mounted at `/work`, as in a container whose working directory is `/`. A
//! word of its command line that is a path of a mount is replaced by where that is. It has no mounts, network, host name or
//! users of its own, no image and no limits, and everything else it finds is this machine's. Nothing forwards from a Service
//! to a Pod here, so a process listens on its Service's address itself.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Container;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::env::expand;
use super::folder::{PodFolder, Root, make};
use super::images::{Env, Program};
use super::logs::Log;
use super::probe::Probe;
use crate::process::{Running, tail};
use crate::usage::Usage;

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The longest termination message, as with a kubelet.
const LONGEST_MESSAGE: usize = 4096;
/// What is taken from the log in its place, when there is none.
const FROM_LOG: u64 = 2048;
/// What images have, unless they say otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A process that runs, or has run. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    running: Running,
    message: PathBuf,
    /// Whether its log has to say why it failed, if it has left no message.
    log_speaks: bool,
    /// What it had used up when it was last looked at.
    usage: Option<Usage>,
    /// When it is killed, because it was told to end before and has not.
    kill_at: Option<Instant>,
    /// What says whether it is ready.
    pub(super) probe: Option<Probe>,
    _log: Log,
}

impl Process {
    /// Starts what a container of this image runs.
    pub(super) fn start(
        program: &Program,
        container: &Container,
        folder: &PodFolder,
        log: Log,
        given: Env,
    ) -> Result<Self> {
        let root = folder.root(container)?;
        let words = |words: &[String]| words_of(words, &root, &given);
        let mut command = words(container.command.as_deref().unwrap_or_default());
        if command.is_empty() {
            command.push(program.path.display().to_string());
        }
        command.extend(words(container.args.as_deref().unwrap_or_default()));
        let (first, rest) = command.split_first().context("a container without a command")?;
        let probe = Probe::of(container, words);

        let mut env = Env::from([
            ("PATH".to_owned(), PATH.to_owned()),
            ("HOSTNAME".to_owned(), folder.host_name.clone()),
        ]);
        env.extend(given.clone());
        (program.adapt)(&root, &mut env);
        let work = root.path(container.working_dir.as_deref().unwrap_or_default());
        make(&work)?;
        let running =
            Running::start_in(Some(&work), first.as_ref(), rest, Some(&env), log.path.clone())?;
        let policy = container.termination_message_policy.as_deref();
        Ok(Self {
            running,
            message: root.termination_log(container),
            log_speaks: policy == Some("FallbackToLogsOnError"),
            usage: None,
            kill_at: None,
            probe: probe.map(|probe| probe.within(work, env)),
            _log: log,
        })
    }

    /// Waits for its end; the exit code.
    pub(super) async fn ended(&mut self) -> i32 {
        loop {
            if let Some(code) = self.running.exit_code() {
                return code;
            }
            let pid = self.running.pid().unsigned_abs();
            self.usage = Usage::of(pid).ok().or(self.usage);
            if self.kill_at.is_some_and(|at| at <= Instant::now()) {
                // One that cannot be signalled has ended.
                let _ = self.running.signal(Signal::KILL);
            }
            sleep(LOOK).await;
        }
    }

    /// SIGTERM now and SIGKILL after the grace period. Waits for the end; the exit code.
    pub(super) async fn end(&mut self, grace: Duration) -> i32 {
        let _ = self.running.signal(Signal::TERM);
        self.kill_at = Some(Instant::now() + grace);
        self.ended().await
    }

    /// What it had used up shortly before its end.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The termination message. If there is none and it has failed, the end of its log, where that is asked for.
    pub(super) fn message(&self, exit_code: i32) -> String {
        let mut bytes = fs::read(&self.message).unwrap_or_default();
        bytes.truncate(LONGEST_MESSAGE);
        if bytes.is_empty() && exit_code != 0 && self.log_speaks {
            tail(self.running.log(), FROM_LOG).unwrap_or_default()
        } else {
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }
}

/// The words of a command as a process of this machine has to have them.
fn words_of(words: &[String], root: &Root, given: &Env) -> Vec<String> {
    words.iter().map(|word| root.word(expand(word, given))).collect()
}
