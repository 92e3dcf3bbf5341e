//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whoever panicked with the lock has failed its own test, and does not take it from the others.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
