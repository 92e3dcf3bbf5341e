//! The pure core: [`decide`] takes a [`View`] of one job and says in a [`Plan`] what to do.
//!
//! ```text
//!   watches, ledger ──observe──▶ View ──decide──▶ Plan ──act──▶ API server
//! ```
//!
//! Nothing here waits, reads a clock, an environment or a random number, or talks to anybody. The same view at the same
//! time gives the same plan, so every rule about flashing can be read and tested here. Time is an argument; what must
//! survive a crash is in the [`ledger`]; the job's status is an output and never an input.

mod access;
pub mod addresses;
mod addressing;
pub mod allow_list;
pub mod children;
mod clean_up;
mod collect;
pub mod concerns;
mod decide;
mod deletion;
mod duplicates;
mod edits;
mod end;
pub mod endpoint;
pub mod facts;
mod finding;
mod flashing;
pub mod ids;
mod in_use;
pub mod index;
pub mod instances;
pub mod ledger;
pub mod locks;
pub mod names;
mod plan;
mod pod;
mod prepare;
pub mod preview;
mod reduced;
mod results;
mod rollout;
mod round;
pub mod selector;
mod service;
pub mod spec;
mod status;
mod step;
mod summary;
mod survey;
mod template;
mod waiting;

pub use decide::{decide, internal_error};
pub use facts::{Job, LedgerState, Settings, View};
pub use in_use::locks_held;
pub use plan::{AttemptEnd, Deletion, Kind, LedgerPlan, NewObject, Plan};
pub use reduced::{reduced, shown_message};
pub use service::owner;
