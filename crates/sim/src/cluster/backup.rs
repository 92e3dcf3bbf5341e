//! A cluster that is restored from a backup: all that was written since is gone, and resourceVersions go backwards.
//!
//! What is kept is etcd's folder while etcd stands still, as a snapshot of its disk has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::start::{self, ETCD_DATA};
use super::{Cluster, lock};
use crate::process::Running;
use crate::wait::eventually;

/// How long a process may take to stand still.
const STILL: Duration = Duration::from_secs(10);

/// What etcd had at a moment. It goes with its cluster.
#[derive(Debug)]
pub struct Backup {
    folder: PathBuf,
}

impl Cluster {
    /// Keeps what is in the cluster now.
    pub async fn backup(&self) -> Result<Backup> {
        let number = self.next();
        let folder = self.scratch().join(format!("backup-{number}"));
        let pid = lock(&self.inner.etcd).pid();
        lock(&self.inner.etcd).pause()?;
        let copied = async {
            eventually("etcd to stand still", STILL, async || Ok(is_still(pid)?.then_some(())))
                .await?;
            copy(&self.scratch().join(ETCD_DATA), &folder)
        };
        let copied = copied.await;
        lock(&self.inner.etcd).resume()?;
        copied.context("no backup of etcd")?;
        Ok(Backup { folder })
    }

    /// Puts it back as a person does: the control plane is stopped, and started with the old data where it was.
    pub async fn restore(&self, backup: &Backup) -> Result<()> {
        self.stop().await;
        let data = self.scratch().join(ETCD_DATA);
        fs::remove_dir_all(&data).context("etcd's data")?;
        copy(&backup.folder, &data).context("etcd's data cannot be put back")?;
        let (inner, number) = (&self.inner, self.next());
        let log = |name: &str| self.scratch().join(format!("{name}-{number}.log"));
        *lock(&inner.etcd) = Running::start(&inner.assets.etcd, &inner.etcd_args, log("etcd"))?;
        let (program, args) = (&inner.assets.api_server, &inner.api_server_args);
        *lock(&inner.api_server) = Running::start(program, args, log("kube-apiserver"))?;
        start::started(inner).await
    }
}

/// Whether every thread of a process was stopped by a signal.
fn is_still(pid: i32) -> Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(thread?.path().join("stat"))?;
        // The name before it may have anything in it.
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
        if state != Some("T") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, to) = {
            let entry = entry?;
            let to = to.join(entry.file_name());
            (entry, to)
        };
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).with_context(|| format!("{}", entry.path().display()))?;
        }
    }
    // Whoever starts etcd with it must be the only one who may read it.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    Ok(())
}
