//! One update, from the POST to the restart.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;
use tracing::debug;

use super::fault::Fault;
use super::ledger::SessionEnd;
use super::life::{Core, Job, Order};
use super::pages::certificate;
use super::pin::SERVER_NAME;
use super::session::{self, Reader};
use crate::clock::now;

const ATTEMPTS: u32 = 20;
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(4);
const BEFORE_CERTIFICATE: Duration = Duration::from_millis(500);
const AFTER_CERTIFICATE: Duration = Duration::from_millis(1500);
const BEFORE_RESTART: Duration = Duration::from_secs(4);
/// For boards that must not take more than they have read: what lies in their buffers is gone when they go.
const SMALL_BUFFER: u32 = 8 * 1024;

pub(super) async fn update(core: Arc<Core>, job: Job) {
    let received =
        if job.raw { over_raw_tcp(&core, &job).await } else { over_tls(&core, &job).await };
    let end = match received {
        Ok(()) => finish(&core, &job).await,
        Err(end) => end,
    };
    debug!(mac = %core.options.mac, ?end, "an update ends");
    let restart = end == SessionEnd::Accepted;
    core.note(&job, |update| update.close(end));
    if restart {
        let extra = job.faults.iter().find_map(|fault| match fault {
            Fault::RebootsSlowly(extra) => Some(*extra),
            _ => None,
        });
        // An error means that the board is going anyway.
        let _ = core.orders.send(Order::Restart(extra.unwrap_or_default()));
    }
}

async fn over_tls(core: &Core, job: &Job) -> Result<(), SessionEnd> {
    if job.faults.contains(&Fault::NeverCallsBack) {
        return Err(SessionEnd::NeverCalled);
    }
    let mac = job.faults.iter().find_map(|fault| match fault {
        Fault::ShowsCertificateOf(mac) => Some(*mac),
        _ => None,
    });
    core.wait(core.options.certificate_takes).await;
    let certificate = certificate(mac.unwrap_or(core.options.mac)).await.unwrap_or_default();

    let mut stream = call(core, job).await?;
    core.note(job, |update| update.session = Some(now()));
    core.wait(BEFORE_CERTIFICATE).await;
    let sent = async {
        stream.write_all(&certificate).await?;
        stream.flush().await
    };
    if let Err(error) = sent.await {
        core.wait(session::PATIENCE).await;
        return Err(SessionEnd::Interrupted(error.to_string()));
    }
    core.wait(AFTER_CERTIFICATE).await;

    let reader = Reader::over_tls(core, job);
    let received = reader.read(&mut stream).await;
    if received == Err(SessionEnd::Dropped) {
        // Gone without a word, and what was not read is lost.
        let _ = stream.get_ref().0.set_zero_linger();
    } else {
        let _ = stream.shutdown().await;
    }
    received
}

/// Connects, and tries again for more than a minute.
async fn call(core: &Core, job: &Job) -> Result<TlsStream<TcpStream>, SessionEnd> {
    for attempt in 1..=ATTEMPTS {
        if attempt > 1 {
            core.wait(BETWEEN_ATTEMPTS).await;
        }
        core.note(job, |update| update.attempts = attempt);
        match connect(core, job).await {
            Ok(stream) => return Ok(stream),
            Err(error) => core.note(job, |update| update.last_error = Some(format!("{error:#}"))),
        }
    }
    Err(SessionEnd::NoServer)
}

async fn connect(core: &Core, job: &Job) -> Result<TlsStream<TcpStream>> {
    let server: Ipv4Addr =
        job.server.parse().with_context(|| format!("{:?} is no IPv4 address", job.server))?;
    let socket = TcpSocket::new_v4()?;
    if job.faults.iter().any(|fault| matches!(fault, Fault::Slow(_) | Fault::DropsAt(_))) {
        socket.set_recv_buffer_size(SMALL_BUFFER)?;
    }
    let own = *core.options.address.ip();
    // From loopback there is no way to anywhere else.
    if own.is_loopback() && server.is_loopback() {
        socket.bind(SocketAddr::from((own, 0)))?;
    }
    let server = SocketAddrV4::new(server, core.options.ota_port);
    let stream = socket.connect(server.into()).await.with_context(|| format!("no {server}"))?;
    let name = ServerName::try_from(SERVER_NAME)?;
    core.tls.connect(name, stream).await.context("no handshake")
}

/// The other way around: the board listens, and takes what the first caller sends.
async fn over_raw_tcp(core: &Core, job: &Job) -> Result<(), SessionEnd> {
    core.state().flash.begin(job.number);
    let address = SocketAddrV4::new(*core.options.address.ip(), core.options.raw_port);
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(address.into())?;
        socket.listen(1)
    };
    let taken = async { listen()?.accept().await };
    let (mut stream, _) = match taken.await {
        Ok(taken) => taken,
        Err(error) => {
            core.note(job, |update| update.last_error = Some(error.to_string()));
            return Err(SessionEnd::NoServer);
        }
    };
    core.note(job, |update| update.session = Some(now()));
    Reader::over_raw_tcp(core, job).read(&mut stream).await
}

/// The check, and then the wait before the restart. What is rejected is told to nobody.
async fn finish(core: &Core, job: &Job) -> SessionEnd {
    let checked = core.state().flash.end(job.number);
    let app = match checked {
        Ok(_) if job.faults.contains(&Fault::RejectsImage) => {
            return SessionEnd::Rejected("not signed by a key that is known here".to_owned());
        }
        Ok(app) => app,
        Err(error) => return SessionEnd::Rejected(format!("{error:#}")),
    };
    core.note(job, |update| update.version = Some(app.version));
    if job.faults.contains(&Fault::BootsOldSlot) {
        core.state().flash.keep_boot();
    } else {
        core.state().flash.set_boot();
    }
    core.wait(BEFORE_RESTART).await;
    SessionEnd::Accepted
}
