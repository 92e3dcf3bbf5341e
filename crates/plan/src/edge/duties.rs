//! What is to be done for the objects of one name when nobody asks: requests that were answered, EdgeDevices that are being
//! deleted, and those that Flotta has left.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::devices::Entry;
use super::facts::{EdgeDeviceFacts, Settings, SignedRequestFacts};
use super::finalizers;
use super::request::{Change, DevicePatch, NewDevice};
use super::tombstone::Tombstone;
use crate::time::later;

/// What the phase of a request for approval may be, with the sentence beside it.
const PENDING: (&str, &str) = ("pending", "waits for somebody to set spec.approved");
const APPROVED: (&str, &str) = ("approved", "the device may register");
const DECLINED: (&str, &str) = ("declined", "the device is refused");
const NOT_SERVED: (&str, &str) =
    ("pending", "spec.targetNamespace is not served; see --edge-namespaces");

/// The next write, if there is any. `crd_ends`: the CRD of EdgeDevices is being deleted. All of them go with it, and nobody
/// has said that a device shall disconnect.
pub fn decide(entry: &Entry, settings: &Settings, crd_ends: bool) -> Option<Change> {
    let duty = |device| device_duty(entry, device, settings, crd_ends);
    let of_device = entry.devices.iter().find_map(duty);
    of_device.or_else(|| request_duty(entry, settings))
}

/// In this order: what is killed in between leaves nobody without a record, and nobody who is made again by it.
fn device_duty(
    entry: &Entry,
    device: &EdgeDeviceFacts,
    settings: &Settings,
    crd_ends: bool,
) -> Option<Change> {
    let namespace = device.namespace.clone();
    let patch = |finalizers| {
        let patch = DevicePatch { finalizers: Some(finalizers), ..DevicePatch::default() };
        Change::PatchDevice { namespace: namespace.clone(), patch }
    };
    let tombstone = entry.tombstone(&namespace);
    if !device.being_deleted {
        return match tombstone {
            Some(_) => Some(Change::DropTombstone { namespace }),
            None => finalizers::held(&device.finalizers).map(patch),
        };
    }
    if crd_ends {
        return finalizers::released(&device.finalizers).map(patch);
    }
    if has_certificate(device) && tombstone.is_none_or(|t| t.uid != device.uid) {
        return Some(Change::Bury { namespace });
    }
    let asked = entry.signed_request.as_ref().filter(|asked| !asked.being_deleted);
    if asked.is_some_and(|asked| target(asked, settings) == device.namespace) {
        return Some(Change::DeleteRequest);
    }
    finalizers::released(&device.finalizers).map(patch)
}

/// Whether there may be a certificate for the device. One of Flotta's has none on record.
fn has_certificate(device: &EdgeDeviceFacts) -> bool {
    match &device.keys {
        Ok(keys) => keys.ca().is_some() || !device.unclaimed,
        Err(_) => true,
    }
}

/// The tombstone of an EdgeDevice.
pub fn tombstone(
    name: &str,
    device: &EdgeDeviceFacts,
    settings: &Settings,
    now: Timestamp,
) -> Tombstone {
    let keys = device.keys.clone().unwrap_or_default();
    // What Flotta has handed out ends no later than what is handed out today.
    let days = SignedDuration::from_hours(24)
        .saturating_mul(i32::try_from(settings.client_days).unwrap_or(i32::MAX));
    Tombstone {
        namespace: device.namespace.clone(),
        name: name.to_owned(),
        uid: device.uid.clone(),
        deleted: now,
        until: keys.until.unwrap_or_else(|| later(now, days)),
        keys,
        fetched: None,
    }
}

fn target<'a>(asked: &'a SignedRequestFacts, settings: &'a Settings) -> &'a str {
    if asked.namespace.is_empty() { settings.first_namespace() } else { &asked.namespace }
}

fn request_duty(entry: &Entry, settings: &Settings) -> Option<Change> {
    let asked = entry.signed_request.as_ref().filter(|asked| !asked.being_deleted)?;
    let (approved, namespace) = (asked.approved || settings.auto_approval, target(asked, settings));
    let served = settings.serves(namespace);
    if approved && !asked.declined && served && entry.devices.is_empty() {
        let (namespace, set) = (namespace.to_owned(), asked.set.clone());
        let labels = BTreeMap::new();
        return Some(Change::CreateDevice(NewDevice { namespace, keys: None, labels, set }));
    }
    let (phase, message) = match (asked.declined, approved, served) {
        (true, _, _) => DECLINED,
        (false, true, true) => APPROVED,
        (false, true, false) => NOT_SERVED,
        (false, false, _) => PENDING,
    };
    let said = (asked.phase.as_deref(), asked.message.as_deref());
    (said != (Some(phase), Some(message))).then_some(Change::RequestStatus { phase, message })
}

#[cfg(test)]
mod tests;
