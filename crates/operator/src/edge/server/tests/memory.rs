//! What a connection costs in memory, at most and at rest: 20,000 of them have to fit into the Deployment's limit.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::apart::{Apart, KIB_EACH};
use super::client::{request, tls, whole};
use super::frames::*;
use super::limits::large_hello;
use super::*;

const CONNECTIONS: usize = 400;

/// Opens connections, each of which `open` gives back to hold, and says what one of them costs.
async fn kib_each<T>(name: &str, open: impl AsyncFn(&Apart) -> T) -> f64 {
    let server = Apart::start();
    // What the first ones cost once is not theirs.
    for manner in BOTH {
        let config = tls_config(&server.keys.ca, Some(&server.keys.device), manner);
        Client::connect(server.address, config).await.unwrap().ask(get("/data/d1/in")).await;
    }
    let before = server.usage();
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(open(&server).await);
    }
    // Whoever is answered now comes after all of them.
    let config = tls_config(&server.keys.ca, Some(&server.keys.device), Manner::H1);
    Client::connect(server.address, config).await.unwrap().ask(get("/data/d1/in")).await;
    let each = (server.usage().peak_mi_b - before.mi_b) * 1024.0 / CONNECTIONS as f64;
    println!("{name}: {each:.1} KiB");
    each
}

async fn said(server: &Apart, manner: Manner, said: &[u8]) -> impl Sized + use<> {
    let config = tls_config(&server.keys.ca, Some(&server.keys.device), manner);
    let mut stream = tls(server.address, config).await.unwrap();
    stream.write_all(said).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

#[tokio::test]
async fn no_connection_costs_more_than_its_share() {
    // As much as is taken before the server has had enough, here and below.
    let half = async |server: &Apart| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&large_hello()[..27 << 10]).await.unwrap();
        stream
    };
    assert!(kib_each("a handshake without end", half).await < KIB_EACH);

    for manner in BOTH {
        let idle = async |server: &Apart| {
            let config = tls_config(&server.keys.ca, Some(&server.keys.device), manner);
            let mut client = Client::connect(server.address, config).await.unwrap();
            client.ask(get("/data/d1/in")).await;
            client
        };
        assert!(kib_each(&format!("{manner:?} at rest"), idle).await < KIB_EACH);
    }

    for manner in BOTH {
        let waiting = async |server: &Apart| {
            let config = tls_config(&server.keys.ca, Some(&server.keys.device), manner);
            let mut client = Client::connect(server.address, config).await.unwrap();
            let known = request("GET", "/data/d1/in").header("if-none-match", "\"v1\"");
            let known = known.header("prefer", "wait=60").body(whole("")).unwrap();
            let asking = tokio::spawn(async move { client.ask(known).await });
            tokio::task::yield_now().await;
            assert!(!asking.is_finished());
            vec![asking]
        };
        assert!(kib_each(&format!("{manner:?} waiting"), waiting).await < KIB_EACH);
    }

    let head = format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(8000));
    let half = async |server: &Apart| said(server, Manner::H1, head.as_bytes()).await;
    assert!(kib_each("H1, headers without end", half).await < KIB_EACH);
    let long = "x".repeat(15 << 10);
    let head = frame(HEADERS, 0, 1, &block(&[(":method", "GET"), ("x", &long)]));
    let head = [opening(), head].concat();
    let half = async |server: &Apart| said(server, Manner::H2, &head).await;
    assert!(kib_each("H2, headers without end", half).await < KIB_EACH);
}
