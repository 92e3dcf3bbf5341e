//! Why a device or a job is not done: one closed list, shared by flasher, operator, CLI and docs.
//!
//! A reason is what people search for and machines group by, so it never carries a value; the message beside it does.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why a device or a job is not done.
        #[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// Every reason there is, in the order of the documentation.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)+];

            /// The word as it stands in a status, an event, a metric and a termination message.
            pub const fn as_str(self) -> &'static str {
                match self { $(Reason::$name => stringify!($name),)+ }
            }
        }
    };
}

reasons! {
    // Said by the flasher, in the flash Pod's termination message.
    /// The firmware image could not be fetched.
    PullFailed,
    /// The firmware's signature is missing or does not verify.
    SignatureInvalid,
    /// The firmware image has nothing for this type of board.
    WrongPlatform,
    /// The Secret with the flash server's certificate is missing.
    ServerCertMissing,
    /// The device does not answer.
    DeviceUnreachable,
    /// The device refused the update request.
    DeviceRefused,
    /// The device accepted the request but never connected back.
    NoCallback,
    /// The device's certificate was judged and found wanting.
    AttestationFailed,
    /// The attestation service did not answer.
    AttestationUnavailable,
    /// Another device than the target connected back.
    IdentityMismatch,
    /// The connection broke while the image was sent.
    TransferInterrupted,
    /// The device took the image and did not accept it.
    ImageRejected,
    /// The device did not come back after the update.
    NotBack,
    /// The device came back with another version than the job's.
    VersionMismatch,
    /// The device came back but its `/info` cannot be read.
    InfoUnreadable,
    /// The address cannot be dialled by the device.
    AddressUnsupported,
    /// The device speaks a protocol we do not.
    ProtocolUnsupported,
    /// The attempt took longer than it may.
    Timeout,
    /// The flash container failed and gave no reason of its own; images of others do.
    FlashFailed,
    // Said by the operator.
    /// No Akri Instance for the device was there in time.
    DeviceNotFound,
    /// The name fits several Instances.
    AmbiguousDevice,
    /// The device is another type of board than the firmware is for. The flasher says it, too.
    WrongDevice,
    /// The Service got no address in time.
    AddressTimeout,
    /// An earlier Service of the device does not go away.
    ServiceStuck,
    /// The flash Pod did not start in time.
    NotStarted,
    /// The flash Pod's node went away with it.
    NodeLost,
    /// The flash Pod vanished before its end was seen.
    PodLost,
    /// The API server refused to create an object.
    CreateRefused,
    /// A foreign object has the name ours needs.
    NameConflict,
    /// The ledger of a started job is gone.
    LedgerLost,
    /// A newer job has flashed the device since.
    Superseded,
    /// A person ended the job.
    Aborted,
    /// The firmware's tag has moved: two devices got different images in one revision.
    FirmwareChanged,
    /// More devices failed than the rollout allows.
    FailureBudgetExceeded,
    /// The spec asks for something that cannot be done.
    InvalidSpec,
    /// The operator has a fault that this job has met.
    InternalError,
}

impl Reason {
    /// Reads the word back. Unknown words are `None`: a flash image may be newer or older than we are.
    pub fn parse(word: &str) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|r| r.as_str() == word)
    }

    /// Whether another attempt could end differently without a person changing something.
    pub const fn is_retried(self) -> bool {
        !matches!(
            self,
            Reason::DeviceNotFound
                | Reason::AmbiguousDevice
                | Reason::AddressTimeout
                | Reason::WrongDevice
                | Reason::SignatureInvalid
                | Reason::WrongPlatform
                // Another attempt could begin only when what is stuck has gone, and others must not wait for that.
                | Reason::NodeLost
                | Reason::ServiceStuck
        )
    }
}

impl Reason {
    /// What a person can do about it, as a part of a sentence.
    pub const fn advice(self) -> &'static str {
        match self {
            Reason::PullFailed => "check spec.firmware, and the registry's credentials and CA",
            Reason::SignatureInvalid => "sign the image, or flash one that is signed",
            Reason::WrongPlatform => {
                "check spec.firmware and spec.device: the image has nothing for this board"
            }
            Reason::ServerCertMissing => {
                "make the Secret flashjob-server-tls in the job's namespace: kubectl flashjob server-cert"
            }
            Reason::DeviceUnreachable => {
                "check power and network of the board, and its HOST_ENDPOINT"
            }
            Reason::DeviceRefused => "the message has the device's words; check the board's log",
            Reason::NoCallback => {
                "check that the board reaches the Service's address on port 4433, and that it pins the flasher's certificate"
            }
            Reason::AttestationFailed => {
                "enrol the device; check which board answers at its address"
            }
            Reason::AttestationUnavailable => "say who judges devices, and check that service",
            Reason::IdentityMismatch => {
                "check the addresses on the boards' network: another device answered"
            }
            Reason::TransferInterrupted => "check the board's network; it is safe to try again",
            Reason::ImageRejected => {
                "check that the firmware is built for this board; its log says why it was rejected"
            }
            Reason::NotBack => "look at the board: it took the image and did not come back",
            Reason::VersionMismatch => {
                "check spec.version: it is what the firmware itself must report"
            }
            Reason::InfoUnreadable => "check what the new firmware answers on /info",
            Reason::AddressUnsupported => "give the Service an IPv4 address",
            Reason::ProtocolUnsupported => "this device needs another flash image",
            Reason::Timeout => "raise timeouts.deviceSeconds, or see why the board is slow",
            Reason::FlashFailed => "the message has the last words of the flash Pod",
            Reason::DeviceNotFound => {
                "check the entry in spec.uuid, the board, and Akri: kubectl flashjob devices"
            }
            Reason::AmbiguousDevice => "write namespace/name",
            Reason::WrongDevice => {
                "take it out of the job, or correct spec.device; if it is the right board, check which one answers at its address"
            }
            Reason::AddressTimeout => {
                "check the load balancer and its addresses, or lower rollout.maxParallel"
            }
            Reason::ServiceStuck => {
                "see which finalizer of the Service is not served; once it is gone: kubectl flashjob rollout retry"
            }
            Reason::NotStarted => {
                "the message has the cause: an image that cannot be pulled, no node with room"
            }
            Reason::NodeLost => {
                "check the Pod's node; the board stays locked until the Pod is gone, then: kubectl flashjob rollout retry"
            }
            Reason::PodLost => {
                "find out who deleted the flash Pod; whether the board was flashed is not known"
            }
            Reason::CreateRefused => {
                "the message has the API server's words: a quota, an admission policy"
            }
            Reason::NameConflict => "rename or remove the object that has the name",
            Reason::LedgerLost => {
                "check the devices, delete the job, and make a new one for those that still need the firmware"
            }
            Reason::Superseded => {
                "nothing, if the newer job is right; else flash this firmware with a job made after it"
            }
            Reason::Aborted => "to go on: kubectl flashjob rollout resume",
            Reason::FirmwareChanged => "name the firmware by its digest",
            Reason::FailureBudgetExceeded => {
                "see what the failed devices have in common; then raise rollout.maxFailures, or try again with kubectl flashjob \
                 rollout retry"
            }
            Reason::InvalidSpec => "mend the field that the message names",
            Reason::InternalError => {
                "report it with the operator's log line; restarting the operator or editing the spec tries again at once"
            }
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
