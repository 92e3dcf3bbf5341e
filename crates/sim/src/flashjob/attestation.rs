//! Plays dice-auth, the original's attestation service: it says whether a device's certificate is signed by a root that
//! was enrolled.
//!
//! Its manners are what a caller has to live with: one caller at a time, two and a half seconds for each because it
//! reads until nothing more comes, a queue of five, and every connection closed after its answer. It differs in that
//! the roots are kept here and not in redis, and that it knows only the one kind of signature DICE boards make.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use p256::ecdsa::VerifyingKey;
use p256::ecdsa::signature::hazmat::PrehashVerifier;
use sha2::{Digest, Sha512};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use x509_cert::Certificate;
use x509_cert::der::oid::db::rfc5912::ECDSA_WITH_SHA_512;
use x509_cert::der::{DecodePem, Encode};

/// How long the original waits for more of a request.
const WAIT: Duration = Duration::from_millis(2500);
/// As much of a request is read.
const BUFFER: usize = 4095;
const BACKLOG: u32 = 5;

/// A question that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The HTTP status of the answer.
    pub status: u16,
    /// Why, for those who read a test's output.
    pub why: String,
}

#[derive(Default)]
struct Book {
    roots: Vec<Certificate>,
    asked: Vec<Question>,
}

/// A running service. It stops when dropped.
pub struct Attestation {
    book: Arc<Mutex<Book>>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Attestation {
    /// Starts on the current runtime, on a free port; its waits are divided by `speed`.
    pub async fn start(speed: f64) -> Result<Self> {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), speed).await
    }

    /// Starts on this address.
    pub async fn start_on(address: SocketAddr, speed: f64) -> Result<Self> {
        ensure!(speed > 0.0, "the attestation service's speed is {speed}");
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let book = Arc::new(Mutex::new(Book::default()));
        let task = tokio::spawn(serve(listener, book.clone(), WAIT.div_f64(speed)));
        Ok(Self { book, address, task })
    }

    /// Where it listens. Any path will do.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As the flasher is told.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on devices whose certificates are signed by this root (PEM) are welcome.
    pub fn enrol(&self, root: &str) -> Result<()> {
        let root = Certificate::from_pem(root).context("the root cannot be read")?;
        lock(&self.book).roots.push(root);
        Ok(())
    }

    /// Forgets all roots.
    pub fn forget(&self) {
        lock(&self.book).roots.clear();
    }

    /// What it was asked, in order.
    pub fn asked(&self) -> Vec<Question> {
        lock(&self.book).asked.clone()
    }
}

impl Drop for Attestation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, book: Arc<Mutex<Book>>, wait: Duration) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Not spawned: everyone else waits.
        let _ = one(stream, &book, wait).await;
    }
}

async fn one(mut stream: TcpStream, book: &Mutex<Book>, wait: Duration) -> Result<()> {
    let request = read(&mut stream, wait).await;
    let question = {
        let mut book = lock(book);
        let question = judge(&request, &book.roots);
        book.asked.push(question.clone());
        question
    };
    let (status, kind, more, body) = match question.status {
        200 => ("200 OK", "application/json", "", r#"{"status": "Certificate OK"}"#),
        405 => {
            ("405 Method Not Allowed", "text/plain", "Allow: POST\r\n", "Only POST method allowed")
        }
        _ => ("401 Unauthorized", "application/json", "", r#"{"status": "Certificate Invalid"}"#),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

/// Reads until the buffer is full or the time is over; that the request is complete, or that its sender is gone, makes
/// no difference. Callers live in real time, so a service that runs faster still gives a request time to arrive.
async fn read(stream: &mut TcpStream, wait: Duration) -> String {
    let start = Instant::now();
    let mut request = vec![0; BUFFER];
    let mut length = 0;
    while length < BUFFER {
        let end = start + if is_whole(&request[..length]) { wait } else { wait.max(WAIT) };
        match timeout_at(end, stream.read(&mut request[length..])).await {
            Ok(Ok(0) | Err(_)) => {
                sleep_until(start + wait).await;
                break;
            }
            Ok(Ok(read)) => length += read,
            Err(_) => break,
        }
    }
    request.truncate(length);
    String::from_utf8_lossy(&request).into_owned()
}

fn is_whole(request: &[u8]) -> bool {
    let request = String::from_utf8_lossy(request);
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.is_none_or(|(_, length)| length.trim().parse().is_ok_and(|length| body.len() >= length))
}

fn judge(request: &str, roots: &[Certificate]) -> Question {
    if request.split_whitespace().next() != Some("POST") {
        return Question { status: 405, why: "not a POST".to_owned() };
    }
    match verify(request, roots) {
        Ok(()) => Question { status: 200, why: "signed by an enrolled root".to_owned() },
        Err(error) => Question { status: 401, why: format!("{error:#}") },
    }
}

fn verify(request: &str, roots: &[Certificate]) -> Result<()> {
    let (_, body) = request.split_once("\r\n\r\n").context("no body")?;
    let certificate = Certificate::from_pem(body.trim_start()).context("no certificate")?;
    // Like X509_verify_cert: a root is trusted as it stands.
    if roots.iter().any(|root| *root == certificate || has_signed(root, &certificate).is_ok()) {
        return Ok(());
    }
    bail!("no root of {} has signed it", roots.len())
}

fn has_signed(root: &Certificate, certificate: &Certificate) -> Result<()> {
    let (from, body) = (root.tbs_certificate(), certificate.tbs_certificate());
    ensure!(body.issuer() == from.subject(), "another issuer");
    let algorithm = certificate.signature_algorithm();
    ensure!(algorithm.oid == ECDSA_WITH_SHA_512, "another kind of signature");
    ensure!(body.signature() == algorithm, "two kinds of signature");
    let key = from.subject_public_key_info().subject_public_key.raw_bytes();
    let key = VerifyingKey::from_sec1_bytes(key)?;
    let signature = p256::ecdsa::DerSignature::from_bytes(certificate.signature().raw_bytes())?;
    key.verify_prehash(&Sha512::digest(body.to_der()?), &signature)?;
    Ok(())
}
