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
    Record { open: true, attempt: record.attempt + 1, permit: true, ..record.clone() }
}

#[test]
fn what_is_written_is_read_back() {
    let mut before = ledger(600);
    before.records[300] = opened(&before.records[300]);
    before.records[599].outcome = Some(Outcome::Succeeded);
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
    let closed = Record { open: false, permit: false, ..open.clone() };
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
