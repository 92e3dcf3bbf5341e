use super::super::keys::{CaId, Fingerprint};
use super::super::tests::device;
use super::*;

fn version(resource_version: u64) -> EdgeDeviceFacts {
    EdgeDeviceFacts { resource_version, ..device("a") }
}

fn known(devices: &Devices) -> Option<u64> {
    devices.entry("edge1")?.device("a").map(|device| device.resource_version)
}

fn request(uid: &str, resource_version: u64, approved: bool) -> SignedRequestFacts {
    SignedRequestFacts {
        uid: uid.into(),
        resource_version,
        being_deleted: false,
        approved,
        declined: false,
        namespace: String::new(),
        set: None,
        phase: None,
        message: None,
    }
}

#[test]
fn a_watch_that_is_behind_does_not_undo_what_we_wrote() {
    let mut devices = Devices::default();
    devices.see_device("edge1", version(5));
    devices.wrote_device("edge1", version(7));
    devices.see_device("edge1", version(6));
    assert_eq!(known(&devices), Some(7));
    devices.see_device("edge1", version(8));
    devices.wrote_device("edge1", version(7));
    assert_eq!(known(&devices), Some(8), "nor the other way round");
    devices.lose_device("edge1", "a", "another");
    assert_eq!(known(&devices), Some(8), "somebody else of that name has gone");
    devices.lose_device("edge1", "a", "uid-a");
    assert_eq!(devices.entry("edge1"), None);
}

#[test]
fn a_version_that_the_server_has_never_heard_of_gives_way_to_the_one_it_has() {
    let mut devices = Devices::default();
    devices.see_device("edge1", version(500));
    devices.went_back("edge1", 500, version(9));
    assert_eq!(known(&devices), Some(9), "the cluster was restored from a backup");
    devices.see_device("edge1", version(11));
    devices.went_back("edge1", 500, version(9));
    assert_eq!(known(&devices), Some(11), "that was known before");
}

#[test]
fn a_list_is_the_truth_but_for_what_was_written_meanwhile() {
    let mut devices = Devices::default();
    devices.see_device("edge1", version(50));
    devices.see_device("gone", version(51));
    devices.begin_devices("a");
    devices.wrote_device("new", version(60));
    devices.see_device("edge1", version(9));
    devices.see_device("new", version(59));
    assert_eq!(devices.end_devices("a"), ["gone"]);
    assert_eq!(known(&devices), Some(9), "the cluster was restored from a backup");
    let new = devices.entry("new").and_then(|entry| entry.device("a"));
    assert_eq!(new.map(|device| device.resource_version), Some(60));
    assert_eq!(devices.entry("gone"), None);
}

#[test]
fn a_list_of_one_namespace_says_nothing_of_another() {
    let mut devices = Devices::default();
    devices.see_device("edge1", device("b"));
    devices.see_device("edge1", device("a"));
    devices.begin_devices("a");
    assert_eq!(devices.end_devices("a"), ["edge1"]);
    let left = devices.entry("edge1").map(|entry| entry.devices.clone());
    assert_eq!(left, Some(vec![device("b")]));
}

#[test]
fn those_who_wait_for_approval_are_counted() {
    let mut devices = Devices::default();
    devices.see_request("one", request("1", 1, false));
    devices.see_request("two", request("2", 1, false));
    devices.see_request("two", request("2", 1, false));
    assert_eq!(devices.pending(), 2);
    devices.see_request("two", request("2", 2, true));
    devices.see_request("two", request("2", 1, false));
    assert_eq!(devices.pending(), 1);
    devices.begin_requests();
    devices.see_request("three", request("3", 1, false));
    let mut gone = devices.end_requests();
    gone.sort();
    assert_eq!((gone, devices.pending()), (vec!["one".to_owned(), "two".to_owned()], 1));
    devices.lose_request("three", Some("other"));
    assert_eq!(devices.pending(), 1);
    devices.lose_request("three", Some("3"));
    assert_eq!((devices.pending(), devices.entry("three")), (0, None));
}

#[test]
fn who_depends_on_which_ca_is_told_with_the_first_of_them_by_name() {
    let keys = |ca: &str| {
        let (now, key) = (jiff::Timestamp::UNIX_EPOCH, Fingerprint::new(&[1; 32]));
        Ok(Keys::default().issue(key, CaId(ca.into()), now, now))
    };
    let mut devices = Devices::default();
    for number in (0..9).rev() {
        let keys = keys("0123456789abcdef");
        devices.see_device(&format!("edge{number}"), EdgeDeviceFacts { keys, ..device("a") });
    }
    devices.see_device("flotta", device("a"));
    devices.see_device("new", EdgeDeviceFacts { unclaimed: true, ..device("a") });
    let told = devices.keys_by_ca();
    assert_eq!((told.unknown.count, &told.unknown.some), (1, &vec!["flotta".to_owned()]));
    let holders = &told.by_ca["0123456789abcdef"];
    assert_eq!(
        (holders.count, holders.some.join(" ")),
        (9, "edge0 edge1 edge2 edge3 edge4".into())
    );
}
