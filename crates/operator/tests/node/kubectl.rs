//! kubectl and the Makefile, as a person uses them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// kubectl for one cluster.
pub struct Kubectl {
    args: Vec<String>,
}

impl Kubectl {
    /// For the cluster of a kubeconfig. What kubectl keeps of a cluster is beside its settings, or in this folder.
    pub fn new(kubeconfig: &Path, cache: Option<PathBuf>) -> Self {
        let mut args = vec![format!("--kubeconfig={}", kubeconfig.display())];
        args.extend(cache.map(|folder| format!("--cache-dir={}", folder.display())));
        Self { args }
    }

    /// Runs it, and gives back what it printed.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        self.feed(args, "")
    }

    /// The same with this as its input.
    pub fn feed(&self, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new("kubectl");
        command.args(&self.args).args(args);
        finish(command, input)
    }

    /// Runs a target of the Makefile with this kubectl. A server older than 1.23 refuses fields of the CRD that it does not
    /// know; the Makefile says what helps.
    pub fn make(&self, target: &str, variables: &[String]) -> Result<()> {
        let kubectl = format!("kubectl {}", self.args.join(" "));
        let mut command = Command::new("make");
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        command.env_remove("MAKEFLAGS").arg(target).args(variables);
        command.arg(format!("KUBECTL={kubectl}"));
        let version: Value = serde_json::from_str(&self.run(&["version", "-o", "json"])?)?;
        let minor = version["serverVersion"]["minor"].as_str().unwrap_or_default();
        if minor.trim_end_matches('+').parse::<u32>().is_ok_and(|minor| minor < 23) {
            command.arg(format!("APPLY={kubectl} apply --validate=false"));
        }
        finish(command, "").map(drop)
    }
}

fn finish(mut command: Command, input: &str) -> Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}\n{error}");
    Ok(said)
}
