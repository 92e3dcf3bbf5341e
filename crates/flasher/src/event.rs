//! Progress, for whoever shows it. Each has a line that a person can read in `kubectl logs`.

use std::fmt;
use std::net::SocketAddr;

/// Something worth telling.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// What the device says of itself.
    Runs(String),
    /// The firmware is being fetched.
    Fetching(String),
    /// The firmware is here.
    Fetched {
        /// Its size.
        bytes: u64,
        /// The image.
        digest: String,
    },
    /// Something did not work and is tried again.
    Again(String),
    /// The device has shown its certificate and was found to be what it says.
    Known {
        /// Its identity.
        identity: String,
        /// Who says so.
        judge: String,
    },
    /// The device shows no certificate before it is asked.
    Unknown(String),
    /// An earlier attempt may still be at work.
    ListeningFirst,
    /// The device is asked to fetch its firmware.
    Asking,
    /// The device is expected to call.
    Waiting,
    /// Somebody called who is not the device.
    Stranger(SocketAddr, String),
    /// The device is on the line.
    Connected(SocketAddr),
    /// So much of the image is sent.
    Sent {
        /// Bytes.
        sent: u64,
        /// Of so many.
        total: u64,
    },
    /// All of it is sent; the device is watched.
    Watching,
    /// The device has gone away, as it should.
    Away,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Runs(version) => write!(f, "the device runs {version}"),
            Event::Fetching(image) => write!(f, "fetching {image}"),
            Event::Fetched { bytes, digest } => write!(f, "fetched {bytes} bytes of {digest}"),
            Event::Again(why) => write!(f, "trying again: {why}"),
            Event::Known { identity, judge } => write!(f, "the device is {identity}, says {judge}"),
            Event::Unknown(why) => write!(f, "the device does not show who it is: {why}"),
            Event::ListeningFirst => {
                f.write_str("listening first: an earlier attempt may still be at work")
            }
            Event::Asking => f.write_str("asking the device to fetch its firmware"),
            Event::Waiting => f.write_str("waiting for the device to call"),
            Event::Stranger(peer, why) => write!(f, "{peer} is not served: {why}"),
            Event::Connected(peer) => write!(f, "the device is on the line from {peer}"),
            Event::Sent { sent, total } => {
                write!(f, "sent {} % ({sent} of {total} bytes)", sent * 100 / (*total).max(1))
            }
            Event::Watching => f.write_str("all of it is sent; waiting for the device to restart"),
            Event::Away => f.write_str("the device has gone away to restart"),
        }
    }
}

/// Who is told. Cheap to clone and to call.
pub type Tell = std::sync::Arc<dyn Fn(Event) + Send + Sync>;
