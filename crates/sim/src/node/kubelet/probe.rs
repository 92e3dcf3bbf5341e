//! Readiness by `exec`: a command in the container that ends with 0 while it is ready. No other probe is played; a container
//! without this one is ready as soon as it runs.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::images::Env;

#[derive(Debug)]
pub(super) struct Probe {
    words: Vec<String>,
    folder: PathBuf,
    env: Env,
    delay: Duration,
    period: Duration,
    limit: Duration,
    /// How often in a row it must fail, or succeed, for the container to change.
    failures: i32,
    successes: i32,
}

pub(super) fn has_probe(container: &Container) -> bool {
    container.readiness_probe.as_ref().is_some_and(|probe| probe.exec.is_some())
}

impl Probe {
    /// That of a container; `words` makes a command of this machine of one in the container.
    pub(super) fn of(
        container: &Container,
        words: impl Fn(&[String]) -> Vec<String>,
    ) -> Option<Self> {
        let probe = container.readiness_probe.as_ref()?;
        let command = probe.exec.as_ref()?.command.as_deref().unwrap_or_default();
        let seconds = |given: Option<i32>, usual: u32| {
            Duration::from_secs(given.map_or(usual, i32::unsigned_abs).into())
        };
        Some(Self {
            words: words(command),
            folder: PathBuf::new(),
            env: Env::new(),
            delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            limit: seconds(probe.timeout_seconds, 1),
            failures: probe.failure_threshold.unwrap_or(3),
            successes: probe.success_threshold.unwrap_or(1),
        })
    }

    pub(super) fn within(self, folder: PathBuf, env: Env) -> Self {
        Self { folder, env, ..self }
    }

    /// Runs as long as the container does; tells of every change. At first it is not ready.
    pub(super) async fn watch(self, tell: impl Fn(bool)) {
        let (mut ready, mut in_a_row) = (false, 0);
        sleep(self.delay).await;
        loop {
            if self.succeeds().await == ready {
                in_a_row = 0;
            } else {
                in_a_row += 1;
            }
            if in_a_row >= if ready { self.failures } else { self.successes } {
                (ready, in_a_row) = (!ready, 0);
                tell(ready);
            }
            sleep(self.period).await;
        }
    }

    async fn succeeds(&self) -> bool {
        let Some((program, args)) = self.words.split_first() else { return false };
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(&self.env).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.kill_on_drop(true);
        let ended = timeout(self.limit, command.status()).await;
        matches!(ended, Ok(Ok(status)) if status.success())
    }
}
