//! A panic in the reconcile of one object is that object's own failure: it is told there, and stops nobody else.
//!
//! `decide` is meant to be total. Should it not be, one object in one namespace would otherwise end the operator for all,
//! and again after each restart.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use flashjob_plan::time::after;
use futures::FutureExt;
use jiff::Timestamp;

#[cfg(not(panic = "unwind"))]
compile_error!("a panic that aborts the process cannot be told on one object");

/// The pause after the first panic; each further one doubles it.
const FIRST_PAUSE_SECONDS: i64 = 30;
/// The longest pause: a decision that panics costs next to nothing, but may do so for ever.
const LONGEST_PAUSE_SECONDS: i64 = 3600;

thread_local! {
    /// Where the last panic of this thread was.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The panics that the reconciles of one object have ended in, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What the last one said, and where it was.
    pub message: String,
    /// Not again before this, unless the spec has changed.
    pub again: Timestamp,
    generation: i64,
    times: u32,
}

impl Fault {
    /// A reconcile has panicked, at this generation of the spec; `before` is what there was.
    fn new(before: Option<&Fault>, message: String, generation: i64, now: Timestamp) -> Fault {
        let times = before.filter(|f| f.generation == generation).map_or(0, |f| f.times);
        let pause = (FIRST_PAUSE_SECONDS << times.min(10)).min(LONGEST_PAUSE_SECONDS);
        Fault { message, again: after(now, pause), generation, times: times.saturating_add(1) }
    }

    /// Whether the object is left alone for now.
    fn holds(&self, generation: i64, now: Timestamp) -> bool {
        self.generation == generation && now < self.again
    }
}

/// Does `work` for an object at this generation of its spec, unless that is left alone after a panic. `Err`: it is, or this
/// has panicked, too.
pub fn guarded<T>(
    before: Option<&Fault>,
    generation: i64,
    now: Timestamp,
    work: impl FnOnce() -> T,
) -> Result<T, Fault> {
    if let Some(fault) = before.filter(|fault| fault.holds(generation, now)) {
        return Err(fault.clone());
    }
    caught(work).map_err(|message| Fault::new(before, message, generation, now))
}

/// Does it; a panic is an error, with its message and its place.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    note_places();
    // What it decides on is only read.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| said(panic.as_ref()))
}

/// Awaits it; a panic is an error, with its message and its place.
pub async fn caught_in<T>(work: impl Future<Output = T>) -> Result<T, String> {
    note_places();
    // The poll that panicked was the last, so this is still the thread it was on.
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| said(panic.as_ref()))
}

fn note_places() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            PLACE.with_borrow_mut(|last| *last = place);
            before(info);
        }));
    });
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
    format!("{text} at {}", PLACE.with_borrow_mut(std::mem::take))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_has_its_words_and_its_place() {
        assert_eq!(caught(|| 1), Ok(1));
        let said = caught(|| panic!("{} boards", 7)).unwrap_err();
        assert!(said.starts_with("7 boards at ") && said.contains("panics.rs:"), "{said}");
    }

    #[test]
    fn it_is_tried_again_after_a_growing_pause_and_at_once_for_another_spec() {
        let now = Timestamp::UNIX_EPOCH;
        let mut fault = Fault::new(None, "a".into(), 1, now);
        let mut last = now;
        for _ in 0..20 {
            assert!(fault.holds(1, now) && !fault.holds(2, now) && !fault.holds(1, fault.again));
            assert!(fault.again >= last);
            last = fault.again;
            fault = Fault::new(Some(&fault), "a".into(), 1, now);
        }
        assert_eq!(last.as_second(), 3600);
        assert_eq!(Fault::new(Some(&fault), "a".into(), 2, now).again.as_second(), 30);
    }
}
