//! Sends the image to the device that is on the line.
//!
//! There is no length and no checksum on this wire: the end of the stream is the end of the image. So a stream that must
//! not be taken for a whole image is reset, never closed. Every session is set up for that from its beginning, so that it
//! holds whoever ends it, the deadline and the kernel included; the one orderly end is said aloud, after the last byte.

use std::io::SeekFrom;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::time::timeout;

use futures::FutureExt;

use crate::event::{Event, Tell};
use crate::serve::Caller;

/// Without progress for so long, the session is given up, as in the original.
const NO_PROGRESS: Duration = Duration::from_secs(20);
/// What lies in the kernel's buffers when the last byte is sent may take a slow board so long.
const LAST_WORDS: Duration = Duration::from_secs(60);
/// One TLS record. Boards with little memory take none larger.
const CHUNK: usize = 4096;
/// Read at once: each read of a file is a trip to another thread.
const BLOCK: usize = 64 << 10;

/// How a transfer went wrong.
#[derive(Debug, PartialEq)]
pub enum Broken {
    /// The device cannot have taken the image for whole.
    Halfway(String),
    /// Everything was sent, and the device has not said that it has read it: it may have it or not.
    AtTheEnd(String),
}

impl Caller {
    /// Sends the image, and waits until the device has hung up.
    pub async fn send(mut self, image: &mut File, total: u64, tell: &Tell) -> Result<(), Broken> {
        self.send_all(image, total, tell).await.map_err(Broken::Halfway)?;
        // This alone is an end that the device takes for the end of the image.
        match timeout(NO_PROGRESS, self.stream.shutdown()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Broken::AtTheEnd(lost_at_the_end(&error))),
            Err(_) => return Err(Broken::Halfway("the device took nothing at the end".into())),
        }
        // The device reads to the end, closes its side, and only then has had all of it.
        match timeout(LAST_WORDS, self.goodbye()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Broken::AtTheEnd(lost_at_the_end(&error))),
            Err(_) => {
                let why = format!("the device did not read to the end within {LAST_WORDS:?}");
                Err(Broken::AtTheEnd(why))
            }
        }
    }

    /// Waits until the device has closed its side.
    async fn goodbye(&mut self) -> std::io::Result<()> {
        let mut rest = [0; 256];
        loop {
            match self.stream.read(&mut rest).await {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                // Not every board says goodbye properly.
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    async fn send_all(&mut self, image: &mut File, total: u64, tell: &Tell) -> Result<(), String> {
        let unreadable = |error: std::io::Error| format!("the image cannot be read: {error}");
        image.seek(SeekFrom::Start(0)).await.map_err(unreadable)?;
        let (mut sent, mut told) = (0, 0);
        let mut block = vec![0; BLOCK];
        loop {
            let n = image.read(&mut block).await.map_err(unreadable)?;
            if n == 0 {
                break;
            }
            for chunk in block[..n].chunks(CHUNK) {
                self.send_one(chunk).await.map_err(|why| {
                    format!("the line was lost after {sent} of {total} bytes: {why}")
                })?;
                sent += chunk.len() as u64;
            }
            // A line each tenth of the way.
            if sent * 10 / total.max(1) > told {
                told = sent * 10 / total.max(1);
                tell(Event::Sent { sent, total });
            }
        }
        if sent != total {
            return Err(format!("the image has {sent} bytes, not {total}"));
        }
        Ok(())
    }

    async fn send_one(&mut self, chunk: &[u8]) -> Result<(), String> {
        // Who hangs up before the end has not had all of it, even if what is left fits into the kernel's buffers.
        match self.goodbye().now_or_never() {
            None => {}
            Some(Ok(())) => return Err("the device hung up".into()),
            Some(Err(error)) => return Err(error.to_string()),
        }
        let write = async {
            self.stream.write_all(chunk).await?;
            self.stream.flush().await
        };
        match timeout(NO_PROGRESS, write).await {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the device took nothing for {NO_PROGRESS:?}")),
        }
    }
}

fn lost_at_the_end(error: &std::io::Error) -> String {
    format!("the line was lost at the end: {error}")
}
