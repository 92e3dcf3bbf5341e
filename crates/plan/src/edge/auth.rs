//! Who may do what: the one table that every request of a device is judged by.
//!
//! The handshake has proved the key and nothing else. Whose it is, whether it has ended and whether it was replaced is judged
//! here, for each request, because an expired certificate may still renew itself and a certificate may be replaced while its
//! connection is open.

use jiff::Timestamp;

use super::certificate::{CertificateFacts, Holder};
use super::device_id::DeviceId;
use super::keys::{CaId, Keys, UnreadableKeys};
use super::refusal::Refusal;
use super::tombstone::Tombstone;

/// What a request wants, by its path and directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Its configuration.
    DataIn,
    /// Its commands.
    ControlIn,
    /// To say something about its connection.
    ControlOut,
    Heartbeat,
    Enrolment,
    Registration,
}

/// What is on record of a device.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// Nothing.
    Unknown,
    /// There is an EdgeDevice. `unclaimed`: no key is in use, and whoever has the registration certificate may register it.
    Known { keys: Result<&'a Keys, UnreadableKeys>, unclaimed: bool },
    /// Its EdgeDevice is about to go, and its tombstone is not written yet.
    BeingDeleted,
    /// It has gone.
    Deleted(&'a Tombstone),
}

/// What a request comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Granted {
        /// Its key was not in use until now. That it is has to be on record before the answer is given.
        first_use: bool,
    },
    /// The device is told to disconnect.
    Disconnect,
    Refused(Refusal),
}

/// Judges a request for this device. `auto_approval`: who registers needs nobody's leave.
pub fn judge(
    certificate: &CertificateFacts,
    device: &DeviceId,
    operation: Operation,
    record: Record<'_>,
    auto_approval: bool,
    now: Timestamp,
) -> Access {
    let judged = identify(certificate, device, now).and_then(|identity| match identity {
        Identity::Registration => with_registration(operation, record, auto_approval),
        Identity::Own { valid, .. } if !valid && !operation.brings_a_certificate() => {
            Err(Refusal::CertificateExpired)
        }
        Identity::Own { ca, .. } => {
            with_own(certificate, ca, operation, record, auto_approval, now)
        }
    });
    judged.unwrap_or_else(Access::Refused)
}

/// Whose certificate it is, for a request for some device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// Anybody's with the registration bundle.
    Registration,
    /// The device's own, and which CA has signed it.
    Own { valid: bool, ca: &'a CaId },
}

/// Says no to those who may do nothing at all for this device. It needs no record, so it can be asked before a body is read.
pub fn identify<'a>(
    certificate: &'a CertificateFacts,
    device: &DeviceId,
    now: Timestamp,
) -> Result<Identity<'a>, Refusal> {
    let valid = certificate.is_valid(now);
    match &certificate.holder {
        Holder::Foreign => Err(Refusal::ForeignCertificate),
        Holder::Registration if !valid => Err(Refusal::CertificateExpired),
        Holder::Registration => Ok(Identity::Registration),
        Holder::Device { id, ca, .. } if id == device => Ok(Identity::Own { valid, ca }),
        Holder::Device { .. } if !valid => Err(Refusal::CertificateExpired),
        Holder::Device { .. } => Err(Refusal::AnotherDevice),
    }
}

fn with_registration(
    operation: Operation,
    record: Record<'_>,
    auto_approval: bool,
) -> Result<Access, Refusal> {
    let granted = Ok(Access::Granted { first_use: false });
    match (operation, record) {
        (Operation::Enrolment | Operation::Registration, Record::BeingDeleted) => {
            Err(Refusal::BeingDeleted)
        }
        (Operation::Enrolment, _) => granted,
        (Operation::Registration, Record::Known { unclaimed: true, .. }) => granted,
        (Operation::Registration, Record::Known { .. }) => Err(Refusal::KeyInUse),
        (Operation::Registration, _) if auto_approval => granted,
        (Operation::Registration, _) => Err(Refusal::NotApproved),
        _ => Err(Refusal::RegistrationCertificate),
    }
}

fn with_own(
    certificate: &CertificateFacts,
    ca: &CaId,
    operation: Operation,
    record: Record<'_>,
    auto_approval: bool,
    now: Timestamp,
) -> Result<Access, Refusal> {
    match record {
        Record::Known { keys, unclaimed } => {
            let keys = match keys {
                Ok(keys) => keys,
                // It was reset.
                Err(UnreadableKeys) if unclaimed && operation.brings_a_certificate() => {
                    return with_earlier(operation);
                }
                Err(UnreadableKeys) => return Err(Refusal::KeysUnreadable),
            };
            // Its EdgeDevice was made anew, and no certificate that was given for that was used yet. What is left from before is
            // worth no more than the registration certificate: it may have been replaced before.
            let anew = unclaimed && keys.current.is_none();
            let given_before = anew && keys.next.is_none();
            if !given_before && keys.accept(certificate) {
                return Ok(Access::Granted { first_use: keys.is_first_use(certificate, ca) });
            }
            if anew { with_earlier(operation) } else { Err(Refusal::KeyReplaced) }
        }
        Record::BeingDeleted => Err(Refusal::BeingDeleted),
        Record::Deleted(tombstone) if !tombstone.is_over(now) => {
            if !tombstone.keys.accept(certificate) {
                return Err(Refusal::KeyReplaced);
            }
            with_tombstone(tombstone, operation, now)
        }
        Record::Deleted(_) | Record::Unknown => match operation {
            Operation::Enrolment => Ok(Access::Granted { first_use: false }),
            Operation::Registration if auto_approval => Ok(Access::Granted { first_use: false }),
            Operation::Registration => Err(Refusal::NotApproved),
            _ => Err(Refusal::DeviceUnknown),
        },
    }
}

fn with_earlier(operation: Operation) -> Result<Access, Refusal> {
    if operation.brings_a_certificate() {
        Ok(Access::Granted { first_use: false })
    } else {
        Err(Refusal::RegisterAgain)
    }
}

/// Only who asks for commands can be told to disconnect, and only after that may it begin anew.
fn with_tombstone(
    tombstone: &Tombstone,
    operation: Operation,
    now: Timestamp,
) -> Result<Access, Refusal> {
    match operation {
        Operation::ControlIn if tombstone.tells_to_disconnect(now) => Ok(Access::Disconnect),
        Operation::Enrolment if tombstone.fetched.is_some() => {
            Ok(Access::Granted { first_use: false })
        }
        Operation::Enrolment => Err(Refusal::DisconnectFirst),
        _ => Err(Refusal::DeviceDeleted),
    }
}

impl Operation {
    /// Also a certificate that has ended may be used for these, so that nobody is locked out for having been off.
    fn brings_a_certificate(self) -> bool {
        matches!(self, Operation::Enrolment | Operation::Registration)
    }
}

#[cfg(test)]
mod tests;
