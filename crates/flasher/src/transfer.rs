//! Sends the image to the device that is on the line.
//!
//! There is no length and no checksum on this wire: the end of the stream is the end of the image. So a stream that must
//! not be taken for a whole image is reset, never closed.

use std::io::SeekFrom;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::event::{Event, Tell};
use crate::serve::Caller;

/// Without progress for so long, the session is given up, as in the original.
const NO_PROGRESS: Duration = Duration::from_secs(20);
/// A board checks the image before it hangs up.
const LAST_WORDS: Duration = Duration::from_secs(30);
const CHUNK: usize = 4096;

/// How a transfer went wrong.
#[derive(Debug, PartialEq)]
pub enum Broken {
    /// The device cannot have taken the image for whole.
    Halfway(String),
    /// Everything was sent, and then the line was lost: the device may have it or not.
    AtTheEnd(String),
}

impl Caller {
    /// Ends the session so that the device cannot take it for the end of the image.
    pub fn hang_up(self) {
        let _ = self.stream.get_ref().0.set_zero_linger();
    }

    /// Sends the image, and waits until the device has hung up.
    pub async fn send(mut self, image: &mut File, total: u64, tell: &Tell) -> Result<(), Broken> {
        match self.send_all(image, total, tell).await {
            Ok(()) => {}
            Err(why) => {
                self.hang_up();
                return Err(Broken::Halfway(why));
            }
        }
        // The device reads to the end, closes its side, and only then has had all of it.
        let mut rest = [0; 256];
        loop {
            match timeout(LAST_WORDS, self.stream.read(&mut rest)).await {
                Ok(Ok(0)) | Err(_) => return Ok(()),
                Ok(Ok(_)) => {}
                // Boards seldom say goodbye properly.
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Ok(());
                }
                Ok(Err(error)) => return Err(Broken::AtTheEnd(error.to_string())),
            }
        }
    }

    async fn send_all(&mut self, image: &mut File, total: u64, tell: &Tell) -> Result<(), String> {
        let unreadable = |error: std::io::Error| format!("the image cannot be read: {error}");
        image.seek(SeekFrom::Start(0)).await.map_err(unreadable)?;
        let (mut sent, mut told) = (0, 0);
        let mut chunk = [0; CHUNK];
        loop {
            let n = image.read(&mut chunk).await.map_err(unreadable)?;
            if n == 0 {
                break;
            }
            let lost =
                |why: String| format!("the line was lost after {sent} of {total} bytes: {why}");
            let write = async {
                self.stream.write_all(&chunk[..n]).await?;
                self.stream.flush().await
            };
            match timeout(NO_PROGRESS, write).await {
                Ok(Ok(())) => sent += n as u64,
                Ok(Err(error)) => return Err(lost(error.to_string())),
                Err(_) => return Err(lost(format!("the device took nothing for {NO_PROGRESS:?}"))),
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
        match timeout(NO_PROGRESS, self.stream.shutdown()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the line was lost at the end: {error}")),
            Err(_) => Err("the device took nothing at the end".into()),
        }
    }
}
