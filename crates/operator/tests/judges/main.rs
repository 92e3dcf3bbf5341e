//! The judges of `make chaos` can say no. They are compiled once more here: `chaos` has arguments of its own, so its
//! modules cannot have unit tests.

#[allow(dead_code, reason = "what the world alone uses")]
#[path = "../chaos/tenants/judge.rs"]
mod judge;
#[allow(dead_code, reason = "what the world alone uses")]
#[path = "../chaos/tenants/plot.rs"]
mod plot;
mod tenants;
