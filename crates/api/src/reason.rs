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
    /// The device is another type of board than the firmware is for.
    WrongDevice,
    /// The Service got no address in time.
    AddressTimeout,
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
        )
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
