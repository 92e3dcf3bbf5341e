//! Edge: Linux devices that register over mutual TLS, fetch what they shall run and report how it goes.
//!
//! ```text
//!   devices ──▶ server ──▶ device_api ──▶ plan: request::decide ──▶ an answer
//!                              │                                       ▲
//!                              └── what has to be written first ──▶ controller ──▶ act ──▶ API server
//!                                                                      ▲                      │
//!   Secrets ──▶ certificates                    watches ──▶ observe ───┴────── shared ◀───────┘
//! ```
//!
//! `server` and `device_api` run on a thread of their own and read what the controller knows (`shared`). The controller alone
//! writes: EdgeDevices and requests for approval (`act`), tombstones (`tombstones`); `certificates` looks after its Secrets.

mod act;
pub mod args;
mod beats;
mod certificates;
mod claims;
mod config_map;
mod controller;
mod crds;
mod device_api;
mod events;
mod input;
mod metrics;
mod observe;
mod peer;
mod roll;
mod route;
mod served;
mod server;
mod serving;
mod serving_label;
mod shared;
mod slim;
mod sources;
mod start;
mod tombstones;
mod waiting;
mod watches;
mod workload_crds;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::sync::watch::Receiver;

use crate::process::crds::Needed;
use crate::process::metrics::Part;
use crate::process::{self, System};
use args::EdgeOptions;
use metrics::EdgeMetrics;
use serving_label::ServingLabel;

/// Edge as the process runs it.
pub fn system(options: &EdgeOptions) -> Box<dyn System> {
    Box::new(Edge { options: options.clone(), metrics: EdgeMetrics::default() })
}

struct Edge {
    options: EdgeOptions,
    metrics: EdgeMetrics,
}

impl Edge {
    fn label(&self) -> ServingLabel {
        ServingLabel(self.options.pod_name.clone())
    }
}

impl System for Edge {
    fn name(&self) -> &'static str {
        "edge"
    }

    fn lease(&self) -> &'static str {
        "b9eebab3.project-flotta.io"
    }

    fn needs(&self) -> &'static [Needed] {
        &crds::ALL
    }

    fn register(&self, part: &mut Part<'_>) {
        self.metrics.register(part);
    }

    fn register_original(&self, registry: &mut Registry) {
        self.metrics.register_original(registry);
    }

    fn stand_by(&self, client: Client) -> LocalBoxFuture<'static, ()> {
        let label = self.label();
        async move { label.set(&client, false).await }.boxed_local()
    }

    fn run(
        self: Box<Self>,
        process: process::Context,
        stop: Receiver<bool>,
    ) -> LocalBoxFuture<'static, anyhow::Result<()>> {
        let label = self.label();
        start::run(process, self.options, self.metrics, label, stop).boxed_local()
    }
}
