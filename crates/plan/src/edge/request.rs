//! What a device's request comes to: an answer, or a write that has to be on record before there is one.
//!
//! ```text
//!   request + Entry ──decide──▶ Answer
//!                          └──▶ Write ──(acknowledged)──▶ Entry ──decide──▶ …
//! ```
//!
//! It is decided anew after each write, from what is on record then. So whoever is killed in between has promised nothing:
//! no certificate is handed out whose key is not on record, and no key counts as used before that is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::auth::{self, Access, Operation, Record};
use super::certificate::{CertificateFacts, Holder};
use super::device_id::DeviceId;
use super::devices::Entry;
use super::facts::{EdgeDeviceFacts, HardwareFacts, Settings};
use super::finalizers;
use super::keys::{CaId, Fingerprint, Keys};
use super::place::{self, Place};
use super::refusal::Refusal;

/// Devices that may wait for approval at one time. Each of them is an object in the cluster that anybody with the registration
/// bundle can ask for.
pub const MOST_PENDING: usize = 1000;

/// A request, as far as its answer depends on it.
#[derive(Clone, Debug)]
pub struct DeviceRequest {
    pub device: DeviceId,
    pub certificate: Arc<CertificateFacts>,
    pub wish: Wish,
}

/// What it wants.
#[derive(Clone, Debug)]
pub enum Wish {
    /// A certificate.
    Registration(CertificateWish),
    /// To be let in.
    Enrolment {
        /// Where it wants to be, if it says so.
        namespace: Option<String>,
    },
    /// Anything that it may do once it is in.
    Other(Operation),
}

/// The certificate that is wanted, as it will be made.
#[derive(Clone, Debug)]
pub struct CertificateWish {
    pub key: Fingerprint,
    pub ca: CaId,
    pub issued: Timestamp,
    pub not_after: Timestamp,
    /// Labels for what the device is made of.
    pub labels: BTreeMap<String, String>,
    /// What the device says it is made of; `None` if it says nothing, or if that could not be written.
    pub hardware: Option<HardwareFacts>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Answer(Outcome),
    /// To be decided anew when it is acknowledged.
    Write(Box<Change>),
}

/// What a device is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It may. Its EdgeDevice is in this namespace.
    Granted {
        namespace: String,
    },
    /// Its EdgeDevice is there, and it may register.
    Enrolled,
    /// Somebody has to approve it first.
    Waiting,
    /// It is to disconnect; the tombstone of this namespace says so.
    Disconnect {
        namespace: String,
    },
    Refused(Refusal),
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    CreateDevice(NewDevice),
    /// Of the EdgeDevice in this namespace.
    PatchDevice {
        namespace: String,
        patch: DevicePatch,
    },
    /// What the request says of the hardware goes into the status of the EdgeDevice in this namespace.
    Hardware {
        namespace: String,
    },
    /// A request for approval, for a device that is to be in this namespace.
    CreateRequest {
        namespace: String,
    },
    RequestStatus {
        phase: &'static str,
        message: &'static str,
    },
    DeleteRequest,
    /// A tombstone for the EdgeDevice in this namespace.
    Bury {
        namespace: String,
    },
    /// The tombstone of this namespace has done its work.
    DropTombstone {
        namespace: String,
    },
}

/// An EdgeDevice to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDevice {
    pub namespace: String,
    pub keys: Option<Keys>,
    pub labels: BTreeMap<String, String>,
    pub set: Option<String>,
}

/// What changes in an EdgeDevice's metadata, at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevicePatch {
    pub keys: Option<Keys>,
    /// Its key is in use: the label that says it is not goes.
    pub claimed: bool,
    /// `None`: the label goes.
    pub labels: BTreeMap<String, Option<String>>,
    pub finalizers: Option<Vec<String>>,
}

/// Says what comes next for a request. `entry`: all that is on record of its device; `pending`: how many devices wait for
/// approval.
pub fn decide(
    request: &DeviceRequest,
    entry: &Entry,
    settings: &Settings,
    pending: usize,
    now: Timestamp,
) -> Step {
    decided(request, entry, settings, pending, now)
        .unwrap_or_else(|refusal| Step::Answer(Outcome::Refused(refusal)))
}

fn decided(
    request: &DeviceRequest,
    entry: &Entry,
    settings: &Settings,
    pending: usize,
    now: Timestamp,
) -> Result<Step, Refusal> {
    let certificate = &*request.certificate;
    auth::identify(certificate, &request.device, now)?;
    let place = place::find(&certificate.holder, &entry.devices, &settings.namespaces)?;
    let record = record(entry, place, certificate);
    let operation = request.wish.operation();
    let judged =
        auth::judge(certificate, &request.device, operation, record, settings.auto_approval, now);
    match judged {
        Access::Refused(Refusal::NotApproved) => {
            // Whoever approves makes an EdgeDevice, and that may be in another namespace than before.
            match place::invited(&entry.devices)? {
                Place::There(device) => come_in(request, device, entry, settings, pending),
                Place::Nowhere { .. } => Err(Refusal::NotApproved),
            }
        }
        Access::Refused(refusal) => Err(refusal),
        Access::Disconnect => {
            let namespace = own_namespace(&certificate.holder).unwrap_or_default().to_owned();
            Ok(Step::Answer(Outcome::Disconnect { namespace }))
        }
        Access::Granted { first_use: true } => Ok(use_key(certificate, place, now)),
        Access::Granted { first_use: false } => match place {
            Place::There(device) => Ok(granted(request, device)),
            Place::Nowhere { namespace } => match place::invited(&entry.devices)? {
                Place::There(device) => come_in(request, device, entry, settings, pending),
                Place::Nowhere { .. } => begin(request, namespace, entry, settings, pending),
            },
        },
    }
}

/// A write comes before the answer.
fn write(change: Change) -> Step {
    Step::Write(Box::new(change))
}

impl Wish {
    fn operation(&self) -> Operation {
        match self {
            Wish::Registration(_) => Operation::Registration,
            Wish::Enrolment { .. } => Operation::Enrolment,
            Wish::Other(operation) => *operation,
        }
    }
}

fn own_namespace(holder: &Holder) -> Option<&str> {
    match holder {
        Holder::Device { namespace, .. } => Some(namespace),
        Holder::Registration | Holder::Foreign => None,
    }
}

/// What the table is asked with.
fn record<'a>(entry: &'a Entry, place: Place<'a>, certificate: &CertificateFacts) -> Record<'a> {
    let own = own_namespace(&certificate.holder).and_then(|namespace| entry.tombstone(namespace));
    match place {
        Place::There(device) if !device.being_deleted => Record::Known {
            keys: device.keys.as_ref().map_err(|unreadable| *unreadable),
            unclaimed: device.unclaimed,
        },
        // Others may hold the object back for as long as they like, and the device need not wait for them.
        Place::There(device) => match own.filter(|tombstone| tombstone.uid == device.uid) {
            Some(tombstone) => Record::Deleted(tombstone),
            None => Record::BeingDeleted,
        },
        Place::Nowhere { .. } => match own.filter(|tombstone| tombstone.is_after(certificate)) {
            Some(tombstone) => Record::Deleted(tombstone),
            None => Record::Unknown,
        },
    }
}

/// A key is used for the first time.
fn use_key(certificate: &CertificateFacts, place: Place<'_>, now: Timestamp) -> Step {
    let (Place::There(device), Holder::Device { ca, .. }) = (place, &certificate.holder) else {
        // Only who is there and has a certificate of its own uses a key.
        return Step::Answer(Outcome::Refused(Refusal::DeviceUnknown));
    };
    let keys = device.keys.clone().unwrap_or_default();
    let patch = DevicePatch {
        keys: Some(keys.come_into_use(certificate, ca.clone(), now)),
        claimed: device.unclaimed,
        finalizers: finalizers::held(&device.finalizers),
        ..DevicePatch::default()
    };
    write(Change::PatchDevice { namespace: device.namespace.clone(), patch })
}

/// The device is there, and may what it asks for.
fn granted(request: &DeviceRequest, device: &EdgeDeviceFacts) -> Step {
    let namespace = device.namespace.clone();
    match &request.wish {
        Wish::Registration(wish) => register(wish, device),
        Wish::Enrolment { .. } => Step::Answer(Outcome::Enrolled),
        Wish::Other(_) => Step::Answer(Outcome::Granted { namespace }),
    }
}

fn register(wish: &CertificateWish, device: &EdgeDeviceFacts) -> Step {
    let namespace = device.namespace.clone();
    let keys = device.keys.clone().unwrap_or_default();
    if !keys.has_issued(&wish.key, &wish.ca, wish.not_after) {
        let missing =
            |(label, value): &(&String, &String)| device.labels.get(*label) != Some(*value);
        let labels = wish.labels.iter().filter(missing);
        let patch = DevicePatch {
            keys: Some(issue(&keys, wish)),
            claimed: false,
            labels: labels.map(|(label, value)| (label.clone(), Some(value.clone()))).collect(),
            finalizers: finalizers::held(&device.finalizers),
        };
        return write(Change::PatchDevice { namespace, patch });
    }
    if wish.hardware.is_some() && wish.hardware != device.status.hardware {
        return write(Change::Hardware { namespace });
    }
    Step::Answer(Outcome::Granted { namespace })
}

fn issue(keys: &Keys, wish: &CertificateWish) -> Keys {
    keys.issue(wish.key.clone(), wish.ca.clone(), wish.issued, wish.not_after)
}

/// The EdgeDevice of a device that has none where its certificate says, but one elsewhere that may wait for it.
fn come_in(
    request: &DeviceRequest,
    device: &EdgeDeviceFacts,
    entry: &Entry,
    settings: &Settings,
    pending: usize,
) -> Result<Step, Refusal> {
    match &request.wish {
        _ if device.being_deleted => Err(Refusal::BeingDeleted),
        _ if !device.unclaimed => Err(Refusal::KeyInUse),
        Wish::Registration(_) | Wish::Enrolment { .. } => Ok(granted(request, device)),
        Wish::Other(_) => begin(request, None, entry, settings, pending),
    }
}

/// There is no EdgeDevice of this name.
fn begin(
    request: &DeviceRequest,
    own_namespace: Option<&str>,
    entry: &Entry,
    settings: &Settings,
    pending: usize,
) -> Result<Step, Refusal> {
    let asked = entry.signed_request.as_ref();
    if asked.is_some_and(|asked| asked.declined) {
        return Err(Refusal::Declined);
    }
    let wanted = match &request.wish {
        Wish::Enrolment { namespace } => namespace.as_deref(),
        Wish::Registration(_) => None,
        // The table has no such cell.
        Wish::Other(_) => return Err(Refusal::DeviceUnknown),
    };
    let namespace = wanted.or(own_namespace).unwrap_or_else(|| settings.first_namespace());
    if !settings.serves(namespace) {
        return Err(Refusal::NamespaceNotServed);
    }
    let namespace = namespace.to_owned();
    let new = |keys, labels| {
        let new = NewDevice { namespace: namespace.clone(), keys, labels, set: None };
        write(Change::CreateDevice(new))
    };
    match &request.wish {
        Wish::Registration(wish) => {
            Ok(new(Some(issue(&Keys::default(), wish)), wish.labels.clone()))
        }
        _ if settings.auto_approval => Ok(new(None, BTreeMap::new())),
        _ if asked.is_some() => Ok(Step::Answer(Outcome::Waiting)),
        _ if pending >= MOST_PENDING => Err(Refusal::TooManyPending),
        _ => Ok(write(Change::CreateRequest { namespace })),
    }
}

#[cfg(test)]
mod tests;
