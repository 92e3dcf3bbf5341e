//! Flags of the process, whichever systems it runs.

use std::net::SocketAddr;

use clap::{ArgAction, Args, ValueEnum};

#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct ProcessOptions {
    /// Take turns with other replicas: only the holder of the lease works. Switch it off only where a single process
    /// ever runs
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = ArgAction::Set, value_name = "BOOL")]
    pub leader_elect: bool,

    /// Where metrics are served over plain HTTP, such as :8080; 0 switches them off
    #[arg(long, default_value = "0", value_name = "ADDRESS", value_parser = address)]
    pub metrics_bind_address: Bind,

    /// Where /healthz and /readyz are served; 0 switches them off
    #[arg(long, default_value = ":8081", value_name = "ADDRESS", value_parser = address)]
    pub health_probe_bind_address: Bind,

    /// Look after the objects of this namespace only; empty for all
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    pub namespace: String,

    /// How many writes to the API server may be under way at once
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_writes: u16,

    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    #[arg(
        long,
        env = "RUST_LOG",
        value_name = "FILTER",
        help = "Which log lines are written, such as debug or \
          flashjob_operator=debug,kube=info [default: info]"
    )]
    pub log: Option<String>,

    /// The same in the words of Flotta; the flag comes first
    #[arg(long, env = "LOG_LEVEL", hide = true)]
    pub log_level: Option<String>,

    /// The name this process holds the lease under
    #[arg(long, env = "HOSTNAME", default_value = "flashjob-operator", hide = true)]
    pub identity: String,

    /// How long a watch is trusted to have left nothing out
    #[arg(long, alias = "list-anew-seconds", default_value_t = 300, hide = true, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub resync_seconds: u64,

    /// Dies at this write: before:N or after:N
    #[cfg(feature = "crash")]
    #[arg(long, hide = true, value_name = "POINT")]
    pub crash_at: Option<super::crash::CrashPoint>,
}

impl ProcessOptions {
    pub fn log_filter(&self) -> &str {
        let given = [&self.log, &self.log_level].into_iter().flatten();
        given.map(|text| text.trim()).find(|text| !text.is_empty()).unwrap_or("info")
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Where a server listens, if it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bind(pub Option<SocketAddr>);

/// `:8080` means every address, as Go programs read it; `0` means no server.
pub fn address(text: &str) -> Result<Bind, String> {
    if text == "0" || text.is_empty() {
        return Ok(Bind(None));
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse()
        .map(|address| Bind(Some(address)))
        .map_err(|_| "expected :port, ip:port, or 0 for none".to_owned())
}
