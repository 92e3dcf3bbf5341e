use flashjob_api::edge::Heartbeat;

use super::*;

const SET: SetKind = SetKind::EdgeDeviceSet;
const GROUP: SetKind = SetKind::EdgeDeviceGroup;

/// Settings with nothing but the period of heartbeats.
fn every(seconds: i64) -> Settings {
    let period = Heartbeat { period_seconds: Some(seconds), ..Heartbeat::default() };
    Settings { heartbeat: Some(period), ..Settings::default() }
}

fn see(sets: &mut Sets, kind: SetKind, name: &str, seconds: i64) -> bool {
    sets.see(kind, "a", name, Arc::new(Ok(every(seconds))))
}

fn seconds(settings: &Settings) -> Option<i64> {
    settings.heartbeat.as_ref()?.period_seconds
}

fn period(sets: &Sets, name: &str) -> Option<i64> {
    seconds(sets.get("a", name)?.as_ref().unwrap())
}

#[test]
fn only_what_says_something_new_is_a_change() {
    let mut sets = Sets::default();
    assert!(see(&mut sets, SET, "pumps", 5));
    assert!(!see(&mut sets, SET, "pumps", 5), "somebody has annotated it");
    assert!(see(&mut sets, SET, "pumps", 6));
    assert_eq!(period(&sets, "pumps"), Some(6));
    sets.lose(SET, "a", "pumps");
    assert_eq!(period(&sets, "pumps"), None);
    assert!(sets.known.is_empty(), "and nothing is left of it");
}

#[test]
fn of_two_with_one_name_the_one_of_the_newer_kind_counts() {
    let mut sets = Sets::default();
    see(&mut sets, GROUP, "pumps", 1);
    assert_eq!(period(&sets, "pumps"), Some(1));
    see(&mut sets, SET, "pumps", 2);
    assert_eq!(period(&sets, "pumps"), Some(2));
    sets.lose(SET, "a", "pumps");
    assert_eq!(period(&sets, "pumps"), Some(1));
}

#[test]
fn what_a_list_has_no_more_is_gone_and_nothing_else() {
    let mut sets = Sets::default();
    for (kind, name) in [(SET, "a"), (SET, "b"), (GROUP, "b"), (GROUP, "c")] {
        see(&mut sets, kind, name, 1);
    }
    sets.see(SET, "b", "b", Arc::new(Ok(every(7))));
    assert!(sets.end(SET, "a").is_empty(), "no list was under way");
    sets.begin(SET, "a");
    assert!(!see(&mut sets, SET, "a", 1));
    assert_eq!(sets.end(SET, "a"), BTreeSet::from(["b".to_owned()]));
    assert_eq!(["a", "b", "c"].map(|name| period(&sets, name)), [Some(1); 3]);
    assert!(sets.get("b", "b").is_some(), "the set b of the other namespace is still there");
}

#[test]
fn what_counts_for_a_device_comes_from_its_set_and_what_is_wrong_is_said() {
    let mut sets = Sets::default();
    see(&mut sets, SET, "pumps", 5);
    sets.see(SET, "a", "broken", Arc::new(Err("spec: 7 is no settings".to_owned())));
    let (own, unreadable) = (Ok(every(9)), Err("spec: odd".to_owned()));
    let told = |set: &str, own: Option<&Result<Settings, String>>| {
        let labels = [(labels::SET.to_owned(), set.to_owned())].into();
        let (settings, problems) = sets.settings_of("a", &labels, own);
        let said = problems.into_iter().map(|p| format!("{}: {}", p.reason, p.message));
        (seconds(&settings), said.collect::<Vec<_>>())
    };
    let none = Vec::<String>::new();
    assert_eq!(told("pumps", None), (Some(5), none.clone()));
    assert_eq!(told("pumps", Some(&own)), (Some(5), none.clone()), "the set comes first");
    assert_eq!(told("", Some(&own)), (Some(9), none.clone()), "an empty label names none");
    assert_eq!(told("", None), (None, none));
    let (period, said) = told("nowhere", Some(&own));
    assert!(period == Some(9) && said[0].starts_with("SetMissing: there is no EdgeDeviceSet"));
    let (period, said) = told("broken", Some(&own));
    assert_eq!(period, Some(9));
    assert_eq!(said, ["InvalidSpec: the set of the device: spec: 7 is no settings"]);
    let (period, said) = told("pumps", Some(&unreadable));
    assert_eq!((period, said), (Some(5), vec!["InvalidSpec: spec: odd".to_owned()]));
    let elsewhere = [(labels::SET.to_owned(), "pumps".to_owned())].into();
    assert_eq!(sets.settings_of("b", &elsewhere, None).1.len(), 1, "sets are of a namespace");
}

#[test]
fn who_is_in_no_set_costs_no_copy() {
    let own = Ok(every(9));
    let (settings, _) = Sets::default().settings_of("a", &BTreeMap::new(), Some(&own));
    assert!(matches!(settings, Cow::Borrowed(_)));
}
