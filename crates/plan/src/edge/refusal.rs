//! Why a device is told no: a short list, each with its HTTP status, its sentence, and its name in metrics.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    ForeignCertificate,
    CertificateExpired,
    KeyReplaced,
    RegistrationCertificate,
    AnotherDevice,
    NamespaceNotServed,
    SeveralNamespaces,
    KeyInUse,
    NotApproved,
    DeviceUnknown,
    DeviceDeleted,
    DisconnectFirst,
    BeingDeleted,
    KeysUnreadable,
    Declined,
    TooManyPending,
    RegisterAgain,
}

impl Refusal {
    pub const ALL: [Refusal; 17] = [
        Refusal::ForeignCertificate,
        Refusal::CertificateExpired,
        Refusal::KeyReplaced,
        Refusal::RegistrationCertificate,
        Refusal::AnotherDevice,
        Refusal::NamespaceNotServed,
        Refusal::SeveralNamespaces,
        Refusal::KeyInUse,
        Refusal::NotApproved,
        Refusal::DeviceUnknown,
        Refusal::DeviceDeleted,
        Refusal::DisconnectFirst,
        Refusal::BeingDeleted,
        Refusal::KeysUnreadable,
        Refusal::Declined,
        Refusal::TooManyPending,
        Refusal::RegisterAgain,
    ];

    /// The HTTP status. Agents read 401 as "get a new certificate", and keep what they run with each of them.
    pub fn code(self) -> u16 {
        use Refusal::*;
        match self {
            ForeignCertificate | CertificateExpired | KeyReplaced | RegisterAgain => 401,
            RegistrationCertificate | AnotherDevice | NamespaceNotServed | KeyInUse => 403,
            SeveralNamespaces | DisconnectFirst | Declined => 403,
            TooManyPending => 429,
            NotApproved | DeviceUnknown | DeviceDeleted => 404,
            BeingDeleted | KeysUnreadable => 503,
        }
    }

    /// For metrics.
    pub fn label(self) -> &'static str {
        use Refusal::*;
        match self {
            ForeignCertificate => "foreign_certificate",
            CertificateExpired => "certificate_expired",
            KeyReplaced => "key_replaced",
            RegistrationCertificate => "registration_certificate",
            AnotherDevice => "another_device",
            NamespaceNotServed => "namespace_not_served",
            SeveralNamespaces => "several_namespaces",
            KeyInUse => "key_in_use",
            NotApproved => "not_approved",
            DeviceUnknown => "device_unknown",
            DeviceDeleted => "device_deleted",
            DisconnectFirst => "disconnect_first",
            BeingDeleted => "being_deleted",
            KeysUnreadable => "keys_unreadable",
            Declined => "declined",
            TooManyPending => "too_many_pending",
            RegisterAgain => "register_again",
        }
    }

    /// What happened, and what to do.
    pub fn sentence(self) -> &'static str {
        use Refusal::*;
        match self {
            ForeignCertificate => {
                "the certificate was not signed by a CA of this cluster; use the registration bundle of this cluster"
            }
            CertificateExpired => {
                "the certificate is not valid now; register for a new one, and check the clock"
            }
            KeyReplaced => {
                "another key is in use for this device; if this box is the right one, reset the EdgeDevice"
            }
            RegistrationCertificate => {
                "the registration certificate may enrol and register, and nothing else"
            }
            AnotherDevice => "the certificate is that of another device",
            NamespaceNotServed => {
                "devices of this namespace are not served here; see --edge-namespaces"
            }
            SeveralNamespaces => {
                "EdgeDevices of this name wait in several namespaces; delete all but one"
            }
            KeyInUse => {
                "this device is registered and its key is in use; if the box is new or lost its key, reset the EdgeDevice"
            }
            NotApproved => "this device is not approved yet; approve its EdgeDeviceSignedRequest",
            DeviceUnknown => "there is no EdgeDevice of this name; enrol and register",
            DeviceDeleted => "the EdgeDevice was deleted",
            DisconnectFirst => {
                "the EdgeDevice was deleted; the device may enrol again when it has fetched its disconnect"
            }
            BeingDeleted => "the EdgeDevice is being deleted; try again",
            KeysUnreadable => {
                "the annotation management.project-flotta.io/keys of the EdgeDevice cannot be read; reset the EdgeDevice"
            }
            RegisterAgain => {
                "this certificate was given before the EdgeDevice was made anew or reset; register for a new one"
            }
            Declined => "the EdgeDeviceSignedRequest of this device was declined",
            TooManyPending => {
                "too many devices wait for approval; approve, decline or delete EdgeDeviceSignedRequests"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_has_a_sentence_and_a_label_of_its_own() {
        let sentences: HashSet<_> = Refusal::ALL.iter().map(|refusal| refusal.sentence()).collect();
        assert_eq!(sentences.len(), Refusal::ALL.len());
        let labels: HashSet<_> = Refusal::ALL.iter().map(|refusal| refusal.label()).collect();
        assert_eq!(labels.len(), Refusal::ALL.len());
        let codes = [401, 403, 404, 429, 503];
        assert!(Refusal::ALL.iter().all(|refusal| codes.contains(&refusal.code())));
    }

    #[test]
    fn each_has_its_row_in_the_documentation() {
        let page = include_str!("../../../../docs/http-api.md");
        for refusal in Refusal::ALL {
            let (code, label, sentence) = (refusal.code(), refusal.label(), refusal.sentence());
            let row = format!("| {code} | `{label}` | {sentence} | ");
            assert_eq!(page.matches(&row).count(), 1, "{row}");
        }
    }
}
