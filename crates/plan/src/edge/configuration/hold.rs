//! What a device is served when something it needs is not there.
//!
//! The device runs what its configuration lists and nothing else, so a workload that is left out is a pod that is removed. A
//! Secret that somebody deleted by mistake must not do that. Whoever runs the workload therefore keeps the whole
//! configuration it has; whoever does not is sent the rest. What was not read yet holds everybody, for as long as it takes to
//! read it: a device may run the workload without having said so.
//!
//! Only what cannot be rendered holds. A workload that nobody wants any more, or that is not accepted, is not asked about here,
//! and goes.
//!
//! After a restart the labels `workload/<name>` of the EdgeDevice say what the device may run. So such a label is on record before
//! the device is sent that workload for the first time, and a workload that it was never sent has none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flashjob_api::edge::EdgeReason;

use super::compose::{Composed, Configuration, LARGEST_CONFIGURATION, SettingsText, compose};
use super::fragment::Fragment;
use super::material::Lack;
use crate::edge::problem::Problem;
use crate::edge::workloads::refers_to;

/// What a device is to have.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub device: &'a str,
    /// `None`: something they need was not read yet.
    pub settings: Option<&'a SettingsText>,
    /// Those that are accepted and for this device, by name.
    pub workloads: &'a BTreeMap<String, Result<Arc<Fragment>, Lack>>,
    /// What the device is known to run.
    pub runs: &'a BTreeSet<String>,
    /// What this process served it last.
    pub last: Option<&'a Arc<Configuration>>,
    /// The labels of its EdgeDevice. `None`: what it would be served once they are right.
    pub labels: Option<&'a BTreeMap<String, String>>,
}

#[derive(Debug)]
pub enum Serve {
    New(Configuration),
    /// What it was served last. `None`: this process has served it nothing, so the device keeps what it has.
    Keep(Option<Arc<Configuration>>),
}

#[derive(Debug)]
pub struct Served {
    pub serve: Serve,
    /// Why workloads are not as they are wanted, by name.
    pub problems: BTreeMap<String, Vec<Problem>>,
    /// The workloads that its labels are to name.
    pub references: BTreeSet<String>,
}

pub fn serve(wanted: Wanted<'_>) -> Served {
    let Wanted { device, workloads, runs, last, labels, .. } = wanted;
    let may_run = |name: &str| runs.contains(name) || last.is_some_and(|last| last.has(name));
    let is_on_record =
        |name: &str| labels.is_none_or(|labels| refers_to(labels, name)) || may_run(name);
    let (mut fragments, mut problems, mut unread) = (Vec::new(), BTreeMap::new(), false);
    for (name, rendered) in workloads {
        match rendered {
            Ok(fragment) => fragments.push(Arc::clone(fragment)),
            Err(Lack::Problems(found)) => drop(problems.insert(name.clone(), found.clone())),
            Err(Lack::Unread(found)) => {
                unread = true;
                if !found.is_empty() {
                    problems.insert(name.clone(), found.clone());
                }
            }
        }
    }
    let mut references: BTreeSet<String> =
        workloads.keys().filter(|name| is_on_record(name)).cloned().collect();
    let keep = || Serve::Keep(last.cloned());
    let Some(settings) = wanted.settings else {
        return Served { serve: keep(), problems, references };
    };

    let Composed { mut configuration, left_out } =
        compose(device, settings, fragments.iter().cloned());
    for name in left_out {
        let most = LARGEST_CONFIGURATION >> 20;
        let message = format!("all that the device is to have is more than {most} MiB");
        problems.insert(name, vec![Problem::new(EdgeReason::TooLarge, message)]);
    }
    if unread || problems.keys().any(|name| may_run(name)) {
        return Served { serve: keep(), problems, references };
    }
    fragments.retain(|fragment| configuration.has(&fragment.name));
    let to_send = fragments.len();
    fragments.retain(|fragment| is_on_record(&fragment.name));
    if fragments.len() < to_send {
        references.extend(configuration.names().map(str::to_owned));
        configuration = compose(device, settings, fragments).configuration;
    }
    Served { serve: Serve::New(configuration), problems, references }
}

#[cfg(test)]
mod tests {
    use super::super::fragment::tests::{render, workload};
    use super::super::material::tests::Namespace;
    use super::*;

    /// A fleet of one device with the workloads `plain` and `db`, which needs the Secret `password`.
    struct Fleet {
        workloads: BTreeMap<String, Result<Arc<Fragment>, Lack>>,
        runs: BTreeSet<String>,
        last: Option<Arc<Configuration>>,
        settings: Option<SettingsText>,
        labels: BTreeMap<String, String>,
    }

    impl Fleet {
        fn new(namespace: &Namespace) -> Self {
            let rendered = |name: &str, secret| {
                let rendered = render(name, &workload(secret), namespace);
                (name.to_owned(), rendered.map(Arc::new))
            };
            Self {
                workloads: [rendered("plain", None), rendered("db", Some("password"))].into(),
                runs: BTreeSet::new(),
                last: None,
                settings: Some(SettingsText::new(&Default::default())),
                labels: ["plain", "db", "x", "y", "z"].map(label).into(),
            }
        }

        fn labelled(mut self, names: &[&'static str]) -> Self {
            self.labels = names.iter().copied().map(label).collect();
            self
        }

        fn running(mut self, name: &str) -> Self {
            self.runs.insert(name.into());
            self
        }

        fn served(mut self, last: &Arc<Configuration>) -> Self {
            self.last = Some(Arc::clone(last));
            self
        }

        fn serve(&self) -> Served {
            serve(Wanted {
                device: "edge1",
                settings: self.settings.as_ref(),
                workloads: &self.workloads,
                runs: &self.runs,
                last: self.last.as_ref(),
                labels: Some(&self.labels),
            })
        }
    }

    fn label(name: &str) -> (String, String) {
        (format!("workload/{name}"), "true".to_owned())
    }

    fn there() -> Namespace {
        Namespace::default().secret("password", &[("key", "hunter2")])
    }

    fn new(served: Served) -> Arc<Configuration> {
        match served.serve {
            Serve::New(configuration) => Arc::new(configuration),
            Serve::Keep(kept) => panic!("it is held: {kept:?}"),
        }
    }

    #[test]
    fn with_all_there_a_device_gets_all_of_it() {
        let served = Fleet::new(&there()).serve();
        assert!(served.problems.is_empty());
        let configuration = new(served);
        assert!(configuration.has("plain") && configuration.has("db") && !configuration.has("x"));
    }

    #[test]
    fn who_does_not_run_what_lacks_its_secret_gets_the_rest() {
        let served = Fleet::new(&Namespace::default()).running("plain").serve();
        let [(name, problems)] = served.problems.iter().collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((name.as_str(), problems[0].reason), ("db", EdgeReason::SecretMissing));
        let configuration = new(served);
        assert!(configuration.has("plain") && !configuration.has("db"));
    }

    #[test]
    fn who_runs_it_keeps_the_configuration_it_has() {
        let last = new(Fleet::new(&there()).serve());
        let kept = Fleet::new(&Namespace::default()).served(&last).running("db").serve();
        let Serve::Keep(Some(configuration)) = kept.serve else { panic!() };
        assert!(Arc::ptr_eq(&configuration, &last));
        assert_eq!(kept.problems.len(), 1, "and somebody is told");
    }

    #[test]
    fn who_was_served_it_may_run_it_before_it_says_so() {
        let last = new(Fleet::new(&there()).serve());
        let kept = Fleet::new(&Namespace::default()).served(&last).serve();
        assert!(matches!(kept.serve, Serve::Keep(Some(_))));
    }

    #[test]
    fn after_a_restart_there_is_nothing_to_serve_to_who_runs_it() {
        let kept = Fleet::new(&Namespace::default()).running("db").serve();
        assert!(matches!(kept.serve, Serve::Keep(None)));
    }

    #[test]
    fn what_was_not_read_yet_holds_everybody_and_is_no_problem() {
        let kept = Fleet::new(&there().unread("password")).serve();
        assert!(matches!(kept.serve, Serve::Keep(None)));
        assert!(kept.problems.is_empty());
        let settings = Fleet { settings: None, ..Fleet::new(&there()) };
        assert!(matches!(settings.serve().serve, Serve::Keep(None)));
    }

    #[test]
    fn what_cannot_be_read_holds_everybody_and_is_a_problem() {
        let kept = Fleet::new(&there().failing("password", "no route to host")).serve();
        assert!(matches!(kept.serve, Serve::Keep(None)));
        let [(name, problems)] = kept.problems.iter().collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((name.as_str(), problems[0].reason), ("db", EdgeReason::ReadFailed));
        let message = "the Secret default/password could not be read: no route to host; ";
        assert!(problems[0].message.starts_with(message), "{}", problems[0].message);
    }

    #[test]
    fn what_there_is_no_room_for_any_more_holds_who_runs_it_and_nobody_else() {
        let mut fleet = Fleet::new(&there());
        for name in ["x", "y", "z"] {
            let mut spec = workload(None);
            spec.log_collection = Some("l".repeat(1 << 20));
            let rendered = render(name, &spec, &there()).map(Arc::new);
            fleet.workloads.insert(name.into(), rendered);
        }
        let served = fleet.serve();
        let reasons = served.problems.iter().map(|(name, found)| (name.as_str(), found[0].reason));
        assert_eq!(reasons.collect::<Vec<_>>(), [("z", EdgeReason::TooLarge)]);
        assert!(new(served).has("y"));
        assert!(matches!(fleet.running("z").serve().serve, Serve::Keep(None)));
    }

    #[test]
    fn what_nobody_wants_any_more_goes_also_from_who_runs_it() {
        let last = new(Fleet::new(&there()).serve());
        let mut fleet = Fleet::new(&Namespace::default()).served(&last).running("db");
        fleet.workloads.remove("db");
        assert!(!new(fleet.serve()).has("db"));
    }

    #[test]
    fn once_the_secret_is_back_the_device_goes_on() {
        let last = new(Fleet::new(&there()).serve());
        let back = new(Fleet::new(&there()).served(&last).running("db").serve());
        assert_eq!(back.version(), last.version());
    }

    fn references(served: &Served) -> Vec<&str> {
        served.references.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_workload_is_on_record_before_it_is_sent_for_the_first_time() {
        let fleet = Fleet::new(&there()).labelled(&["plain"]);
        let first = fleet.serve();
        assert_eq!(references(&first), ["db", "plain"]);
        let first = new(first);
        assert!(first.has("plain") && !first.has("db"));
        let second = fleet.labelled(&["db", "plain"]).served(&first).serve();
        assert_eq!(references(&second), ["db", "plain"]);
        assert!(new(second).has("db"));
    }

    #[test]
    fn a_label_that_somebody_takes_off_takes_nothing_from_who_runs_it() {
        let last = new(Fleet::new(&there()).serve());
        for fleet in [
            Fleet::new(&there()).labelled(&[]).served(&last),
            Fleet::new(&there()).labelled(&[]).running("db").running("plain"),
        ] {
            let served = fleet.serve();
            assert_eq!(references(&served), ["db", "plain"]);
            assert_eq!(new(served).version(), last.version());
        }
    }

    #[test]
    fn what_cannot_be_sent_is_not_put_on_record() {
        let none = Namespace::default();
        let lacks = Fleet::new(&none).labelled(&[]).serve();
        assert_eq!(references(&lacks), ["plain"]);
        // Neither is anything new while the device keeps what it has.
        let held = Fleet::new(&none).labelled(&["db"]).running("db").serve();
        assert_eq!(references(&held), ["db"]);
        let unread = Fleet::new(&there().unread("password")).labelled(&["db"]).serve();
        assert_eq!(references(&unread), ["db"]);
    }
}
