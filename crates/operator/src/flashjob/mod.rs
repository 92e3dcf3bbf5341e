//! FlashJob: the shell around `flashjob_plan::flashjob::decide`.
//!
//! ```text
//!   watches ──▶ observe ──▶ controller: index + ledgers ──▶ plan::decide ──▶ act
//!                              ▲                                              │
//!                              └── answer ◀── engine: pool, read, write ◀─────┘
//! ```

mod act;
mod answer;
pub mod args;
mod controller;
mod crds;
mod foreign;
mod input;
mod job;
mod ledger_cache;
mod metrics;
mod observe;
mod orphans;
mod parking;
mod refusal;
mod slim;
mod watch_events;
mod watches;

use flashjob_plan::flashjob::Settings;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::sync::watch::Receiver;

use crate::process::crds::Needed;
use crate::process::metrics::Part;
use crate::process::{self, System};
use args::FlashJobOptions;
use controller::FlashJobContext;
use metrics::FlashJobMetrics;

/// FlashJob as the process runs it.
pub fn system(options: &FlashJobOptions) -> Box<dyn System> {
    #[cfg(feature = "crash")]
    if let Some(version) = options.panic_at_version.clone() {
        let _ = controller::PANIC_AT_VERSION.set(version);
    }
    Box::new(FlashJobs { settings: options.settings(), metrics: FlashJobMetrics::default() })
}

struct FlashJobs {
    settings: Settings,
    metrics: FlashJobMetrics,
}

impl System for FlashJobs {
    fn name(&self) -> &'static str {
        "flashjob"
    }

    fn lease(&self) -> &'static str {
        "338c7440.flashjob.nbfc.io"
    }

    fn needs(&self) -> &'static [Needed] {
        &[crds::FLASHJOBS, crds::INSTANCES]
    }

    fn register(&self, part: &mut Part<'_>) {
        self.metrics.register(part);
    }

    fn run(
        self: Box<Self>,
        process: process::Context,
        stop: Receiver<bool>,
    ) -> LocalBoxFuture<'static, anyhow::Result<()>> {
        let FlashJobs { settings, metrics } = *self;
        controller::run(FlashJobContext { process, settings, metrics }, stop).boxed_local()
    }
}
