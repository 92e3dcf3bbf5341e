//! Workloads that devices are labelled with and that are in no list: whether their CRD tells that nobody has deleted them.

use std::collections::BTreeMap;

use flashjob_plan::edge::labels;
use flashjob_plan::edge::problem::Problem;
use flashjob_plan::edge::workloads::absent::CrdFacts;
use flashjob_plan::edge::workloads::{WorkloadFacts, WorkloadKind};
use tokio::time::Instant;

use super::{EdgeController, Unlisted};
use crate::edge::input::Input;
use crate::edge::workload_crds;
use crate::engine::backoff::Backoff;
use crate::process::clock;

/// The key of looks at CRDs, and of their record, among all callers.
pub const WORKLOAD_CRDS: &str = "/workload-crds";

/// How the record of CRDs is written.
#[derive(Default)]
pub struct Recording {
    busy: bool,
    backoff: Backoff,
}

impl EdgeController {
    /// `listed`: the namespace whose list is complete, and means something when the CRD was looked at after it.
    pub(super) fn look_at_crd(&self, kind: WorkloadKind, listed: Option<String>) {
        let (caller, inputs) = (self.caller(WORKLOAD_CRDS, &self.home), self.inputs.clone());
        tokio::spawn(async move {
            let crd = workload_crds::look(&caller, kind).await;
            let _ = inputs.send(Input::CrdLooked { kind, listed, crd }).await;
        });
    }

    pub(super) fn crd_looked(
        &mut self,
        kind: WorkloadKind,
        listed: Option<String>,
        crd: Option<CrdFacts>,
    ) {
        let kept = if self.absent.awaits_any() { self.labelled_with_absent() } else { Vec::new() };
        self.absent.look(kind, crd, clock::now());
        if !self.absent.awaits_any() {
            kept.iter().for_each(|device| self.queue.enqueue_at(device, Instant::now()));
        }
        match listed {
            Some(namespace) => self.known(Unlisted::Workloads(kind, namespace)),
            None => self.account_for_labels(),
        }
    }

    pub(super) fn crds_loaded(&mut self, record: &BTreeMap<String, String>) {
        self.absent.remember(record);
        self.known(Unlisted::Crds);
    }

    pub(super) fn tick_absent(&mut self) {
        if self.absent.awaits_any() {
            let due = self.absent.due(clock::now());
            due.into_iter().for_each(|kind| self.look_at_crd(kind, None));
            self.account_for_labels();
        }
        self.record_crds();
    }

    /// All is listed. If no device is labelled with what is in no list, the CRDs are the ones to go by from now on; unless one of them
    /// was replaced since its objects were listed.
    pub(super) fn account_for_labels(&mut self) {
        let is_of_an_earlier_crd =
            |known: &WorkloadFacts| self.absent.is_of_an_earlier_crd(known.kind, known.created);
        let went = self.workloads.all().any(|judged| is_of_an_earlier_crd(judged.facts));
        let missing = self.absent.awaits_any() && !self.labelled_with_absent().is_empty();
        self.absent.account(went || missing);
        self.record_crds();
    }

    fn record_crds(&mut self) {
        if self.recording.busy || self.recording.backoff.until().is_some() {
            return;
        }
        let Some(record) = self.absent.unrecorded() else { return };
        self.recording.busy = true;
        let (caller, home) = (self.caller(WORKLOAD_CRDS, &self.home), self.home.clone());
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let written = workload_crds::write(caller, home, record.clone()).await;
            let _ = inputs.send(Input::CrdsRecorded(written.map(|()| record))).await;
        });
    }

    pub(super) fn crds_recorded(&mut self, written: Result<BTreeMap<String, String>, String>) {
        self.recording.busy = false;
        match written {
            Ok(record) => {
                self.recording.backoff.succeeded();
                self.absent.recorded(&record);
            }
            Err(error) => {
                self.recording.backoff.failed();
                tracing::warn!(error, "the record of CRDs could not be written and is tried again");
            }
        }
    }

    /// What a device with these labels keeps, although it is in no list, and why.
    pub(super) fn absent_of(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> BTreeMap<String, Problem> {
        if !self.absent.awaits_any() {
            return BTreeMap::new();
        }
        let references = labels.keys().filter_map(|label| label.strip_prefix(labels::WORKLOAD));
        let absent =
            references.filter(|name| self.workloads.of_name(namespace, name).next().is_none());
        let problem = |name: &str| Some((name.to_owned(), self.absent.problem(namespace, name)?));
        absent.filter_map(problem).collect()
    }

    fn labelled_with_absent(&self) -> Vec<String> {
        let devices = self.shared.devices();
        let namespaces = self.shared.settings.namespaces.iter();
        let all = namespaces.flat_map(|namespace| {
            devices.of_namespace(namespace).map(move |(name, device)| (namespace, name, device))
        });
        let labelled = all
            .filter(|(namespace, _, device)| !self.absent_of(namespace, &device.labels).is_empty());
        labelled.map(|(_, name, _)| name.clone()).collect()
    }
}
