//! Requests as they come to their answers, write by write: each write is carried out on the entry as the cluster would.

use jiff::SignedDuration;

use super::super::certificate::BACKDATED;
use super::super::facts::SignedRequestFacts;
use super::super::finalizers::FINALIZER;
use super::super::tests::device;
use super::super::tombstone::Tombstone;
use super::*;
use crate::time::{after, later};

fn now() -> Timestamp {
    "2026-11-18T12:00:00Z".parse().unwrap()
}

fn ca() -> CaId {
    CaId("0123456789abcdef".into())
}

fn key(number: u8) -> Fingerprint {
    Fingerprint::new(&[number; 32])
}

fn settings(auto_approval: bool) -> Settings {
    Settings { auto_approval, namespaces: vec!["a".into(), "b".into()], client_days: 30 }
}

fn certificate(holder: Holder, number: u8, issued: Timestamp) -> CertificateFacts {
    CertificateFacts {
        holder,
        key: key(number),
        not_before: later(issued, -BACKDATED),
        not_after: later(issued, SignedDuration::from_hours(24 * 30)),
    }
}

fn register() -> CertificateFacts {
    certificate(Holder::Registration, 99, now())
}

fn own(namespace: &str, number: u8, issued: Timestamp) -> CertificateFacts {
    let id = DeviceId::read("edge1").unwrap();
    certificate(Holder::Device { id, namespace: namespace.into(), ca: ca() }, number, issued)
}

fn wish(number: u8) -> Wish {
    Wish::Registration(CertificateWish {
        key: key(number),
        ca: ca(),
        issued: now(),
        not_after: after(now(), 30 * 86_400),
        labels: [("device.hostname".to_owned(), "pump".to_owned())].into(),
        hardware: Some(HardwareFacts([7; 10])),
    })
}

fn enrolment(namespace: Option<&str>) -> Wish {
    Wish::Enrolment { namespace: namespace.map(str::to_owned) }
}

const POLL: Wish = Wish::Other(Operation::DataIn);

/// A cluster with one device's objects.
struct World {
    entry: Entry,
    settings: Settings,
    pending: usize,
    writes: Vec<Change>,
}

impl World {
    fn new(auto_approval: bool) -> Self {
        let (entry, settings) = (Entry::default(), settings(auto_approval));
        Self { entry, settings, pending: 0, writes: Vec::new() }
    }

    fn step(&self, certificate: &CertificateFacts, wish: &Wish) -> Step {
        let device = DeviceId::read("edge1").unwrap();
        let request =
            DeviceRequest { device, certificate: certificate.clone().into(), wish: wish.clone() };
        decide(&request, &self.entry, &self.settings, self.pending, now())
    }

    /// To its answer, however many writes that takes; how many it took.
    fn ask(&mut self, certificate: &CertificateFacts, wish: Wish) -> (Outcome, usize) {
        for writes in 0..9 {
            match self.step(certificate, &wish) {
                Step::Answer(outcome) => return (outcome, writes),
                Step::Write(change) => self.carry_out(*change),
            }
        }
        panic!("no end of writes: {:?}", self.writes)
    }

    fn carry_out(&mut self, change: Change) {
        self.writes.push(change.clone());
        match change {
            Change::CreateDevice(new) => self.entry.devices.push(EdgeDeviceFacts {
                keys: Ok(new.keys.unwrap_or_default()),
                labels: new.labels,
                unclaimed: true,
                ..device(&new.namespace)
            }),
            Change::PatchDevice { namespace, patch } => {
                let mut devices = self.entry.devices.iter_mut();
                let device = devices.find(|device| device.namespace == namespace).unwrap();
                if let Some(keys) = patch.keys {
                    device.keys = Ok(keys);
                }
                device.unclaimed &= !patch.claimed;
                let set = |(label, value)| Some((label, value?));
                device.labels.extend(patch.labels.into_iter().filter_map(set));
                device.finalizers = patch.finalizers.unwrap_or(device.finalizers.clone());
            }
            Change::Hardware { .. } => {
                self.entry.devices[0].status.hardware = Some(HardwareFacts([7; 10]))
            }
            Change::CreateRequest { namespace } => {
                self.entry.signed_request = Some(SignedRequestFacts {
                    uid: "r".into(),
                    resource_version: 1,
                    being_deleted: false,
                    approved: false,
                    declined: false,
                    namespace,
                    set: None,
                    phase: None,
                    message: None,
                });
            }
            other => panic!("{other:?}"),
        }
    }

    fn keys(&self) -> &Keys {
        self.entry.devices[0].keys.as_ref().unwrap()
    }
}

fn granted(namespace: &str) -> Outcome {
    Outcome::Granted { namespace: namespace.into() }
}

#[test]
fn from_enrolment_to_first_use_takes_four_writes() {
    let mut world = World::new(true);
    assert_eq!(world.ask(&register(), enrolment(None)), (Outcome::Enrolled, 1));
    assert_eq!(world.ask(&register(), enrolment(None)), (Outcome::Enrolled, 0));
    assert_eq!(world.ask(&register(), wish(1)), (granted("a"), 2));
    assert!(world.keys().next.is_some() && world.keys().current.is_none());
    assert_eq!(world.entry.devices[0].labels["device.hostname"], "pump");
    assert_eq!(world.ask(&own("a", 1, now()), POLL), (granted("a"), 1));
    assert!(!world.entry.devices[0].unclaimed && world.keys().next.is_none());
    assert_eq!(world.ask(&own("a", 1, now()), POLL), (granted("a"), 0), "and then none");
}

#[test]
fn a_registration_without_enrolment_makes_the_device_with_its_key() {
    let mut world = World::new(true);
    assert_eq!(world.ask(&register(), wish(1)), (granted("a"), 2));
    let Change::CreateDevice(new) = &world.writes[0] else { panic!() };
    assert!(new.keys.as_ref().unwrap().has_issued(&key(1), &ca(), now()));
    let mut strict = World::new(false);
    let refused = Outcome::Refused(Refusal::NotApproved);
    assert_eq!(strict.ask(&register(), wish(1)), (refused, 0));
}

#[test]
fn answers_that_are_lost_lock_nobody_out_and_the_first_key_that_is_used_is_the_one() {
    let mut world = World::new(true);
    for number in 1..=3 {
        assert_eq!(world.ask(&register(), wish(number)).0, granted("a"));
    }
    assert_eq!(world.ask(&own("a", 2, now()), POLL).0, granted("a"));
    for number in [1, 3] {
        let other = world.ask(&own("a", number, now()), POLL).0;
        assert_eq!(other, Outcome::Refused(Refusal::KeyReplaced));
    }
    let bundle = world.ask(&register(), wish(4)).0;
    assert_eq!(bundle, Outcome::Refused(Refusal::KeyInUse));
    // Reset: the label is put back, and another box may register; the old one is out with its first use.
    world.entry.devices[0].unclaimed = true;
    assert_eq!(world.ask(&register(), wish(4)).0, granted("a"));
    assert_eq!(world.ask(&own("a", 2, now()), POLL).0, granted("a"), "until then it goes on");
    assert_eq!(world.ask(&own("a", 4, after(now(), 1)), POLL).0, granted("a"));
    assert_eq!(world.ask(&own("a", 2, now()), POLL).0, Outcome::Refused(Refusal::KeyReplaced));
}

#[test]
fn nothing_is_granted_before_it_is_on_record() {
    let mut world = World::new(true);
    world.ask(&register(), enrolment(None));
    let Step::Write(first) = world.step(&register(), &wish(1)) else { panic!() };
    assert_eq!(world.step(&register(), &wish(1)), Step::Write(first.clone()), "until it is there");
    world.carry_out(*first);
    let Wish::Registration(wish) = wish(1) else { panic!() };
    let without = CertificateWish { hardware: None, ..wish };
    let step = world.step(&register(), &Wish::Registration(without));
    assert_eq!(
        step,
        Step::Answer(granted("a")),
        "what cannot be written of the hardware is no reason"
    );
}

#[test]
fn a_device_is_where_it_asks_to_be_if_that_is_served() {
    let mut world = World::new(true);
    let refused = Outcome::Refused(Refusal::NamespaceNotServed);
    assert_eq!(world.ask(&register(), enrolment(Some("z"))), (refused.clone(), 0));
    assert_eq!(world.ask(&register(), enrolment(Some("b"))), (Outcome::Enrolled, 1));
    assert_eq!(world.ask(&register(), wish(1)).0, granted("b"));
    assert_eq!(world.ask(&own("z", 1, now()), POLL).0, refused);
}

#[test]
fn without_auto_approval_a_device_waits_for_a_person() {
    let mut world = World::new(false);
    assert_eq!(world.ask(&register(), enrolment(Some("b"))), (Outcome::Waiting, 1));
    assert_eq!(world.ask(&register(), enrolment(Some("b"))), (Outcome::Waiting, 0));
    world.entry.devices.push(EdgeDeviceFacts { unclaimed: true, ..device("b") });
    assert_eq!(world.ask(&register(), enrolment(Some("b"))), (Outcome::Enrolled, 0));
    assert_eq!(world.ask(&register(), wish(1)).0, granted("b"));
    let mut declined = World::new(false);
    declined.ask(&register(), enrolment(None));
    declined.entry.signed_request.as_mut().unwrap().declined = true;
    let refused = Outcome::Refused(Refusal::Declined);
    assert_eq!(declined.ask(&register(), enrolment(None)).0, refused);
    declined.settings.auto_approval = true;
    assert_eq!(declined.ask(&register(), wish(1)).0, refused);
    let mut full = World::new(false);
    full.pending = MOST_PENDING;
    let refused = Outcome::Refused(Refusal::TooManyPending);
    assert_eq!(full.ask(&register(), enrolment(None)), (refused, 0));
}

#[test]
fn who_is_unknown_to_a_restored_cluster_comes_back_by_itself() {
    let mut world = World::new(true);
    let unknown = Outcome::Refused(Refusal::DeviceUnknown);
    assert_eq!(world.ask(&own("b", 1, now()), POLL).0, unknown);
    assert_eq!(world.ask(&own("b", 1, now()), enrolment(None)), (Outcome::Enrolled, 1));
    assert_eq!(world.entry.devices[0].namespace, "b", "where it was");
    assert_eq!(world.ask(&own("b", 1, now()), wish(2)).0, granted("b"));
    assert_eq!(world.ask(&own("b", 2, now()), POLL).0, granted("b"));
    // With a person in between, wherever that person puts it.
    let mut strict = World::new(false);
    assert_eq!(strict.ask(&own("b", 1, now()), enrolment(None)).0, Outcome::Waiting);
    assert_eq!(strict.ask(&own("b", 1, now()), wish(2)).0, Outcome::Refused(Refusal::NotApproved));
    strict.entry.devices.push(EdgeDeviceFacts { unclaimed: true, ..device("a") });
    assert_eq!(strict.ask(&own("b", 1, now()), enrolment(None)).0, Outcome::Enrolled);
    assert_eq!(strict.ask(&own("b", 1, now()), wish(2)).0, granted("a"));
    strict.entry.devices[0].unclaimed = false;
    assert_eq!(strict.ask(&own("b", 1, now()), wish(3)).0, Outcome::Refused(Refusal::KeyInUse));
}

#[test]
fn an_earlier_certificate_registers_as_often_as_answers_are_lost() {
    let mut world = World::new(true);
    let earlier = own("b", 1, after(now(), -86_400 * 20));
    assert_eq!(world.ask(&earlier, enrolment(None)), (Outcome::Enrolled, 1));
    for number in 2..=3 {
        assert_eq!(world.ask(&earlier, wish(number)).0, granted("b"));
        assert_eq!(world.ask(&earlier, POLL).0, Outcome::Refused(Refusal::RegisterAgain));
    }
    assert_eq!(world.ask(&own("b", 2, now()), POLL).0, granted("b"));
    assert_eq!(world.ask(&earlier, wish(4)).0, Outcome::Refused(Refusal::KeyReplaced));
}

#[test]
fn a_deleted_device_is_told_so_also_while_others_hold_its_object_back() {
    let mut world = World::new(true);
    world.ask(&register(), wish(1));
    world.ask(&own("a", 1, now()), POLL);
    let commands = Wish::Other(Operation::ControlIn);
    world.entry.devices[0].being_deleted = true;
    let busy = Outcome::Refused(Refusal::BeingDeleted);
    assert_eq!(world.ask(&own("a", 1, now()), commands.clone()).0, busy);
    assert_eq!(world.ask(&register(), wish(2)).0, busy);
    let stone = Tombstone {
        namespace: "a".into(),
        name: "edge1".into(),
        uid: "uid-a".into(),
        deleted: now(),
        until: after(now(), 1000),
        keys: world.keys().clone(),
        fetched: None,
    };
    world.entry.tombstones.push(stone);
    let disconnect = Outcome::Disconnect { namespace: "a".into() };
    assert_eq!(world.ask(&own("a", 1, now()), commands.clone()).0, disconnect);
    assert_eq!(world.ask(&register(), wish(2)).0, busy, "nothing can be made in its place yet");
    world.entry.devices.clear();
    assert_eq!(world.ask(&own("a", 1, now()), commands).0, disconnect);
    let first = Outcome::Refused(Refusal::DisconnectFirst);
    assert_eq!(world.ask(&own("a", 1, now()), enrolment(None)).0, first);
    world.entry.tombstones[0].fetched = Some(now());
    assert_eq!(world.ask(&own("a", 1, now()), enrolment(None)).0, Outcome::Enrolled);
    assert_eq!(world.entry.devices[0].finalizers, [FINALIZER]);
}

/// The cluster was restored from a backup of the time between.
#[test]
fn who_was_let_in_again_since_is_not_disconnected_by_the_tombstone_of_an_earlier_time() {
    let mut world = World::new(true);
    world.ask(&register(), wish(1));
    world.ask(&own("a", 1, now()), POLL);
    let keys = world.keys().clone();
    world.entry.devices.clear();
    world.entry.tombstones.push(Tombstone {
        namespace: "a".into(),
        name: "edge1".into(),
        uid: "uid-a".into(),
        deleted: after(now(), 10),
        until: after(now(), 1000),
        keys,
        fetched: None,
    });
    let commands = Wish::Other(Operation::ControlIn);
    let since = own("a", 2, after(now(), 20));
    let unknown = Outcome::Refused(Refusal::DeviceUnknown);
    assert_eq!(world.ask(&since, commands.clone()).0, unknown);
    assert_eq!(world.ask(&since, enrolment(None)).0, Outcome::Enrolled);
    world.entry.devices.clear();
    let before = own("a", 1, now());
    let disconnect = Outcome::Disconnect { namespace: "a".into() };
    assert_eq!(world.ask(&before, commands).0, disconnect);
}
