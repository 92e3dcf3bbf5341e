//! A stream of which is noted what comes in.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf, Take};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::server::TlsStream;

use super::ServerMetrics;
use super::frames::{Flood, Frames};
use super::metrics::Cause;
use super::usage::Usage;

/// Of which no more is read at first than a handshake needs.
type Socket = Join<Take<OwnedReadHalf>, OwnedWriteHalf>;

pub struct Noted {
    pub stream: TlsStream<Socket>,
    pub usage: Arc<Usage>,
    pub metrics: ServerMetrics,
    /// Of a client that speaks h2.
    pub frames: Option<Frames>,
}

impl Noted {
    fn note(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(frames) = &mut self.frames else {
            self.usage.read();
            return Ok(());
        };
        match frames.read(bytes, self.usage.age()) {
            Ok(heads) => self.usage.read_heads(heads),
            Err(Flood) => {
                self.metrics.refused(Cause::Flood);
                return Err(io::Error::other("a flood of frames that ask for nothing"));
            }
        }
        Ok(())
    }
}

impl AsyncRead for Noted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match &buffer.filled()[before..] {
            [] => read,
            new => self.note(new).map_or_else(|error| Poll::Ready(Err(error)), |()| read),
        }
    }
}

impl AsyncWrite for Noted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
