//! One connection: its handshake, then requests over h1 or h2 until either side has had enough.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, join};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::Handler;
use super::frames::Frames;
use super::noted::Noted;
use super::request::Server;
use super::text::part;
use super::tls::H2;
use super::usage::Usage;
use crate::engine::panics;

/// What is read before a handshake is over; rustls would hold 64 KiB for it. The first record of a request, which has up to
/// 16 KiB, may have come with the end of the handshake and is read along.
const HANDSHAKE: u64 = 28 << 10;
const HEADERS: usize = 8 << 10;
/// What hyper holds of an answer that is not taken.
const UNSENT: usize = 32 << 10;
const STREAMS: u32 = 8;
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 128 << 10;
/// Streams that a client may give up before they were looked at, and that we may.
const RESETS: usize = 20;

/// A connection whose client has proved its key. Boxed, because it is moved about, and is more than a kilobyte.
type Proven = TokioIo<Box<Noted>>;

/// Each of its times has a box of its own: what only a handshake needs, or only the other protocol, is not kept for as long as a
/// connection is, and there are thousands of them.
pub async fn converse<H: Handler>(
    server: Arc<Server<H>>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    usage: Arc<Usage>,
) {
    let shaken = Box::pin(shake_hands(&server, acceptor, stream, &usage)).await;
    let Some((io, peer, is_h2)) = shaken else { return };
    let ended = if is_h2 {
        Box::pin(serve_h2(server, peer, io, &usage)).await
    } else {
        Box::pin(serve_h1(server, peer, io, &usage)).await
    };
    if let Err(error) = ended {
        let error = part(&error.to_string());
        tracing::debug!(error, "a connection ended early");
    }
}

/// Also says whether the client speaks h2.
async fn shake_hands<H: Handler>(
    server: &Server<H>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    usage: &Arc<Usage>,
) -> Option<(Proven, Arc<H::Peer>, bool)> {
    let (reading, writing) = stream.into_split();
    let shaken = acceptor.accept(join(reading.take(HANDSHAKE), writing)).await;
    server.metrics.handshake(shaken.is_ok());
    let mut stream = match shaken {
        Ok(stream) => stream,
        Err(error) => {
            let error = part(&error.to_string());
            tracing::debug!(error, "a handshake failed");
            return None;
        }
    };
    let (socket, session) = stream.get_mut();
    socket.reader_mut().set_limit(u64::MAX);
    let is_h2 = session.alpn_protocol() == Some(H2);
    let chain = session.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|c| c.clone().into_owned()).collect();
    let peer = match panics::caught(|| server.handler.meet(chain)) {
        Ok(peer) => Arc::new(peer),
        Err(panic) => {
            server.panicked(&panic);
            return None;
        }
    };
    usage.handshake_done(is_h2);
    let (metrics, frames) = (server.metrics.clone(), is_h2.then(Frames::default));
    let noted = Box::new(Noted { stream, usage: usage.clone(), metrics, frames });
    Some((TokioIo::new(noted), peer, is_h2))
}

async fn serve_h1<H: Handler>(
    server: Arc<Server<H>>,
    peer: Arc<H::Peer>,
    io: Proven,
    usage: &Arc<Usage>,
) -> hyper::Result<()> {
    let grace = server.settings.grace;
    let service = service_fn(|request| respond(&server, &peer, usage, request));
    let connection = pin!(h1_limits().serve_connection(io, service));
    until_end(connection, http1::Connection::graceful_shutdown, usage, grace).await
}

async fn serve_h2<H: Handler>(
    server: Arc<Server<H>>,
    peer: Arc<H::Peer>,
    io: Proven,
    usage: &Arc<Usage>,
) -> hyper::Result<()> {
    let grace = server.settings.grace;
    let of_all = usage.clone();
    let service = service_fn(move |request| respond(&server, &peer, &of_all, request));
    let connection = pin!(h2_limits().serve_connection(io, service));
    until_end(connection, http2::Connection::graceful_shutdown, usage, grace).await
}

/// Boxed, because hyper keeps a place for it also while nothing is asked.
fn respond<H: Handler>(
    server: &Arc<Server<H>>,
    peer: &Arc<H::Peer>,
    usage: &Arc<Usage>,
    request: Request<Incoming>,
) -> Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>> {
    let (server, peer, under_way) = (server.clone(), peer.clone(), usage.request());
    Box::pin(async move { Ok(server.respond(peer, &under_way, request).await) })
}

fn h1_limits() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // How long headers may take is judged in `usage`.
    builder.timer(TokioTimer::new()).header_read_timeout(None);
    builder.max_buf_size(HEADERS).max_header_size(HEADERS);
    builder
}

fn h2_limits() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    builder.max_pending_accept_reset_streams(RESETS).max_local_error_reset_streams(RESETS);
    builder.max_header_list_size(HEADERS as u32).max_send_buf_size(UNSENT);
    builder.initial_stream_window_size(STREAM_WINDOW);
    builder.initial_connection_window_size(CONNECTION_WINDOW);
    builder
}

/// Until the connection has ended, or was told to and had its grace.
async fn until_end<C>(
    mut connection: Pin<&mut C>,
    shut_down: impl FnOnce(Pin<&mut C>),
    usage: &Usage,
    grace: Duration,
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    tokio::select! {
        ended = &mut connection => return ended,
        () = usage.end.notified() => {}
    }
    shut_down(connection.as_mut());
    tokio::time::timeout(grace, connection).await.unwrap_or(Ok(()))
}
