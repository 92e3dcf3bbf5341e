//! What decisions know of an EdgeDeployment or EdgeWorkload.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use flashjob_api::edge::WorkloadSpec;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// The two names of one thing, the older first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkloadKind {
    EdgeDeployment,
    EdgeWorkload,
}

impl WorkloadKind {
    pub const ALL: [Self; 2] = [Self::EdgeDeployment, Self::EdgeWorkload];

    pub fn kind(self) -> &'static str {
        match self {
            Self::EdgeDeployment => "EdgeDeployment",
            Self::EdgeWorkload => "EdgeWorkload",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::EdgeDeployment => "edgedeployments",
            Self::EdgeWorkload => "edgeworkloads",
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// An EdgeDeployment or EdgeWorkload, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadFacts {
    pub kind: WorkloadKind,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: u64,
    pub generation: i64,
    pub created: Timestamp,
    pub being_deleted: bool,
    /// Empty where nothing is to be done about them; see `known_finalizers`.
    pub finalizers: Vec<String>,
    /// Labels and annotations that the pod gets; see `podman`.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Or where and why it cannot be read: the CRD may be the original's, and looser than ours.
    pub spec: Result<Arc<WorkloadSpec>, String>,
}

/// Those labels or annotations of a workload that are for its pod, as the pod gets them.
pub fn podman(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let stripped = |(key, value): (&String, &String)| {
        key.strip_prefix("podman/").map(|key| (key.to_owned(), value.clone()))
    };
    all.iter().filter_map(stripped).collect()
}

/// Flotta's. It takes a workload off its devices before it lets it go; here that needs nothing but the workload's absence.
const FLOTTA: &str = "yggdrasil-device-reference-finalizer";

/// The finalizers of a workload without Flotta's; `None` if it is not there.
pub fn released(finalizers: &[String]) -> Option<Vec<String>> {
    let others: Vec<String> = finalizers.iter().filter(|f| *f != FLOTTA).cloned().collect();
    (others != finalizers).then_some(others)
}

/// What has to be known of a workload's finalizers: all of them where one is to be taken off, because they are written whole.
pub fn known_finalizers(finalizers: Vec<String>) -> Vec<String> {
    if released(&finalizers).is_some() { finalizers } else { Vec::new() }
}

/// Reads the `spec` of an EdgeDeployment or EdgeWorkload; null is a spec that says nothing. The error begins with the path of
/// the field that cannot be read.
pub fn read_spec(spec: &Value) -> Result<WorkloadSpec, String> {
    if spec.is_null() {
        return Ok(WorkloadSpec::default());
    }
    WorkloadSpec::deserialize(spec).map_err(|error| {
        let error = error.to_string();
        format!("{}: cannot be read: {error}", place(spec, &error))
    })
}

/// Serde says what is wrong and not where. So each part is read by itself, and the one that gives the same error has it.
fn place(spec: &Value, error: &str) -> String {
    let (mut path, mut steps, mut here) = ("spec".to_owned(), Vec::new(), spec);
    loop {
        let has_it = |step: &Step, part: &Value| {
            let alone = steps
                .iter()
                .rev()
                .fold(step.around(part.clone()), |inner, step: &Step| step.around(inner));
            WorkloadSpec::deserialize(alone).is_err_and(|other| other.to_string() == error)
        };
        let Some((step, part)) = parts(here).into_iter().find(|(step, part)| has_it(step, part))
        else {
            return path;
        };
        path.push_str(&step.to_string());
        steps.push(step);
        here = part;
    }
}

/// One step down into an object or a list.
enum Step {
    Key(String),
    Index(usize),
}

impl Step {
    fn around(&self, inner: Value) -> Value {
        match self {
            Self::Key(key) => json!({ key: inner }),
            Self::Index(_) => json!([inner]),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, ".{key}"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn parts(of: &Value) -> Vec<(Step, &Value)> {
    match of {
        Value::Object(fields) => {
            fields.iter().map(|(key, part)| (Step::Key(key.clone()), part)).collect()
        }
        Value::Array(entries) => {
            entries.iter().enumerate().map(|(index, part)| (Step::Index(index), part)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::labels;
    use super::*;

    #[test]
    fn a_spec_that_cannot_be_read_says_where() {
        let pair = json!({ "source": "a", "target": "b" });
        for (spec, wanted) in [
            (json!(7), "spec: cannot be read: invalid type: integer `7`"),
            (json!({ "device": 7, "type": "pod" }), "spec.device: cannot be read: "),
            (json!({ "pod": { "spec": "x" } }), "spec.pod.spec: cannot be read: "),
            (
                json!({ "data": { "egress": [pair, { "source": [] }] } }),
                "spec.data.egress[1].source: cannot be read: ",
            ),
            (
                json!({ "type": "pod", "deviceSelector": { "matchLabels": { "a": "b", "c": 1 } } }),
                "spec.deviceSelector.matchLabels.c: cannot be read: ",
            ),
            (
                json!({ "metrics": { "containers": { "web": { "port": "http" } } } }),
                "spec.metrics.containers.web.port: cannot be read: ",
            ),
        ] {
            let error = read_spec(&spec).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    #[test]
    fn of_two_fields_that_cannot_be_read_the_place_fits_the_error() {
        let error = read_spec(&json!({ "device": [], "type": {} })).unwrap_err();
        assert!(error.starts_with("spec.device: ") && error.contains("sequence"), "{error}");
    }

    #[test]
    fn a_spec_that_is_not_there_says_nothing() {
        assert_eq!(read_spec(&Value::Null), Ok(WorkloadSpec::default()));
        assert_eq!(
            read_spec(&json!({ "more": { "than": "we know" } })),
            Ok(WorkloadSpec::default())
        );
    }

    #[test]
    fn only_what_is_for_podman_is_for_the_pod() {
        let all = labels("podman/io.containers.autoupdate=registry selector/a=true app=web");
        assert_eq!(podman(&all), labels("io.containers.autoupdate=registry"));
    }

    #[test]
    fn flottas_finalizer_goes_and_those_of_others_stay() {
        let list = |all: &[&str]| -> Vec<String> { all.iter().map(|f| (*f).to_owned()).collect() };
        assert_eq!(released(&list(&["a", FLOTTA, "b"])), Some(list(&["a", "b"])));
        assert_eq!(released(&list(&["a", "b"])), None);
        assert_eq!(released(&[]), None);
        assert_eq!(known_finalizers(list(&["a", FLOTTA])), list(&["a", FLOTTA]));
        assert_eq!(known_finalizers(list(&["a", "b"])), list(&[]));
    }
}
