use super::super::finalizers::FINALIZER;
use super::super::keys::{CaId, Fingerprint, Keys};
use super::super::tests::device;
use super::*;
use crate::time::after;

fn now() -> Timestamp {
    "2026-11-18T12:00:00Z".parse().unwrap()
}

fn settings(auto_approval: bool) -> Settings {
    Settings { auto_approval, namespaces: vec!["a".into(), "b".into()], client_days: 10 }
}

fn keys() -> Keys {
    Keys::default().issue(
        Fingerprint::new(&[1; 32]),
        CaId("0123456789abcdef".into()),
        now(),
        after(now(), 99),
    )
}

fn asked(namespace: &str) -> SignedRequestFacts {
    SignedRequestFacts {
        uid: "r".into(),
        resource_version: 1,
        being_deleted: false,
        approved: false,
        declined: false,
        namespace: namespace.into(),
        set: None,
        phase: None,
        message: None,
    }
}

fn of(devices: Vec<EdgeDeviceFacts>) -> Entry {
    Entry { devices, ..Entry::default() }
}

fn phase(change: Option<Change>) -> Option<&'static str> {
    match change {
        Some(Change::RequestStatus { phase, .. }) => Some(phase),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_device_at_rest_costs_nothing_and_one_of_flotta_gets_our_finalizer_for_theirs() {
    assert_eq!(decide(&of(vec![device("a"), device("b")]), &settings(true), false), None);
    let theirs = EdgeDeviceFacts { finalizers: vec!["device-finalizer".into()], ..device("b") };
    let Some(Change::PatchDevice { namespace, patch }) =
        decide(&of(vec![device("a"), theirs]), &settings(true), false)
    else {
        panic!()
    };
    assert_eq!((namespace.as_str(), patch.finalizers), ("b", Some(vec![FINALIZER.to_owned()])));
}

#[test]
fn a_deleted_device_is_buried_then_its_request_goes_then_the_finalizer() {
    let deleted = EdgeDeviceFacts { being_deleted: true, keys: Ok(keys()), ..device("a") };
    let mut entry = of(vec![deleted.clone()]);
    entry.signed_request = Some(SignedRequestFacts { approved: true, ..asked("") });
    let settings = settings(false);
    assert_eq!(decide(&entry, &settings, false), Some(Change::Bury { namespace: "a".into() }));
    let stone = tombstone("edge1", &deleted, &settings, now());
    assert_eq!((stone.until, stone.uid.as_str()), (after(now(), 99), "uid-a"));
    entry.tombstones.push(stone);
    assert_eq!(decide(&entry, &settings, false), Some(Change::DeleteRequest));
    entry.signed_request = None;
    let Some(Change::PatchDevice { patch, .. }) = decide(&entry, &settings, false) else {
        panic!()
    };
    assert_eq!(patch.finalizers, Some(vec![]));
    entry.devices[0].finalizers = vec!["other".into()];
    assert_eq!(
        decide(&entry, &settings, false),
        None,
        "who else holds it back is not our business"
    );
}

#[test]
fn a_tombstone_is_for_one_object_and_only_where_there_may_be_a_certificate() {
    let never = EdgeDeviceFacts { being_deleted: true, unclaimed: true, ..device("a") };
    assert!(matches!(
        decide(&of(vec![never]), &settings(true), false),
        Some(Change::PatchDevice { .. })
    ));
    let flotta = EdgeDeviceFacts { being_deleted: true, ..device("a") };
    let buried = tombstone("edge1", &flotta, &settings(true), now());
    assert_eq!(buried.until, after(now(), 10 * 86_400), "as long as what is handed out today");
    let mut entry = of(vec![flotta]);
    assert!(matches!(decide(&entry, &settings(true), false), Some(Change::Bury { .. })));
    entry.tombstones = vec![Tombstone { uid: "earlier".into(), ..buried }];
    assert!(matches!(decide(&entry, &settings(true), false), Some(Change::Bury { .. })));
}

#[test]
fn an_edgedevice_that_was_made_anew_ends_the_tombstone() {
    let mut entry = of(vec![device("a")]);
    entry.tombstones = vec![tombstone("edge1", &device("a"), &settings(true), now())];
    let dropped = Some(Change::DropTombstone { namespace: "a".into() });
    assert_eq!(decide(&entry, &settings(true), false), dropped);
}

#[test]
fn a_request_that_is_approved_becomes_a_device_and_one_that_is_not_waits() {
    let decided = |request: SignedRequestFacts, auto_approval: bool| {
        let entry = Entry { signed_request: Some(request), ..Entry::default() };
        decide(&entry, &settings(auto_approval), false)
    };
    let made = |namespace: &str, set: Option<&str>| {
        let (namespace, set) = (namespace.to_owned(), set.map(str::to_owned));
        let new = NewDevice { namespace, keys: None, labels: BTreeMap::new(), set };
        Some(Change::CreateDevice(new))
    };
    let approved = |namespace| SignedRequestFacts { approved: true, ..asked(namespace) };
    assert_eq!(decided(approved(""), false), made("a", None));
    let set = Some("pumps".to_owned());
    assert_eq!(
        decided(SignedRequestFacts { set, ..approved("b") }, false),
        made("b", Some("pumps"))
    );
    assert_eq!(decided(asked("b"), true), made("b", None), "nobody's leave is needed");
    assert_eq!(phase(decided(approved("z"), false)), Some("pending"), "not served");
    assert_eq!(phase(decided(asked("a"), false)), Some("pending"));
    let declined = SignedRequestFacts { declined: true, ..approved("a") };
    assert_eq!(phase(decided(declined, true)), Some("declined"));
    let leaving = SignedRequestFacts { being_deleted: true, ..approved("a") };
    assert_eq!(decided(leaving, true), None);
}

#[test]
fn a_request_says_what_became_of_it_once_and_makes_no_second_device() {
    let approved = SignedRequestFacts { approved: true, ..asked("b") };
    let mut entry = of(vec![device("a")]);
    entry.signed_request = Some(approved.clone());
    let Some(Change::RequestStatus { phase, message }) = decide(&entry, &settings(false), false)
    else {
        panic!("nothing is said")
    };
    let said = |approved: &SignedRequestFacts| {
        let (phase, message) = (Some(phase.to_owned()), Some(message.to_owned()));
        SignedRequestFacts { phase, message, ..approved.clone() }
    };
    entry.signed_request = Some(said(&approved));
    assert_eq!((phase, decide(&entry, &settings(false), false)), ("approved", None));
    // It was told to wait, and waits for something else now.
    let waited = SignedRequestFacts { phase: Some("pending".into()), ..said(&approved) };
    entry.signed_request = Some(SignedRequestFacts { namespace: "z".into(), ..waited });
    let said = decide(&entry, &settings(false), false);
    assert!(matches!(said, Some(Change::RequestStatus { phase: "pending", .. })), "{said:?}");
}

#[test]
fn when_the_crd_goes_its_devices_are_let_go_and_nobody_is_buried() {
    let deleted = EdgeDeviceFacts { being_deleted: true, keys: Ok(keys()), ..device("a") };
    let Some(Change::PatchDevice { patch, .. }) = decide(&of(vec![deleted]), &settings(true), true)
    else {
        panic!()
    };
    assert_eq!(patch.finalizers, Some(vec![]));
}
