//! What devices say of themselves, and what the cluster is told of it.
//!
//! ```text
//!   heartbeat ──▶ report::Report ──┐
//!   status as it is ───────────────┼──▶ status::device_status ──▶ the whole status ──▶ changes::urgency ──▶ a write, or none
//!   what it is to have ────────────┤
//!   liveness::Liveness ──▶ Live ───┘
//!      ▲    └──▶ roll: last seen of 2,000 devices in a ConfigMap, every 5 minutes
//!      └── the roll, at the start
//!
//!   heartbeat ──▶ events::DeviceEvent ──▶ EventLimits        a status whose Ready turns ──▶ flips::Flips
//! ```
//!
//! A device says the same every minute, and there are many devices. So what matters here is what is not written.

mod before;
pub mod changes;
mod conditions;
pub mod events;
pub mod flips;
pub mod liveness;
pub mod report;
pub mod roll;
pub mod status;
mod text;

pub use before::told;

#[cfg(test)]
mod properties;
