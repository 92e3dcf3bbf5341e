//! A real registry: Debian's `docker-registry` on a free loopback port, with its storage in a scratch folder.
//!
//! It stands for the registry that firmware is pulled from. It is the real thing, down to the files: a test that wants
//! a registry that lies changes a file in [`Registry::blob_file`]. Images are made by [`image`] and pushed over the
//! registry's own API.

pub mod image;
mod push;
pub mod sign;

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::assets;
use crate::eventually;
use crate::lock;
use crate::pki::Pki;
use crate::process::{Running, Scratch};

/// The one user of a registry that asks for a login.
pub const USER: &str = "flasher";
/// Its password.
pub const PASSWORD: &str = "correct horse";
/// The password as bcrypt with the least work, as `htpasswd -nbBC 4` writes it.
const HTPASSWD: &str = "flasher:$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e\n";

const PATIENCE: Duration = Duration::from_secs(60);

/// How a registry differs from an open one that speaks plain HTTP.
#[derive(Debug, Clone, Copy)]
pub struct RegistryOptions {
    /// The address it listens on.
    pub host: Ipv4Addr,
    /// Speak TLS, with a certificate of a CA nobody knows.
    pub tls: bool,
    /// Let in [`USER`] alone.
    pub login: bool,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self { host: Ipv4Addr::LOCALHOST, tls: false, login: false }
    }
}

/// A running registry. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct Registry {
    program: Mutex<Option<Running>>,
    options: RegistryOptions,
    ca_pem: String,
    client: reqwest::Client,
    port: u16,
    scratch: Scratch,
}

impl Registry {
    /// Starts an open registry that speaks plain HTTP.
    pub async fn start() -> Result<Self> {
        Self::start_with(RegistryOptions::default()).await
    }

    /// Starts a registry.
    pub async fn start_with(options: RegistryOptions) -> Result<Self> {
        // Another part of the process may have chosen already, and then it was the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let scratch = Scratch::new("flashjob-registry-")?;
        let ca_pem = Pki::create(scratch.path())?.ca_pem;
        fs::write(scratch.path().join("htpasswd"), HTPASSWD).context("cannot write htpasswd")?;
        let client = reqwest::Client::builder()
            .no_proxy()
            // Tests share a registry, and each has a runtime of its own that takes its connections along.
            .pool_max_idle_per_host(0)
            .tls_certs_only(reqwest::Certificate::from_pem(ca_pem.as_bytes()))
            .build()
            .context("cannot make an HTTP client")?;
        let program = Mutex::default();
        let mut registry = Self { program, options, ca_pem, client, port: 0, scratch };
        registry.port = registry.run(0).await?;
        Ok(registry)
    }

    /// The host and port that stand in front of an image's name.
    pub fn host(&self) -> String {
        format!("{}:{}", self.options.host, self.port)
    }

    fn url(&self) -> String {
        let scheme = if self.options.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.host())
    }

    /// The CA of a registry that speaks TLS.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Ends the registry. Its storage stays.
    pub fn stop(&self) {
        lock(&self.program).take();
    }

    /// Starts a stopped registry again, at the same address and with the same storage.
    pub async fn start_again(&self) -> Result<()> {
        self.run(self.port).await.map(drop)
    }

    /// The file in which the registry keeps the content of a digest.
    pub fn blob_file(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self.scratch.path().join("storage/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2.min(hex.len())]).join(hex).join("data")
    }

    /// Every GET so far, as the registry wrote it down: path, protocol, status and more.
    pub fn requests(&self) -> Result<Vec<String>> {
        let log = fs::read_to_string(self.scratch.path().join("registry.log"))?;
        let request = |line: &str| line.split_once("\"GET ").map(|(_, rest)| rest.to_owned());
        Ok(log.lines().filter_map(request).collect())
    }

    async fn run(&self, port: u16) -> Result<u16> {
        let folder = self.scratch.path();
        let config = folder.join("config.yml");
        fs::write(&config, self.config(port)).context("cannot write the registry's config")?;
        let args = ["serve".to_owned(), config.display().to_string()];
        let log = folder.join("registry.log");
        let mut program = Running::start(&assets::registry()?, &args, log.clone())?;
        let heard = format!("listening on {}:", self.options.host);
        // It says on which port it listens, so that nobody can take the port between our looking and its start.
        let port = eventually("the registry to listen", PATIENCE, async || {
            if program.has_ended() {
                bail!("the registry has ended: {}", program.last_words());
            }
            let text = fs::read_to_string(&log).unwrap_or_default();
            let said = text.split_once(&heard).map(|(_, rest)| rest);
            let digits = said.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
            Ok(digits.and_then(|digits: String| digits.parse::<u16>().ok()))
        });
        let port = port.await?;
        *lock(&self.program) = Some(program);
        Ok(port)
    }

    fn config(&self, port: u16) -> String {
        let folder = self.scratch.path().display();
        let mut config = format!(
            "version: 0.1\nlog: {{level: info, accesslog: {{disabled: false}}}}\n\
             storage: {{filesystem: {{rootdirectory: {folder}/storage}}}}\n"
        );
        config += &format!("http:\n  addr: {}:{port}\n", self.options.host);
        if self.options.tls {
            config += &format!(
                "  tls: {{certificate: {folder}/apiserver.crt, key: {folder}/apiserver.key}}\n"
            );
        }
        if self.options.login {
            config += &format!("auth: {{htpasswd: {{realm: sim, path: {folder}/htpasswd}}}}\n");
        }
        config
    }
}
