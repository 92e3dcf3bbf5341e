//! Why a device or a job is not done: one closed list, shared by flasher, operator, CLI and docs.
//!
//! A reason is what people search for and machines group by, so it never carries a value; the message beside it does.

use crate::reasons::reasons;

// Each with what it means and what a person can do about it.
reasons! {
    /// Why a device or a job is not done.
    Reason;
    // Said by the flasher, in the flash Pod's termination message.
    /// The firmware image could not be fetched.
    PullFailed: "check spec.firmware, and the registry's credentials and CA",
    /// The firmware's signature is missing or does not verify.
    SignatureInvalid: "sign the image, or flash one that is signed",
    /// The firmware image has nothing for this type of board.
    WrongPlatform: "check spec.firmware and spec.device: the image has nothing for this board",
    /// The Secret with the flash server's certificate is missing.
    ServerCertMissing: "make the Secret flashjob-server-tls in the job's namespace: kubectl flashjob server-cert",
    /// The device does not answer.
    DeviceUnreachable: "check power and network of the board, and its HOST_ENDPOINT",
    /// The device refused the update request.
    DeviceRefused: "the message has the device's words; check the board's log",
    /// The device accepted the request but never connected back.
    NoCallback: "check that the board reaches the Service's address on port 4433, and that it pins the flasher's certificate",
    /// The device's certificate was judged and found wanting.
    AttestationFailed: "enrol the device; check which board answers at its address",
    /// The attestation service did not answer.
    AttestationUnavailable: "say who judges devices, and check that service",
    /// Another device than the target connected back.
    IdentityMismatch: "check the addresses on the boards' network: another device answered",
    /// The connection broke while the image was sent.
    TransferInterrupted: "check the board's network; it is safe to try again",
    /// The device took the image and did not accept it.
    ImageRejected: "check that the firmware is built for this board; its log says why it was rejected",
    /// The device did not come back after the update.
    NotBack: "look at the board: it took the image and did not come back",
    /// The device came back with another version than the job's.
    VersionMismatch: "check spec.version: it is what the firmware itself must report",
    /// The device came back but its `/info` cannot be read.
    InfoUnreadable: "check what the new firmware answers on /info",
    /// The address cannot be dialled by the device.
    AddressUnsupported: "give the Service an IPv4 address",
    /// The device speaks a protocol we do not.
    ProtocolUnsupported: "this device needs another flash image",
    /// The attempt took longer than it may.
    Timeout: "raise timeouts.deviceSeconds, or see why the board is slow",
    /// The flash container failed and gave no reason of its own; images of others do.
    FlashFailed: "the message has the last words of the flash Pod",
    // Said by the operator.
    /// No Akri Instance for the device was there in time.
    DeviceNotFound: "check the entry in spec.uuid, the board, and Akri: kubectl flashjob devices",
    /// The name fits several Instances.
    AmbiguousDevice: "write namespace/name",
    /// The device is another type of board than the firmware is for. The flasher says it, too.
    WrongDevice: "take it out of the job, or correct spec.device; if it is the right board, check which one answers at its address",
    /// The Service got no address in time.
    AddressTimeout: "check the load balancer and its addresses, or lower rollout.maxParallel",
    /// An earlier Service of the device does not go away.
    ServiceStuck: "see which finalizer of the Service is not served; once it is gone: kubectl flashjob rollout retry",
    /// The flash Pod did not start in time.
    NotStarted: "the message has the cause: an image that cannot be pulled, no node with room",
    /// The flash Pod's node went away with it.
    NodeLost: "check the Pod's node; the board stays locked until the Pod is gone, then: kubectl flashjob rollout retry",
    /// The flash Pod vanished before its end was seen.
    PodLost: "find out who deleted the flash Pod; whether the board was flashed is not known",
    /// The API server refused to create an object.
    CreateRefused: "the message has the API server's words: a quota, an admission policy",
    /// A foreign object has the name ours needs.
    NameConflict: "rename or remove the object that has the name",
    /// The ledger of a started job is gone.
    LedgerLost: "check the devices, delete the job, and make a new one for those that still need the firmware",
    /// A newer job has flashed the device since.
    Superseded: "nothing, if the newer job is right; else flash this firmware with a job made after it",
    /// A person ended the job.
    Aborted: "to go on: kubectl flashjob rollout resume",
    /// The firmware's tag has moved: two devices got different images in one revision.
    FirmwareChanged: "name the firmware by its digest",
    /// More devices failed than the rollout allows.
    FailureBudgetExceeded: "see what the failed devices have in common; then raise rollout.maxFailures, or try again with kubectl flashjob \
                 rollout retry",
    /// The spec asks for something that cannot be done.
    InvalidSpec: "mend the field that the message names",
    /// The operator has a fault that this job has met.
    InternalError: "report it with the operator's log line; restarting the operator or editing the spec tries again at once",
}

impl Reason {
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
