//! How containers start: when it is their turn, nothing holds them, and they have all they need.

use std::time::Duration;

use futures::FutureExt;
use kube::ResourceExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::env::{self, Sources};
use super::super::images::{Env, Program};
use super::super::process::Process;
use super::super::run::{self, Ended};
use super::super::{Script, ScriptEnd, Started, probe, volumes};
use super::{Interrupt, Worker};
use crate::clock::now;

/// How often a missing key is looked for again.
const RECHECK: Duration = Duration::from_millis(100);

/// What a container waits for: a reason, if it is another than before, and a kubelet's words.
type Missing = (Option<&'static str>, String);

impl Worker {
    /// Takes over what an earlier kubelet had begun; whether it had. Scripts begin anew, and processes are lost.
    pub(super) fn resume(&mut self) -> bool {
        let status = self.pod.status.as_ref();
        let known: Vec<_> = status
            .into_iter()
            .flat_map(|status| [&status.init_container_statuses, &status.container_statuses])
            .flat_map(|statuses| statuses.iter().flatten().cloned())
            .collect();
        let mut begun = false;
        for index in 0..self.containers.len() {
            let container = &mut self.containers[index];
            let mut named = known.iter().filter(|status| status.name == container.spec.name);
            let Some(status) = named.next() else { continue };
            container.status = status.clone();
            let (runs, ended) = (container.runs(), container.exit_code().is_some());
            if runs || ended {
                begun = true;
                container.due = None;
            }
            let lost = || "started by an earlier kubelet, and lost".to_owned();
            if runs {
                let process = self.program_of(index).map(|_| Err(lost()));
                self.push(index, process.transpose());
            }
        }
        if begun {
            self.reported = Some(self.status());
        }
        begun
    }

    /// Starts every container that may start now.
    pub(super) async fn start_due(&mut self) -> Result<(), Interrupt> {
        let now = Instant::now();
        let is_due = |index: &usize| self.containers[*index].due.is_some_and(|due| due <= now);
        let due: Vec<usize> = self.in_turn().filter(is_due).collect();
        if due.is_empty() || *self.shared.held.borrow() {
            return Ok(());
        }
        let ready = self.environments(due).await;
        self.interrupts.check().await?;
        for (index, env) in ready {
            match env {
                Ok(env) => self.begin(index, env),
                Err((reason, message)) => self.containers[index].lack(reason, message, RECHECK),
            }
        }
        Ok(())
    }

    /// The environments of these containers, or what each lacks. Those whose image cannot be had are left out for good.
    async fn environments(&mut self, due: Vec<usize>) -> Vec<(usize, Result<Env, Missing>)> {
        let shared = self.shared.clone();
        let mut sources = Sources::new(&shared.client, &self.pod);
        let _turn = shared.calls.acquire().await;
        if let Err(missing) = self.fill(&mut sources).await {
            return due.into_iter().map(|index| (index, Err((None, missing.clone())))).collect();
        }
        let mut all = Vec::new();
        for index in due {
            let executed = self.program_of(index).is_some();
            let container = &mut self.containers[index];
            if !executed && self.script.end == ScriptEnd::ImagePullBackOff {
                let image = container.spec.image.as_deref().unwrap_or_default();
                let message = format!("Back-off pulling image \"{image}\"");
                container.wait("ImagePullBackOff", Some(message));
                container.due = None;
                continue;
            }
            let env = env::resolve(&mut sources, &self.pod, &container.spec, executed).await;
            let env = env.unwrap_or_else(|error| Err(error.to_string()));
            let incomplete = |message| (Some("CreateContainerConfigError"), message);
            all.push((index, env.map_err(incomplete)));
        }
        all
    }

    /// Makes the volumes of a Pod that has processes, once.
    async fn fill(&mut self, sources: &mut Sources<'_>) -> Result<(), String> {
        if let Some(folder) = &self.folder
            && !self.filled
        {
            let filled = volumes::fill(sources, &self.pod, folder).await;
            filled.unwrap_or_else(|error| Err(format!("{error:#}")))?;
        }
        self.filled = true;
        Ok(())
    }

    /// Nothing happens when a hold came in between. The lock is kept, so that nothing starts once `hold` has returned.
    fn begin(&mut self, index: usize, env: Env) {
        let shared = self.shared.clone();
        let held = shared.held.borrow();
        if *held {
            return;
        }
        let at = now();
        let container = &mut self.containers[index];
        let started = Started {
            namespace: self.pod.namespace().unwrap_or_default(),
            pod: self.pod.name_any(),
            uid: self.pod.uid().unwrap_or_default(),
            container: container.spec.name.clone(),
            image: container.spec.image.clone().unwrap_or_default(),
            env: env.clone(),
            at,
            ended_at: None,
            exit_code: None,
            usage: None,
        };
        shared.starts.send_modify(|starts| {
            container.start = Some(starts.len());
            starts.push(started);
        });
        // One that has run before is started again.
        container.status.restart_count += i32::from(container.status.last_state.is_some());
        let process =
            self.program_of(index).cloned().map(|program| self.spawn(index, &program, env));
        let probed = process.is_some() && probe::has_probe(&self.containers[index].spec);
        self.containers[index].begin(at, !probed);
        self.push(index, process.transpose());
    }

    fn spawn(&self, index: usize, program: &Program, env: Env) -> Result<Process, String> {
        let container = &self.containers[index];
        let name = &container.spec.name;
        let key = [self.pod.namespace().unwrap_or_default(), self.pod.name_any(), name.clone()];
        let Some(folder) = &self.folder else { return Err("no folder".to_owned()) };
        let process = folder.log(name, container.status.restart_count).and_then(|path| {
            let log = self.shared.logs.open(key, path);
            Process::start(program, &container.spec, folder, log, env)
        });
        process.map_err(|error| format!("{error:#}"))
    }

    /// A container runs: as a process, or by its script if that is none.
    fn push(&mut self, index: usize, process: Result<Option<Process>, String>) {
        let (stop, stopped) = oneshot::channel();
        self.containers[index].stop = Some(stop);
        let run = match process {
            Ok(Some(process)) => {
                let tell = self.tell.clone();
                let tell = move |ready| {
                    // Whoever listens no more does not need to know.
                    let _ = tell.send((index, ready));
                };
                run::executed(process, stopped, tell).boxed()
            }
            Ok(None) => run::played(self.script_of(index), stopped).boxed(),
            Err(error) => std::future::ready(Ended::not_started(error)).boxed(),
        };
        self.runs.push(run.map(move |ended| (index, ended)).boxed());
    }

    fn script_of(&self, index: usize) -> Script {
        let script = self.script.clone();
        let first = self.containers.iter().position(|container| !container.init);
        if self.containers[index].init {
            Script::default()
        } else if script.sidecars_run_on && Some(index) != first {
            Script { end: ScriptEnd::Never, ..script }
        } else {
            script
        }
    }
}
