//! Containers that are real processes of this machine.
//!
//! A process gets the environment of its Pod and, in the place of mounts, a folder of its own with the same files. It has
//! no mounts, network or users of its own, no image and no limits: whatever image a Pod names, [`Program::path`] is what
//! runs. Nothing forwards from a Service to a Pod here, so a process listens on its Service's address itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::process::{Running, tail};
use crate::usage::Usage;

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The longest termination message, as with a kubelet.
const LONGEST_MESSAGE: usize = 4096;
/// What is taken from the log in its place, when there is none.
const FROM_LOG: u64 = 2048;

/// What runs in the first container of every Pod.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Where Pods have their folders and logs.
    pub folder: PathBuf,
    /// Variables by which the program is told where a file of a container is, and that file's path there.
    pub places: Vec<(&'static str, &'static str)>,
}

impl Program {
    /// For the flasher at `path`, with everything it leaves in `folder`.
    pub fn flasher(path: &Path, folder: &Path) -> Self {
        Self {
            path: path.to_owned(),
            folder: folder.to_owned(),
            places: vec![
                ("SERVER_CRT_PATH", "/var/run/flashjob/tls/tls.crt"),
                ("SERVER_KEY_PATH", "/var/run/flashjob/tls/tls.key"),
                ("REGISTRY_CONFIG", "/var/run/flashjob/registry/.dockerconfigjson"),
                ("TMPDIR", "/tmp"),
                ("TERMINATION_LOG", "/dev/termination-log"),
            ],
        }
    }

    /// The folder that is a Pod's `/`.
    pub(super) fn root(&self, uid: &str) -> PathBuf {
        self.folder.join(uid)
    }

    /// The file a Pod's output goes to.
    pub(super) fn log(&self, uid: &str) -> PathBuf {
        self.folder.join(format!("{uid}.log"))
    }

    /// Starts the program for a Pod.
    pub(super) fn start(&self, uid: &str, mut env: BTreeMap<String, String>) -> Result<Process> {
        let root = self.root(uid);
        for folder in ["tmp", "dev"] {
            fs::create_dir_all(root.join(folder)).context("cannot make a Pod's folder")?;
        }
        for (name, path) in &self.places {
            env.entry((*name).to_owned()).or_insert_with(|| inside(&root, path));
        }
        if let Some(address) = env.get("EXTERNAL_IP").cloned() {
            env.entry("LISTEN".to_owned()).or_insert_with(|| format!("{address}:4433"));
        }
        let running = Running::start_with(&self.path, &[], Some(&env), self.log(uid))?;
        Ok(Process {
            running,
            message: root.join("dev/termination-log"),
            usage: None,
            kill_at: None,
        })
    }
}

/// Where a container's path is on this machine.
fn inside(root: &Path, path: &str) -> String {
    root.join(path.trim_start_matches('/')).display().to_string()
}

/// A process that runs, or has run. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    running: Running,
    message: PathBuf,
    /// What it had used up when it was last looked at.
    usage: Option<Usage>,
    /// When it is killed, because it was told to end before and has not.
    kill_at: Option<Instant>,
}

impl Process {
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

    /// SIGTERM now, once, and SIGKILL after the grace period. Waits for the end; the exit code.
    pub(super) async fn end(&mut self, grace: Duration) -> i32 {
        if self.kill_at.is_none() {
            let _ = self.running.signal(Signal::TERM);
            self.kill_at = Some(Instant::now() + grace);
        }
        self.ended().await
    }

    /// What it had used up shortly before its end.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The termination message; if there is none and it has failed, the end of its log.
    pub(super) fn message(&self, exit_code: i32) -> String {
        let mut bytes = fs::read(&self.message).unwrap_or_default();
        bytes.truncate(LONGEST_MESSAGE);
        if bytes.is_empty() && exit_code != 0 {
            tail(self.running.log(), FROM_LOG).unwrap_or_default()
        } else {
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }
}
