//! FlashJobs as users handle them: written, created, edited, and followed until they say something.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::instance::Instance;
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, Phase};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::site::Site;
use crate::{PATIENCE, eventually};

/// What every spec has that no real board is to take.
pub fn sample(version: &str) -> Value {
    json!({
        "firmware": format!("registry.example/esp32:{version}"),
        "version": version,
        "flashjobPodImage": "registry.example/flasher:1",
    })
}

/// A spec with more in it.
pub fn with(mut spec: Value, more: Value) -> Value {
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    spec
}

/// The uids of boards, as a job names them.
pub fn uids(boards: &[Instance]) -> Vec<String> {
    boards.iter().filter_map(ResourceExt::uid).collect()
}

/// Creates a job.
pub async fn create(jobs: &Api<FlashJob>, name: &str, spec: Value) -> Result<FlashJob> {
    let job = FlashJob::new(name, serde_json::from_value(spec)?);
    let created = jobs.create(&PostParams::default(), &job).await;
    created.with_context(|| format!("no FlashJob {name}"))
}

/// Changes a job's spec.
pub async fn edit(jobs: &Api<FlashJob>, name: &str, change: &Value) -> kube::Result<()> {
    let patch = Patch::Merge(json!({ "spec": change }));
    jobs.patch(name, &PatchParams::default(), &patch).await.map(drop)
}

/// Waits until a job's status is as `wanted`.
pub async fn until(
    jobs: &Api<FlashJob>,
    name: &str,
    what: &str,
    patience: Duration,
    wanted: impl Fn(&FlashJobStatus) -> bool,
) -> Result<FlashJobStatus> {
    let mut last = None;
    let reached = eventually(what, patience, async || {
        last = jobs.get(name).await?.status;
        Ok(last.clone().filter(|status| wanted(status)))
    });
    let reached = reached.await;
    reached.with_context(|| format!("the last status of {name} was {last:#?}"))
}

/// Waits until a job is finished.
pub async fn finished(
    jobs: &Api<FlashJob>,
    name: &str,
    patience: Duration,
) -> Result<FlashJobStatus> {
    let what = format!("{name} to be finished");
    until(jobs, name, &what, patience, |status| status.completion_time.is_some()).await
}

/// In the site's own namespace.
impl<F> Site<F> {
    pub fn jobs(&self) -> Api<FlashJob> {
        self.api()
    }

    pub async fn edit(&self, name: &str, change: Value) -> Result<()> {
        Ok(edit(&self.jobs(), name, &change).await?)
    }

    /// What a job says now.
    pub async fn status_now(&self, name: &str) -> Result<FlashJobStatus> {
        Ok(self.jobs().get(name).await?.status.unwrap_or_default())
    }

    pub async fn status(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&FlashJobStatus) -> bool,
    ) -> Result<FlashJobStatus> {
        until(&self.jobs(), name, what, PATIENCE, wanted).await
    }

    pub async fn phase(&self, name: &str, phase: Phase) -> Result<FlashJobStatus> {
        let what = format!("{name} to be {phase:?}");
        self.status(name, &what, |status| status.phase == Some(phase)).await
    }

    pub async fn finished(&self, name: &str, patience: Duration) -> Result<FlashJobStatus> {
        finished(&self.jobs(), name, patience).await
    }

    pub async fn job_is_gone(&self, name: &str) -> Result<()> {
        let jobs = self.jobs();
        let what = format!("{name} to be gone");
        eventually(&what, PATIENCE, async || Ok(jobs.get_opt(name).await?.is_none().then_some(())))
            .await
    }
}

/// With boards that are only names.
impl Site {
    /// The documented sample, for these boards.
    pub async fn flash(&self, name: &str, boards: &[Instance]) -> Result<FlashJob> {
        self.flash_with(name, json!({ "uuid": uids(boards) })).await
    }

    /// The same with this in its spec.
    pub async fn flash_with(&self, name: &str, more: Value) -> Result<FlashJob> {
        let spec = with(sample("0.2.0"), json!({ "device": "esp32" }));
        create(&self.jobs(), name, with(spec, more)).await
    }
}
