//! `flashjob-sim boards`: simulated boards until it is told to stop.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

use super::args::Boards;
use super::board::MacAddress;
use super::control::Control;
use super::{Attestation, Board, BoardOptions, KeyKind, ServerCert};
use crate::output::say;

/// Runs them.
pub async fn run(wanted: Boards) -> Result<()> {
    let pinned = server_certificate(&wanted.folder)?;
    let mut boards = Vec::new();
    let mut roots = String::new();
    for n in 0..wanted.count {
        let ip = Ipv4Addr::from_bits(wanted.address.to_bits() + u32::from(n));
        let board = Board::start(BoardOptions {
            address: SocketAddrV4::new(ip, wanted.port),
            mac: MacAddress::nth(n + 1),
            device: wanted.device.clone(),
            application: wanted.application.clone(),
            version: wanted.firmware_version.clone(),
            ota_port: wanted.ota_port,
            speed: wanted.speed,
            ..BoardOptions::new(&pinned)?
        });
        let board = board.await?;
        roots += &board.identity()?.root_pem();
        boards.push(board);
    }
    write(&wanted.folder.join("roots.pem"), &roots)?;

    let attestation = match wanted.attestation {
        None => None,
        Some(address) => Some(Attestation::start_on(address, wanted.speed).await?),
    };
    if let Some(service) = &attestation {
        for board in &boards {
            service.enrol(&board.identity()?.root_pem())?;
        }
    }
    let boards: Arc<[Board]> = boards.into();
    let control = Control::start(wanted.control, boards.clone()).await?;

    say(&table(&boards, &wanted))?;
    say(&format!("pinned server certificate  {}/server.crt\n", wanted.folder.display()))?;
    say(&format!("roots to enrol             {}/roots.pem\n", wanted.folder.display()))?;
    say(&format!("ledger                     http://{}/ledger\n", control.address()))?;
    if let Some(service) = &attestation {
        say(&format!("attestation service        {}\n", service.url()))?;
    }
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// The certificate in the folder, or a new one.
fn server_certificate(folder: &Path) -> Result<String> {
    let (certificate, key) = (folder.join("server.crt"), folder.join("server.key"));
    if certificate.exists() {
        return fs::read_to_string(&certificate)
            .with_context(|| format!("cannot read {}", certificate.display()));
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let made = ServerCert::self_signed(KeyKind::P256)?;
    write(&key, &made.key)?;
    write(&certificate, &made.chain)?;
    Ok(made.chain)
}

/// For its owner only: one of these files is a private key.
fn write(path: &Path, text: &str) -> Result<()> {
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn table(boards: &[Board], wanted: &Boards) -> String {
    let mut table = format!("{:<21}  {:<17}  {:<10}  VERSION\n", "ADDRESS", "MAC", "DEVICE");
    for board in boards {
        let (address, mac, device) = (board.endpoint(), board.mac().to_string(), &wanted.device);
        table += &format!("{address:<21}  {mac:<17}  {device:<10}  {}\n", board.version());
    }
    table
}
