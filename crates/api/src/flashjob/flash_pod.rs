//! What operator, flasher and command line agree on about a flash Pod: the names in it, and what they stand for. Most are the
//! original's.

/// The container that flashes.
pub const CONTAINER: &str = "flash-container";

/// Every board dials this port of the address it is told.
pub const PORT: u16 = 4433;

/// The Secret with the server's certificate and key, in the job's namespace.
pub const TLS_SECRET: &str = "flashjob-server-tls";
/// Where it is mounted.
pub const TLS_FOLDER: &str = "/var/run/flashjob/tls";

/// The Secret with the login to a registry.
pub const REGISTRY_SECRET: &str = "flashjob-registry";
/// Where it is mounted.
pub const REGISTRY_FOLDER: &str = "/var/run/flashjob/registry";

/// The ConfigMap whose entries are environment variables of every flash Pod of the namespace.
pub const SETTINGS: &str = "flashjob-flasher";

/// A folder that can be written to.
pub const SCRATCH_FOLDER: &str = "/tmp";

/// The names of environment variables.
pub mod env {
    /// The image with the firmware.
    pub const FIRMWARE: &str = "FIRMWARE";
    /// The uid of the device's Akri Instance.
    pub const UUID: &str = "UUID";
    /// Where the board answers.
    pub const HOST_ENDPOINT: &str = "HOST_ENDPOINT";
    /// The type of board.
    pub const DEVICE: &str = "DEVICE";
    /// The application it runs.
    pub const APPLICATION_TYPE: &str = "APPLICATION_TYPE";
    /// The version it reports afterwards.
    pub const VERSION: &str = "VERSION";
    /// What the board is told to dial.
    pub const EXTERNAL_IP: &str = "EXTERNAL_IP";
    /// Taken from a key of the ledger that must be there: no permit, no start.
    pub const PERMIT: &str = "PERMIT";
    /// Which attempt this is, from 1.
    pub const ATTEMPT: &str = "ATTEMPT";
    /// What the board ran before the first attempt.
    pub const PREVIOUS_VERSION: &str = "PREVIOUS_VERSION";
    /// What counts as done.
    pub const VERIFY: &str = "VERIFY";
    /// Whether a board that runs the version already is left alone.
    pub const VERSION_POLICY: &str = "VERSION_POLICY";
    /// How long all of it may take.
    pub const DEADLINE_SECONDS: &str = "DEADLINE_SECONDS";

    /// What the operator sets, and nobody else may.
    pub const ALL: [&str; 13] = [
        FIRMWARE,
        UUID,
        HOST_ENDPOINT,
        DEVICE,
        APPLICATION_TYPE,
        VERSION,
        EXTERNAL_IP,
        PERMIT,
        ATTEMPT,
        PREVIOUS_VERSION,
        VERIFY,
        VERSION_POLICY,
        DEADLINE_SECONDS,
    ];
}
