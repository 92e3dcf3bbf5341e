//! What kind of board is played.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::dice::MacAddress;
use super::fault::{Fault, Times};

/// Where boards call.
pub const OTA_PORT: u16 = 4433;

/// A board to be started.
#[derive(Debug, Clone)]
pub struct BoardOptions {
    /// Where its HTTP server is. Port 0 takes a free one at the first start and keeps it.
    pub address: SocketAddrV4,
    /// Its MAC address, and so its DICE identity.
    pub mac: MacAddress,
    /// What it says it is. An image for another chip is refused.
    pub device: String,
    /// What it says it does.
    pub application: String,
    /// The version it comes with; later the one of the image it runs.
    pub version: String,
    /// The server certificate in its firmware, as DER.
    pub pinned: Vec<u8>,
    /// The port it calls. A real board knows only [`OTA_PORT`]; many servers on one machine need more.
    pub ota_port: u16,
    /// The port on which it waits for raw firmware when it has no TLS.
    pub raw_port: u16,
    /// All its waits are divided by this.
    pub speed: f64,
    /// How long it takes to come back after a restart.
    pub restart_takes: Duration,
    /// How long it takes to make its DICE certificate, at the first `/onboard` and before each update.
    pub certificate_takes: Duration,
    /// How long a session bears silence when it is not the first of its boot. Raise it where a fast board meets a server
    /// that lives in real time.
    pub bears_silence: Duration,
    /// How large an image may be.
    pub partition: usize,
    /// What goes wrong.
    pub faults: Vec<(Fault, Times)>,
}

impl BoardOptions {
    /// The original's sensor board, with the defaults of its firmware and this server certificate (PEM) in it. It has
    /// an address and a MAC address no other board of this process has.
    pub fn new(server_certificate: &str) -> Result<Self> {
        let pinned = CertificateDer::from_pem_slice(server_certificate.as_bytes())
            .context("the server certificate is no PEM")?;
        let number = next_number();
        Ok(Self {
            address: SocketAddrV4::new(own_address(number), 0),
            mac: MacAddress::nth(number),
            device: "esp32s2".to_owned(),
            application: "thermo".to_owned(),
            version: "0.1.0".to_owned(),
            pinned: pinned.to_vec(),
            ota_port: OTA_PORT,
            raw_port: 3333,
            speed: 1.0,
            restart_takes: Duration::from_secs(3),
            certificate_takes: Duration::from_secs(1),
            bears_silence: Duration::from_secs(3),
            partition: 0x29_0000,
            faults: Vec::new(),
        })
    }

    /// Adds a fault.
    pub fn with(mut self, fault: Fault, times: Times) -> Self {
        self.faults.push((fault, times));
        self
    }
}

fn next_number() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// All of 127.0.0.0/8 is this machine. A board's own address keeps its port free while it restarts. The process id is in
/// it, so that tests in two processes rarely meet; and when they do, they still have different ports.
fn own_address(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    let process = (std::process::id() % 60) as u8;
    // 0 and 255 at the end are fine on loopback, but look wrong to a reader.
    Ipv4Addr::new(127, 64 + process + high / 128, 1 + high % 128, low.clamp(1, 254))
}
