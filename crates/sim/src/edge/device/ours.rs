//! Our agent: one loop that heeds what it is told, stays away when it is refused, and renews its certificate.
//!
//! As long as all is well, the question for its configuration is always on its way: the server holds it until there is something
//! new. After each answer it asks for its commands. Meanwhile it beats.

use std::time::Duration;

use anyhow::Result;
use futures::future::pending;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::back_off::BackOff;
use super::life::RETRY;
use super::{Device, Identity};
use crate::edge::client::Answer;

/// What comes after a round.
enum Next {
    /// All is well.
    Listen,
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
    /// When it may ask for its configuration again.
    next_poll: Instant,
    /// That question. It goes on whatever the agent does meanwhile.
    asking: JoinSet<Result<Answer>>,
    answer: Option<Result<Answer>>,
    /// Of the last configuration it was sent.
    etag: Option<String>,
    last_beat: Instant,
    /// It has said that it is there, since it has had its certificate.
    greeted: bool,
    /// It has a certificate that it has not had success with yet.
    hurried: bool,
}

pub(super) async fn live(device: &Device) {
    let (now, seed) = (Instant::now(), device.options().seed);
    let back_off = BackOff::new(seed.rotate_left(32));
    let mut agent = Agent {
        device,
        back_off,
        next_poll: now,
        asking: JoinSet::new(),
        answer: None,
        etag: None,
        last_beat: now,
        greeted: false,
        hurried: false,
    };
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
            Next::Listen if self.device.has_left() => self.asking.shutdown().await,
            Next::Listen => self.listen().await,
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

    /// Until it is told something, or has something to say.
    async fn listen(&mut self) {
        let beat = self.device.next_beat(self.last_beat);
        let beat = async {
            match beat {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            }
        };
        if self.asking.is_empty() {
            let (device, from) = (self.device.clone(), self.next_poll);
            self.asking.spawn(async move {
                sleep_until(from).await;
                device.await_configuration().await
            });
        }
        let answer = tokio::select! {
            Some(answer) = self.asking.join_next() => answer.unwrap_or_else(|error| Err(error.into())),
            () = beat => return,
        };
        self.next_poll = Instant::now();
        if !self.is_worth_asking_again(&answer) {
            self.next_poll += self.device.options().poll;
        }
        self.answer = Some(answer);
    }

    /// Whether the server holds answers, or has just sent something new. Else it is polled.
    fn is_worth_asking_again(&mut self, answer: &Result<Answer>) -> bool {
        let Ok(answer) = answer else { return false };
        let etag = answer.etag().map(str::to_owned);
        let is_new = answer.code() == 200 && etag.is_some() && etag != self.etag;
        if is_new {
            self.etag = etag;
        }
        is_new || answer.was_held()
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
        let mut answer = self.answer.take();
        if answer.is_none() && self.asking.is_empty() && self.next_poll <= Instant::now() {
            // At first, after trouble and with a new certificate it has to know at once.
            answer = Some(device.fetch_configuration().await);
        }
        if let Some(answer) = &answer {
            seen.see(answer);
        }
        let beats = device.next_beat(self.last_beat).is_some_and(|due| due <= Instant::now());
        if beats {
            self.last_beat = Instant::now();
            seen.see(&device.heartbeat().await);
        }
        if answer.as_ref().is_some_and(Result::is_ok) || seen.unknown {
            // Who is to disconnect is let do nothing else until it has fetched that.
            seen.see(&device.fetch_commands().await);
            if device.has_left() {
                return Next::Listen;
            }
        }
        // Once in each round that has asked something, so that a server that does not renew is asked other things, too.
        let asked = beats || answer.is_some();
        if seen.unauthorised || asked && device.renewal_is_due() {
            return self.renew().await;
        }
        if seen.unknown {
            return self.knock().await;
        }
        if asked && seen.trouble.is_none() {
            self.hurried = false;
            self.back_off.reset();
        }
        seen.trouble.map_or(Next::Listen, Next::StayAway)
    }

    /// Enrols, and registers when it is let in. The server may know nothing of the device's own certificate any more.
    async fn knock(&mut self) -> Next {
        self.asking.shutdown().await;
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
    async fn renew(&mut self) -> Next {
        // With the certificate that is about to be replaced.
        self.asking.shutdown().await;
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
