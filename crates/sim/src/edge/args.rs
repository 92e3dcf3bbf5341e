//! Flags of `flashjob-sim` for edge devices.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Whose agent a device runs.
#[derive(Clone, Copy, ValueEnum)]
pub enum Agent {
    /// The original's
    Flotta,
    /// Ours: renews its certificate, backs off, fetches only what has changed
    Ours,
}

/// Where the device API is.
#[derive(ClapArgs)]
pub struct Dial {
    /// Where the device API is, such as project-flotta.io:8043
    #[arg(long, value_name = "HOST:PORT")]
    pub server: String,

    /// The name in the server's certificate; the host of --server if it is not given
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,

    /// The folder with ca.pem, cert.pem and key.pem, as `make get-certs` writes it
    #[arg(long, value_name = "FOLDER")]
    pub bundle: PathBuf,
}

/// How devices behave.
#[derive(ClapArgs)]
pub struct Manners {
    /// Whose agent they run
    #[arg(long, value_enum, default_value = "ours", alias = "manner")]
    pub like: Agent,

    /// Speak HTTP/1.1 instead of HTTP/2
    #[arg(long)]
    pub http1: bool,

    /// The namespace they ask to be in
    #[arg(long, default_value = "default", value_name = "NS")]
    pub namespace: String,
}

#[derive(ClapArgs)]
pub struct Device {
    #[command(flatten)]
    pub dial: Dial,

    #[command(flatten)]
    pub manners: Manners,

    /// The device's name; without it that of the certificate in --state, or a new one
    #[arg(long)]
    pub id: Option<String>,

    /// Where its certificate and key are kept from one run to the next; without it they are forgotten
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Fleet {
    /// Where the device API is; without it a control plane and an operator are started here
    #[arg(long, value_name = "HOST:PORT", requires = "bundle")]
    pub server: Option<String>,

    /// The name in the server's certificate; the host of --server if it is not given
    #[arg(long, value_name = "NAME", requires = "server")]
    pub server_name: Option<String>,

    /// The folder with ca.pem, cert.pem and key.pem, as `make get-certs` writes it
    #[arg(long, value_name = "FOLDER", requires = "server")]
    pub bundle: Option<PathBuf>,

    #[command(flatten)]
    pub manners: Manners,

    /// How many
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub devices: u32,

    /// They are called this and a number
    #[arg(long, default_value = "edge")]
    pub prefix: String,

    /// How many start in a second
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,

    /// The operator for a control plane that is started here [default: flashjob-operator beside this program]
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub operator: Option<PathBuf>,
}

impl Fleet {
    /// Where it calls; `None` if that is to be started.
    pub fn dial(&self) -> Option<Dial> {
        let (server, bundle) = (self.server.clone()?, self.bundle.clone()?);
        Some(Dial { server, server_name: self.server_name.clone(), bundle })
    }
}
