//! h2 clients that keep the server at work and ask for nothing. Each of them is cut off.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::frames::*;
use super::*;

/// Frames that a flood sends at once.
const AT_ONCE: u32 = 64;

/// Streams of a client have odd numbers.
fn stream(n: u32) -> u32 {
    2 * n + 1
}

/// Sends the frames of `next` for ever and reads what comes. Returns how many it took until the server had enough.
async fn frames_until_cut_off(api: &Api, begin: &[u8], next: impl Fn(u32) -> Vec<u8>) -> u32 {
    let mut raw = Raw::connect(api, Manner::H2).await;
    raw.send(&[&opening(), begin].concat()).await;
    let (mut reading, mut writing) = tokio::io::split(raw.0);
    let write = async {
        let mut sent = 0;
        while writing.write_all(&batch(sent, &next)).await.is_ok() {
            sent += AT_ONCE;
        }
        sent
    };
    let read = async {
        let mut buffer = vec![0; 1 << 16];
        while reading.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
        // What is still on its way out has nobody to go to.
        std::future::pending::<()>().await;
    };
    let flood = async {
        tokio::select! {
            sent = write => sent,
            () = read => unreachable!(),
        }
    };
    tokio::time::timeout(PATIENCE, flood).await.expect("an end")
}

fn batch(sent: u32, next: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (sent..sent + AT_ONCE).flat_map(next).collect()
}

/// This flood is ended, and others are answered.
async fn is_cut_off(begin: &[u8], next: impl Fn(u32) -> Vec<u8>) {
    let api = Api::start(Settings::default()).await;
    let mut good = api.client(Manner::H2).await;
    let sent = frames_until_cut_off(&api, begin, next).await;
    // What the sockets hold comes on top of what the server takes. A second of any flood is more.
    assert!(sent < 200_000, "{sent}");
    assert_eq!(good.ask(get("/data/d1/in")).await.status.as_u16(), 200);
    wait_for(|| api.metrics.connections() == 1).await;
}

#[tokio::test]
async fn requests_that_are_given_up_at_once() {
    is_cut_off(&[], |n| {
        let reset = reset(stream(n));
        [getting(stream(n), "/data/hangs/in"), reset].concat()
    })
    .await;
}

#[tokio::test]
async fn requests_that_are_given_up_at_once_although_they_are_answered() {
    is_cut_off(&[], |n| {
        let reset = reset(stream(n));
        [getting(stream(n), "/nowhere"), reset].concat()
    })
    .await;
}

#[tokio::test]
async fn requests_that_are_given_up_before_their_headers_are_complete() {
    is_cut_off(&[], |n| {
        let half = frame(HEADERS, 0, stream(n), &asking("GET", "/data/d1/in"));
        [half, reset(stream(n))].concat()
    })
    .await;
}

#[tokio::test]
async fn pings() {
    is_cut_off(&[], |n| frame(PING, 0, 0, &u64::from(n).to_be_bytes())).await;
}

#[tokio::test]
async fn answers_to_pings_that_were_never_sent() {
    is_cut_off(&[], |n| frame(PING, ACK, 0, &u64::from(n).to_be_bytes())).await;
}

#[tokio::test]
async fn settings() {
    is_cut_off(&[], |_| frame(SETTINGS, 0, 0, &[])).await;
}

#[tokio::test]
async fn priorities() {
    is_cut_off(&[], |_| frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16])).await;
}

#[tokio::test]
async fn window_updates() {
    let request = getting(1, "/data/hangs/in");
    is_cut_off(&request, |n| {
        // Up by one and never down; by the time that is too much it has been enough.
        frame(WINDOW_UPDATE, 0, n % 2, &1u32.to_be_bytes())
    })
    .await;
}

#[tokio::test]
async fn data_without_bytes() {
    let request = frame(HEADERS, END_HEADERS, 1, &asking("POST", "/data/d1/out"));
    is_cut_off(&request, |_| frame(DATA, 0, 1, &[])).await;
}

#[tokio::test]
async fn headers_without_end() {
    let request = frame(HEADERS, 0, 1, &asking("GET", "/data/d1/in"));
    is_cut_off(&request, |_| frame(CONTINUATION, 0, 1, &[])).await;
}

#[tokio::test]
async fn frames_of_kinds_that_there_are_not() {
    is_cut_off(&[], |_| frame(0xfe, 0, 0, &[])).await;
}
