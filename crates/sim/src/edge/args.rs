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

#[derive(ClapArgs)]
pub struct Device {
    /// Where the device API is, such as project-flotta.io:8043
    #[arg(long, value_name = "HOST:PORT")]
    pub server: String,

    /// The name in the server's certificate; the host of --server if it is not given
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,

    /// The folder with ca.pem, cert.pem and key.pem, as `make get-certs` writes it
    #[arg(long, value_name = "FOLDER")]
    pub bundle: PathBuf,

    /// The device's name; without it that of the certificate in --state, or a new one
    #[arg(long)]
    pub id: Option<String>,

    /// Whose agent it runs
    #[arg(long, value_enum, default_value = "ours")]
    pub manner: Agent,

    /// Speak HTTP/1.1 instead of HTTP/2
    #[arg(long)]
    pub http1: bool,

    /// The namespace the device asks to be in
    #[arg(long, default_value = "default", value_name = "NS")]
    pub namespace: String,

    /// Where its certificate and key are kept from one run to the next; without it they are forgotten
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}
