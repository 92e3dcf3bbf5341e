//! Reading the firmware: 64 bytes at a time until somebody ends it.
//!
//! There is no length and no hash on the wire. An orderly end after at least one byte means that the image is whole;
//! an orderly end before means that the board is not welcome. So the only way for a server to say that something
//! broke is to reset the connection.

use std::io::ErrorKind;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until, timeout};

use super::fault::Fault;
use super::ledger::SessionEnd;
use super::life::{Core, Job};
use crate::text::hex;

const TLS_CHUNK: usize = 64;
const RAW_CHUNK: usize = 1024;
/// How long a broken connection is tried again (every 500 ms) before the firmware gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Reads the firmware of one session into the flash.
pub(super) struct Reader<'a> {
    core: &'a Core,
    job: &'a Job,
    chunk: usize,
    /// How long silence is borne. The first session after a start waits for ever: the firmware sets its socket to
    /// blocking only once per start, and every later session has one that is not.
    patience: Option<Duration>,
    /// Raw firmware goes into a slot that is open already.
    open: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn over_tls(core: &'a Core, job: &'a Job) -> Self {
        let mut state = core.state();
        let patience = (state.sessions > 0).then(|| core.scaled(core.options.bears_silence));
        state.sessions += 1;
        drop(state);
        Self { core, job, chunk: TLS_CHUNK, patience, open: false }
    }

    pub(super) fn over_raw_tcp(core: &'a Core, job: &'a Job) -> Self {
        Self { core, job, chunk: RAW_CHUNK, patience: None, open: true }
    }

    /// Reads to the end. Ok means that the server has ended it in an orderly way.
    pub(super) async fn read(
        mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), SessionEnd> {
        let mut hash = Sha256::new();
        let result = self.chunks(stream, &mut hash).await;
        let hash = hex(&hash.finalize());
        self.core.note(self.job, |update| update.sha256 = (update.bytes > 0).then_some(hash));
        result
    }

    async fn chunks(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        hash: &mut Sha256,
    ) -> Result<(), SessionEnd> {
        let started = Instant::now();
        let (drops_at, per_second) = self.faults();
        let mut buffer = [0; RAW_CHUNK];
        let mut total: u64 = 0;
        loop {
            let left = drops_at.map_or(u64::MAX, |at| at.saturating_sub(total));
            if left == 0 {
                return Err(SessionEnd::Dropped);
            }
            let room = self.chunk.min(left.try_into().unwrap_or(usize::MAX));
            let chunk = match self.next(stream, &mut buffer[..room]).await? {
                0 if total == 0 && !self.open => return Err(SessionEnd::NotAuthorised),
                0 => return Ok(()),
                read => &buffer[..read],
            };
            total += chunk.len() as u64;
            hash.update(chunk);
            self.keep(chunk);
            if let Some(per_second) = per_second {
                let due = Duration::from_secs_f64(total as f64 / f64::from(per_second));
                sleep_until(started + due).await;
            }
        }
    }

    async fn next(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
        buffer: &mut [u8],
    ) -> Result<usize, SessionEnd> {
        let read = stream.read(buffer);
        let read = match self.patience {
            None => read.await,
            Some(patience) => match timeout(patience, read).await {
                Ok(read) => read,
                Err(_) => return Err(SessionEnd::Interrupted("silence".to_owned())),
            },
        };
        match read {
            // mbedTLS takes a connection that was closed without a close_notify as an end too.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            Err(error) => {
                self.core.wait(PATIENCE).await;
                Err(SessionEnd::Interrupted(error.to_string()))
            }
            Ok(read) => Ok(read),
        }
    }

    fn keep(&mut self, chunk: &[u8]) {
        let mut state = self.core.state();
        if !self.open {
            state.flash.begin(self.job.number);
            self.open = true;
        }
        state.flash.write(self.job.number, chunk);
        if let Some(update) = state.ledger.updates.get_mut(self.job.number) {
            update.bytes += chunk.len() as u64;
        }
    }

    fn faults(&self) -> (Option<u64>, Option<u32>) {
        let (mut drops_at, mut per_second) = (None, None);
        for fault in &self.job.faults {
            match fault {
                Fault::DropsAt(at) => drops_at = Some(*at),
                Fault::Slow(bytes) => per_second = Some(*bytes),
                _ => {}
            }
        }
        (drops_at, per_second)
    }
}
