//! How many: connections, streams, requests a second.

use std::time::Instant;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::frames::*;
use super::*;

/// A client that has been answered, so that its handshake is over on both sides.
async fn through(api: &Api, manner: Manner) -> Client {
    let mut client = api.client(manner).await;
    assert_eq!(client.ask(get("/data/d1/in")).await.status.as_u16(), 200);
    client
}

#[tokio::test]
async fn the_oldest_that_has_not_shaken_hands_makes_room_and_if_all_have_the_new_one_goes() {
    let api = Api::start(Settings { max_connections: 3, ..Settings::default() }).await;
    let connect = || async { TcpStream::connect(api.address).await.unwrap() };
    let (mut oldest, mut younger) = (connect().await, connect().await);
    let mut good = vec![through(&api, Manner::H1).await];
    assert_eq!(api.metrics.connections(), 3);

    good.push(through(&api, Manner::H2).await);
    // Which of both ways it is ended in is the kernel's to say.
    assert!(oldest.read_u8().await.is_err());
    let still = younger.try_read(&mut [0]).unwrap_err();
    assert_eq!(still.kind(), std::io::ErrorKind::WouldBlock);
    good.push(through(&api, Manner::H1).await);
    assert!(younger.read_u8().await.is_err());

    let config = tls_config(&api.keys.ca, Some(&api.keys.device), Manner::H1);
    assert!(Client::connect(api.address, config).await.is_err());
    assert_eq!(api.metrics.refusals(Cause::ConnectionsFull), 3);
    for client in &mut good {
        assert_eq!(client.ask(get("/data/d1/in")).await.status.as_u16(), 200);
    }
    // Whoever goes leaves room.
    good.pop();
    wait_for(|| api.metrics.connections() == 2).await;
    through(&api, Manner::H2).await;
}

#[tokio::test]
async fn a_connection_has_eight_streams() {
    const MAX_CONCURRENT_STREAMS: u8 = 3;
    let api = Api::start(Settings::default()).await;
    let mut raw = Raw::connect(&api, Manner::H2).await;
    let nine = (0..9).flat_map(|n| getting(2 * n + 1, "/data/hangs/in"));
    raw.send(&opening().into_iter().chain(nine).collect::<Vec<_>>()).await;
    let settings = raw.frame_of(SETTINGS).await.payload;
    let said = settings.chunks(6).find(|setting| setting[..2] == [0, MAX_CONCURRENT_STREAMS]);
    assert_eq!(said.expect("a limit of streams")[2..], [0, 0, 0, 8]);
    const REFUSED: u32 = 7;
    let refused = raw.frame_of(RST_STREAM).await;
    assert_eq!((refused.stream, refused.reason()), (17, REFUSED));
    // One less, and there is room again.
    raw.send(&reset(3)).await;
    raw.send(&getting(19, "/control/d1/in")).await;
    assert_eq!(raw.frame_of(HEADERS).await.stream, 19);
}

#[tokio::test]
async fn requests_have_a_rate_for_each_who_asks_whatever_the_connection() {
    for manner in BOTH {
        let api = Api::start(Settings::default()).await;
        let begun = Instant::now();
        let mut answered = 0;
        let got = loop {
            // The rate is no connection's own.
            let mut client = api.client(manner).await;
            let many = async {
                for _ in 0..20 {
                    let got = client.ask(get("/data/limited/in")).await;
                    if got.status.as_u16() != 200 {
                        return Some(got);
                    }
                    answered += 1;
                }
                None
            };
            if let Some(got) = many.await {
                break got;
            }
        };
        assert_eq!((got.status.as_u16(), got.header("retry-after")), (429, "1"));
        assert_eq!(got.body.len(), 0);
        assert!(got.header("x-flashjob-reason").contains("too many requests"));
        let allowed = 60.0 + 20.0 * begun.elapsed().as_secs_f64();
        assert!(answered >= 60 && f64::from(answered) <= allowed + 1.0, "{answered}");
        assert_eq!(api.metrics.refusals(Cause::RequestRate), 1);
        let mut client = api.client(manner).await;
        assert_eq!(client.ask(get("/data/limited-2/in")).await.status.as_u16(), 200);
        // It comes again.
        let again = async || {
            let got = client.ask(get("/data/limited/in")).await;
            Ok((got.status.as_u16() == 200).then_some(()))
        };
        flashjob_sim::eventually("an answer", PATIENCE, again).await.unwrap();
    }
}

#[tokio::test]
async fn registrations_have_a_rate_of_their_own() {
    let api = Api::start(Settings::default()).await;
    let mut client = api.client(Manner::H1).await;
    let said = |directive| post("/data/limited/out", format!(r#"{{"directive":"{directive}"}}"#));
    let begun = Instant::now();
    let mut answered = 0;
    let got = loop {
        let got = client.ask(said("registration")).await;
        if got.status.as_u16() != 200 {
            break got;
        }
        answered += 1;
    };
    assert_eq!(got.status.as_u16(), 429);
    let pause: u32 = got.header("retry-after").parse().unwrap();
    assert!((1..=6).contains(&pause), "{pause}");
    assert!(got.message().contains("too many requests"));
    let allowed = 5.0 + begun.elapsed().as_secs_f64() / 5.0;
    assert!(answered >= 5 && f64::from(answered) <= allowed + 1.0, "{answered}");
    assert_eq!(api.metrics.refusals(Cause::RegistrationRate), 1);
    assert_eq!(client.ask(said("heartbeat")).await.status.as_u16(), 200);
}
