//! What one connection is doing, noted so cheaply that every request can, and judged once a second by the listener.
//!
//! hyper's own limit for headers runs while a connection is merely kept alive, so it cannot be shorter than that for idling;
//! and over h2 it has none. So both are judged here, from what goes over the wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::Settings;
use super::metrics::Cause;

/// What every h2 client begins with.
const PREFACE: u64 = 24;
/// So many requests given up in a row, and none answered in between, are no accident.
const MOST_RESETS: u32 = 100;
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub struct Usage {
    opened: Instant,
    handshaken: AtomicBool,
    h2: AtomicBool,
    /// Requests being answered.
    busy: AtomicU32,
    /// When the last request was answered, or the handshake over. All times in milliseconds after it was opened.
    quiet_since: AtomicU64,
    /// When the first byte came that belongs to no request yet.
    head_since: AtomicU64,
    bytes_read: AtomicU64,
    resets: AtomicU32,
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
            quiet_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NEVER),
            bytes_read: AtomicU64::new(0),
            resets: AtomicU32::new(0),
            end: Notify::new(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    pub fn handshake_done(&self, h2: bool) {
        self.quiet_since.store(self.now(), Relaxed);
        self.h2.store(h2, Relaxed);
        self.handshaken.store(true, Relaxed);
    }

    pub fn is_handshaken(&self) -> bool {
        self.handshaken.load(Relaxed)
    }

    pub fn read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Relaxed);
        if self.busy.load(Relaxed) == 0 && self.head_since.load(Relaxed) == NEVER {
            self.head_since.store(self.now(), Relaxed);
        }
    }

    /// A request has come, with all of its headers.
    pub fn request(self: &Arc<Self>) -> UnderWay {
        self.busy.fetch_add(1, Relaxed);
        self.head_since.store(NEVER, Relaxed);
        UnderWay { usage: self.clone(), answered: false }
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
        if self.resets.load(Relaxed) >= MOST_RESETS {
            return Verdict::Goes(Cause::Resets);
        }
        if self.busy.load(Relaxed) > 0 {
            return Verdict::Stays;
        }
        let quiet = self.quiet_since.load(Relaxed);
        // Over h2 there are other frames than requests, and half a request keeps all others out.
        let half_head = if self.h2.load(Relaxed) {
            self.bytes_read.load(Relaxed) < PREFACE && after(quiet, limits.headers)
        } else {
            after(self.head_since.load(Relaxed), limits.headers)
        };
        if half_head {
            Verdict::Goes(Cause::HeadersTimeout)
        } else if after(quiet, limits.idle) {
            Verdict::Idle
        } else {
            Verdict::Stays
        }
    }
}

/// A request that is being answered.
pub struct UnderWay {
    usage: Arc<Usage>,
    answered: bool,
}

impl UnderWay {
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let usage = &self.usage;
        usage.quiet_since.store(usage.now(), Relaxed);
        usage.busy.fetch_sub(1, Relaxed);
        if self.answered {
            usage.resets.store(0, Relaxed);
        } else if usage.resets.fetch_add(1, Relaxed) + 1 == MOST_RESETS {
            usage.end.notify_one();
        }
    }
}
