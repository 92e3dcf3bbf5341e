//! A site with an operator that looks after it, and the program under test.

use std::io::Write;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use flashjob_api::flashjob::instance::Instance;
use flashjob_sim::Launcher;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::Script;
use k8s_openapi::api::core::v1::Pod;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-flashjob");

/// How the program ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// It ended well; what it said to programs.
    pub fn well(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.out
    }

    /// It ended with this code, and said these words to people.
    pub fn badly(self, code: i32, words: &str) {
        assert!(self.code == code && self.err.contains(words), "{self:#?}");
        assert!(!self.err.contains("panicked"), "{self:#?}");
    }
}

/// A site where the program is used.
pub struct CliSite(Site);

impl Deref for CliSite {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.0
    }
}

impl CliSite {
    pub async fn new(script: impl Fn(&Pod) -> Script + Send + Sync + 'static) -> Result<Self> {
        let cluster = Cluster::shared_installed().await?;
        let operators = Launcher::new(cluster).await?;
        let operators = operators.with("--flashjob-image=registry.example/flasher:1");
        Ok(Self(Site::on(cluster).operators(operators).start(script).await?))
    }

    /// The address of a board here. A board is one board in all namespaces, so each test has its own.
    pub fn address(&self, n: usize) -> String {
        let site = self.namespace.rsplit('-').next().unwrap_or_default();
        format!("10.9.{site}.{n}")
    }

    /// So many boards, as Akri finds them.
    pub async fn boards(&self, count: usize) -> Result<Vec<Instance>> {
        let mut boards = Vec::new();
        for n in 0..count {
            boards.push(self.board(&self.address(n)).await?);
        }
        Ok(boards)
    }

    /// Runs the program with nobody to ask.
    pub async fn run(&self, args: &[&str]) -> Ended {
        self.run_as(&self.kubeconfig, args, "").await
    }

    /// The same with another kubeconfig, and with something to read. Other tests have devices in other namespaces, so it is
    /// told to look in this one if it is told nothing else.
    pub async fn run_as(&self, kubeconfig: &Path, args: &[&str], input: &str) -> Ended {
        // One that hangs is a failure, and not the end of the test run.
        let mut command = Command::new("timeout");
        command.args(["120", PROGRAM]).args(args).env("KUBECONFIG", kubeconfig);
        if !args.iter().any(|arg| arg.starts_with("-n") || *arg == "__complete") {
            command.args(["-n", &self.namespace]);
        }
        let input = input.to_owned();
        tokio::task::spawn_blocking(move || run(command, &input)).await.unwrap()
    }
}

/// Runs a command to its end.
pub fn run(mut command: Command, input: &str) -> Ended {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may have ended without reading.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap_or(-1);
    Ended { code, out: text(output.stdout), err: text(output.stderr) }
}
