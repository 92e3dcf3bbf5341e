//! Our agent: one loop that heeds what it is told, stays away when it is refused, and renews its certificate.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep, sleep_until};

use super::back_off::BackOff;
use super::life::RETRY;
use super::{Device, Identity};
use crate::edge::client::Answer;

/// What comes after a round.
enum Next {
    /// All is well.
    Poll,
    /// It has a new certificate to try.
    AtOnce,
    /// It waits to be let in.
    Knock,
    /// It was refused, and may have been told for how long.
    StayAway(Option<Duration>),
}

struct Agent<'a> {
    device: &'a Device,
    back_off: BackOff,
    next_poll: Instant,
    last_beat: Instant,
    /// It has said that it is there, since it has had its certificate.
    greeted: bool,
    /// It has a certificate that it has not had success with yet.
    hurried: bool,
}

pub(super) async fn live(device: &Device) {
    let (now, seed) = (Instant::now(), device.options().seed);
    let back_off = BackOff::new(seed.rotate_left(32));
    let mut agent =
        Agent { device, back_off, next_poll: now, last_beat: now, greeted: false, hurried: false };
    loop {
        device.joined().await;
        let next = agent.round().await;
        agent.wait(next).await;
    }
}

impl Agent<'_> {
    async fn wait(&mut self, next: Next) {
        let options = self.device.options();
        match next {
            Next::Poll => {
                self.hurried = false;
                self.back_off.reset();
                let beat = self.device.next_beat(self.last_beat).unwrap_or(self.next_poll);
                sleep_until(beat.min(self.next_poll)).await;
            }
            Next::AtOnce if !self.hurried => {
                (self.hurried, self.next_poll) = (true, Instant::now());
            }
            // Certificate after certificate, and none is of use.
            Next::AtOnce => {
                sleep(options.scaled(self.back_off.next(None))).await;
                self.next_poll = Instant::now();
            }
            Next::Knock => {
                self.back_off.reset();
                self.device.sleep(RETRY).await;
                self.next_poll = Instant::now();
            }
            Next::StayAway(asked) => {
                sleep(options.scaled(self.back_off.next(asked))).await;
                self.next_poll = Instant::now();
            }
        }
    }

    async fn round(&mut self) -> Next {
        let device = self.device;
        if device.must_register() {
            self.greeted = false;
            return self.knock().await;
        }
        let mut seen = Seen::default();
        if !self.greeted {
            self.greeted = seen.see(&device.say_connection_status().await);
        }
        if self.next_poll <= Instant::now() {
            // Before all else: who is to disconnect may do nothing else until it has fetched that.
            seen.see(&device.fetch_commands().await);
            if device.has_left() {
                return Next::Poll;
            }
            seen.see(&device.fetch_configuration().await);
            self.next_poll = Instant::now() + device.options().poll;
        }
        if device.next_beat(self.last_beat).is_some_and(|due| due <= Instant::now()) {
            self.last_beat = Instant::now();
            seen.see(&device.heartbeat().await);
        }
        if seen.unauthorised || device.renewal_is_due() {
            return self.renew().await;
        }
        if seen.unknown {
            return self.knock().await;
        }
        seen.trouble.map_or(Next::Poll, Next::StayAway)
    }

    /// Enrols, and registers when it is let in. The server may know nothing of the device's own certificate any more.
    async fn knock(&self) -> Next {
        let mut identity = Identity::Current;
        let mut answer = self.device.enrol().await;
        if self.device.credential().is_some() && has_code(&answer, 401) {
            identity = Identity::Registration;
            answer = self.device.with(identity.clone()).enrol().await;
        }
        match answer.as_ref().map(Answer::code) {
            Ok(200) => Next::Knock,
            Ok(208) => after(&self.device.with(identity).register().await),
            _ => after(&answer),
        }
    }

    /// A key that was replaced cannot renew itself. The certificate for registration can, once somebody has reset the device.
    async fn renew(&self) -> Next {
        let answer = self.device.renew().await;
        match answer.as_ref().map(Answer::code) {
            Ok(401) => after(&self.device.with(Identity::Registration).register().await),
            Ok(404) => self.knock().await,
            _ => after(&answer),
        }
    }
}

/// What a round has met.
#[derive(Default)]
struct Seen {
    unauthorised: bool,
    unknown: bool,
    trouble: Option<Option<Duration>>,
}

impl Seen {
    /// Whether it was a success.
    fn see(&mut self, answer: &Result<Answer>) -> bool {
        match answer.as_ref().map(Answer::code) {
            Ok(401) => self.unauthorised = true,
            Ok(404) => self.unknown = true,
            Ok(200 | 304) => return true,
            _ => self.trouble = Some(retry_after(answer)),
        }
        false
    }
}

/// After it has asked for a certificate.
fn after(answer: &Result<Answer>) -> Next {
    match answer.as_ref().map(Answer::code) {
        Ok(200) => Next::AtOnce,
        Ok(404) => Next::Knock,
        _ => Next::StayAway(retry_after(answer)),
    }
}

fn has_code(answer: &Result<Answer>, code: u16) -> bool {
    answer.as_ref().is_ok_and(|answer| answer.code() == code)
}

fn retry_after(answer: &Result<Answer>) -> Option<Duration> {
    answer.as_ref().ok()?.retry_after()
}
