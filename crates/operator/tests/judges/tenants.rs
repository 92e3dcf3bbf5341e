//! The judge of the part `tenants`.

use std::time::Duration;

use flashjob_api::flashjob::{
    Counts, DeviceState, Failure, FlashJobStatus, InFlight, Phase, flash_pod,
};
use flashjob_sim::node::Started;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::judge::{
    Bench, FLASHER, Problem, address, held_up, kinds, lateness, memory, names_holder, ratio,
};
use crate::plot::{CAMPAIGNS, Campaign, Plot, SHORT};

const NEW: &str = "0.3.0";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or_default()
}

fn bench(own: bool) -> Bench {
    let boards = [("v/one", "192.0.2.101"), ("v/two", "192.0.2.102")];
    Bench {
        victim: "v".into(),
        boards: boards.map(|(device, board)| (device.into(), board.into())).into(),
        own,
        addresses: "198.51.100.".into(),
    }
}

/// A session of the victim's that went well, from this second to the next.
fn session(endpoint: &str, second: i64) -> Started {
    let env = [
        ("HOST_ENDPOINT", endpoint),
        ("VERSION", NEW),
        ("EXTERNAL_IP", "198.51.100.1"),
        ("PERMIT", "v/one"),
    ];
    Started {
        namespace: "v".into(),
        pod: format!("rollout-{second}"),
        uid: String::new(),
        container: flash_pod::CONTAINER.into(),
        image: FLASHER.into(),
        env: env.map(|(name, value)| (name.into(), value.into())).into(),
        at: at(second),
        ended_at: Some(at(second + 1)),
        exit_code: Some(0),
        usage: None,
    }
}

fn reaches(session: &mut Started, endpoint: &str) {
    session.env.insert(flash_pod::env::HOST_ENDPOINT.into(), endpoint.into());
}

fn both() -> Vec<Started> {
    vec![session("192.0.2.101", 1), session("192.0.2.102", 1)]
}

fn completed(done: &[&str]) -> FlashJobStatus {
    FlashJobStatus {
        phase: Some(Phase::Completed),
        completed_uuids: done.iter().map(|device| (*device).to_owned()).collect(),
        counts: Some(Counts { total: 2, succeeded: done.len() as i32, ..Counts::default() }),
        ..FlashJobStatus::default()
    }
}

fn only(problems: Vec<Problem>) -> String {
    kinds(&problems)
}

#[test]
fn a_rollout_that_went_well_is_let_through() {
    let (problems, allowed) = bench(true).boards(&both());
    assert_eq!((only(problems).as_str(), allowed), ("", 0));
    assert_eq!(only(bench(true).status(&completed(&["v/one", "v/two"]), NEW, &both())), "");
    assert_eq!(only(bench(true).end(NEW, &both())), "");
}

#[test]
fn done_is_only_what_the_victims_own_flasher_has_flashed() {
    let done = completed(&["v/one", "v/two"]);
    let wrong = |change: fn(&mut Started)| {
        let mut sessions = both();
        change(&mut sessions[0]);
        only(bench(false).status(&done, NEW, &sessions))
    };
    assert_eq!(wrong(|s| s.exit_code = Some(1)), "SaidDone");
    assert_eq!(wrong(|s| s.exit_code = None), "SaidDone");
    assert_eq!(wrong(|s| s.namespace = "a".into()), "SaidDone");
    assert_eq!(wrong(|s| s.image = "registry.example/true:1".into()), "SaidDone");
    assert_eq!(wrong(|s| drop(s.env.insert("VERSION".into(), "0.2.0".into()))), "SaidDone");
    assert_eq!(wrong(|s| reaches(s, "192.0.2.102")), "SaidDone");
    assert_eq!(only(bench(true).status(&done, NEW, &[])), "SaidDone");
}

#[test]
fn what_is_counted_and_not_named_is_said_too() {
    let status = FlashJobStatus {
        counts: Some(Counts { total: 2, skipped: 1, ..Counts::default() }),
        ..FlashJobStatus::default()
    };
    assert_eq!(only(bench(true).status(&status, NEW, &[])), "SaidDone");
    let status = FlashJobStatus { phase: Some(Phase::Completed), ..FlashJobStatus::default() };
    assert_eq!(only(bench(true).status(&status, NEW, &both()[..1])), "SaidDone");
}

#[test]
fn a_ledger_that_is_there_is_not_lost() {
    let lost = Condition {
        type_: "Stalled".into(),
        status: "True".into(),
        reason: "LedgerLost".into(),
        message: "2 of 2 devices are missing".into(),
        last_transition_time: Time(at(0)),
        observed_generation: None,
    };
    let status = FlashJobStatus { conditions: vec![lost], ..FlashJobStatus::default() };
    assert_eq!(only(bench(true).status(&status, NEW, &[])), "LedgerLost");
}

#[test]
fn a_device_that_failed_had_its_board_taken_by_somebody_who_may() {
    let mut status = completed(&["v/two"]);
    status.phase = Some(Phase::Failed);
    let reason = "Superseded".to_owned();
    status.failures = vec![Failure { uuid: "v/one".into(), reason, ..Failure::default() }];
    let mut sessions = both();
    assert_eq!(only(bench(false).status(&status, NEW, &sessions)), "Failed");
    sessions[0].namespace = "a".into();
    reaches(&mut sessions[0], "http://192.0.2.101:80/");
    assert_eq!(only(bench(false).status(&status, NEW, &sessions)), "");
    assert_eq!(only(bench(true).status(&status, NEW, &sessions)), "Failed");
    sessions[0].env.remove("PERMIT");
    assert_eq!(only(bench(false).status(&status, NEW, &sessions)), "Failed", "no job's Pod");
    sessions[0].env.insert("PERMIT".into(), "own".into());
    // Superseded is skipped, and not done.
    status.counts = Some(Counts { total: 2, succeeded: 1, skipped: 1, ..Counts::default() });
    assert_eq!(only(bench(false).status(&status, NEW, &sessions)), "");
    status.failures[0].reason = "NameConflict".into();
    assert_eq!(only(bench(false).status(&status, NEW, &sessions)), "SaidDone, Failed");
    status.counts = Some(Counts { total: 2, succeeded: 1, ..Counts::default() });
    assert_eq!(only(bench(false).status(&status, NEW, &sessions)), "Failed");
    status.failures.clear();
    assert_eq!(only(bench(false).status(&status, NEW, &sessions)), "Failed");
}

#[test]
fn a_board_has_the_sessions_its_owner_asked_for_and_one_at_a_time() {
    let wrong = |own: bool, more: Started| {
        let mut sessions = both();
        sessions.push(more);
        let (problems, allowed) = bench(own).boards(&sessions);
        (only(problems), allowed)
    };
    let foreign = |endpoint: &str, second: i64, image: &str| Started {
        namespace: "a".into(),
        image: image.into(),
        ..session(endpoint, second)
    };
    let said = |kinds: &str, allowed: usize| (kinds.to_owned(), allowed);
    assert_eq!(wrong(true, foreign("192.0.2.101", 5, FLASHER)), said("ForeignSession", 0));
    assert_eq!(wrong(false, foreign("192.0.2.101", 5, FLASHER)), said("", 1));
    assert_eq!(wrong(true, foreign("192.0.2.101", 5, "registry.example/true:1")), said("", 0));
    assert_eq!(wrong(true, foreign("192.0.2.109", 5, FLASHER)), said("", 0));
    // Under another spelling it is the same board.
    assert_eq!(wrong(false, foreign("http://192.0.2.101/", 1, FLASHER)), said("TwoSessions", 1));
    let endless = Started { ended_at: None, ..foreign("192.0.2.101:80", 0, FLASHER) };
    assert_eq!(wrong(false, endless), said("TwoSessions", 1));
    assert_eq!(wrong(true, session("192.0.2.101", 5)), said("TwoSessions", 0));
    let mut astray = session("192.0.2.103", 5);
    reaches(&mut astray, "192.0.2.101");
    astray.env.insert("VERSION".into(), "0.2.0".into());
    astray.env.insert("EXTERNAL_IP".into(), "203.0.113.1".into());
    assert_eq!(wrong(true, astray), said("ForeignAddress", 0));
}

#[test]
fn at_the_end_the_boards_run_what_was_asked_for() {
    assert_eq!(only(bench(true).end(NEW, &both()[..1])), "Failed");
    let mut sessions = both();
    let mut later = session("192.0.2.101", 9);
    later.env.insert("VERSION".into(), "6.6.6".into());
    later.namespace = "a".into();
    sessions.push(later);
    assert_eq!(only(bench(true).end(NEW, &sessions)), "Failed");
    assert_eq!(only(bench(false).end(NEW, &sessions)), "", "it may, and that is said");
}

#[test]
fn a_rollout_is_held_up_when_two_plays_of_three_say_so() {
    let seconds = Duration::from_secs;
    assert!((ratio(seconds(4), seconds(6)) - 1.5).abs() < 1e-9);
    assert_eq!(held_up(&[]), None);
    assert_eq!(held_up(&[1.5]), Some(false));
    assert_eq!(held_up(&[1.6]), None, "once may be chance");
    assert_eq!(held_up(&[1.6, 1.6]), Some(true));
    assert_eq!(held_up(&[1.6, 1.4]), None);
    assert_eq!(held_up(&[1.6, 1.4, 1.6]), Some(true));
    assert_eq!(held_up(&[1.6, 1.4, 1.4]), Some(false));
}

#[test]
fn who_may_flash_a_board_may_hold_it_and_then_that_is_said() {
    let blocked = |words: &str| InFlight {
        state: DeviceState::Blocked,
        message: Some(words.into()),
        ..InFlight::default()
    };
    let status = |words: &str| FlashJobStatus {
        in_flight: vec![blocked(words)],
        ..FlashJobStatus::default()
    };
    let said = |words: &str| names_holder(&status(words), "tenant");
    assert!(said("tenant/usurper comes first with this device"));
    assert!(!said("tenant-2/other comes first with this device"));
    assert!(!said("another entry of this job is the same device"));

    let (alone, long) = (Duration::from_secs(4), Duration::from_secs(60));
    let judged = |own, held, attacked| {
        let (problem, timed) = lateness(own, held, alone, attacked);
        (problem.map(|problem| kinds(&[problem])), timed)
    };
    assert_eq!(judged(true, false, alone), (None, true));
    assert_eq!(judged(false, true, long), (None, false));
    assert_eq!(judged(false, false, alone), (None, true));
    assert_eq!(judged(false, false, long), (Some("Stuck".into()), true), "nobody was named");
    assert_eq!(judged(true, true, alone), (Some("Stuck".into()), true), "nobody may hold it");
}

#[test]
fn memory_has_limits_and_does_not_grow_with_each_attack() {
    let said = |kept: &[f64], peak: f64| match memory(20.0, kept, peak) {
        None => "again".to_owned(),
        Some(problem) => only(problem.into_iter().collect()),
    };
    assert_eq!(said(&[25.0], 40.0), "");
    assert_eq!(said(&[20.0], 120.0), "Grew");
    assert_eq!(said(&[50.0], 50.0), "again");
    assert_eq!(said(&[50.0, 53.0], 60.0), "", "what was kept was used");
    assert_eq!(said(&[50.0, 60.0, 40.0], 60.0), "");
    assert_eq!(said(&[40.0, 50.0, 60.0], 60.0), "again");
    assert_eq!(said(&[40.0, 50.0, 60.0, 70.0], 70.0), "Grew");
}

#[test]
fn the_short_form_has_every_campaign_both_settings_and_the_garbage_collector() {
    let plots = SHORT.map(Plot::new);
    let by_itself = |campaign: Campaign, own: bool| {
        plots.iter().any(|plot| plot.campaigns == [campaign] && plot.own == own)
    };
    for campaign in CAMPAIGNS {
        assert!(by_itself(campaign, true) || by_itself(campaign, false), "{campaign:?}");
    }
    for campaign in [Campaign::Usurpers, Campaign::BrokenLedgers] {
        assert!(by_itself(campaign, true) && by_itself(campaign, false), "{campaign:?}");
    }
    assert!(by_itself(Campaign::Squatters, true));
    for own in [true, false] {
        assert!(plots.iter().any(|plot| plot.collector && plot.own == own));
    }
}

#[test]
fn one_board_has_many_spellings() {
    for written in ["192.0.2.11", "192.0.2.11:80", " HTTP://192.0.2.11/ ", "http://192.0.2.11:80"] {
        assert_eq!(address(written), "192.0.2.11");
    }
    assert_eq!(address("192.0.2.11:8080"), "192.0.2.11:8080");
}
