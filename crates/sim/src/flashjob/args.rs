//! Flags of `flashjob-sim` for FlashJob.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(ClapArgs)]
pub struct Scale {
    /// How many boards
    #[arg(long, default_value_t = 500, value_name = "N")]
    pub devices: usize,

    /// How many are flashed at once
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub parallel: usize,

    /// All waits of boards, flasher and attestation service are divided by this
    #[arg(long, default_value_t = 20.0, value_name = "FACTOR", value_parser = speed)]
    pub speed: f64,

    /// The operator's program; flashjob-operator beside this one if it is not given
    #[arg(long, value_name = "FILE")]
    pub operator: Option<PathBuf>,

    /// The flasher's program; flashjob-flasher beside this one if it is not given
    #[arg(long, value_name = "FILE")]
    pub flasher: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Demo {
    /// How many boards
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub devices: usize,

    /// All waits of boards, flasher and attestation service are divided by this
    #[arg(long, default_value_t = 20.0, value_name = "FACTOR", value_parser = speed)]
    pub speed: f64,

    /// Stay up at the end, until Ctrl-C
    #[arg(long)]
    pub keep: bool,

    /// The operator's program; flashjob-operator beside this one if it is not given
    #[arg(long, value_name = "FILE")]
    pub operator: Option<PathBuf>,

    /// The flasher's program; flashjob-flasher beside this one if it is not given
    #[arg(long, value_name = "FILE")]
    pub flasher: Option<PathBuf>,

    /// The program that shows the rollout; kubectl-flashjob beside this one if it is not given
    #[arg(long, value_name = "FILE")]
    pub cli: Option<PathBuf>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (1.0..=100.0).contains(&speed) => Ok(speed),
        _ => Err("a number from 1 to 100".into()),
    }
}

#[derive(ClapArgs)]
pub struct Boards {
    /// How many
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub count: u16,

    /// All waits of the boards are divided by this
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub speed: f64,

    /// The address of the first board; the others have the addresses after it
    #[arg(long, default_value = "127.0.1.1", value_name = "IP")]
    pub address: Ipv4Addr,

    /// The port of every board
    #[arg(long, default_value_t = 8080)]
    pub port: u16,

    /// The port boards call to fetch their firmware; real ones know only 4433
    #[arg(long, default_value_t = crate::flashjob::board::OTA_PORT, value_name = "PORT")]
    pub ota_port: u16,

    /// What the boards say they are
    #[arg(long, default_value = "esp32s2")]
    pub device: String,

    /// What the boards say they do
    #[arg(long, default_value = "thermo")]
    pub application: String,

    /// The version they come with
    #[arg(long, default_value = "0.1.0")]
    pub firmware_version: String,

    /// Where server.crt and server.key are, which the boards pin; made when they are not there. The roots to enrol are
    /// written here too, as roots.pem
    #[arg(long, default_value = "flashjob-sim", value_name = "FOLDER")]
    pub folder: PathBuf,

    /// Where GET /ledger says what the boards have lived through
    #[arg(long, default_value = "127.0.0.1:8090", value_name = "ADDRESS")]
    pub control: SocketAddr,

    /// Run an attestation service here too, with all boards enrolled
    #[arg(long, value_name = "ADDRESS")]
    pub attestation: Option<SocketAddr>,
}
