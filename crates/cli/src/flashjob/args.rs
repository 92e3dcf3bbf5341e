//! The commands for FlashJobs, as people type them. Every help text has an example; what the words mean to a cluster is elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::{amount, duration, seconds};
use crate::output::{Format, Output};

mod server_cert;

pub use server_cert::{Leaf, ServerCertCommand};

#[derive(Debug, Subcommand)]
pub enum FlashjobCommand {
    /// List the devices Akri has found, which job is flashing them, and how the last flash went
    #[command(
        visible_alias = "device",
        after_help = "\
Examples:
  kubectl flashjob devices
  kubectl flashjob devices --device esp32s3 --version '<0.2.0'
  kubectl flashjob devices -n site-a -o json"
    )]
    Devices(DevicesArgs),
    /// Flash devices: asks what to do on a terminal, or takes it from flags and asks nothing
    #[command(after_help = "\
Examples:
  kubectl flashjob flash                                     # asks
  kubectl flashjob flash --pick                              # asks, with a list to search and tick
  kubectl flashjob flash --device esp32s3 --firmware registry.example/thermo:0.2.0 \\
    --batch-size 5 --delay 60 --wait
  kubectl flashjob flash --uuid site-a/http-disc-ac7d96 --dry-run \\
    --firmware registry.example/thermo:0.2.0")]
    Flash(Box<FlashArgs>),
    /// Say what a job would do to each device, without touching any
    #[command(after_help = "\
The operator's own settings (--device-namespaces, --max-parallel and others) are not known here.

Examples:
  kubectl flashjob plan --device esp32s3 --batch-size 25% \\
    --firmware registry.example/thermo:0.2.0
  kubectl flashjob plan -f job.yaml")]
    Plan(Box<PlanArgs>),
    /// Follow a rollout, hold it, let it go on, end it, or look at its past
    #[command(
        subcommand,
        after_help = "\
Examples:
  kubectl flashjob rollout status thermo-0.2.0 --wait
  kubectl flashjob rollout pause thermo-0.2.0"
    )]
    Rollout(RolloutCommand),
    /// Show what the flash Pods of a job say
    #[command(after_help = "\
A flash Pod is there while its device is flashed. What it said last is in `explain` and in the job's status.

Examples:
  kubectl flashjob logs thermo-0.2.0
  kubectl flashjob logs thermo-0.2.0 --device http-disc-ac7d96 -f")]
    Logs(LogsArgs),
    /// Say of every device that is not done why, and what to do
    #[command(after_help = "\
Examples:
  kubectl flashjob explain thermo-0.2.0")]
    Explain(JobName),
    /// Look whether everything is there that a flash needs
    #[command(after_help = "\
Examples:
  kubectl flashjob check
  kubectl flashjob check -n site-a")]
    Check,
    /// Make, import or renew the certificate that boards trust, in the Secret the flasher mounts
    #[command(
        subcommand,
        after_help = "\
Examples:
  kubectl flashjob server-cert create --dir ./pinned
  kubectl flashjob server-cert renew --dir ./pinned"
    )]
    ServerCert(ServerCertCommand),
}

/// Which devices.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which devices")]
pub struct Choice {
    /// Boards of this type; case, "-" and "_" make no difference
    #[arg(long, value_name = "TYPE")]
    pub device: Option<String>,
    /// Devices that run this application
    #[arg(long, value_name = "NAME")]
    pub app: Option<String>,
    /// This device: the uid of its Instance, namespace/name, or its name; may be given several times
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub uuid: Vec<String>,
    /// Devices with these labels on their Instance
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
}

#[derive(Debug, Args)]
pub struct DevicesArgs {
    #[command(flatten)]
    pub choice: Choice,
    /// Look in all namespaces, as it does without -n, too
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Devices that report a version in this range, such as '<0.2.0'
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// How to print them; `name` prints namespace/name, as --uuid takes it
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Go on and print each device that changes
    #[arg(short, long)]
    pub watch: bool,
}

/// What to flash and how.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "What and how")]
pub struct FlashOptions {
    /// The firmware: an OCI image by tag or digest
    #[arg(long, value_name = "IMAGE")]
    pub firmware: Option<String>,
    /// The version the firmware reports [default: the firmware's tag]
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,
    /// The image of the flash Pod [default: the operator's]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Devices per batch: a number or a percentage [default: all at once]
    #[arg(long, value_name = "N|N%", value_parser = amount)]
    pub batch_size: Option<String>,
    /// The pause after a batch: seconds, or 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub delay: Option<i32>,
    /// How many devices are flashed at the same time [default: 25]
    #[arg(long, value_name = "N")]
    pub max_parallel: Option<i32>,
    /// How many devices may fail before nothing new is started [default: any number]
    #[arg(long, value_name = "N|N%", value_parser = amount)]
    pub max_failures: Option<String>,
    /// What counts as done: the version a device reports, that it restarted, or that it took the image
    #[arg(long, value_enum)]
    pub verify: Option<VerifyArg>,
    /// The name of the FlashJob [default: from firmware and version]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerifyArg {
    Version,
    Restart,
    None,
}

#[derive(Debug, Args)]
pub struct FlashArgs {
    #[command(flatten)]
    pub choice: Choice,
    /// Every device Akri knows; without any other choice this needs --yes
    #[arg(long, help_heading = "Which devices")]
    pub all: bool,
    /// Search and tick devices in a list
    #[arg(long, help_heading = "Which devices", conflicts_with_all = ["all", "uuid"])]
    pub pick: bool,
    #[command(flatten)]
    pub options: FlashOptions,
    /// Also write the job as the original operator takes it, with its eight fields and nothing else; - is standard output
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Also write the job with everything in it; - is standard output
    #[arg(long, value_name = "FILE")]
    pub save_full: Option<PathBuf>,
    /// Say what would happen, and make nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Really flash every device
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub waiting: WaitArgs,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub choice: Choice,
    /// Every device Akri knows
    #[arg(long, help_heading = "Which devices")]
    pub all: bool,
    #[command(flatten)]
    pub options: FlashOptions,
    /// The FlashJob in this file; - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["all", "device", "app", "uuid", "selector", "firmware"])]
    pub filename: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Whether to stay until the end.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct WaitArgs {
    /// Stay and show how it goes until the rollout has ended
    #[arg(short, long)]
    pub wait: bool,
    /// Give up waiting after this long: seconds, or 90s, 5m, 1h. The rollout goes on
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct JobName {
    /// The FlashJob
    pub name: String,
}

#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Show how far a rollout is; with --wait until it has ended
    #[command(after_help = "\
Examples:
  kubectl flashjob rollout status thermo-0.2.0
  kubectl flashjob rollout status thermo-0.2.0 --wait --timeout 30m")]
    Status {
        #[command(flatten)]
        job: JobName,
        #[command(flatten)]
        waiting: WaitArgs,
    },
    /// Start nothing new; what is being flashed finishes
    #[command(after_help = "Examples:\n  kubectl flashjob rollout pause thermo-0.2.0")]
    Pause(JobName),
    /// Go on after pause or abort
    #[command(after_help = "Examples:\n  kubectl flashjob rollout resume thermo-0.2.0")]
    Resume(JobName),
    /// End it: start nothing new, let what is being flashed finish
    #[command(after_help = "Examples:\n  kubectl flashjob rollout abort thermo-0.2.0")]
    Abort(JobName),
    /// Try the devices that failed again
    #[command(after_help = "Examples:\n  kubectl flashjob rollout retry thermo-0.2.0")]
    Retry(JobName),
    /// List the firmware this job has rolled out so far
    #[command(after_help = "Examples:\n  kubectl flashjob rollout history thermo-0.2.0")]
    History {
        #[command(flatten)]
        job: JobName,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    #[command(flatten)]
    pub job: JobName,
    /// Only this device, as the job names it or by the name of its Instance; may be given several times
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Stay, also for Pods that are still to come, until the job has ended
    #[arg(short, long)]
    pub follow: bool,
}
