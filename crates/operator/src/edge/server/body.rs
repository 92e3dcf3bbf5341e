//! Bodies: so much and so long each, and so much all together.
//!
//! A body is held until its end has come, and twenty thousand clients could send all but the end of theirs. The first few KiB
//! of each are free, so that a heartbeat gets in however many large bodies are on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

/// Of each body, not counted.
const FREE: usize = 8 << 10;

/// What all bodies together hold, and may.
#[derive(Clone)]
pub struct Bodies(Arc<Inner>);

struct Inner {
    held: AtomicUsize,
    most: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    TooLong,
    TooSlow,
    /// The others hold all there is.
    NoRoom,
    /// The client has gone.
    Broken,
}

impl Bodies {
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Inner { held: AtomicUsize::new(0), most }))
    }

    /// All of it.
    pub async fn read(
        &self,
        body: Incoming,
        most: usize,
        within: Duration,
    ) -> Result<Bytes, Failure> {
        // Said beforehand, it need not be sent.
        if body.size_hint().lower() > most as u64 {
            return Err(Failure::TooLong);
        }
        let read = tokio::time::timeout(within, self.collect(body, most));
        read.await.unwrap_or(Err(Failure::TooSlow))
    }

    async fn collect(&self, mut body: Incoming, most: usize) -> Result<Bytes, Failure> {
        let (mut all, mut held) = (BytesMut::new(), Held { bodies: self, bytes: 0 });
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Failure::Broken)?;
            let Some(data) = frame.data_ref() else { continue };
            if all.len() + data.len() > most {
                return Err(Failure::TooLong);
            }
            held.hold((all.len() + data.len()).saturating_sub(FREE))?;
            all.extend_from_slice(data);
        }
        Ok(all.freeze())
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }
}

/// What one body holds.
struct Held<'a> {
    bodies: &'a Bodies,
    bytes: usize,
}

impl Held<'_> {
    fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let more = bytes - self.bytes;
        let inner = &self.bodies.0;
        let before = inner.held.fetch_add(more, Ordering::Relaxed);
        self.bytes = bytes;
        if more > 0 && before + more > inner.most { Err(Failure::NoRoom) } else { Ok(()) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.bodies.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
