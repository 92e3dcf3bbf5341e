//! Requests that are held: until when, for how long, how many, and what becomes of them otherwise.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::client::{Got, request, whole};
use super::frames::*;
use super::*;

/// One configuration for all devices, which changes.
#[derive(Clone, Default)]
struct Fleet(Arc<Inner>);

#[derive(Default)]
struct Inner {
    waiting: Waiting,
    told: Mutex<Told>,
    /// The next to be held finds that something has changed just before.
    changes_first: AtomicBool,
}

#[derive(Clone, Default)]
struct Told {
    version: u32,
    refused: Option<StatusCode>,
}

impl Fleet {
    fn change(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.0.told.lock().unwrap());
    }
}

impl Handler for Fleet {
    type Peer = ();

    fn meet(&self, _: Vec<CertificateDer<'static>>) {}

    fn admit(&self, (): &(), _: &DeviceId) -> Result<(), DeviceAnswer> {
        Ok(())
    }

    fn bucket(&self, (): &(), _: &DeviceId) -> Option<[u8; 32]> {
        None
    }

    fn follow(&self, device: &DeviceId) -> Option<Waiter> {
        if self.0.changes_first.swap(false, Ordering::Relaxed) {
            self.change(|told| told.version += 1);
            self.0.waiting.wake_all();
        }
        self.0.waiting.follow(device.as_str())
    }

    async fn answer(&self, request: DeviceRequest<()>) -> DeviceAnswer {
        let Told { version, refused } = self.0.told.lock().unwrap().clone();
        if let Some(status) = refused {
            return DeviceAnswer::refusal(status, "not any more");
        }
        let etag = Some(format!("\"v{version}\""));
        match request.operation {
            Operation::DataIn { if_none_match } if if_none_match == etag => {
                DeviceAnswer { etag, ..DeviceAnswer::empty(StatusCode::NOT_MODIFIED) }
            }
            _ => DeviceAnswer { etag, ..DeviceAnswer::json(StatusCode::OK, Bytes::from("{}")) },
        }
    }
}

async fn start(settings: Settings) -> (Fleet, Api) {
    let fleet = Fleet::default();
    let api = Api::with(fleet.clone(), settings).await;
    (fleet, api)
}

fn waiting_for(device: &str, etag: &str, seconds: u32) -> http::Request<client::Sent> {
    let path = format!("/data/{device}/in");
    let request = request("GET", &path).header("if-none-match", etag);
    request.header("prefer", format!("wait={seconds}")).body(whole("")).unwrap()
}

/// A client that asks, and has not been answered when this returns.
async fn held(api: &Api, manner: Manner, device: &str, seconds: u32) -> JoinHandle<(Client, Got)> {
    let (mut client, before) = (api.client(manner).await, api.metrics.waiting());
    let request = waiting_for(device, "\"v0\"", seconds);
    let asking = tokio::spawn(async move {
        let got = client.ask(request).await;
        (client, got)
    });
    wait_for(|| api.metrics.waiting() == before + 1).await;
    assert!(!asking.is_finished());
    asking
}

async fn got(asking: JoinHandle<(Client, Got)>) -> Got {
    tokio::time::timeout(PATIENCE, asking).await.expect("an answer").unwrap().1
}

fn said(got: &Got) -> (u16, &str, &str) {
    let code = got.status.as_u16();
    assert_eq!(got.body.is_empty(), code != 200);
    (code, got.header("etag"), got.header("preference-applied"))
}

const MINUTE: u32 = 60;

#[tokio::test]
async fn a_change_is_told_at_once_and_the_connection_lives_on() {
    let (fleet, api) = start(Settings::default()).await;
    let mut all = Vec::new();
    for (manner, device) in BOTH.into_iter().zip(["d1", "d2"]) {
        all.push(held(&api, manner, device, MINUTE).await);
    }
    let began = Instant::now();
    fleet.change(|told| told.version = 1);
    fleet.0.waiting.wake("d1");
    assert_eq!(said(&got(all.remove(0)).await), (200, "\"v1\"", ""));
    assert!(!all[0].is_finished(), "that was for another device");
    fleet.0.waiting.wake("d2");
    let (mut client, got) = all.remove(0).await.unwrap();
    assert_eq!(said(&got), (200, "\"v1\"", ""));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let again = client.ask(waiting_for("d2", "\"v1\"", 1)).await;
    assert_eq!(said(&again), (304, "\"v1\"", "wait=1"));
    assert_eq!((api.metrics.waiting(), api.metrics.waits()), (0, [3, 0]));
    assert_eq!(fleet.0.waiting.names(), 0);
}

#[tokio::test]
async fn without_news_it_is_held_for_its_time_however_often_it_is_woken() {
    let (fleet, api) = start(Settings::default()).await;
    for manner in BOTH {
        let began = Instant::now();
        let asking = held(&api, manner, "d1", 2).await;
        while !asking.is_finished() {
            fleet.0.waiting.wake_all();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(20), "{took:?}");
        assert_eq!(said(&got(asking).await), (304, "\"v0\"", "wait=2"));
    }
}

#[tokio::test]
async fn whoever_does_not_ask_for_it_or_has_something_else_is_answered_at_once() {
    let (_, api) = start(Settings::default()).await;
    for manner in BOTH {
        let mut client = api.client(manner).await;
        let ask = |headers: &[(&str, &str)]| {
            let request = request("GET", "/data/d1/in");
            let request = headers.iter().fold(request, |r, (name, value)| r.header(*name, *value));
            request.body(whole("")).unwrap()
        };
        let wait = ("prefer", "wait=60");
        assert_eq!(said(&client.ask(ask(&[])).await), (200, "\"v0\"", ""));
        assert_eq!(said(&client.ask(ask(&[wait])).await), (200, "\"v0\"", ""));
        let other = ("if-none-match", "\"v7\"");
        assert_eq!(said(&client.ask(ask(&[wait, other])).await), (200, "\"v0\"", ""));
        let known = ("if-none-match", "\"v0\"");
        assert_eq!(said(&client.ask(ask(&[known])).await), (304, "\"v0\"", ""));
        let nonsense = ("prefer", "wait=long, respond-async");
        assert_eq!(said(&client.ask(ask(&[known, nonsense])).await), (304, "\"v0\"", ""));
        let among = [known, ("prefer", "respond-async"), ("prefer", "a=\"b,c\", Wait=1;x")];
        assert_eq!(said(&client.ask(ask(&among)).await), (304, "\"v0\"", "wait=1"));
    }
    assert_eq!(api.metrics.waits(), [2, 0]);
}

#[tokio::test]
async fn what_changes_while_it_is_being_held_is_not_missed() {
    let (fleet, api) = start(Settings::default()).await;
    for manner in BOTH {
        fleet.change(|told| told.version = 0);
        fleet.0.changes_first.store(true, Ordering::Relaxed);
        let mut client = api.client(manner).await;
        let asking = client.ask(waiting_for("d1", "\"v0\"", MINUTE));
        let got = tokio::time::timeout(PATIENCE, asking).await.expect("an answer before its time");
        assert_eq!(said(&got), (200, "\"v1\"", ""));
    }
}

#[tokio::test]
async fn who_is_turned_away_while_waiting_hears_it() {
    let (fleet, api) = start(Settings::default()).await;
    for manner in BOTH {
        for status in [StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND] {
            fleet.change(|told| told.refused = None);
            let asking = held(&api, manner, "d1", MINUTE).await;
            fleet.change(|told| told.refused = Some(status));
            fleet.0.waiting.wake("d1");
            let got = got(asking).await;
            assert_eq!(said(&got), (status.as_u16(), "", ""));
            assert_eq!(got.header("x-flashjob-reason"), "not any more");
        }
    }
}

#[tokio::test]
async fn the_end_of_the_server_answers_all_that_wait() {
    let (_, api) = start(Settings { grace: PATIENCE, ..Settings::default() }).await;
    let mut all = Vec::new();
    for (number, manner) in BOTH.into_iter().cycle().take(20).enumerate() {
        all.push(held(&api, manner, &format!("d{number}"), MINUTE).await);
    }
    let began = Instant::now();
    api.stop.send(true).unwrap();
    for asking in all {
        assert_eq!(said(&got(asking).await), (304, "\"v0\"", ""));
    }
    let ended = tokio::time::timeout(PATIENCE, api.task).await;
    ended.expect("an end").expect("no panic").expect("no error");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_request_that_is_held_is_neither_idle_nor_late() {
    let short = Duration::from_millis(300);
    let short = Settings {
        idle: short,
        answer: short,
        headers: short,
        body: short,
        handshake: Duration::from_secs(10),
        ..Settings::default()
    };
    let (_, api) = start(short).await;
    for manner in BOTH {
        let asking = held(&api, manner, "d1", 3).await;
        assert_eq!(said(&got(asking).await), (304, "\"v0\"", "wait=3"));
    }
    // And from then on it is idle as any other.
    wait_for(|| api.metrics.connections() == 0).await;
}

#[tokio::test]
async fn a_connection_waits_once_at_a_time_and_a_device_four_times() {
    let (fleet, api) = start(Settings::default()).await;
    let mut raw = Raw::connect(&api, Manner::H2).await;
    let waits = |stream| {
        let headers = [("if-none-match", "\"v0\""), ("prefer", "wait=60")];
        let block = [asking("GET", "/data/d1/in"), block(&headers)].concat();
        frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
    };
    raw.send(&[opening(), waits(1), waits(3)].concat()).await;
    assert_eq!(raw.frame_of(HEADERS).await.stream, 3, "the second is answered");
    assert_eq!((api.metrics.waiting(), api.metrics.waits()), (1, [1, 1]));
    raw.send(&reset(1)).await;
    wait_for(|| api.metrics.waiting() == 0).await;
    raw.send(&waits(5)).await;
    wait_for(|| api.metrics.waiting() == 1).await;

    for manner in [Manner::H1, Manner::H2, Manner::H1] {
        held(&api, manner, "d1", MINUTE).await;
    }
    let mut fifth = api.client(Manner::H1).await;
    assert_eq!(said(&fifth.ask(waiting_for("d1", "\"v0\"", MINUTE)).await), (304, "\"v0\"", ""));
    let got = fifth.ask(waiting_for("d2", "\"v0\"", 1)).await;
    assert_eq!(said(&got), (304, "\"v0\"", "wait=1"), "another device has its own");
    assert_eq!(fleet.0.waiting.names(), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nothing() {
    let (fleet, api) = start(Settings::default()).await;
    let request = format!(
        "GET {BASE}/data/d1/in HTTP/1.1\r\nhost: localhost\r\nif-none-match: \"v0\"\r\nprefer: wait=60\r\n\r\n"
    );
    for goodbye in [true, false] {
        let mut raw = Raw::connect(&api, Manner::H1).await;
        raw.send(request.as_bytes()).await;
        wait_for(|| api.metrics.waiting() == 1).await;
        if goodbye {
            // TLS says so, and the socket stays.
            tokio::io::AsyncWriteExt::shutdown(&mut raw.0).await.unwrap();
        } else {
            raw.0.get_ref().0.set_zero_linger().unwrap();
            drop(raw);
        }
        wait_for(|| api.metrics.waiting() == 0 && api.metrics.connections() == 0).await;
    }
    for manner in BOTH {
        let asking = held(&api, manner, "d1", MINUTE).await;
        asking.abort();
        wait_for(|| api.metrics.waiting() == 0 && api.metrics.connections() == 0).await;
    }
    assert_eq!(fleet.0.waiting.names(), 0);
}

#[tokio::test]
async fn nothing_is_held_when_four_fifths_of_the_connections_are_open() {
    let (_, api) = start(Settings { max_connections: 5, ..Settings::default() }).await;
    let mut three = Vec::new();
    for device in ["d1", "d2"] {
        three.push(held(&api, Manner::H1, device, 3).await);
    }
    let mut third = api.client(Manner::H2).await;
    assert_eq!(said(&third.ask(waiting_for("d3", "\"v0\"", 1)).await), (304, "\"v0\"", "wait=1"));
    let mut fourth = api.client(Manner::H2).await;
    for client in [&mut third, &mut fourth] {
        let began = Instant::now();
        let got = client.ask(waiting_for("d3", "\"v0\"", MINUTE)).await;
        assert_eq!(said(&got), (304, "\"v0\"", ""));
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(api.metrics.waits(), [3, 2]);
    // Those that are held stay so, and there is room again when somebody goes.
    for asking in three {
        assert_eq!(said(&got(asking).await), (304, "\"v0\"", "wait=3"));
    }
    drop(fourth);
    wait_for(|| api.metrics.connections() < 4).await;
    assert_eq!(said(&third.ask(waiting_for("d3", "\"v0\"", 1)).await), (304, "\"v0\"", "wait=1"));
}
