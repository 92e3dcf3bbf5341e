//! Edge among crowds: hundreds of devices, thousands of clients that mean harm. Each of these takes all that a small machine has,
//! so they are a program of their own and wait for each other.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may stop at once and say why

mod hostile;
mod idle;
mod loss;
mod loss_workloads;

use tokio::sync::{Mutex, MutexGuard};

/// Held for as long as one of them is at work.
async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}
