use proptest::prelude::*;

use super::super::liveness::Live;
use super::*;

const START: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn entry(device: &str, seen: i64) -> Entry {
    Entry { device: device.into(), last_seen: at(seen), period_seconds: 60 }
}

fn config(devices: &str) -> BTreeMap<String, String> {
    [(DEVICES.to_owned(), devices.to_owned()), (WRITTEN_AT.to_owned(), at(0).to_string())].into()
}

#[test]
fn a_line_is_short_enough_to_be_read() {
    let data = encode([entry("b/two", -20), entry("a/one", -10)], at(0));
    assert_eq!(data[DEVICES], "a/one 1799999990 60\nb/two 1799999980 60\n");
    assert_eq!(data[WRITTEN_AT], "2027-01-15T08:00:00Z");
}

#[test]
fn a_full_shard_fits_into_a_config_map_at_the_longest_names() {
    let name = |n| format!("{}/{n:04}{}", "n".repeat(63), "d".repeat(249));
    let data = encode((0..3000).map(|n| entry(&name(n), 0)), at(0));
    let decoded = decode(&data);
    assert_eq!((decoded.entries.len(), decoded.left_out), (MOST_IN_ONE, 0));
    assert!(data[DEVICES].len() < 1024 * 1024 * 2 / 3);
}

#[test]
fn what_is_no_line_of_ours_is_left_out_and_counted() {
    let wrong = [
        "",
        "a/b",
        "a/b 5",
        "a/b 5 60 7",
        "a/b -5 60",
        "a/b 5 0",
        "a/b 5 -1",
        "a 5 60",
        "A/b 5 60",
        "a/B 5 60",
        "a//b 5 60",
        "a/b/c 5 60",
        "a/b  5 60",
        "a/b 99999999999 60",
        "a/b five 60",
        "a/b 5 60 ",
        "\u{0}",
        "a/b 5 99999999999",
    ];
    for line in wrong {
        let decoded = decode(&config(&format!("a/one 5 60\n{line}\na/two 6 60\n")));
        assert_eq!((decoded.entries.len(), decoded.left_out), (2, 1), "{line:?}");
    }
    let many: String = (0..2500).map(|n| format!("a/d{n} 5 60\n")).collect();
    let decoded = decode(&config(&many));
    assert_eq!((decoded.entries.len(), decoded.left_out), (MOST_IN_ONE, 500));
    assert_eq!(decode(&BTreeMap::new()), Decoded::default());
}

#[test]
fn a_config_map_has_one_shard_and_a_shard_one_config_map() {
    assert_eq!((config_map(7).as_str(), shard_of("edge-roll-7")), ("edge-roll-7", Some(7)));
    for other in ["edge-roll-", "edge-roll-07", "edge-roll-+7", "edge-roll-500", "edge-roll-x", "7"]
    {
        assert_eq!(shard_of(other), None, "{other}");
    }
}

#[test]
fn a_restart_knows_who_reported_and_who_was_missing() {
    let data = encode([entry("a/here", -10), entry("a/gone", -9000)], at(-5));
    let read = read([(3, &data)], at(0));
    let state = |name: &str| read.devices[name].state(at(1), at(0));
    assert_eq!(state("a/here"), Live::Grace { seen: Some(at(-10)) });
    assert_eq!(state("a/gone"), Live::Missing { since: at(-9000) });
    assert_eq!(read.devices["a/here"].shard(), Some(3));
    let without_time: BTreeMap<_, _> = [(DEVICES.to_owned(), data[DEVICES].clone())].into();
    let read = super::read([(3, &without_time)], at(0));
    let unknown = read.devices["a/gone"].state(at(1), at(0));
    assert_eq!(unknown, Live::Grace { seen: Some(at(-9000)) }, "nobody says when it was written");
}

#[test]
fn a_device_that_is_in_two_shards_is_in_one_from_now_on() {
    let (older, newer) = (encode([entry("a/b", -20)], at(0)), encode([entry("a/b", -10)], at(0)));
    for maps in [[(0, &older), (1, &newer)], [(1, &newer), (0, &older)]] {
        let mut read = read(maps, at(0));
        let device = read.devices["a/b"];
        assert_eq!((device.shard(), device.last_seen()), (Some(1), Some(at(-10))));
        assert_eq!(read.devices.len(), 1);
        let due: Vec<_> = (0..10).filter_map(|n| read.roll.due(EVERY * n)).collect();
        assert_eq!(due, [0], "the other one is written without it, and this one is as it is");
    }
}

#[test]
fn shards_fill_up_one_after_the_other_and_places_are_taken_again() {
    let mut roll = Roll::default();
    let joined: Vec<_> = (0..4001).map(|_| roll.join().unwrap()).collect();
    let count = |shard| joined.iter().filter(|joined| **joined == shard).count();
    assert_eq!([0, 1, 2].map(count), [2000, 2000, 1]);
    roll.leave(0);
    assert_eq!([roll.join(), roll.join()], [Some(0), Some(2)]);
    let places = usize::from(MOST_SHARDS) * MOST_IN_ONE;
    let all = (4002..places + 9).filter(|_| roll.join().is_some()).count();
    assert_eq!((all, roll.join()), (places - 4002, None));
}

#[test]
fn a_shard_that_is_numbered_by_others_leaves_room_for_those_before_it() {
    let data = encode([entry("a/b", -20)], at(0));
    let mut read = read([(400, &data), (60_000, &data)], at(0));
    assert_eq!((read.roll.join(), read.devices["a/b"].shard()), (Some(0), Some(400)));
}

/// The seconds at which each shard is written while all devices report, in an hour.
fn writes(devices: usize) -> Vec<Vec<u64>> {
    let mut roll = Roll::default();
    let shards: Vec<_> = (0..devices).map(|_| roll.join().unwrap()).collect();
    let count = usize::from(*shards.last().unwrap()) + 1;
    let mut writes = vec![Vec::new(); count];
    for second in 0..3600 {
        (0..count).for_each(|shard| roll.change(u16::try_from(shard).unwrap()));
        if let Some(shard) = roll.due(Duration::from_secs(second)) {
            writes[usize::from(shard)].push(second);
        }
    }
    writes
}

#[test]
fn a_fleet_at_rest_is_one_write_in_six_seconds_at_a_hundred_thousand_devices() {
    for (devices, apart) in [(1, 300), (10_000, 60), (100_000, 6)] {
        let writes = writes(devices);
        let mut all: Vec<_> = writes.iter().flatten().copied().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[1] - two[0] == apart), "{devices}: {all:?}");
        for shard in writes {
            assert!(shard.windows(2).all(|two| two[1] - two[0] == 300), "{devices}: {shard:?}");
            assert_eq!(shard.len(), 12);
        }
    }
}

#[test]
fn a_shard_in_which_nobody_was_heard_of_is_not_written() {
    let mut roll = Roll::default();
    let shard = roll.join().unwrap();
    let due = |roll: &mut Roll, minute: u64| roll.due(Duration::from_secs(60 * minute));
    assert_eq!(due(&mut roll, 0), Some(shard));
    assert_eq!([5, 10, 15].map(|minute| due(&mut roll, minute)), [None; 3]);
    roll.change(shard);
    assert_eq!([16, 20].map(|minute| due(&mut roll, minute)), [None, Some(shard)]);
}

#[test]
fn turns_that_were_missed_are_not_made_up_for() {
    let mut roll = Roll::default();
    assert!((0..100_000).all(|_| roll.join().is_some()));
    let hour = Duration::from_secs(3600);
    let at_once = (0..50).filter(|_| roll.due(hour).is_some()).count();
    assert!(at_once <= 2, "{at_once}");
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        devices in proptest::collection::btree_map("[a-z0-9]{1,9}/[a-z0-9]{1,36}", (1..1_000_000_i64, 1..u32::MAX), 0..50)
    ) {
        let entry = |(device, (seen, period_seconds)): (String, _)| Entry {
            device, last_seen: at(seen), period_seconds
        };
        let mut entries: Vec<_> = devices.into_iter().map(entry).collect();
        entries.retain(|entry| !entry.device.ends_with("/register"));
        let mut decoded = decode(&encode(entries.clone(), at(0)));
        decoded.entries.sort();
        prop_assert_eq!((decoded.entries, decoded.left_out), (entries, 0));
        prop_assert_eq!(decoded.written_at, Some(at(0)));
    }

    #[test]
    fn anything_may_stand_in_a_config_map(devices in "\\PC{0,80}", second in "(a/b [0-9-]{1,20} [0-9-]{1,20}\n){0,5}", time in "\\PC{0,30}") {
        let data = [(DEVICES.to_owned(), format!("{devices}\n{second}")), (WRITTEN_AT.to_owned(), time)].into();
        let read = read([(0, &data)], at(0));
        prop_assert!(read.devices.values().all(|device| device.last_seen() <= Some(at(0))));
    }
}
