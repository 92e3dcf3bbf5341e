//! The commands for Edge, as people type them. Every help text has an example.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::args::duration;
use crate::output::{Document, Format, Output};

#[derive(Debug, Subcommand)]
pub enum EdgeCommand {
    /// List devices: whether they report, what they run, and how long their certificates are good
    #[command(
        visible_alias = "device",
        after_help = "\
Examples:
  kubectl flashjob edge devices
  kubectl flashjob edge devices -l floor=2 -o wide
  kubectl flashjob edge devices --watch"
    )]
    Devices(DevicesArgs),
    /// List devices that have asked to be let in, and what became of it
    #[command(
        visible_alias = "request",
        after_help = "\
Examples:
  kubectl flashjob edge requests
  kubectl flashjob edge requests --watch"
    )]
    Requests(ListArgs),
    /// Let devices in that have asked for it
    #[command(after_help = "\
Examples:
  kubectl flashjob edge approve edge2
  kubectl flashjob edge approve -l batch=7
  kubectl flashjob edge approve --all --yes")]
    Approve(AnswerArgs),
    /// Refuse devices that have asked to be let in
    #[command(after_help = "\
A device that is refused stays refused until somebody approves it.

Examples:
  kubectl flashjob edge decline edge2
  kubectl flashjob edge decline --all --yes")]
    Decline(AnswerArgs),
    /// Let another box register as a device, or the same one that has lost its key
    #[command(after_help = "\
Whoever has the registration certificate may then register as this device, once. What the device runs stays as it is.

Examples:
  kubectl flashjob edge reset edge1
  kubectl flashjob edge reset edge1 --forget-key")]
    Reset(ResetArgs),
    /// Send devices away: each disconnects and removes all it runs
    #[command(after_help = "\
Examples:
  kubectl flashjob edge remove edge1
  kubectl flashjob edge remove edge1 edge2 --decline --yes")]
    Remove(RemoveArgs),
    /// Show the certificates Edge stands on, or replace the CA
    #[command(
        subcommand,
        after_help = "\
Examples:
  kubectl flashjob edge ca status
  kubectl flashjob edge ca rotate"
    )]
    Ca(CaCommand),
    /// Write what a device image needs to register
    #[command(after_help = "\
DIR gets ca.pem, cert.pem, key.pem and config.toml, for /etc/pki/consumer and /etc/yggdrasil. Every image has the same, but \
for the line client-id, which each box adds for itself. With key.pem any box can ask to be let in, so keep it as a secret.

Examples:
  kubectl flashjob edge bundle --server edge.example:8043 --out ./bundle")]
    Bundle(BundleArgs),
    /// List EdgeDeployments and EdgeWorkloads: whether devices can run them, and how many do
    #[command(
        visible_alias = "workload",
        after_help = "\
Examples:
  kubectl flashjob edge workloads
  kubectl flashjob edge workloads -l app=web -o wide
  kubectl flashjob edge workloads --watch"
    )]
    Workloads(ListArgs),
    /// Show how far a workload is, and each device that lags, with its reason
    #[command(after_help = "\
With --wait it ends when every device runs the workload (0), when no device can be sent it, or when all that is left are devices \
where it has failed (3), and after --timeout (4).

Examples:
  kubectl flashjob edge status web
  kubectl flashjob edge status factory/web --wait --timeout 5m")]
    Status(StatusArgs),
    /// Show what applying a file would do: which devices would run what, and what would be wrong
    #[command(after_help = "\
The file may have several documents: EdgeDeployments, EdgeWorkloads, EdgeDeviceSets and EdgeDeviceGroups, and Secrets and \
ConfigMaps that these name. Each is taken as the file has it, as `kubectl replace` does. Nothing is changed. Exit code 3: \
something is refused or missing, or two containers want one port of a device.

Examples:
  kubectl flashjob edge plan -f web.yaml
  kustomize build . | kubectl flashjob edge plan -f - -o json")]
    Plan(PlanArgs),
    /// Show what a device would be told, without passwords
    #[command(after_help = "\
It is made here, from what you may read, by the code that the operator runs. What you may not read is shown as <not readable>, \
or left out with a word about it.

Examples:
  kubectl flashjob edge render edge1
  kubectl flashjob edge render factory/edge1 -o json")]
    Render(RenderArgs),
    /// Look whether everything is there that Edge needs
    #[command(after_help = "\
Examples:
  kubectl flashjob edge check
  kubectl flashjob edge check -n factory")]
    Check(Home),
    /// Say how a device or a workload is, why, and what to do
    #[command(after_help = "\
Where a device and a workload have one name, write device/NAME or workload/NAME.

Examples:
  kubectl flashjob edge explain edge1
  kubectl flashjob edge explain factory/edge1
  kubectl flashjob edge explain workload/web")]
    Explain(ExplainArgs),
}

/// Where the operator is.
#[derive(Debug, Clone, Args)]
pub struct Home {
    /// The namespace of flotta-edge-api and of its Secrets
    #[arg(long, value_name = "NAME", default_value = "flotta")]
    pub operator_namespace: String,
}

/// Which of them, and how.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Those with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Look in all namespaces, as it does without -n, too
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// How to print them; `name` prints namespace/name
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Go on and print each that changes
    #[arg(short, long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub struct DevicesArgs {
    #[command(flatten)]
    pub list: ListArgs,
    #[command(flatten)]
    pub home: Home,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The EdgeDeployment or EdgeWorkload, by name or namespace/name
    pub workload: String,
    /// Follow it until every device runs it
    #[arg(long)]
    pub wait: bool,
    /// Give up waiting after this long: seconds, or 90s, 5m, 1h. Devices go on
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// What would be applied; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub filename: PathBuf,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

#[derive(Debug, Args)]
pub struct RenderArgs {
    /// The device, by name or namespace/name
    pub device: String,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Document::Yaml)]
    pub output: Document,
    #[command(flatten)]
    pub home: Home,
}

#[derive(Debug, Args)]
pub struct AnswerArgs {
    #[command(flatten)]
    pub which: Which,
    /// Really all of them
    #[arg(short, long)]
    pub yes: bool,
}

/// Which requests.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// The devices, by name or namespace/name of their request
    #[arg(value_name = "DEVICE")]
    pub request: Vec<String>,
    /// Those whose EdgeDeviceSignedRequest has these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// All that wait for an answer; asks, or needs --yes
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct ResetArgs {
    /// The device, by name or namespace/name
    pub device: String,
    /// Have the key that is in use refused at once. For a key that was stolen
    #[arg(long)]
    pub forget_key: bool,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The devices, by name or namespace/name
    #[arg(required = true)]
    pub device: Vec<String>,
    /// Also refuse them, so that none comes back by itself
    #[arg(long)]
    pub decline: bool,
    /// Really have them remove all they run
    #[arg(short, long)]
    pub yes: bool,
    /// Where requests for approval are [default: the first of --edge-namespaces, where that may be seen, else default]
    #[arg(long, value_name = "NAME", requires = "decline")]
    pub request_namespace: Option<String>,
    #[command(flatten)]
    pub home: Home,
    #[command(flatten)]
    pub patience: Patience,
}

/// How long to wait for the operator.
#[derive(Debug, Clone, Copy, Args)]
pub struct Patience {
    /// Give up waiting for the operator after this long: seconds, or 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub enum CaCommand {
    /// Show the CA, the certificates it has signed, and who depends on it
    #[command(after_help = "Examples:\n  kubectl flashjob edge ca status")]
    Status {
        #[command(flatten)]
        home: Home,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Make a new CA. The one before it stays trusted until it is retired, and no device notices
    #[command(after_help = "Examples:\n  kubectl flashjob edge ca rotate")]
    Rotate(ChangeArgs),
    /// Trust the CA before this one no more. Refused while a device depends on it
    #[command(after_help = "\
Bundles with a certificate of that CA are dead from then on: put a new one into your images first.

Examples:
  kubectl flashjob edge ca retire")]
    Retire {
        #[command(flatten)]
        change: ChangeArgs,
        /// Images have a new bundle
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    pub home: Home,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub struct BundleArgs {
    /// Where devices reach the server
    #[arg(long, value_name = "HOST:PORT")]
    pub server: String,
    /// The folder to write to; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Write over what is there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub home: Home,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The device or the workload, by name or namespace/name; also device/NAME, workload/NAME
    pub subject: String,
    #[command(flatten)]
    pub home: Home,
}
