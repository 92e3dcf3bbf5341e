//! What lies between a device and the server: a net that loses, delays, cuts and repeats.
//!
//! What becomes of a device's n-th heartbeat follows from the seed alone, whatever else it sends meanwhile and in whatever
//! order, so that a run can be had again. The decisions can; what a server makes of a connection that is cut cannot.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{sleep, timeout};

use super::client::{Answer, Call, Client};
use super::credential::Credential;
use super::operation::Operation;
use crate::{SeededRng, lock};

/// From sending to the cut: about as long as it takes to write a request.
const CUT_AFTER: Duration = Duration::from_millis(5);
const PER_MILLE: usize = 1000;

/// How bad it is. Of a thousand requests so many meet each fate, and the rest arrives; together they are 1000 at most. The
/// default is a net that does nothing wrong.
#[derive(Debug, Clone)]
pub struct WireOptions {
    /// Never sent.
    pub lose_requests: u16,
    /// Sent, and the answer is thrown away.
    pub lose_answers: u16,
    /// The connection is dropped right after the request was written.
    pub cut: u16,
    /// Sent twice, and the second answer counts.
    pub repeat: u16,
    /// Each request is late by up to so much.
    pub delay: Duration,
    /// How long a device waits in vain, where it would in the field until its deadline is over.
    pub wait: Duration,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            lose_requests: 0,
            lose_answers: 0,
            cut: 0,
            repeat: 0,
            delay: Duration::ZERO,
            wait: Duration::from_millis(50),
        }
    }
}

impl WireOptions {
    /// Nothing gets through.
    pub fn unplugged() -> Self {
        Self { lose_requests: 1000, ..Self::default() }
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    RequestLost,
    AnswerLost,
    Cut,
    Repeated,
}

#[derive(Debug)]
pub struct Wire {
    options: Mutex<WireOptions>,
    /// One for each operation.
    dice: Mutex<[SeededRng; Operation::ALL.len()]>,
}

impl Wire {
    pub fn new(options: WireOptions, seed: u64) -> Self {
        let mut seeds = SeededRng::new(seed);
        let dice = Operation::ALL.map(|_| SeededRng::new(seeds.next()));
        Self { options: Mutex::new(options), dice: Mutex::new(dice) }
    }

    /// Nothing goes wrong.
    pub fn perfect() -> Self {
        Self::new(WireOptions::default(), 0)
    }

    /// From now on it is like this. The decisions go on where they were.
    pub fn set(&self, options: WireOptions) {
        *lock(&self.options) = options;
    }

    /// Decides about the next request of this kind: its fate, and how late it is.
    pub fn decide(&self, operation: Operation) -> (Fate, Duration) {
        let options = lock(&self.options);
        let mut dice = lock(&self.dice);
        let dice = &mut dice[operation as usize];
        // Always two throws: how bad the net is does not change what is thrown next.
        let (thrown, late) = (dice.below(PER_MILLE), dice.below(PER_MILLE));
        let fates = [
            (options.lose_requests, Fate::RequestLost),
            (options.lose_answers, Fate::AnswerLost),
            (options.cut, Fate::Cut),
            (options.repeat, Fate::Repeated),
        ];
        let mut below = 0;
        let met = fates.into_iter().find(|(share, _)| {
            below += usize::from(*share);
            thrown < below
        });
        let late = options.delay.mul_f64(late as f64 / PER_MILLE as f64);
        (met.map_or(Fate::Arrives, |(_, fate)| fate), late)
    }

    /// Sends a request over it.
    pub async fn carry(
        &self,
        operation: Operation,
        client: &Client,
        credential: &Arc<Credential>,
        call: &Call,
        deadline: Duration,
    ) -> Result<Answer> {
        let (fate, late) = self.decide(operation);
        if !late.is_zero() {
            sleep(late).await;
        }
        let send = || client.send(credential, call, deadline);
        match fate {
            Fate::Arrives => send().await,
            Fate::Repeated => {
                let _ = send().await;
                send().await
            }
            Fate::RequestLost => self.wait_in_vain("the request was lost").await,
            Fate::AnswerLost => {
                let _ = send().await;
                self.wait_in_vain("the answer was lost").await
            }
            Fate::Cut => {
                client.open(credential, deadline).await?;
                let _ = timeout(CUT_AFTER, send()).await;
                client.close().await;
                bail!("the connection was cut")
            }
        }
    }

    async fn wait_in_vain(&self, why: &str) -> Result<Answer> {
        let wait = lock(&self.options).wait;
        sleep(wait).await;
        bail!("no answer: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rough() -> WireOptions {
        WireOptions {
            lose_requests: 100,
            lose_answers: 50,
            cut: 20,
            repeat: 30,
            delay: Duration::from_millis(200),
            ..WireOptions::default()
        }
    }

    fn decisions(wire: &Wire, operation: Operation, count: usize) -> Vec<(Fate, Duration)> {
        (0..count).map(|_| wire.decide(operation)).collect()
    }

    #[test]
    fn a_seed_decides_whatever_else_is_sent_meanwhile() {
        let (alone, busy) = (Wire::new(rough(), 7), Wire::new(rough(), 7));
        let wanted = decisions(&alone, Operation::Heartbeat, 500);
        let among_others = (0..500).map(|n| {
            decisions(&busy, Operation::FetchConfiguration, n % 3);
            busy.decide(Operation::Heartbeat)
        });
        assert_eq!(among_others.collect::<Vec<_>>(), wanted);
        assert_ne!(decisions(&Wire::new(rough(), 8), Operation::Heartbeat, 500), wanted);
        assert_ne!(decisions(&Wire::new(rough(), 7), Operation::Enrol, 500), wanted);
    }

    #[test]
    fn each_fate_is_as_likely_as_it_says() {
        let all = decisions(&Wire::new(rough(), 1), Operation::Heartbeat, 20_000);
        let share = |fate| all.iter().filter(|(met, _)| *met == fate).count() / 20;
        assert!((90..110).contains(&share(Fate::RequestLost)), "{}", share(Fate::RequestLost));
        assert!((42..58).contains(&share(Fate::AnswerLost)), "{}", share(Fate::AnswerLost));
        assert!((15..25).contains(&share(Fate::Cut)), "{}", share(Fate::Cut));
        assert!((24..36).contains(&share(Fate::Repeated)), "{}", share(Fate::Repeated));
        let mean = all.iter().map(|(_, late)| *late).sum::<Duration>() / 20_000;
        assert!((95..105).contains(&mean.as_millis()), "{mean:?}");
    }

    #[test]
    fn a_perfect_wire_does_nothing_and_an_unplugged_one_carries_nothing() {
        let perfect = decisions(&Wire::perfect(), Operation::Register, 5_000);
        assert!(perfect.iter().all(|met| *met == (Fate::Arrives, Duration::ZERO)));
        let wire = Wire::perfect();
        wire.set(WireOptions::unplugged());
        let unplugged = decisions(&wire, Operation::Register, 5_000);
        assert!(unplugged.iter().all(|(fate, _)| *fate == Fate::RequestLost));
    }
}
