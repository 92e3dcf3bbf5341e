//! Devices by their labels, as Kubernetes chooses by labels: `spec.deviceSelector`.
//!
//! A selector that cannot be meant is refused and chooses nobody. What Kubernetes would take and never matches is refused
//! as well: it leaves its user waiting.

use std::collections::{BTreeMap, BTreeSet};

use flashjob_api::edge::GROUP;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::super::device_id::is_subdomain;
use super::super::labels::{UNCLAIMED, WORKLOAD};
use super::super::problem::Problem;
use super::shape::{invalid, is_label_name};

const PATH: &str = "spec.deviceSelector";

/// Every one of them is asked for every device.
const MOST_REQUIREMENTS: usize = 64;

/// Labels as they have to be. Without requirements it is every device of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads what a user wrote.
    pub fn read(selector: &LabelSelector) -> Result<Self, Problem> {
        let labels = selector.match_labels.iter().flatten();
        let expressions = selector.match_expressions.as_deref().unwrap_or_default();
        if labels.clone().count() + expressions.len() > MOST_REQUIREMENTS {
            let why = format!("has more than {MOST_REQUIREMENTS} labels and expressions");
            return Err(invalid(PATH, why));
        }
        let pair = |(key, value): (&String, &String)| {
            let path = format!("{PATH}.matchLabels");
            check_key(&path, key)?;
            check_value(&format!("{path}.{key}"), value)?;
            let test = Test::In([value.clone()].into());
            Ok(Requirement { key: key.clone(), test })
        };
        let expression = |(index, expression)| {
            Requirement::read(&format!("{PATH}.matchExpressions[{index}]"), expression)
        };
        let all = labels.map(pair).chain(expressions.iter().enumerate().map(expression));
        all.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a device with these labels is chosen.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// Labels that every chosen device has.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|requirement| match &requirement.test {
            Test::In(values) if values.len() == 1 => {
                values.first().map(|value| (requirement.key.as_str(), value.as_str()))
            }
            _ => None,
        })
    }
}

impl Requirement {
    fn read(path: &str, written: &LabelSelectorRequirement) -> Result<Self, Problem> {
        check_key(&format!("{path}.key"), &written.key)?;
        let values = written.values.as_deref().unwrap_or_default();
        let path_of_values = format!("{path}.values");
        let some = || {
            if values.is_empty() {
                return Err(invalid(&path_of_values, "is empty, and In and NotIn need values"));
            }
            values.iter().try_for_each(|value| check_value(&path_of_values, value))?;
            Ok(values.iter().cloned().collect())
        };
        let none = |test| {
            let why = "has values, and Exists and DoesNotExist take none";
            if values.is_empty() { Ok(test) } else { Err(invalid(&path_of_values, why)) }
        };
        let test = match written.operator.as_str() {
            "In" => Test::In(some()?),
            "NotIn" => Test::NotIn(some()?),
            "Exists" => none(Test::Exists)?,
            "DoesNotExist" => none(Test::DoesNotExist)?,
            _ => {
                let why = "has to be In, NotIn, Exists or DoesNotExist";
                return Err(invalid(&format!("{path}.operator"), why));
            }
        };
        Ok(Self { key: written.key.clone(), test })
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

/// Labels that are put on devices because of workloads, or by the way devices come in. Would they count, a workload could
/// depend on itself.
fn is_ours(key: &str) -> bool {
    let of_group = key.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'));
    key.starts_with(WORKLOAD) || key == UNCLAIMED || of_group
}

fn check_key(path: &str, key: &str) -> Result<(), Problem> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if !prefix.is_none_or(is_subdomain) || !is_label_name(name) {
        return Err(invalid(path, format!("{key:?} is not the name of a label")));
    }
    if is_ours(key) {
        return Err(invalid(
            path,
            format!("{key} is a label of the operator's, and chooses no devices"),
        ));
    }
    Ok(())
}

fn check_value(path: &str, value: &str) -> Result<(), Problem> {
    if value.is_empty() || is_label_name(value) {
        Ok(())
    } else {
        Err(invalid(path, format!("{value:?} cannot be the value of a label")))
    }
}

#[cfg(test)]
mod tests;
