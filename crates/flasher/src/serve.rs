//! The server a board calls back to.
//!
//! Anybody can call: port scanners, load balancers' health checks, other boards, the right board for another job. Each is
//! looked at on its own, briefly, and only the one that is expected is handed on. Nobody else costs more than a socket
//! for a few seconds, and nobody ends anything.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flashjob_api::flashjob::Reason;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::attest::Judge;
use crate::dice::{self, DiceCertificate};
use crate::event::{Event, Tell};
use crate::failure::Failure;

/// For the handshake, which a board does in two or three seconds.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// For the certificate after it.
const CERTIFICATE: Duration = Duration::from_secs(20);
/// The longest certificate, as in the original.
const LONGEST_CERTIFICATE: usize = 4095;
/// Callers at once; beyond that the one that has been silent longest goes.
const CALLERS: usize = 64;
/// What the kernel keeps for a board that reads slowly. Small, so that "sent" is nearly "received".
const SEND_BUFFER: u32 = 64 << 10;

/// Who is expected.
pub struct Expected {
    /// The certificate the device has shown and that was judged.
    pub certificate: Option<DiceCertificate>,
    /// Who judges any other.
    pub judge: Judge,
}

/// The device, on the line and waiting for its image.
pub struct Caller {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// From where.
    pub peer: SocketAddr,
}

/// A server that is open for callers until it is dropped.
pub struct Server {
    callers: mpsc::Receiver<Caller>,
    early: Option<Caller>,
    turned_away: Arc<Mutex<Option<Failure>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Opens the port.
    pub fn open(
        address: SocketAddr,
        tls: Arc<ServerConfig>,
        expected: Expected,
        tell: Tell,
    ) -> Result<Server, Failure> {
        let listener = listen(address).map_err(|error| {
            let message = format!("cannot listen on {address} for the device's call: {error}");
            Failure::new(Reason::NoCallback, message)
        })?;
        let (sender, callers) = mpsc::channel(1);
        let turned_away = Arc::new(Mutex::new(None));
        let door = Arc::new(Door {
            acceptor: TlsAcceptor::from(tls),
            expected,
            // The service judges one at a time anyway; strangers must not fill its queue.
            judging: Semaphore::new(1),
            sender,
            turned_away: turned_away.clone(),
            tell,
        });
        let accepting = tokio::spawn(accept(listener, door));
        Ok(Server { callers, early: None, turned_away, accepting })
    }

    /// The device, if it is on the line already.
    pub fn waiting(&mut self) -> Option<Caller> {
        self.early.take().or_else(|| self.callers.try_recv().ok())
    }

    /// Whether the device calls in time. It is [`waiting`](Server::waiting) then.
    pub async fn called(&mut self, patience: Duration) -> bool {
        self.early = self.caller(patience).await;
        self.early.is_some()
    }

    /// The next caller that is the device, if it calls in time.
    pub async fn caller(&mut self, patience: Duration) -> Option<Caller> {
        timeout(patience, self.callers.recv()).await.ok().flatten()
    }

    /// Why the last caller that could have been the device was turned away.
    pub fn turned_away(&self) -> Option<Failure> {
        self.turned_away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(128)
}

struct Door {
    acceptor: TlsAcceptor,
    expected: Expected,
    judging: Semaphore,
    sender: mpsc::Sender<Caller>,
    turned_away: Arc<Mutex<Option<Failure>>>,
    tell: Tell,
}

async fn accept(listener: TcpListener, door: Arc<Door>) {
    let mut callers: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                (door.tell)(Event::Again(format!("a call could not be taken: {error}")));
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        callers.retain(|caller| !caller.is_finished());
        if callers.len() >= CALLERS
            && let Some(oldest) = callers.pop_front()
        {
            oldest.abort();
        }
        let door = door.clone();
        callers
            .push_back(tokio::spawn(async move { door.answer(stream, peer).await }).abort_handle());
    }
}

impl Door {
    async fn answer(&self, stream: TcpStream, peer: SocketAddr) {
        match self.receive(stream).await {
            Ok(stream) => {
                // From here on, whoever drops it resets it: see `transfer`.
                if let Err(error) = stream.get_ref().0.set_zero_linger() {
                    (self.tell)(Event::Stranger(peer, format!("it cannot be reset: {error}")));
                    return;
                }
                // One is served at a time, and one may wait: two updates at once spoil the slot.
                if self.sender.try_send(Caller { stream, peer }).is_err() {
                    (self.tell)(Event::Stranger(peer, "the device is on the line already".into()));
                }
            }
            Err(NotExpected::Noise(why)) => (self.tell)(Event::Stranger(peer, why)),
            Err(NotExpected::Refused(failure)) => {
                (self.tell)(Event::Stranger(peer, failure.message.clone()));
                let mut last = self.turned_away.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some(failure);
            }
        }
    }

    async fn receive(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, NotExpected> {
        let noise = |why: String| NotExpected::Noise(why);
        let _ = stream.set_nodelay(true);
        let handshake = timeout(HANDSHAKE, self.acceptor.accept(stream)).await;
        let mut stream = handshake
            .map_err(|_| noise("no handshake in time".into()))?
            .map_err(|error| noise(format!("the handshake failed: {error}")))?;
        let certificate = timeout(CERTIFICATE, read_certificate(&mut stream)).await;
        let der = certificate.map_err(|_| noise("no certificate in time".into()))??;
        self.admit(&der).await.map_err(NotExpected::Refused)?;
        Ok(stream)
    }

    /// Whether this certificate is that of the device.
    async fn admit(&self, der: &[u8]) -> Result<(), Failure> {
        let Expected { certificate: known, judge } = &self.expected;
        if known.as_ref().is_some_and(|known| known.der == der) {
            return Ok(());
        }
        let certificate = match DiceCertificate::from_der(der) {
            Ok(certificate) => certificate,
            Err(_) if matches!(judge, Judge::Nobody) && known.is_none() => return Ok(()),
            Err(error) => return Err(Failure::new(Reason::AttestationFailed, error)),
        };
        if let Some(known) = known.as_ref().filter(|known| known.issuer != certificate.issuer) {
            let message = format!(
                "device {} called, expected is {}; is another board at this address?",
                certificate.issuer, known.issuer
            );
            return Err(Failure::new(Reason::IdentityMismatch, message));
        }
        let _one_at_a_time = self.judging.acquire().await;
        judge.judge(&certificate, &self.tell).await
    }
}

enum NotExpected {
    /// Nobody that could have been the device.
    Noise(String),
    /// Somebody with a certificate that was not accepted.
    Refused(Failure),
}

async fn read_certificate(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, NotExpected> {
    let mut bytes = Vec::new();
    loop {
        let length = dice::der_length(&bytes).map_err(|why| match bytes.first() {
            Some(b'-') => NotExpected::Refused(Failure::new(Reason::ProtocolUnsupported, why)),
            _ => NotExpected::Noise(why),
        })?;
        match length {
            Some(length) if length > LONGEST_CERTIFICATE => {
                return Err(NotExpected::Noise(format!("a certificate of {length} bytes")));
            }
            Some(length) if bytes.len() >= length => {
                bytes.truncate(length);
                return Ok(bytes);
            }
            _ => {}
        }
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk).await {
            Ok(0) => return Err(NotExpected::Noise("it hung up".into())),
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(error) => return Err(NotExpected::Noise(format!("it was lost: {error}"))),
        }
    }
}
