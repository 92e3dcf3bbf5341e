use super::*;

fn uid() -> JobUid {
    "uid".into()
}

fn ledger(devices: usize) -> Ledger {
    let now = Timestamp::UNIX_EPOCH;
    let record = |n| Record::new(&uid(), &format!("device {n}"), "rev", now);
    Ledger::new(&uid(), 1, ("f", "v"), (0..devices).map(record).collect(), now)
}

fn opened(record: &Record) -> Record {
    record.opened(None, Some(600))
}

fn failed(record: &Record, tries: u32) -> Record {
    let at = Some(Timestamp::UNIX_EPOCH);
    let (reason, message) = (Some("Timeout".to_owned()), Some("m".to_owned()));
    let ended = RecordedEnd { at, reason, message, digest: None };
    let failed = Failed { tries: tries.try_into().unwrap(), ended, retry_at: at };
    Record { progress: DeviceProgress::Waiting(Some(failed)), ..record.clone() }
}

#[test]
fn what_is_written_is_read_back() {
    let mut before = ledger(600);
    before.records[300] = opened(&before.records[300]);
    before.records[599].progress = DeviceProgress::Final {
        outcome: Outcome::Succeeded,
        tries: 1,
        ended: RecordedEnd::default(),
    };
    let again: Vec<Record> = before.records.iter().take(5).map(|r| failed(r, 2)).collect();
    before.records[1] = again[1].clone();
    before.records[2] = opened(&again[2]);
    before.records[3] = opened(&again[3]).without_permit();
    before.records[4] = again[4].as_duplicate_of("another", Timestamp::UNIX_EPOCH);
    assert_eq!(before.shards(), 3);
    let data: Vec<_> = (0..3).map(|shard| before.shard_data(shard)).collect();
    assert_eq!(Ledger::read(&uid(), &data), Ok(before));
    assert!(Ledger::read(&uid(), &data[..2]).unwrap_err().contains("88 of 600"));
    assert!(Ledger::read(&uid(), &data[1..]).unwrap_err().contains("header"));
}

#[test]
fn a_patch_is_the_few_keys_that_changed_and_leads_to_the_new_state() {
    let mut now = ledger(300);
    let mut data: Vec<_> = (0..2).map(|shard| now.shard_data(shard)).collect();
    let open = opened(&now.records[257]);
    let closed = open.closed();
    let again = opened(&closed);
    for next in [open, closed, again.clone(), opened(&again)] {
        let change = Change { header: None, records: [(257, next)].into() };
        assert_eq!(change.shards(), [1].into());
        let patch = now.patch(1, &change);
        assert!(patch.len() <= 3, "{patch:?}");
        for (key, value) in patch {
            match value {
                Some(value) => data[1].insert(key, value),
                None => data[1].remove(&key),
            };
        }
        now.apply(1, &change);
        assert_eq!(Ledger::read(&uid(), &data).as_ref(), Ok(&now));
    }
}

#[test]
fn going_back_to_an_earlier_firmware_meets_no_old_permit() {
    let now = Timestamp::UNIX_EPOCH;
    let first = opened(&Record::new(&uid(), "device", "A", now));
    let back = first.renewed(&uid(), "B", now).renewed(&uid(), "A", now);
    assert_eq!(back.target, first.target);
    assert!(opened(&back).attempt > first.attempt);
}

#[test]
fn a_message_is_one_short_line() {
    assert_eq!(message("a\nb\u{7}\n"), "a b");
    let long = message(&"ä".repeat(200));
    assert!(long.len() <= MESSAGE_BYTES && long.ends_with('…'), "{}", long.len());
}

#[test]
fn each_state_is_stored_in_one_form() {
    let new = Record::new(&uid(), "d", "r", Timestamp::UNIX_EPOCH);
    let again = failed(&new, 1);
    let ended = RecordedEnd { at: Some(Timestamp::UNIX_EPOCH), ..RecordedEnd::default() };
    let (outcome, digest) = (Outcome::Succeeded, Some("sha256:0".to_owned()));
    let progress =
        DeviceProgress::Final { outcome, tries: 1, ended: RecordedEnd { digest, ..ended } };
    let done = Record { progress, selected: true, nonce: Some("n".into()), ..new.clone() };
    let time = "1970-01-01T00:00:00Z";
    let failure =
        format!(r#""retryAt":"{time}","reason":"Timeout","message":"m","ended":"{time}"}}"#);
    let forms = [
        (
            new.clone(),
            format!(r#"{{"device":"d","revision":"r","attempt":0,"tries":0,"turn":"{time}"}}"#),
        ),
        (
            again.clone(),
            format!(
                r#"{{"device":"d","revision":"r","attempt":0,"tries":1,"turn":"{time}",{failure}"#
            ),
        ),
        (
            again.opened(Some("0.1".into()), Some(600)),
            format!(
                r#"{{"device":"d","revision":"r","attempt":1,"open":true,"deadlineSeconds":600,"tries":1,"previous":"0.1","turn":"{time}",{failure}"#
            ),
        ),
        (
            done,
            format!(
                r#"{{"device":"d","revision":"r","attempt":0,"tries":1,"turn":"{time}","outcome":"Succeeded","digest":"sha256:0","ended":"{time}","selected":true,"nonce":"n"}}"#
            ),
        ),
        (
            Record { dropped: true, ..new.as_duplicate_of("e", Timestamp::UNIX_EPOCH) },
            format!(
                r#"{{"device":"d","revision":"r","attempt":0,"tries":0,"turn":"{time}","outcome":"Skipped","message":"the same device as e","ended":"{time}","twin":true,"dropped":true}}"#
            ),
        ),
    ];
    for (record, form) in forms {
        assert_eq!(json(&Stored::from(&record)), form);
    }
}

#[test]
fn what_no_operator_writes_is_read_as_an_open_attempt_then_as_a_result() {
    let read = |more: &str, permit| {
        let text =
            format!(r#"{{"device":"d","revision":"r","turn":"1970-01-01T00:00:00Z",{more}}}"#);
        let stored: Stored<'_> = serde_json::from_str(&text).unwrap();
        stored.into_record(names::target(&uid(), "d", "r"), permit).progress
    };
    let open = DeviceProgress::Open { permit: true, failed: None };
    assert_eq!(read(r#""open":true,"outcome":"Failed","twin":true"#, true), open);
    assert_eq!(read(r#""twin":true,"reason":"Timeout""#, true), DeviceProgress::Waiting(None));
    assert!(matches!(
        read(r#""outcome":"Failed","retryAt":"1970-01-01T00:00:00Z","tries":1"#, true),
        DeviceProgress::Final { outcome: Outcome::Failed, tries: 1, .. }
    ));
    assert!(matches!(
        read(r#""outcome":"Failed","twin":true"#, true),
        DeviceProgress::Duplicate { .. }
    ));
    let DeviceProgress::Waiting(Some(failed)) = read(r#""tries":2"#, false) else {
        panic!("no failure")
    };
    assert_eq!((failed.tries.get(), failed.ended), (2, RecordedEnd::default()));
}
