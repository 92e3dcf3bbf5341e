//! Requests that are held until there is news: those that say what the client has, and `Prefer: wait=N`.
//!
//! As long as the answer is that the client has it already, it is kept back, and asked for anew whenever the handler says that
//! something may have changed: who was let go or replaced meanwhile hears that. A request that is held keeps a connection from
//! being closed for idleness, so it is granted only as long as there are connections to spare.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::request::Server;
use super::usage::{Place, UnderWay};
use super::{DeviceAnswer, DeviceRequest, Handler, ServerMetrics};
use crate::edge::waiting::Waiter;

/// What all of them depend on.
#[derive(Default)]
pub struct Holds {
    /// There are connections to spare.
    room: AtomicBool,
    ended: watch::Sender<bool>,
}

impl Holds {
    /// So many connections of so many are open. Of each five one is left for those who come.
    pub fn set_room(&self, open: usize, most: usize) {
        self.room.store(open < most - most.div_ceil(5), Relaxed);
    }

    /// The server stops: nothing is held any longer, nor from now on.
    pub fn end(&self) {
        self.room.store(false, Relaxed);
        self.ended.send_replace(true);
    }
}

/// A request that is held.
struct Held<'a> {
    waiter: Waiter,
    until: Instant,
    server_ended: watch::Receiver<bool>,
    /// No longer: because its time is over, or because the server stops.
    end: Option<End>,
    metrics: &'a ServerMetrics,
    _place: Place<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    TimeIsOver,
    ServerStops,
}

impl<H: Handler> Server<H> {
    /// The answer, as soon as it is another than that the client has everything already.
    pub async fn news(
        &self,
        request: DeviceRequest<H::Peer>,
        seconds: u32,
        under_way: &UnderWay,
    ) -> DeviceAnswer {
        let mut held: Option<Held<'_>> = None;
        loop {
            let answer = self.answer(request.clone()).await;
            if answer.status != StatusCode::NOT_MODIFIED {
                return answer;
            }
            match &mut held {
                None => match self.hold(&request, seconds, under_way) {
                    // It is looked at once more: what changed before it was held has woken nobody.
                    Some(granted) => held = Some(granted),
                    None => return answer,
                },
                Some(held) => match held.end {
                    None => held.news().await,
                    Some(End::TimeIsOver) => return DeviceAnswer { held: Some(seconds), ..answer },
                    Some(End::ServerStops) => return answer,
                },
            }
        }
    }

    fn hold<'a>(
        &'a self,
        request: &DeviceRequest<H::Peer>,
        seconds: u32,
        under_way: &'a UnderWay,
    ) -> Option<Held<'a>> {
        let room = self.holds.room.load(Relaxed);
        let place = room.then(|| under_way.place()).flatten();
        let granted = place.and_then(|place| Some((place, self.handler.follow(&request.device)?)));
        self.metrics.wait(granted.is_some());
        let (place, waiter) = granted?;
        Some(Held {
            waiter,
            until: Instant::now() + Duration::from_secs(seconds.into()),
            server_ended: self.holds.ended.subscribe(),
            end: None,
            metrics: &self.metrics,
            _place: place,
        })
    }
}

impl Held<'_> {
    /// Until it is worth looking again.
    async fn news(&mut self) {
        let ended = async { drop(self.server_ended.wait_for(|ended| *ended).await) };
        tokio::select! {
            () = self.waiter.news() => {}
            () = sleep_until(self.until) => self.end = Some(End::TimeIsOver),
            () = ended => self.end = Some(End::ServerStops),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.metrics.waited();
    }
}
