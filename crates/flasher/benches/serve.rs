//! `make bench`: how fast the flasher serves an image to a reader that is never the bottleneck, and with how much memory.
//!
//! Seconds say little on a machine nobody else has. So each transfer stands beside a **floor**: the same bytes from
//! memory to the same reader by a bare tokio-rustls loop on a thread of its own. A real board reads some 100 KB/s, so a
//! flasher that reaches a fraction of the floor is limited by the board.
//!
//! Nothing is asserted: this is no test.

#![expect(clippy::print_stdout, reason = "a benchmark is there to print its results")]

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flashjob_pki::{CertifiedKey, PrivateKey, Profile};
use flashjob_sim::flashjob::registry::image::Image;
use flashjob_sim::flashjob::{Board, BoardOptions, Fault, Firmware, Registry, Times};
use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const SIZE: usize = 16 << 20;
const ROUNDS: usize = 3;
const WANTED_KIB: u64 = 24 << 10;
const LISTEN: &str = "127.0.200.1:4433";

struct Bench {
    registry: Registry,
    folder: tempfile::TempDir,
    image: Vec<u8>,
    chain: String,
    key: String,
    reader: TlsConnector,
}

#[tokio::main]
async fn main() -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bench = Bench::new().await?;
    println!("serving {} MiB over TLS 1.2, best of {ROUNDS}", SIZE >> 20);
    let (mut ours, mut floor, mut peak) = (Duration::MAX, Duration::MAX, 0);
    for _ in 0..ROUNDS {
        floor = floor.min(bench.floor().await?);
        let (took, memory) = bench.flasher().await?;
        ours = ours.min(took);
        peak = peak.max(memory);
    }
    let rate = |took: Duration| SIZE as f64 / took.as_secs_f64() / 1e6;
    let share = 100.0 * floor.as_secs_f64() / ours.as_secs_f64();
    println!("floor    {:>7.0} MB/s", rate(floor));
    println!("flasher  {:>7.0} MB/s  {share:.0} % of the floor", rate(ours));
    println!("memory   {peak:>7} KiB at most (VmHWM; wanted: under {WANTED_KIB})");
    Ok(())
}

impl Bench {
    async fn new() -> Result<Bench> {
        let (from, until) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let ca = Profile::ca("bench", from, until);
        let ca = CertifiedKey::self_signed(PrivateKey::generate()?, &ca)?;
        let key = PrivateKey::generate()?;
        let names = vec!["ota-agent".to_owned()];
        let leaf = Profile { names, ..Profile::leaf("ota-agent", from, until) };
        let leaf = ca.sign(&key.public(), &leaf)?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.leaf().der().clone())?;
        let reader = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS12])
            .with_root_certificates(roots)
            .with_no_client_auth();
        let bench = Bench {
            registry: Registry::start().await?,
            folder: tempfile::tempdir()?,
            image: Firmware::new("0.2.0").size(SIZE).build(),
            chain: leaf.pem(),
            key: key.pem(),
            reader: TlsConnector::from(Arc::new(reader)),
        };
        std::fs::write(bench.folder.path().join("tls.crt"), &bench.chain)?;
        std::fs::write(bench.folder.path().join("tls.key"), &bench.key)?;
        bench.registry.push("firmware", "0.2.0", &Image::of_firmware(&bench.image)?).await?;
        Ok(bench)
    }

    async fn connect(&self, address: SocketAddr) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        Ok(self.reader.connect(ServerName::try_from("ota-agent")?, stream).await?)
    }

    /// Reads as fast as it can, from the first byte on.
    async fn read(&self, stream: &mut TlsStream<TcpStream>) -> Result<Duration> {
        let mut buffer = vec![0; 64 << 10];
        let mut total = stream.read(&mut buffer).await?;
        let began = Instant::now();
        loop {
            match stream.read(&mut buffer).await? {
                0 => break,
                n => total += n,
            }
        }
        ensure!(total == self.image.len(), "{total} bytes arrived");
        Ok(began.elapsed())
    }

    /// A server that does nothing but send.
    async fn floor(&self) -> Result<Duration> {
        let chain = vec![CertificateDer::from_pem_slice(self.chain.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let image = self.image.clone();
        let server = std::thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (stream, _) = TcpListener::from_std(listener)?.accept().await?;
                let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
                stream.write_all(&image).await?;
                Ok(stream.shutdown().await?)
            })
        });
        let took = self.read(&mut self.connect(address).await?).await?;
        server.join().ok().context("the floor's server has panicked")??;
        Ok(took)
    }

    /// The real flasher, asked by nobody but a reader that knows the board's certificate.
    async fn flasher(&self) -> Result<(Duration, u64)> {
        let options = BoardOptions::new(&self.chain)?.with(Fault::NeverCallsBack, Times::Always);
        let board = Board::start(options).await?;
        let certificate = board.identity()?.attestation_der().to_vec();
        let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_flashjob-flasher"))
            .env_clear()
            .env("FIRMWARE", format!("{}/firmware:0.2.0", self.registry.host()))
            .env("DEVICE", "esp32s2")
            .env("VERSION", "0.2.0")
            .env("VERIFY", "None")
            .env("HOST_ENDPOINT", board.endpoint())
            .env("EXTERNAL_IP", "127.0.200.1")
            .env("LISTEN", LISTEN)
            .env("ATTESTATION", "none")
            .env("SERVER_CRT_PATH", self.folder.path().join("tls.crt"))
            .env("SERVER_KEY_PATH", self.folder.path().join("tls.key"))
            .env("REGISTRY_PLAIN_HTTP", "1")
            .env("TERMINATION_LOG", self.folder.path().join("last-words"))
            .env("TMPDIR", self.folder.path())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let asked =
            |ledger: &flashjob_sim::flashjob::board::BoardLedger| !ledger.updates.is_empty();
        board.until("it is asked", Duration::from_secs(60), asked).await?;
        let mut stream = self.connect(LISTEN.parse()?).await?;
        stream.write_all(&certificate).await?;
        stream.flush().await?;
        let took = self.read(&mut stream).await?;
        // It waits for a goodbye, so it is still there to be looked at.
        let pid = child.id().context("the flasher has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.trim_end_matches("kB").trim().parse().ok());
        stream.shutdown().await?;
        ensure!(child.wait().await?.success(), "the flasher has failed");
        Ok((took, peak.context("no VmHWM")?))
    }
}
