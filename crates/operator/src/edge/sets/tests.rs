use super::*;

const SET: SetKind = SetKind::EdgeDeviceSet;
const GROUP: SetKind = SetKind::EdgeDeviceGroup;

/// Settings with nothing but the period of heartbeats.
fn every(seconds: i64) -> SetSettings {
    let period = edge::Heartbeat { period_seconds: Some(seconds), ..edge::Heartbeat::default() };
    Arc::new(Ok(edge::Settings { heartbeat: Some(period), ..edge::Settings::default() }))
}

fn there(name: &str, seconds: i64) -> WatchEvent<(String, SetSettings)> {
    WatchEvent::There((name.to_owned(), every(seconds)))
}

fn left(name: &str) -> WatchEvent<(String, SetSettings)> {
    WatchEvent::Left((name.to_owned(), every(0)))
}

fn changed(sets: &mut Sets, kind: SetKind, event: WatchEvent<(String, SetSettings)>) -> String {
    sets.take(kind, "a", event).into_iter().collect::<Vec<_>>().join(" ")
}

fn period(sets: &Sets, name: &str) -> Option<i64> {
    let settings = Result::as_ref(sets.get("a", name)?).unwrap();
    settings.heartbeat.as_ref()?.period_seconds
}

#[test]
fn only_those_that_have_changed_are_named() {
    let mut sets = Sets::default();
    assert_eq!(changed(&mut sets, SET, there("pumps", 5)), "pumps");
    assert_eq!(changed(&mut sets, SET, there("pumps", 5)), "", "somebody has annotated it");
    assert_eq!(changed(&mut sets, SET, there("pumps", 6)), "pumps");
    assert_eq!(period(&sets, "pumps"), Some(6));
    assert_eq!(changed(&mut sets, SET, left("pumps")), "pumps");
    assert_eq!(period(&sets, "pumps"), None);
}

#[test]
fn of_two_with_one_name_the_one_of_the_newer_kind_counts() {
    let mut sets = Sets::default();
    changed(&mut sets, GROUP, there("pumps", 1));
    assert_eq!(period(&sets, "pumps"), Some(1));
    changed(&mut sets, SET, there("pumps", 2));
    assert_eq!(period(&sets, "pumps"), Some(2));
    changed(&mut sets, SET, left("pumps"));
    assert_eq!(period(&sets, "pumps"), Some(1));
}

#[test]
fn what_a_list_has_no_more_is_gone_and_nothing_else() {
    let mut sets = Sets::default();
    for (kind, name) in [(SET, "a"), (SET, "b"), (GROUP, "b"), (GROUP, "c")] {
        changed(&mut sets, kind, there(name, 1));
    }
    let elsewhere = sets.take(SET, "b", there("b", 1));
    assert_eq!(elsewhere, BTreeSet::from(["b".to_owned()]));
    assert_eq!(changed(&mut sets, SET, WatchEvent::Listing), "");
    assert_eq!(changed(&mut sets, SET, there("a", 1)), "");
    assert_eq!(changed(&mut sets, SET, WatchEvent::Synced), "b");
    assert_eq!(["a", "b", "c"].map(|name| period(&sets, name)), [Some(1); 3]);
    assert_eq!(sets.known.len(), 4, "the set b of the other namespace is still there");
}

#[test]
fn one_that_cannot_be_read_says_so() {
    let mut sets = Sets::default();
    let broken = Arc::new(Err("spec: 7 is no settings".to_owned()));
    let event = WatchEvent::There(("pumps".to_owned(), broken));
    assert_eq!(changed(&mut sets, SET, event), "pumps");
    assert!(sets.get("a", "pumps").unwrap().is_err());
    assert!(sets.get("b", "pumps").is_none());
}
