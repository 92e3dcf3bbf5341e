//! What ends a Pod before it ends by itself.

use std::future::{Future, pending, ready};

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Whether a Pod is to be there. That it is gone is told by the end of the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Life {
    Wanted,
    Leaving,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// The Pod is being deleted.
    Leaving,
    /// `activeDeadlineSeconds` have passed.
    Deadline,
    /// There is no such Pod any more.
    Gone,
}

pub(super) struct Interrupts {
    pub(super) life: watch::Receiver<Life>,
    pub(super) deadline: Option<Instant>,
    /// It is being deleted, and that is known.
    pub(super) leaving: bool,
}

impl Interrupts {
    pub(super) async fn next(&mut self) -> Interrupt {
        let deadline = self.deadline;
        let expired = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        let known = self.leaving;
        let leaving = async {
            let leaving = self.life.wait_for(|life| *life == Life::Leaving && !known).await;
            leaving.is_ok()
        };
        tokio::select! {
            biased;
            leaving = leaving => if leaving { Interrupt::Leaving } else { Interrupt::Gone },
            () = expired => Interrupt::Deadline,
        }
    }

    /// Does the work, unless the Pod is interrupted first.
    pub(super) async fn unless<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Interrupt> {
        tokio::select! {
            biased;
            interrupt = self.next() => Err(interrupt),
            done = work => Ok(done),
        }
    }

    /// Whether the Pod is interrupted already.
    pub(super) async fn check(&mut self) -> Result<(), Interrupt> {
        self.unless(ready(())).await
    }
}
