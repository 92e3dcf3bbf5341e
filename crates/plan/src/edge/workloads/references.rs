//! The workloads of a device as its EdgeDevice names them: a label `workload/<name>: "true"` for each that it has been sent, or
//! is about to be.

use std::collections::{BTreeMap, BTreeSet};

use super::super::labels::WORKLOAD;

/// Whether these labels name the workload, with whatever value.
pub fn refers_to(labels: &BTreeMap<String, String>, workload: &str) -> bool {
    !labels.is_empty() && labels.contains_key(&format!("{WORKLOAD}{workload}"))
}

/// The workloads that these labels name, with whatever value.
pub fn referred(labels: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    let from = labels.range(WORKLOAD.to_owned()..);
    from.map_while(|(key, _)| key.strip_prefix(WORKLOAD))
}

/// What is to be changed in the labels of an EdgeDevice that has these and is to run the wanted workloads: labels that come,
/// and those that go, with `None`. `None` for all of it if they are right.
pub fn references<'a>(
    labels: &BTreeMap<String, String>,
    wanted: impl IntoIterator<Item = &'a str>,
) -> Option<BTreeMap<String, Option<String>>> {
    let wanted: BTreeSet<String> =
        wanted.into_iter().map(|name| format!("{WORKLOAD}{name}")).collect();
    let ours = referred(labels).map(|name| format!("{WORKLOAD}{name}"));
    let gone = ours.filter(|key| !wanted.contains(key)).map(|key| (key, None));
    let is_right = |key: &String| labels.get(key).is_some_and(|value| value == "true");
    let new = wanted.iter().filter(|key| !is_right(key));
    let new = new.map(|key| (key.clone(), Some("true".to_owned())));
    let change: BTreeMap<_, _> = gone.chain(new).collect();
    (!change.is_empty()).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::super::tests::labels;
    use super::*;

    fn change(present: &str, wanted: &[&str]) -> String {
        let change = references(&labels(present), wanted.iter().copied()).unwrap_or_default();
        let told = change.iter().map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => format!("-{key}"),
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_device_is_labelled_with_its_workloads_and_no_others() {
        let web = "workload/web=true";
        assert_eq!(change("", &["web", "db"]), "workload/db=true workload/web=true");
        assert_eq!(change(web, &["web"]), "");
        assert_eq!(change(web, &["db"]), "workload/db=true -workload/web");
        assert_eq!(change("", &[]), "");
    }

    #[test]
    fn labels_of_others_stay_and_a_wrong_value_is_put_right() {
        let present =
            "app=x workload=1 workload.x/y=true workload/web=no workload/Old=1 workloads/z=true";
        assert_eq!(change(present, &["web"]), "-workload/Old workload/web=true");
    }
}
