//! Arguments of `server-cert`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum ServerCertCommand {
    /// Make a certificate for boards to pin and one that it has signed, and put the second into the Secret
    #[command(after_help = "\
DIR gets pinned.crt, which goes into the firmware of your boards, and pinned.key, which belongs in a safe place: whoever has \
it can flash them. Keys are P-256. For RSA make them with openssl and say `import`.

Examples:
  kubectl flashjob server-cert create --dir ./pinned -n site-a")]
    Create {
        /// Where pinned.crt and pinned.key are written; files that are there are not touched
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        #[command(flatten)]
        leaf: Leaf,
    },
    /// Put a certificate and key of yours into the Secret
    #[command(after_help = "\
Examples:
  kubectl flashjob server-cert import --cert server.crt --key server.key -n site-a")]
    Import {
        /// The certificate, and after it those it chains to, as PEM
        #[arg(long, value_name = "FILE")]
        cert: PathBuf,
        /// Its private key, as PEM
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Sign a new certificate with the pinned one; no board has to be flashed for it
    #[command(after_help = "\
Examples:
  kubectl flashjob server-cert renew --dir ./pinned -n site-a")]
    Renew {
        /// Where pinned.crt and pinned.key are
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        #[command(flatten)]
        leaf: Leaf,
    },
}

#[derive(Debug, Clone, Copy, Args)]
pub struct Leaf {
    /// For how many days the flasher's certificate is good. Boards do not look, other tools do
    #[arg(long, default_value_t = 365, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=7300))]
    pub days: u32,
}
