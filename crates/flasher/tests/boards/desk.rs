//! A desk with boards on it: a registry, an attestation service, a server certificate, and the flasher to run.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_sim::flashjob::registry::image::Image;
use flashjob_sim::flashjob::{
    Attestation, Board, BoardOptions, Firmware, KeyKind, Registry, ServerCert,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

/// Boards, attestation service and flasher live this many times faster than in the field.
pub const SPEED: f64 = 10.0;
/// The version boards come with, and the one they are to have.
pub const OLD: &str = "0.1.0";
pub const NEW: &str = "0.2.0";

const FLASHER: &str = env!("CARGO_BIN_EXE_flashjob-flasher");

/// The registry all tests share.
pub async fn registry() -> Result<&'static Registry> {
    static REGISTRY: OnceCell<Registry> = OnceCell::const_new();
    REGISTRY.get_or_try_init(Registry::start).await
}

pub struct Desk {
    pub attestation: Attestation,
    pub certificate: ServerCert,
    pub folder: TempDir,
}

impl Desk {
    pub async fn new() -> Result<Desk> {
        Desk::with(ServerCert::self_signed(KeyKind::P256)?).await
    }

    pub async fn with(certificate: ServerCert) -> Result<Desk> {
        let desk = Desk {
            attestation: Attestation::start(SPEED).await?,
            certificate,
            folder: tempfile::tempdir()?,
        };
        std::fs::write(desk.path("tls.crt"), &desk.certificate.chain)?;
        std::fs::write(desk.path("tls.key"), &desk.certificate.key)?;
        Ok(desk)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a board is made of that fits this desk.
    pub fn options(&self) -> Result<BoardOptions> {
        let mut options = BoardOptions::new(&self.certificate.chain)?;
        options.speed = SPEED;
        // The flasher's own steps take real time.
        options.bears_silence = Duration::from_secs(60) * SPEED as u32;
        Ok(options)
    }

    /// A board that is enrolled.
    pub async fn board(&self) -> Result<Board> {
        self.enrolled(self.options()?).await
    }

    pub async fn enrolled(&self, options: BoardOptions) -> Result<Board> {
        let board = Board::start(options).await?;
        self.attestation.enrol(&board.identity()?.root_pem())?;
        Ok(board)
    }

    /// The flasher for a board, with everything as the operator and a careful user set it.
    pub async fn flasher(&self, board: &Board) -> Result<Flasher> {
        let image = firmware(&Firmware::new(NEW)).await?;
        Ok(self.flasher_for(&board.endpoint(), &image))
    }

    pub fn flasher_for(&self, endpoint: &str, image: &str) -> Flasher {
        let address = own_address();
        let last_words = self.path(&format!("last-words-{address}"));
        let mut command = Command::new(FLASHER);
        command
            .env_clear()
            .env("FIRMWARE", image)
            .env("DEVICE", "esp32s2")
            .env("VERSION", NEW)
            .env("PREVIOUS_VERSION", OLD)
            .env("HOST_ENDPOINT", endpoint)
            .env("EXTERNAL_IP", address.to_string())
            .env("LISTEN", format!("{address}:4433"))
            .env("DICE_AUTH_URL", self.attestation.url())
            .env("SERVER_CRT_PATH", self.path("tls.crt"))
            .env("SERVER_KEY_PATH", self.path("tls.key"))
            .env("REGISTRY_PLAIN_HTTP", "1")
            .env("BOARD_SPEED", SPEED.to_string())
            .env("DEADLINE_SECONDS", "120")
            .env("TERMINATION_LOG", &last_words)
            .env("TMPDIR", self.folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Flasher { command, last_words, address }
    }
}

/// Firmware in the registry, under a name of its own.
pub async fn firmware(firmware: &Firmware) -> Result<String> {
    static NUMBER: AtomicU16 = AtomicU16::new(0);
    let repository = format!("firmware-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let registry = registry().await?;
    registry.push(&repository, NEW, &Image::of_firmware(&firmware.build())?).await?;
    Ok(format!("{}/{repository}:{NEW}", registry.host()))
}

/// An address that no other flasher of this machine listens on: each has its own port 4433.
fn own_address() -> Ipv4Addr {
    static NUMBER: AtomicU16 = AtomicU16::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id() as u16;
    Ipv4Addr::new(127, 10 + (process % 50) as u8, (process / 50 % 250) as u8 + 1, number as u8)
}

pub struct Flasher {
    command: Command,
    last_words: PathBuf,
    pub address: Ipv4Addr,
}

/// How a flasher ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub report: Value,
    pub log: String,
}

impl Flasher {
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Flasher {
        self.command.env(name, value);
        self
    }

    pub fn without(mut self, name: &str) -> Flasher {
        self.command.env_remove(name);
        self
    }

    pub fn start(&mut self) -> Result<Child> {
        self.command.spawn().context("the flasher cannot be started")
    }

    pub async fn run(mut self) -> Result<Ended> {
        let child = self.start()?;
        self.end(child).await
    }

    pub async fn end(self, child: Child) -> Result<Ended> {
        let output = tokio::time::timeout(Duration::from_secs(180), child.wait_with_output())
            .await
            .context("the flasher does not end")??;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let words = std::fs::read_to_string(&self.last_words)
            .with_context(|| format!("no last words; the log is\n{log}"))?;
        let report = serde_json::from_str(&words).with_context(|| format!("{words:?}\n{log}"))?;
        Ok(Ended { code: output.status.code().unwrap_or(-1), report, log })
    }
}

impl Ended {
    /// The device runs the new version, and the flasher says so.
    pub fn well(&self) -> Result<()> {
        ensure!(self.code == 0 && self.report["result"] == "succeeded", "{self:#?}");
        Ok(())
    }

    /// It failed, for this reason and with these words.
    pub fn badly(&self, reason: &str, words: &str) -> Result<()> {
        let message = self.report["message"].as_str().unwrap_or_default();
        ensure!(self.code == 1 && self.report["result"] == "failed", "{self:#?}");
        ensure!(self.report["reason"] == reason && message.contains(words), "{self:#?}");
        Ok(())
    }
}

/// The most memory a process has had at once, in KiB, as the kernel knows it.
pub fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    let status = status.ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
