//! The command line as a whole: how the cluster is reached, and the commands of each system, as people type them. Also the
//! environment, which is read here and nowhere else.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod values;

pub use values::{amount, duration, seconds};

use crate::edge::args::EdgeCommand;
use crate::flashjob::args::FlashjobCommand;

/// Exit codes, the same for all commands.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    it could not be done: the message says what was tried and what to do
  2    the command line is wrong, or a flag is missing and nobody can be asked
  3    the rollout has ended and not every device is done; check, edge plan: something has to be mended
  4    --timeout ran out; what was begun goes on
  130  interrupted; a rollout goes on";

/// Choose devices, roll firmware out to them, and watch.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl flashjob",
    bin_name = "kubectl flashjob",
    version,
    disable_help_subcommand = true,
    after_help = EXIT_CODES,
    after_long_help = EXIT_CODES,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(flatten)]
    pub connection: Connection,
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of each system, and completion of all of them.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Flashjob(FlashjobCommand),
    /// Let Linux devices in, look after them, what they run, and their certificates
    #[command(
        subcommand,
        after_help = "\
Examples:
  kubectl flashjob edge devices
  kubectl flashjob edge approve edge2
  kubectl flashjob edge status web --wait
  kubectl flashjob edge explain edge1"
    )]
    Edge(EdgeCommand),
    /// Write a completion script for a shell
    #[command(after_help = "\
The script completes `kubectl-flashjob`. For `kubectl flashjob`, put kubectl_complete-flashjob on the PATH as well, as `make \
cli-install` does; kubectl 1.26 and later asks it.

Examples:
  source <(kubectl flashjob completion bash)
  kubectl flashjob completion fish >~/.config/fish/completions/kubectl-flashjob.fish")]
    Completion {
        /// Which shell
        shell: CompletionShell,
    },
    /// What kubectl asks for the words that may come next
    #[command(name = "__complete", hide = true)]
    Complete {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

/// How the cluster is reached, as with kubectl.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster, as with kubectl")]
pub struct Connection {
    /// The namespace; where devices are chosen, the only one to look in
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The kubeconfig file, instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The cluster of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// The user of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Act as this user
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,
    /// Act as a member of this group; may be given several times
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub as_group: Vec<String>,
}

/// What the terminal is like, as far as the environment says.
pub struct TerminalEnv {
    /// The user wants no colours: NO_COLOR is set.
    pub plain: bool,
    /// The cursor cannot be moved.
    pub dumb: bool,
}

impl TerminalEnv {
    #[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
    pub fn read() -> TerminalEnv {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        TerminalEnv {
            plain: set("NO_COLOR").is_some(),
            dumb: set("TERM").is_some_and(|term| term == "dumb"),
        }
    }
}

#[cfg(test)]
mod tests;
