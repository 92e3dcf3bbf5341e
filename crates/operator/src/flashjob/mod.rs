//! The FlashJob controller: the shell around `flashjob_plan::flashjob::decide`.
//!
//! ```text
//!   watch ──▶ observe ──▶ engine: index + ledgers ──▶ plan::decide ──▶ act ──▶ pool ──▶ write
//!     ▲                      ▲                                                            │
//!     └── API server ◀───────┼────────────────────────────────────────────────────────────┘
//!                            └── every answer comes back as an input
//! ```
//!
//! One task, the engine, owns all state and never waits for the API server: it takes inputs (what a watch saw, what a
//! write came to), looks again at the jobs they touch, and hands writes to a bounded pool,
//! where namespaces take turns.

mod act;
mod answer;
mod engine;
mod fault;
mod foreign;
mod index;
mod job;
mod ledger;
mod observe;
mod orphans;
mod parking;
mod pool;
mod read;
mod refusal;
mod sights;
mod slim;
mod status;
mod turns;
mod watch;
mod write;

pub use engine::{Context, run};
