use jiff::SignedDuration;

use super::super::certificate::{BACKDATED, Holder};
use super::super::device_id::DeviceId;
use super::*;
use crate::time::{after, later};

fn at(second: i64) -> Timestamp {
    after("2026-11-18T12:00:00Z".parse().unwrap(), second)
}

fn key(number: u8) -> Fingerprint {
    Fingerprint::new(&[number; 32])
}

fn ca() -> CaId {
    CaId("0123456789abcdef".into())
}

/// A certificate for this key that was made then.
fn certificate(number: u8, issued: Timestamp) -> CertificateFacts {
    let id = DeviceId::read("edge1").unwrap();
    CertificateFacts {
        holder: Holder::Device { id, namespace: "default".into(), ca: ca() },
        key: key(number),
        not_before: later(issued, -BACKDATED),
        not_after: later(issued, SignedDuration::from_hours(24 * 365)),
    }
}

fn issue(keys: &Keys, number: u8, now: Timestamp) -> (Keys, CertificateFacts) {
    let made = certificate(number, now);
    (keys.issue(key(number), ca(), now, made.not_after), made)
}

#[test]
fn the_key_of_a_lost_answer_gets_in_until_another_is_used_and_never_after() {
    let (keys, first) = issue(&Keys::default(), 1, at(0));
    let (keys, second) = issue(&keys, 2, at(10));
    assert!(keys.accept(&first) && keys.accept(&second));
    let used = keys.come_into_use(&second, ca(), at(11));
    assert!(used.accept(&second) && !used.is_first_use(&second, &ca()));
    assert!(!used.accept(&first));
    // And the other way round, when two boxes have one id: the first to use its certificate wins.
    let used = keys.come_into_use(&first, ca(), at(11));
    assert!(used.accept(&first) && !used.accept(&second));
}

#[test]
fn a_renewal_whose_answer_was_lost_leaves_the_key_in_use() {
    let (keys, first) = issue(&Keys::default(), 1, at(0));
    let keys = keys.come_into_use(&first, ca(), at(5));
    let (keys, second) = issue(&keys, 2, at(100));
    let (keys, third) = issue(&keys, 3, at(110));
    assert!([&first, &second, &third].into_iter().all(|shown| keys.accept(shown)));
    let keys = keys.come_into_use(&third, ca(), at(111));
    assert!(keys.accept(&third) && !keys.accept(&first) && !keys.accept(&second));
}

#[test]
fn after_a_restore_what_was_renewed_since_the_backup_is_accepted_and_what_was_replaced_before_is_not()
 {
    let (keys, first) = issue(&Keys::default(), 1, at(0));
    let (keys, second) = issue(&keys.come_into_use(&first, ca(), at(1)), 2, at(50));
    let backup = keys.come_into_use(&second, ca(), at(51));
    let (later, third) = issue(&backup, 3, at(100));
    let later = later.come_into_use(&third, ca(), at(101));
    assert!(!later.accept(&second));
    assert!(backup.accept(&third) && !backup.accept(&first));
    assert!(!backup.come_into_use(&third, ca(), at(200)).accept(&second));
}

#[test]
fn a_certificate_of_the_second_in_which_another_came_into_use_is_not_newer() {
    let half = SignedDuration::from_millis(500);
    let (keys, first) = issue(&Keys::default(), 1, later(at(0), half));
    assert!(keys.accept(&certificate(1, at(0))), "the first is from no earlier than itself");
    let used = keys.come_into_use(&first, ca(), later(at(0), half));
    assert!(!used.accept(&certificate(2, at(0))) && used.accept(&certificate(2, at(1))));
}

#[test]
fn a_device_of_flotta_has_no_keys_on_record_and_gets_in() {
    let keys = Keys::read(None).unwrap();
    assert!(keys.accept(&certificate(7, at(-9999))) && keys.ca().is_none());
    let used = keys.come_into_use(&certificate(7, at(-9999)), ca(), at(0));
    assert!(!used.accept(&certificate(8, at(-9999))) && used.ca() == Some(&ca()));
}

#[test]
fn the_annotation_is_read_as_it_was_written_and_nonsense_is_said_to_be_that() {
    let (keys, first) = issue(&Keys::default(), 1, at(0));
    let (keys, _) = issue(&keys.come_into_use(&first, ca(), at(5)), 2, at(9));
    assert_eq!(Keys::read(Some(&keys.write())), Ok(keys.clone()));
    let long = format!("{}{}", keys.write(), " ".repeat(LONGEST));
    let far = keys.write().replace("2026", "9026");
    let short = keys.write().replace(key(1).as_str(), "ab");
    let upper = keys.write().replace("abcdef", "ABCDEF");
    for wrong in [
        "",
        "7",
        "[]",
        "{}",
        "{",
        r#"{"current":{}}"#,
        r#"{"until":"2026-11-18T12:00:00Z"}"#,
        &long,
        &far,
        &short,
        &upper,
    ] {
        assert_eq!(Keys::read(Some(wrong)), Err(UnreadableKeys), "{wrong}");
    }
}

#[test]
fn the_end_of_the_longest_certificate_is_kept() {
    let (keys, first) = issue(&Keys::default(), 1, at(0));
    let keys = keys.issue(key(2), ca(), at(1), at(60));
    assert_eq!(keys.until, Some(first.not_after));
}

#[test]
fn a_later_certificate_for_the_same_key_moves_the_device_to_another_ca_and_an_earlier_one_not_back()
{
    let new_ca = CaId("fedcba9876543210".into());
    let (keys, old) = issue(&Keys::default(), 1, at(0));
    let keys = keys.come_into_use(&old, ca(), at(5));
    assert!(!keys.is_first_use(&old, &ca()));
    let new = certificate(1, at(100));
    let keys = keys.issue(key(1), new_ca.clone(), at(100), new.not_after);
    assert!(keys.accept(&old) && keys.is_first_use(&new, &new_ca) && keys.ca() == Some(&ca()));
    let keys = keys.come_into_use(&new, new_ca.clone(), at(101));
    assert!(keys.ca() == Some(&new_ca) && !keys.is_first_use(&new, &new_ca));
    assert!(keys.accept(&old) && !keys.is_first_use(&old, &ca()));
}

#[test]
fn a_new_ca_is_noticed_also_in_the_very_second_in_which_the_key_came_into_use() {
    let new_ca = CaId("fedcba9876543210".into());
    let (keys, old) = issue(&Keys::default(), 1, at(0));
    let keys = keys.come_into_use(&old, ca(), at(5));
    let new = certificate(1, at(5));
    let keys = keys.issue(key(1), new_ca.clone(), at(5), new.not_after);
    assert!(keys.is_first_use(&new, &new_ca) && !keys.is_first_use(&old, &ca()));
    let keys = keys.come_into_use(&new, new_ca.clone(), at(5));
    assert!(!keys.is_first_use(&new, &new_ca) && !keys.is_first_use(&old, &ca()));
}

#[test]
fn a_certificate_is_handed_out_when_its_key_its_ca_and_its_end_are_on_record() {
    let end = at(1000);
    let keys = Keys::default().issue(key(1), ca(), at(0), end);
    assert!(keys.has_issued(&key(1), &ca(), end) && keys.has_issued(&key(1), &ca(), at(999)));
    assert!(!keys.has_issued(&key(2), &ca(), end) && !keys.has_issued(&key(1), &ca(), at(1001)));
    assert!(!keys.has_issued(&key(1), &CaId("fedcba9876543210".into()), end));
}
