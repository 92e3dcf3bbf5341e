//! The socket and the connections that came of it: how many, how long, and how they end.
//!
//! When there are as many as there may be, the oldest that has not finished its handshake makes room: it has proved nothing,
//! and a client that means it is through in a moment. If all have, the new one goes.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::connection::converse;
use super::metrics::Cause;
use super::request::Server;
use super::usage::{Usage, Verdict};
use super::{Handler, ServerKey, ServerMetrics, Settings, files, tls};

/// Connections that the kernel holds for us, for when everybody comes back at once.
const BACKLOG: u32 = 4096;
/// Connections that are taken before those that are there have their turn. With one alone, few clients that ask without a
/// pause would keep all new ones outside.
const AT_ONCE: u32 = 64;
/// How often connections are judged.
const SWEEP: Duration = Duration::from_secs(1);

/// A socket for [`serve`].
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop` holds true or is gone; then what is under way has its grace.
pub async fn serve<H: Handler>(
    listener: TcpListener,
    key: ServerKey,
    handler: Arc<H>,
    settings: Settings,
    metrics: ServerMetrics,
    stop: watch::Receiver<bool>,
) -> Result<(), rustls::Error> {
    serve_with(listener, key, Arc::new(Server::new(handler, settings, metrics)), stop).await
}

/// The same, with a server that others may look at, too.
pub async fn serve_with<H: Handler>(
    listener: TcpListener,
    key: ServerKey,
    server: Arc<Server<H>>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), rustls::Error> {
    let acceptor = TlsAcceptor::from(Arc::new(tls::config(key)?));
    let most = files::connections(server.settings.max_connections);
    let mut connections = Connections::default();
    let mut stopped = pin!(async move { drop(stop.wait_for(|stop| *stop).await) });
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut turn = 0;
    loop {
        tokio::select! {
            () = &mut stopped => break,
            _ = sweep.tick() => connections.sweep(&server),
            Some(ended) = connections.tasks.join_next_with_id() => connections.ended(ended, &server.metrics),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if connections.make_room(most, &server.metrics) {
                        connections.open(stream, &server, &acceptor);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
        server.metrics.set_connections(connections.open.len());
        server.holds.set_room(connections.open.len(), most);
        turn = (turn + 1) % AT_ONCE;
        if turn == 0 {
            tokio::task::yield_now().await;
        }
    }
    drop(listener);
    server.holds.end();
    connections.end(server.settings.grace).await;
    server.metrics.set_connections(0);
    Ok(())
}

#[derive(Default)]
struct Connections {
    /// Dropped, it ends them all.
    tasks: JoinSet<()>,
    open: HashMap<Id, (Arc<Usage>, AbortHandle)>,
    /// Those that had not finished their handshake when they were last looked at, oldest first.
    shaking: VecDeque<Id>,
}

impl Connections {
    fn open<H: Handler>(
        &mut self,
        stream: TcpStream,
        server: &Arc<Server<H>>,
        acceptor: &TlsAcceptor,
    ) {
        // Without it an answer is only slower.
        let _ = stream.set_nodelay(true);
        let usage = Usage::new();
        let task = converse(server.clone(), acceptor.clone(), stream, usage.clone());
        let abort = self.tasks.spawn(task);
        self.shaking.push_back(abort.id());
        self.open.insert(abort.id(), (usage, abort));
    }

    /// Whether one more may come.
    fn make_room(&mut self, most: usize, metrics: &ServerMetrics) -> bool {
        if self.open.len() < most {
            return true;
        }
        metrics.refused(Cause::ConnectionsFull);
        while let Some(oldest) = self.shaking.pop_front() {
            let still = |(usage, _): &(Arc<Usage>, AbortHandle)| !usage.is_handshaken();
            if self.open.get(&oldest).is_some_and(still)
                && let Some((_, abort)) = self.open.remove(&oldest)
            {
                abort.abort();
                return true;
            }
        }
        false
    }

    fn sweep<H: Handler>(&mut self, server: &Server<H>) {
        for (usage, abort) in self.open.values() {
            match usage.verdict(&server.settings) {
                Verdict::Stays => {}
                Verdict::Idle => usage.end.notify_one(),
                Verdict::Goes(cause) => {
                    server.metrics.refused(cause);
                    abort.abort();
                }
            }
        }
        let open = &self.open;
        self.shaking.retain(|id| open.get(id).is_some_and(|(usage, _)| !usage.is_handshaken()));
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>, metrics: &ServerMetrics) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                if error.is_panic() {
                    metrics.refused(Cause::Panic);
                    tracing::error!("a connection ended in a panic");
                }
                error.id()
            }
        };
        self.open.remove(&id);
    }

    async fn end(mut self, grace: Duration) {
        for (usage, abort) in self.open.values() {
            if usage.is_handshaken() {
                usage.end.notify_one();
            } else {
                abort.abort();
            }
        }
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            tracing::info!("{} connections were cut off", self.tasks.len());
        }
    }
}
