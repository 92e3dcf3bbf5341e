//! Every cell of the table, and the rules beside it.

use jiff::SignedDuration;

use super::super::certificate::BACKDATED;
use super::super::keys::Fingerprint;
use super::Operation::*;
use super::*;
use crate::time::{after, later};

const ALL: [Operation; 6] = [DataIn, ControlIn, ControlOut, Heartbeat, Enrolment, Registration];
const GRANTED: u16 = 200;
const FIRST_USE: u16 = 201;
/// In place of a code: the command.
const DISCONNECT: u16 = 1;

fn now() -> Timestamp {
    "2026-11-18T12:00:00Z".parse().unwrap()
}

fn ca() -> CaId {
    CaId("0123456789abcdef".into())
}

fn id(text: &str) -> DeviceId {
    DeviceId::read(text).unwrap()
}

/// A certificate that was made so many days ago and is good for 30.
fn certificate(holder: Holder, key: u8, days_ago: i64) -> CertificateFacts {
    let issued = after(now(), -days_ago * 86_400);
    CertificateFacts {
        holder,
        key: Fingerprint::new(&[key; 32]),
        not_before: later(issued, -BACKDATED),
        not_after: later(issued, SignedDuration::from_hours(24 * 30)),
    }
}

fn of_device(name: &str, key: u8, days_ago: i64) -> CertificateFacts {
    certificate(
        Holder::Device { id: id(name), namespace: "default".into(), ca: ca() },
        key,
        days_ago,
    )
}

/// The keys of a device that has used key 1 since it was made.
fn keys(days_ago: i64) -> Keys {
    let used = of_device("edge1", 1, days_ago);
    Keys::default().come_into_use(&used, ca(), used.issued())
}

fn tombstone(fetched: Option<Timestamp>) -> Tombstone {
    Tombstone {
        namespace: "default".into(),
        name: "edge1".into(),
        uid: "u".into(),
        deleted: now(),
        until: after(now(), 86_400),
        keys: keys(1),
        fetched,
    }
}

fn code(access: Access) -> u16 {
    match access {
        Access::Granted { first_use: false } => GRANTED,
        Access::Granted { first_use: true } => FIRST_USE,
        Access::Disconnect => DISCONNECT,
        Access::Refused(refusal) => refusal.code(),
    }
}

/// What a certificate gets for each operation, in the order of the table.
fn row(certificate: &CertificateFacts, record: Record<'_>, auto_approval: bool) -> [u16; 6] {
    let device = id("EDGE1");
    ALL.map(|operation| code(judge(certificate, &device, operation, record, auto_approval, now())))
}

#[test]
fn who_has_a_foreign_an_ended_registration_or_a_replaced_certificate_gets_nothing() {
    let keys = keys(1);
    let known = Record::Known { keys: Ok(&keys), unclaimed: false };
    let stone = tombstone(None);
    for record in [known, Record::Unknown, Record::BeingDeleted, Record::Deleted(&stone)] {
        assert_eq!(row(&certificate(Holder::Foreign, 9, 1), record, true), [401; 6]);
        assert_eq!(row(&certificate(Holder::Registration, 9, 31), record, true), [401; 6]);
    }
    let replaced = of_device("edge1", 2, 5);
    assert_eq!(row(&replaced, known, true), [401; 6]);
    assert_eq!(row(&replaced, Record::Deleted(&stone), true), [401; 6]);
}

#[test]
fn the_registration_certificate_enrols_and_registers_who_has_no_key_in_use() {
    let registration = certificate(Holder::Registration, 9, 1);
    let keys = keys(1);
    let known = |unclaimed| Record::Known { keys: Ok(&keys), unclaimed };
    assert_eq!(row(&registration, known(true), false), [403, 403, 403, 403, 200, 200]);
    assert_eq!(row(&registration, known(false), true), [403, 403, 403, 403, 200, 403]);
    assert_eq!(row(&registration, Record::Unknown, false), [403, 403, 403, 403, 200, 404]);
    assert_eq!(row(&registration, Record::Unknown, true), [403, 403, 403, 403, 200, 200]);
    let stone = tombstone(None);
    assert_eq!(row(&registration, Record::Deleted(&stone), true), [403, 403, 403, 403, 200, 200]);
}

#[test]
fn a_device_speaks_for_itself_and_when_its_certificate_has_ended_only_to_get_another() {
    let keys = keys(1);
    let known = Record::Known { keys: Ok(&keys), unclaimed: false };
    assert_eq!(row(&of_device("edge1", 1, 1), known, true), [GRANTED; 6]);
    let old = self::keys(31);
    let known = Record::Known { keys: Ok(&old), unclaimed: false };
    assert_eq!(row(&of_device("edge1", 1, 31), known, true), [401, 401, 401, 401, 200, 200]);
}

#[test]
fn a_key_that_was_never_used_comes_into_use_with_whatever_it_is_used_for() {
    let used = keys(10);
    let renewed = of_device("edge1", 2, 1);
    let keys = used.issue(renewed.key.clone(), ca(), renewed.issued(), renewed.not_after);
    let known = Record::Known { keys: Ok(&keys), unclaimed: false };
    assert_eq!(row(&renewed, known, true), [FIRST_USE; 6]);
    assert_eq!(
        row(&of_device("edge1", 1, 10), known, true),
        [GRANTED; 6],
        "and until then the old"
    );
    let none = Keys::default();
    let flotta = Record::Known { keys: Ok(&none), unclaimed: false };
    assert_eq!(row(&of_device("edge1", 7, 20), flotta, true), [FIRST_USE; 6]);
}

#[test]
fn a_deleted_device_is_told_to_disconnect_and_may_then_begin_anew() {
    let own = of_device("edge1", 1, 1);
    let waiting = tombstone(None);
    assert_eq!(row(&own, Record::Deleted(&waiting), true), [404, DISCONNECT, 404, 404, 403, 404]);
    let fetched = tombstone(Some(after(now(), -10)));
    assert_eq!(row(&own, Record::Deleted(&fetched), true), [404, DISCONNECT, 404, 404, 200, 404]);
    let long_ago = tombstone(Some(after(now(), -61)));
    assert_eq!(row(&own, Record::Deleted(&long_ago), true), [404, 404, 404, 404, 200, 404]);
}

#[test]
fn nobody_is_told_to_disconnect_without_a_tombstone() {
    let own = of_device("edge1", 1, 1);
    let over = Tombstone { until: after(now(), -1), ..tombstone(None) };
    for record in [Record::Unknown, Record::Deleted(&over)] {
        assert_eq!(row(&own, record, false), [404, 404, 404, 404, 200, 404]);
        assert_eq!(row(&own, record, true), [404, 404, 404, 404, 200, 200]);
    }
    assert_eq!(row(&own, Record::BeingDeleted, true), [503; 6]);
}

#[test]
fn nobody_speaks_for_another() {
    let keys = keys(1);
    let stone = tombstone(None);
    let known = Record::Known { keys: Ok(&keys), unclaimed: true };
    for record in [known, Record::Unknown, Record::BeingDeleted, Record::Deleted(&stone)] {
        for key in [1, 2] {
            assert_eq!(row(&of_device("edge2", key, 1), record, true), [403; 6]);
            assert_eq!(row(&of_device("edge2", key, 31), record, true), [401; 6]);
        }
    }
}

#[test]
fn a_certificate_of_tomorrow_is_as_good_as_one_that_has_ended() {
    let keys = keys(1);
    let known = Record::Known { keys: Ok(&keys), unclaimed: false };
    assert_eq!(row(&of_device("edge1", 1, -3), known, true), [401, 401, 401, 401, 200, 200]);
}

#[test]
fn keys_that_cannot_be_read_let_nobody_in_and_destroy_nothing() {
    let spoilt = Record::Known { keys: Err(UnreadableKeys), unclaimed: false };
    assert_eq!(row(&of_device("edge1", 1, 1), spoilt, true), [503; 6]);
    let reset = Record::Known { keys: Err(UnreadableKeys), unclaimed: true };
    assert_eq!(row(&of_device("edge1", 1, 1), reset, true), [503, 503, 503, 503, 200, 200]);
}

#[test]
fn a_certificate_from_before_its_edgedevice_was_made_anew_may_register_and_no_more() {
    let none = Keys::default();
    let anew = Record::Known { keys: Ok(&none), unclaimed: true };
    assert_eq!(row(&of_device("edge1", 1, 1), anew, true), [401, 401, 401, 401, 200, 200]);
    assert_eq!(row(&of_device("edge1", 1, 31), anew, true), [401, 401, 401, 401, 200, 200]);
}
