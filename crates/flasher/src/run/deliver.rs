//! The middle of the story: from the open door to a device that runs the image, or a reason why not.

use std::net::Ipv4Addr;
use std::time::Duration;

use flashjob_api::flashjob::{Reason, Verify};
use tokio::fs::File;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Attempt, SESSIONS};
use crate::args::Input;
use crate::board::Asked;
use crate::dice::DiceCertificate;
use crate::event::Event;
use crate::failure::Failure;
use crate::fetch::Firmware;
use crate::info::Info;
use crate::outcome::Done;
use crate::serve::{Caller, Expected, Server};
use crate::transfer::Broken;
use crate::verify::Watch;

/// What came of opening the door.
pub(super) enum Open {
    /// This is the door, and this is what the device says now.
    For(Box<Server>, Option<Info>),
    /// The device is done already.
    NotNeeded(Done),
}

impl Attempt<'_> {
    /// Opens the door, and lets an earlier attempt end first if there may be one.
    pub(super) async fn open(
        &self,
        known: Option<DiceCertificate>,
        before: Option<Info>,
    ) -> Result<Open, Failure> {
        let expected = Expected { certificate: known, judge: self.judge.clone() };
        let (listen, tls) = (self.input.listen, self.tls.clone());
        let mut server = Server::open(listen, tls, expected, self.tell.clone())?;
        if self.input.attempt <= 1 {
            return Ok(Open::For(Box::new(server), before));
        }
        self.doing("listening for a device that an earlier attempt may have asked");
        (self.tell)(Event::ListeningFirst);
        if server.called(self.input.pace.callback()).await {
            return Ok(Open::For(Box::new(server), before));
        }
        // It may have been busy with what an earlier attempt has sent, and be done with it now.
        let now = self.first_look().await?;
        Ok(match self.nothing_to_do(now.as_ref()) {
            Some(done) => Open::NotNeeded(done),
            None => Open::For(Box::new(server), now),
        })
    }

    /// Sends the image until the device has it, and watches what it does with it.
    pub(super) async fn deliver(
        &self,
        address: Ipv4Addr,
        firmware: &Firmware,
        server: &mut Server,
        before: Option<&Info>,
    ) -> Result<Option<Info>, Failure> {
        let unreadable = |error: std::io::Error| {
            Failure::new(Reason::PullFailed, format!("the image cannot be read again: {error}"))
        };
        let mut image = File::open(firmware.file.path()).await.map_err(unreadable)?;
        let mut why = String::new();
        for session in 1..=SESSIONS {
            // Who is on the line already is at work: to ask again could spoil its slot.
            let caller = match server.waiting() {
                Some(caller) => caller,
                None => self.called(server, address).await?,
            };
            self.doing("sending the image");
            (self.tell)(Event::Connected(caller.peer));
            let sent = caller.send(&mut image, firmware.bytes, &self.tell).await;
            let decided = match sent {
                Ok(()) => return self.watch(before, true).await,
                // Nobody is to look, so nobody will know; and without a look it is not safe to ask again.
                Err(Broken::AtTheEnd(error)) if self.input.verify == Verify::None => {
                    return Err(Failure::new(Reason::TransferInterrupted, error));
                }
                Err(Broken::AtTheEnd(error)) => {
                    why = error;
                    self.watch(before, false).await
                }
                Err(Broken::Halfway(error)) => {
                    let interrupted = Failure::new(Reason::TransferInterrupted, &error);
                    why = error;
                    Err(interrupted)
                }
            };
            match decided {
                Ok(info) => return Ok(info),
                Err(failure) if matches!(failure.reason, Reason::NotBack | Reason::Timeout) => {
                    return Err(failure);
                }
                Err(_) => self.rest(session, &why).await,
            }
        }
        let message =
            format!("the image could not be sent in {SESSIONS} sessions; the last time {why}");
        Err(Failure::new(Reason::TransferInterrupted, message))
    }

    /// Gives the device time to notice that its session is over.
    async fn rest(&self, session: u32, why: &str) {
        if session < SESSIONS {
            (self.tell)(Event::Again(why.to_owned()));
            sleep(self.input.pace.before_asking_again()).await;
        }
    }

    /// Asks the device, once, and waits for its call.
    async fn called(&self, server: &mut Server, address: Ipv4Addr) -> Result<Caller, Failure> {
        self.doing("asking the device");
        // To fetch the firmware may have taken minutes, and another board may have the address by now.
        self.right_board(&self.board.probe().await)?;
        (self.tell)(Event::Asking);
        let patience = Instant::now() + self.input.pace.reach();
        loop {
            match self.board.ask(address).await? {
                Asked::Accepted => break,
                // It may be at work already: to ask again could spoil its slot.
                Asked::InDoubt(why) => {
                    (self.tell)(Event::Again(format!("its answer was lost, it may call: {why}")));
                    break;
                }
                Asked::NotReached(why) if Instant::now() >= patience => {
                    let message = format!("{} cannot be asked: {why}", self.input.board);
                    return Err(Failure::new(Reason::DeviceUnreachable, message));
                }
                Asked::NotReached(_) => sleep(self.input.pace.look()).await,
            }
        }
        self.doing("waiting for the device to call");
        (self.tell)(Event::Waiting);
        let caller = server.caller(self.input.pace.callback()).await;
        caller.ok_or_else(|| {
            server.turned_away().unwrap_or_else(|| {
                let message = format!(
                    "the device accepted the request and did not call {address}:4433; can it reach that address, and \
                     is the server certificate the one pinned in it?"
                );
                Failure::new(Reason::NoCallback, message)
            })
        })
    }

    /// Watches the device until it is decided.
    async fn watch(&self, before: Option<&Info>, whole: bool) -> Result<Option<Info>, Failure> {
        if self.input.verify == Verify::None {
            return Ok(None);
        }
        self.doing("watching the device restart");
        (self.tell)(Event::Watching);
        let Input { pace, verify, version, .. } = self.input;
        let began = Instant::now();
        // Ends a moment before everything does, so that it is told what was seen.
        let end = self.end - pace.look().min(Duration::from_millis(200));
        let mut watch = Watch::new(*pace, *verify, version, before, whole);
        loop {
            let at = began.elapsed();
            let Ok(probe) = timeout_at(end, self.board.probe()).await else {
                return Err(watch.time_is_up());
            };
            let was_away = watch.was_away();
            if let Some(decided) = watch.see(at, probe) {
                return decided;
            }
            if watch.was_away() && !was_away {
                (self.tell)(Event::Away);
            }
            if timeout_at(end, sleep(pace.look())).await.is_err() {
                return Err(watch.time_is_up());
            }
        }
    }
}
