//! Time: how long each step of a connection may take, and what becomes of it then.

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame as BodyFrame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Sent, request};
use super::frames::*;
use super::*;

const SHORT: Duration = Duration::from_millis(300);

/// A ClientHello as it goes over the wire.
pub fn client_hello(keys: &Keys) -> Vec<u8> {
    let config = tls_config(&keys.ca, None, Manner::H2);
    let name = "localhost".try_into().unwrap();
    let mut hello = Vec::new();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    client.write_tls(&mut hello).unwrap();
    hello
}

/// A ClientHello of 64 KiB, all but its end, in records of 8 KiB.
pub fn large_hello() -> Vec<u8> {
    let mut hello = vec![1, 0, 0xff, 0xf0, 3, 3];
    hello.resize(0xff00, 0);
    let record = |part: &[u8]| {
        let length = part.len() as u16;
        [&[22, 3, 1], &length.to_be_bytes()[..], part].concat()
    };
    hello.chunks(8 << 10).flat_map(record).collect()
}

/// Until the server has ended it, in whatever way.
async fn gone(stream: &mut TcpStream) {
    let read = async {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
    };
    tokio::time::timeout(PATIENCE, read).await.expect("an end");
}

async fn answers(client: &mut Client) {
    assert_eq!(client.ask(get("/data/d1/in")).await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_handshake_has_its_time() {
    let api = Api::start(Settings { handshake: SHORT, ..Settings::default() }).await;
    let mut good = api.client(Manner::H1).await;
    let hello = client_hello(&api.keys);
    for said in [&[][..], &hello[..hello.len() / 2], &hello] {
        let mut stream = TcpStream::connect(api.address).await.unwrap();
        stream.write_all(said).await.unwrap();
        gone(&mut stream).await;
    }
    assert_eq!(api.metrics.refusals(Cause::HandshakeTimeout), 3);
    answers(&mut good).await;
    wait_for(|| api.metrics.connections() == 1).await;
}

#[tokio::test]
async fn a_handshake_has_its_length() {
    let hour = Duration::from_secs(3600);
    let api = Api::start(Settings { handshake: hour, ..Settings::default() }).await;
    let mut stream = TcpStream::connect(api.address).await.unwrap();
    // It is no longer listened to after a while.
    let _ = stream.write_all(&large_hello()).await;
    gone(&mut stream).await;
    answers(&mut api.client(Manner::H2).await).await;
}

#[tokio::test]
async fn headers_have_their_time_over_h1_however_slowly_they_come() {
    let api = Api::start(Settings { headers: SHORT, ..Settings::default() }).await;
    let mut good = api.client(Manner::H1).await;
    let mut raw = Raw::connect(&api, Manner::H1).await;
    let one = format!("GET {BASE}/data/d1/in HTTP/1.1\r\nhost: localhost\r\n\r\n");
    raw.send(one.as_bytes()).await;
    raw.send(b"GET / HTTP/1.1\r\nx: ").await;
    let drip = async {
        while raw.0.write_all(b"x").await.is_ok() && raw.0.flush().await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    tokio::time::timeout(PATIENCE, drip).await.expect("an end");
    assert_eq!(api.metrics.refusals(Cause::HeadersTimeout), 1);
    // Nothing of a request has come here, so that no time has run.
    answers(&mut good).await;
}

#[tokio::test]
async fn headers_have_their_time_over_h2() {
    let api = Api::start(Settings { headers: SHORT, ..Settings::default() }).await;
    let mut good = api.client(Manner::H2).await;
    answers(&mut good).await;
    let whole = getting(1, "/data/hangs/in");
    let half = getting(3, "/data/d1/in");
    let without_end = frame(HEADERS, END_STREAM, 3, &asking("GET", "/data/d1/in"));
    let opening = opening();
    let cases = [
        vec![],
        opening[..10].to_vec(),
        [&opening[..], &half[..20]].concat(),
        [&opening[..], &without_end].concat(),
        [&opening[..], &whole, &half[..20]].concat(),
    ];
    for (number, said) in cases.iter().enumerate() {
        let mut raw = Raw::connect(&api, Manner::H2).await;
        raw.send(said).await;
        let _ = raw.end().await;
        assert_eq!(api.metrics.refusals(Cause::HeadersTimeout), number as u64 + 1);
    }
    answers(&mut good).await;
}

/// A body of this many bytes without an end.
fn endless(bytes: usize) -> Sent {
    let begin = Ok(BodyFrame::data(Bytes::from(vec![b' '; bytes])));
    let body = futures::stream::iter([begin]).chain(futures::stream::pending());
    BodyExt::boxed(StreamBody::new(body))
}

fn post_endless(path: &str, bytes: usize) -> http::Request<Sent> {
    let request = request("POST", path).header("content-type", "application/json");
    request.body(endless(bytes)).unwrap()
}

#[tokio::test]
async fn a_body_has_its_time() {
    let api = Api::start(Settings { body: SHORT, ..Settings::default() }).await;
    for manner in BOTH {
        for bytes in [0, 100, 40_000] {
            let mut client = api.client(manner).await;
            let got = client.ask(post_endless("/data/d1/out", bytes)).await;
            assert_eq!(got.status.as_u16(), 408);
            assert!(got.message().contains("the body took longer"));
        }
    }
    assert_eq!(api.metrics.refusals(Cause::BodyTimeout), 6);
    assert_eq!(api.bodies.held(), 0);
}

#[tokio::test]
async fn large_bodies_share_what_room_there_is_and_small_ones_need_none() {
    let api = Api::start(Settings { max_bodies: 64 << 10, ..Settings::default() }).await;
    for manner in BOTH {
        let mut large = api.client(manner).await;
        let large = tokio::spawn(async move {
            let _ = large.send(post_endless("/data/d1/out", 50_000)).await;
        });
        wait_for(|| api.bodies.held() > 40_000).await;
        let got = api.client(manner).await.ask(post_endless("/data/d1/out", 50_000)).await;
        assert_eq!((got.status.as_u16(), got.header("retry-after")), (503, "1"));
        assert!(got.message().contains("too many large bodies"));
        let heartbeat = format!(r#"{{"type":"data","directive":"heartbeat"}}{:>4000}"#, "");
        let got = api.client(manner).await.ask(post("/data/d1/out", heartbeat)).await;
        assert_eq!(got.status.as_u16(), 200);
        large.abort();
        wait_for(|| api.bodies.held() == 0).await;
    }
    assert_eq!(api.metrics.refusals(Cause::BodiesFull), 2);
}

#[tokio::test]
async fn who_asks_for_nothing_is_let_go_in_good_order() {
    let api = Api::start(Settings { idle: SHORT, ..Settings::default() }).await;
    let mut raw = Raw::connect(&api, Manner::H1).await;
    let one = format!("GET {BASE}/control/d1/in HTTP/1.1\r\nhost: localhost\r\n\r\n");
    raw.send(one.as_bytes()).await;
    let said = raw.end().await.expect("an end in good order");
    assert!(said.starts_with(b"HTTP/1.1 200 OK\r\n") && said.ends_with(b"\r\n\r\n"));

    let mut raw = Raw::connect(&api, Manner::H2).await;
    raw.send(&[opening(), getting(1, "/control/d1/in")].concat()).await;
    // The last is named when the client has had the time to hear the first.
    assert_eq!(raw.frame_of(GOAWAY).await.payload[..8], [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    assert_eq!(raw.frame_of(GOAWAY).await.payload[..8], [0, 0, 0, 1, 0, 0, 0, 0]);
    raw.end().await.expect("an end in good order");

    // Work is no idleness.
    for manner in BOTH {
        let got = api.client(manner).await.ask(get("/data/slow/in")).await;
        assert_eq!(got.status.as_u16(), 200);
    }
    wait_for(|| api.metrics.connections() == 0).await;
}

#[tokio::test]
async fn an_answer_has_its_time() {
    let api = Api::start(Settings { answer: SHORT, ..Settings::default() }).await;
    for manner in BOTH {
        let mut client = api.client(manner).await;
        let got = client.ask(get("/data/hangs/in")).await;
        assert_eq!((got.status.as_u16(), got.header("retry-after")), (503, "1"));
        assert_eq!((got.body.len(), got.headers.contains_key("content-type")), (0, false));
        assert!(got.header("x-flashjob-reason").contains("no answer in time"));
        answers(&mut client).await;
    }
    assert_eq!(api.metrics.refusals(Cause::AnswerTimeout), 2);
}

#[tokio::test]
async fn an_answer_that_nobody_reads_does_not_stay() {
    let settings = Settings { idle: SHORT, grace: SHORT, ..Settings::default() };
    let api = Api::start(settings).await;
    let mut h1 = Raw::connect(&api, Manner::H1).await;
    let one = format!("GET {BASE}/data/large/in HTTP/1.1\r\nhost: localhost\r\n\r\n");
    h1.send(one.as_bytes()).await;
    let mut h2 = Raw::connect(&api, Manner::H2).await;
    h2.send(&[opening(), getting(1, "/data/large/in")].concat()).await;
    wait_for(|| api.metrics.connections() == 2).await;
    wait_for(|| api.metrics.connections() == 0).await;
    // It was on its way: what had been sent is there, and it is not all.
    let mut first = [0; 15];
    h1.0.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    assert!(h1.end().await.map_or(0, |rest| rest.len()) < 8 << 20);
    assert_eq!(h2.frame_of(HEADERS).await.stream, 1);
}
