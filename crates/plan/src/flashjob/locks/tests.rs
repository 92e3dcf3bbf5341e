use super::*;
use crate::flashjob::ledger::{Pinned, RecordedEnd};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn uid(job: &str) -> JobUid {
    job.into()
}

fn endpoint(given: &str) -> Endpoint {
    given.into()
}

fn lock(given: &str) -> Lock<'static> {
    Lock::board(&endpoint(given)).into_owned()
}

fn anybody(_: &str) -> bool {
    true
}

fn two() -> Locks {
    let mut locks = Locks::default();
    for (job, created) in [("old", 1), ("new", 2)] {
        let seniority =
            Seniority { created: at(created), namespace: "ns".into(), name: job.into() };
        locks.introduce(&uid(job), seniority);
        locks.know(&uid(job), &endpoint("board"));
    }
    locks
}

#[test]
fn the_holder_keeps_a_board_and_the_older_job_is_next() {
    let mut locks = two();
    locks.hold(&uid("new"), vec![lock("board")]);
    locks.want(&uid("old"), vec![lock("board")]);
    assert_eq!(locks.in_the_way(&uid("old"), &lock("board"), anybody).as_deref(), Some("ns/new"));
    assert!(locks.hold(&uid("new"), vec![]), "it is free now");
    assert_eq!(locks.in_the_way(&uid("old"), &lock("board"), anybody), None);
    assert_eq!(locks.in_the_way(&uid("new"), &lock("board"), anybody).as_deref(), Some("ns/old"));
    assert!(locks.want(&uid("old"), vec![]));
    assert_eq!(locks.in_the_way(&uid("new"), &lock("board"), anybody), None);
}

#[test]
fn an_older_job_does_not_undo_what_a_newer_one_did_since() {
    let mut locks = two();
    locks.flashed(&uid("new"), &endpoint("board"), at(10));
    assert_eq!(
        locks.flashed_by_newer(&uid("old"), &endpoint("board"), at(5), true).as_deref(),
        Some("ns/new")
    );
    assert_eq!(
        locks.flashed_by_newer(&uid("old"), &endpoint("board"), at(15), true),
        None,
        "changed since"
    );
    locks.flashed(&uid("old"), &endpoint("board"), at(20));
    assert_eq!(
        locks.flashed_by_newer(&uid("new"), &endpoint("board"), at(5), true),
        None,
        "it is the newer"
    );
}

#[test]
fn one_board_is_one_board_however_its_address_is_written() {
    let mut locks = two();
    locks.hold(&uid("new"), vec![lock("http://Board:80/")]);
    assert_eq!(
        locks.held_by_other(&uid("old"), &lock("board"), anybody).as_deref(),
        Some("ns/new")
    );
    assert!(locks.hold(&uid("new"), vec![]), "and free again");
    assert_eq!(locks.held_by_other(&uid("old"), &lock("board:80"), anybody), None);
}

#[test]
fn where_boards_belong_to_a_namespace_jobs_of_others_flash_none_of_them() {
    let mut locks = two();
    let elsewhere = Seniority { created: at(3), namespace: "else".into(), name: "x".into() };
    locks.introduce(&uid("x"), elsewhere);
    locks.flashed(&uid("x"), &endpoint("board"), at(10));
    let newer = |own| locks.flashed_by_newer(&uid("old"), &endpoint("board"), at(5), own);
    assert_eq!((newer(false).as_deref(), newer(true)), (Some("else/x"), None));
}

#[test]
fn a_stray_holds_a_board_for_its_own_namespace_and_takes_it_from_nobody() {
    let mut locks = two();
    locks.introduce_stray(&uid("elsewhere/lost"), "elsewhere", "lost");
    locks.hold(&uid("elsewhere/lost"), vec![lock("board")]);
    assert_eq!(locks.in_the_way(&uid("old"), &lock("board"), anybody), None);
    locks.introduce_stray(&uid("ns/lost"), "ns", "lost");
    locks.hold(&uid("ns/lost"), vec![lock("board")]);
    assert_eq!(locks.in_the_way(&uid("old"), &lock("board"), anybody).as_deref(), Some("ns/lost"));
    assert!(locks.hold(&uid("ns/lost"), vec![]));
    locks.hold(&uid("old"), vec![lock("board")]);
    assert_eq!(locks.in_the_way(&uid("new"), &lock("board"), anybody).as_deref(), Some("ns/old"));

    let mut alone = Locks::default();
    alone.introduce(&uid("job"), Seniority { namespace: "ns".into(), ..Seniority::default() });
    alone.know(&uid("job"), &endpoint("board"));
    alone.introduce_stray(&uid("elsewhere/lost"), "elsewhere", "lost");
    alone.hold(&uid("elsewhere/lost"), vec![lock("board")]);
    assert!(!alone.is_shared(&uid("job"), &endpoint("board")));
}

#[test]
fn a_parked_job_is_known_by_what_it_has_flashed_alone() {
    let mut locks = two();
    locks.know(&uid("new"), &endpoint("another"));
    locks.flashed(&uid("new"), &endpoint("http://board/"), at(10));
    locks.park(&uid("new"), &[]);
    assert!(!locks.is_shared(&uid("old"), &endpoint("board")), "it is in nobody's way");
    let newer = |locks: &Locks, board, since| {
        locks.flashed_by_newer(&uid("old"), &endpoint(board), at(since), true)
    };
    assert_eq!(newer(&locks, "board:80", 5).as_deref(), Some("ns/new"));
    assert_eq!(newer(&locks, "board", 10), None, "not since then");
    assert_eq!(newer(&locks, "another", 5), None, "it has not flashed that one");
    assert_eq!(
        locks.flashed_by_newer(&uid("new"), &endpoint("board"), at(5), true),
        None,
        "it itself"
    );
    locks.unpark(&uid("new"));
    assert_eq!(newer(&locks, "board", 5), None);
}

#[test]
fn a_job_is_parked_straight_from_its_ledger() {
    let mut locks = two();
    let record = |board: &str, outcome, dropped| {
        let (namespace, name) = ("ns".to_owned(), board.to_owned());
        let pinned = Some(Pinned { namespace, name, endpoint: endpoint(board) });
        let new = Record::new(&uid("new"), board, "revision", at(0));
        let ended = RecordedEnd { at: Some(at(10)), ..RecordedEnd::default() };
        let progress = DeviceProgress::Final { outcome, tries: 0, ended };
        Record { pinned, progress, dropped, ..new }
    };
    let (done, failed) = (Outcome::Succeeded, Outcome::Failed);
    let records =
        [record("a:80", done, false), record("b", failed, false), record("c", done, true)];
    locks.flashed(&uid("new"), &endpoint("a"), at(7));
    locks.park(&uid("new"), &records);
    let newer = |board| locks.flashed_by_newer(&uid("old"), &endpoint(board), at(8), true);
    assert_eq!(["a", "b", "c"].map(|board| newer(board).is_some()), [true, false, false]);
}

#[test]
fn an_older_job_that_is_parked_supersedes_nothing_and_one_elsewhere_only_where_it_may() {
    let mut locks = two();
    locks.flashed(&uid("old"), &endpoint("board"), at(20));
    locks.park(&uid("old"), &[]);
    assert_eq!(locks.flashed_by_newer(&uid("new"), &endpoint("board"), at(5), true), None);
    let elsewhere = Seniority { created: at(3), namespace: "else".into(), name: "x".into() };
    locks.introduce(&uid("x"), elsewhere);
    locks.flashed(&uid("x"), &endpoint("board"), at(10));
    locks.park(&uid("x"), &[]);
    let newer = |own| locks.flashed_by_newer(&uid("new"), &endpoint("board"), at(5), own);
    assert_eq!((newer(false).as_deref(), newer(true)), (Some("else/x"), None));
}

#[test]
fn nothing_is_left_of_jobs_that_are_gone() {
    let mut locks = two();
    assert!(locks.is_shared(&uid("old"), &endpoint("board")));
    locks.hold(&uid("new"), vec![lock("board")]);
    assert!(locks.forget(&uid("new")));
    assert!(!locks.is_shared(&uid("old"), &endpoint("board")));
    locks.flashed(&uid("old"), &endpoint("board"), at(10));
    locks.park(&uid("old"), &[]);
    assert!(!locks.parked.is_empty() && locks.locks.is_empty());
    locks.forget(&uid("old"));
    assert!(locks.parked.is_empty());
    assert!(locks.locks.is_empty() && locks.jobs.is_empty() && locks.shared.is_empty());
}
