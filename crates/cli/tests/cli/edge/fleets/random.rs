//! Fleets and files from a seed.
//!
//! A fleet is what is in its namespace after the files before: it has few names and few labels, so that they meet often.

use std::collections::{BTreeMap, BTreeSet};

use flashjob_sim::SeededRng;
use serde_json::{Value, json};

use super::plan::{Planned, Trouble};

pub const WORKLOADS: [&str; 2] = ["EdgeDeployment", "EdgeWorkload"];
pub const SETS: [&str; 2] = ["EdgeDeviceSet", "EdgeDeviceGroup"];
const SET: &str = "flotta/member-of";

/// Kind and name.
pub type Key = (String, String);

pub fn key(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// What happens in a namespace between two files.
#[derive(Debug, Default)]
pub struct Steps {
    pub delete: Vec<Key>,
    /// Labels of devices, with null for those that go.
    pub label: BTreeMap<String, Value>,
    /// Devices that may behave otherwise from then on.
    pub other_settings: BTreeSet<String>,
}

pub struct RandomFleet {
    dice: SeededRng,
    devices: Vec<String>,
    /// The set that each is labelled with.
    sets: BTreeMap<String, String>,
    /// Workloads and sets that are there.
    there: BTreeSet<Key>,
    /// Those among them that cannot be sent.
    bad: BTreeSet<Key>,
    files: usize,
}

impl RandomFleet {
    pub fn new(seed: u64, devices: Vec<String>) -> Self {
        let (sets, there, bad) = Default::default();
        Self { dice: SeededRng::new(seed), devices, sets, there, bad, files: 0 }
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        self.dice.pick(of).unwrap().clone()
    }

    /// What cannot be sent goes, so that no device keeps something that it is not to have; and so do a few others.
    pub fn steps(&mut self) -> Steps {
        let mut steps = Steps::default();
        let there: Vec<Key> = self.there.iter().cloned().collect();
        for key in there {
            let spared = !self.bad.contains(&key) && !self.dice.chance(1, 4);
            if spared {
                continue;
            }
            self.there.remove(&key);
            if SETS.contains(&key.0.as_str()) {
                let members = self.sets.iter().filter(|(_, set)| **set == key.1);
                steps.other_settings.extend(members.map(|(device, _)| device.clone()));
            }
            steps.delete.push(key);
        }
        self.bad.clear();
        for device in self.devices.clone() {
            if self.dice.chance(1, 2) {
                continue;
            }
            let mut labels = json!({
                "app": self.one(&[None, Some("web"), Some("db")]),
                "floor": self.one(&[None, Some("1"), Some("2")]),
            });
            if self.dice.chance(1, 3) {
                // The last is never there.
                let set = self.one(&["", "s0", "s1", "s2"]);
                labels[SET] = if set.is_empty() { Value::Null } else { json!(set) };
                self.sets.insert(device.clone(), set.to_owned());
                steps.other_settings.insert(device.clone());
            }
            steps.label.insert(device, labels);
        }
        steps
    }

    /// A file. It has objects of Edge, and may have a Secret that one of them names.
    pub fn file(&mut self) -> Vec<Value> {
        self.files += 1;
        let mut objects = BTreeMap::new();
        for _ in 0..1 + self.dice.below(4) {
            let (kind, name, spec) = if self.dice.chance(1, 4) {
                (self.one(&SETS), self.one(&["s0", "s1"]).to_owned(), self.settings())
            } else {
                let long = "n".repeat(64);
                let name = self.one(&["w0", "w1", "w2", "w0", "w1", "w2", "w0", &long]).to_owned();
                (self.one(&WORKLOADS), name, self.workload())
            };
            objects.insert((kind.to_owned(), name), spec);
        }
        if !objects.keys().any(|(kind, _)| WORKLOADS.contains(&kind.as_str())) {
            objects.insert(("EdgeWorkload".to_owned(), "w3".to_owned()), self.workload());
        }
        // In the order of kinds: of two with one name the one that is made first is the older.
        let mut file: Vec<Value> = objects
            .into_iter()
            .map(|((kind, name), spec)| {
                json!({
                    "apiVersion": "management.project-flotta.io/v1alpha1", "kind": kind,
                    "metadata": { "name": name }, "spec": spec,
                })
            })
            .collect();
        let made = self.made();
        if file.iter().any(|object| object.to_string().contains(&made)) {
            file.push(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": made }, "stringData": { "p": "hunter2" },
            }));
        }
        file
    }

    /// The Secret that comes with the file.
    fn made(&self) -> String {
        format!("made-{}", self.files)
    }

    fn workload(&mut self) -> Value {
        let image = self.one(&["i:1", "i:2"]);
        let mut container = json!({ "name": "c", "image": image });
        match self.dice.below(12) {
            0 => container["livenessProbe"] = json!({}),
            1 => container["image"] = json!(""),
            2 => container["ports"] = json!([{ "containerPort": 1, "hostPort": 9100 }]),
            3 => container["envFrom"] = json!([{ "secretRef": { "name": "nowhere" } }]),
            4 => container["envFrom"] = json!([{ "configMapRef": { "name": "nowhere" } }]),
            5 => {
                container["envFrom"] =
                    json!([{ "secretRef": { "name": "nowhere", "optional": true } }])
            }
            6 => container["envFrom"] = json!([{ "secretRef": { "name": self.made() } }]),
            7 => {
                let key = self.one(&["p", "q"]);
                let from = json!({ "secretKeyRef": { "name": "there", "key": key } });
                container["env"] = json!([{ "name": "P", "valueFrom": from }]);
            }
            _ => {}
        }
        let mut spec = json!({ "type": "pod", "pod": { "spec": { "containers": [container] } } });
        match self.dice.below(6) {
            0 => {
                let mut names = self.devices.clone();
                names.push("nobody".to_owned());
                spec["device"] = json!(self.one(&names));
                // The name wins.
                if self.dice.chance(1, 2) {
                    spec["deviceSelector"] = json!({});
                }
            }
            1 if self.dice.chance(1, 3) => {}
            _ => spec["deviceSelector"] = self.selector(),
        }
        spec
    }

    /// None, one or two requirements, of any kind.
    fn selector(&mut self) -> Value {
        let mut selector = json!({});
        if self.dice.chance(1, 3) {
            selector["matchLabels"] = json!({ "app": self.one(&["web", "db"]) });
        }
        if self.dice.chance(2, 3) {
            let (key, values) = self.one(&[("app", ["web", "db"]), ("floor", ["1", "2"])]);
            let some = &values[..1 + self.dice.below(2)];
            let operator = self.one(&["In", "NotIn", "Exists", "DoesNotExist"]);
            let mut expression = json!({ "key": key, "operator": operator });
            if operator.ends_with("In") {
                // One in eight is empty, and nobody can mean that.
                expression["values"] = if self.dice.chance(1, 8) { json!([]) } else { json!(some) };
            }
            selector["matchExpressions"] = json!([expression]);
        }
        selector
    }

    /// What a set says. 60 is the default.
    fn settings(&mut self) -> Value {
        let mut settings = json!({});
        if self.dice.chance(2, 3) {
            let period = self.one(&[60, 70, 80]);
            settings["heartbeat"] = json!({ "periodSeconds": period });
        }
        if self.dice.chance(1, 3) {
            let name = self.one(&["log", "nowhere"]);
            settings["logCollection"] = json!({ "a": { "syslogConfig": { "name": name } } });
        }
        settings
    }

    /// The file was applied, and that is what was said of it.
    pub fn applied(&mut self, file: &[Value], planned: &Planned) {
        self.there.extend(file.iter().map(key).filter(|(kind, _)| kind != "Secret"));
        let troubles = planned.refused.iter().chain(&planned.missing);
        let workloads = troubles.filter(|trouble| WORKLOADS.contains(&trouble.kind.as_str()));
        self.bad =
            workloads.map(|Trouble { kind, name, .. }| (kind.clone(), name.clone())).collect();
    }
}
