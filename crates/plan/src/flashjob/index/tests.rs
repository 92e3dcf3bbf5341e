use super::*;
use crate::flashjob::children::Owner;
use crate::flashjob::facts::{Container, PodPhase};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const POD: Kind = Kind::Pod(1);

fn job() -> JobUid {
    "job".into()
}

fn target() -> Target {
    Target::read("0123456789ab").unwrap()
}

fn child<T>(facts: T) -> Child<T> {
    let owner = Owner { uid: job(), namespace: "ns".into(), name: "job".into() };
    Child { owner, target: target(), attempt: 1, facts }
}

fn pod(version: u64, uid: &str, container: Container) -> Child<Pod> {
    child(Pod {
        version,
        name: "pod".into(),
        uid: uid.into(),
        endpoint: "at".into(),
        first_seen: NOW,
        deleting: None,
        phase: PodPhase::Running,
        container,
        reason: None,
        note: None,
        terminal_since: None,
    })
}

fn ended() -> Container {
    Container::Ended { exit_code: 0, reason: None, message: None, at: None }
}

fn service(version: u64, address: Option<&str>) -> Child<Service> {
    let (uid, name, address) = ("uid".into(), "service".into(), address.map(str::to_owned));
    child(Service { version, uid, name, address, ..Service::default() })
}

fn pod_of(index: &Index) -> &Slot<Pod> {
    &index.children(&job())[&target()].pods[&1]
}

#[test]
fn a_pod_that_leaves_is_gone_when_its_end_is_known_and_else_read_live() {
    for (container, deleted, gone) in [
        (ended(), false, true),
        (Container::Running(None), false, false),
        (Container::Running(None), true, false),
        (Container::Waiting(None), false, false),
        (Container::Waiting(None), true, true),
    ] {
        let mut index = Index::default();
        index.see_pod(pod(1, "uid", Container::Waiting(None)), NOW);
        if deleted {
            index.deleting(&job(), target(), POD, "uid");
            index.set_busy(&job(), target(), POD, false);
        }
        let unconfirmed = index.pod_left(&pod(2, "uid", container.clone()), NOW);
        assert_eq!(unconfirmed.is_none(), gone, "{container:?} {deleted}");
        let slot = pod_of(&index);
        assert_eq!((slot.gone, slot.busy), (gone, !gone), "{container:?} {deleted}");
    }
}

#[test]
fn a_live_read_counts_for_the_object_that_was_known_and_for_no_other_of_its_name() {
    let known = || {
        let mut index = Index::default();
        index.see_pod(pod(1, "uid", Container::Running(None)), NOW);
        let unconfirmed = index.pod_left(&pod(2, "uid", Container::Running(None)), NOW).unwrap();
        assert_eq!((unconfirmed.name.as_str(), unconfirmed.kind), ("pod", POD));
        (index, unconfirmed)
    };
    let (mut index, unconfirmed) = known();
    let there = pod(3, "uid", Container::Running(None)).facts;
    assert!(index.pod_checked(&unconfirmed, 1, Some(there)), "it has only lost its label");
    assert!(pod_of(&index).here().is_some() && !pod_of(&index).busy);
    for found in [None, Some(pod(3, "another", Container::Running(None)).facts)] {
        let (mut index, unconfirmed) = known();
        assert!(!index.pod_checked(&unconfirmed, 1, found));
        assert!(pod_of(&index).gone && !pod_of(&index).busy);
    }
}

#[test]
fn what_a_list_does_not_show_is_unconfirmed_unless_a_write_is_under_way() {
    let mut index = Index::default();
    index.see_pod(pod(1, "uid", Container::Running(None)), NOW);
    index.see_service(service(1, None), NOW);
    index.listing("pods");
    index.listing("services");
    index.see_pod(pod(1, "uid", Container::Running(None)), NOW);
    assert!(index.pods_listed().is_empty(), "it was listed");
    assert_eq!(index.services_listed().len(), 1);
    index.listing("services");
    assert!(index.services_listed().is_empty(), "it is being read already");
    assert!(index.pods_listed().is_empty(), "no list was under way");
}

#[test]
fn an_older_state_changes_nothing_and_an_address_is_told_once() {
    let mut index = Index::default();
    assert!(!index.see_service(service(1, None), NOW));
    assert!(index.see_service(service(3, Some("a")), NOW));
    assert!(!index.see_service(service(2, None), NOW), "an answer that came late");
    assert!(!index.see_service(service(4, Some("a")), NOW));
    assert_eq!(
        index.children(&job())[&target()].service.here().unwrap().address.as_deref(),
        Some("a")
    );
    assert!(index.service_left(&service(5, Some("a"))).is_some(), "nobody here deleted it");
}

#[test]
fn refusals_in_a_row_are_tried_again_after_a_growing_pause() {
    let mut index = Index::default();
    let refusal = |definite| {
        let (message, conflict) = ("no".into(), false);
        Refusal { message, definite, conflict, since: NOW, times: 1, retry_at: NOW }
    };
    let mut pauses = Vec::new();
    for _ in 0..9 {
        index.refuse(&job(), target(), POD, refusal(true));
        pauses.push(pod_of(&index).refused.as_ref().unwrap().retry_at.as_second());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    index.refuse(&job(), target(), POD, refusal(false));
    assert_eq!(pod_of(&index).refused.as_ref().unwrap().times, 1, "of another kind");
    index.forget(&job(), target(), POD);
    assert!(index.jobs().is_empty());
}
