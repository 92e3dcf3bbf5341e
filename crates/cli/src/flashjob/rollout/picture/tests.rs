use flashjob_api::flashjob::{Batch, Counts, Failure, Phase};

use super::*;

fn status() -> FlashJobStatus {
    let in_flight = |uuid: &str, state: &str, message: &str, attempt| InFlight {
        uuid: uuid.to_owned(),
        state: state.to_owned().into(),
        message: Some(message.to_owned()),
        attempt,
        ..InFlight::default()
    };
    FlashJobStatus {
        phase: Some(Phase::InProgress),
        message: Some("2 of 6 devices done".to_owned()),
        counts: Some(Counts {
            total: 6,
            succeeded: 2,
            failed: 1,
            flashing: 1,
            waiting: 1,
            pending: 1,
            ..Counts::default()
        }),
        batch: Some(Batch { current: 2, of: 3 }),
        completed_uuids: vec!["n/a".to_owned(), "n/c".to_owned()],
        in_flight: vec![
            in_flight("n/d", "Flashing", "the flash Pod is at work", 1),
            in_flight("n/e", "BackOff", "tried again at 12:00:00 UTC: \u{1b}[2Jit is gone", 2),
        ],
        failures: vec![Failure {
            uuid: "n/b".to_owned(),
            reason: "NoCallback".to_owned(),
            message: "nobody called".to_owned(),
            ..Failure::default()
        }],
        ..FlashJobStatus::default()
    }
}

fn batches() -> Batches {
    let places = [("n/a", 1), ("n/b", 1), ("n/c", 2), ("n/d", 2), ("n/e", 3), ("n/f", 3)];
    Batches::new(places.map(|(device, batch)| (device.to_owned(), Some(batch))))
}

#[test]
fn a_bar_for_each_batch_and_a_line_for_each_device_in_flight() {
    let says = HashMap::from([("n/d".to_owned(), "sent 40 %".to_owned())]);
    let lines = picture("thermo", &status(), &batches(), &says, 24);
    let wanted = [
        "thermo  InProgress: 2 of 6 devices done",
        "batch 1   [##########xxxxxxxxxx]  1 of 2, 1 failed",
        "batch 2   [##########..........]  1 of 2",
        "batch 3   [....................]  0 of 2",
        "  n/d  Flashing   sent 40 %",
        "  n/e  BackOff    tried again at 12:00:00 UTC:  [2Jit is gone (attempt 2)",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn a_small_terminal_shows_what_matters_and_says_what_it_leaves_out() {
    for height in 0..12 {
        let lines = picture("thermo", &status(), &batches(), &HashMap::new(), height);
        assert!(lines.len() <= height.max(6), "{height}: {lines:#?}");
    }
    let lines = picture("thermo", &status(), &batches(), &HashMap::new(), 6);
    assert!(lines.iter().any(|line| line.starts_with("batch 2")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("devices more")), "{lines:#?}");
}

#[test]
fn without_batches_there_is_one_bar_and_a_failure_is_always_seen() {
    let mut status = status();
    status.counts = Some(Counts { total: 1000, succeeded: 999, failed: 1, ..Counts::default() });
    status.in_flight.clear();
    let lines = picture("thermo", &status, &Batches::default(), &HashMap::new(), 24);
    assert_eq!(lines[1], "all       [###################x]  999 of 1000, 1 failed");
    let nothing =
        picture("new", &FlashJobStatus::default(), &Batches::default(), &HashMap::new(), 24);
    assert_eq!(nothing[0], "new  : nobody has looked at it yet; is the operator up?");
}

#[test]
fn lines_tell_each_change_once() {
    let mut told = ProgressLog::default();
    let first = told.news(&status());
    assert_eq!(first.len(), 6, "{first:#?}");
    assert!(first.contains(&"n/b  Failed: NoCallback: nobody called".to_owned()));
    assert!(told.news(&status()).is_empty());
    let mut next = status();
    next.completed_uuids.push("n/d".to_owned());
    next.in_flight.remove(0);
    assert_eq!(told.news(&next), ["n/d  Succeeded"]);
}
