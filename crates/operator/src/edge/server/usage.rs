//! What one connection is doing, noted so cheaply that every request can, and judged once a second by the listener.
//!
//! hyper's own limit for headers runs while a connection is merely kept alive, so it cannot be shorter than that for idling;
//! and over h2 it has none. So both are judged here, from what goes over the wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::Settings;
use super::frames::Heads;
use super::metrics::Cause;

const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub struct Usage {
    opened: Instant,
    handshaken: AtomicBool,
    h2: AtomicBool,
    /// Requests being answered.
    busy: AtomicU32,
    /// One of them is held until there is news.
    holds: AtomicBool,
    /// When the last request was answered, or the handshake over. All times in milliseconds after it was opened.
    quiet_since: AtomicU64,
    /// When the first byte came of headers whose end has not come yet.
    head_since: AtomicU64,
    /// Told when the connection has to end.
    pub end: Notify,
}

/// Why a connection has to end, and whether it may do so in good order.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Stays,
    Idle,
    Goes(Cause),
}

impl Usage {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            handshaken: AtomicBool::new(false),
            h2: AtomicBool::new(false),
            busy: AtomicU32::new(0),
            holds: AtomicBool::new(false),
            quiet_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NEVER),
            end: Notify::new(),
        })
    }

    /// How long the connection has been open.
    pub fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.age().as_millis()).unwrap_or(NEVER - 1)
    }

    pub fn handshake_done(&self, h2: bool) {
        self.quiet_since.store(self.now(), Relaxed);
        if h2 {
            // The preface is awaited.
            self.h2.store(true, Relaxed);
            self.head_since.store(self.now(), Relaxed);
        }
        self.handshaken.store(true, Relaxed);
    }

    pub fn is_handshaken(&self) -> bool {
        self.handshaken.load(Relaxed)
    }

    /// Something has come over h1. What comes while a request is being answered is its body, or waits.
    pub fn read(&self) {
        if self.busy.load(Relaxed) == 0 {
            self.head_begins();
        }
    }

    /// Something has come over h2.
    pub fn read_heads(&self, Heads { ended, half }: Heads) {
        if ended || !half {
            self.head_since.store(NEVER, Relaxed);
        }
        if half {
            self.head_begins();
        }
    }

    fn head_begins(&self) {
        if self.head_since.load(Relaxed) == NEVER {
            self.head_since.store(self.now(), Relaxed);
        }
    }

    /// A request has come, with all of its headers.
    pub fn request(self: &Arc<Self>) -> UnderWay {
        self.busy.fetch_add(1, Relaxed);
        if !self.h2.load(Relaxed) {
            self.head_since.store(NEVER, Relaxed);
        }
        UnderWay(self.clone())
    }

    pub fn verdict(&self, limits: &Settings) -> Verdict {
        let now = self.now();
        let after = |since: u64, limit: Duration| {
            u128::from(now) >= u128::from(since).saturating_add(limit.as_millis())
        };
        if !self.is_handshaken() {
            let late = after(0, limits.handshake);
            return if late { Verdict::Goes(Cause::HandshakeTimeout) } else { Verdict::Stays };
        }
        let busy = self.busy.load(Relaxed) > 0;
        if after(self.head_since.load(Relaxed), limits.headers) {
            Verdict::Goes(Cause::HeadersTimeout)
        } else if !busy && after(self.quiet_since.load(Relaxed), limits.idle) {
            Verdict::Idle
        } else {
            Verdict::Stays
        }
    }
}

/// A request that is being answered.
pub struct UnderWay(Arc<Usage>);

impl UnderWay {
    /// The place of the one request of this connection that may be held; `None` if it is taken.
    pub fn place(&self) -> Option<Place<'_>> {
        (!self.0.holds.swap(true, Relaxed)).then_some(Place(&self.0))
    }
}

/// Dropped, it is free again.
pub struct Place<'a>(&'a Usage);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.holds.store(false, Relaxed);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.quiet_since.store(self.0.now(), Relaxed);
        self.0.busy.fetch_sub(1, Relaxed);
    }
}
