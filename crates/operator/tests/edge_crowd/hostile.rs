//! Clients that mean harm, all at once, and a device among them that has its second. What each kind of them meets is tested
//! beside the server, in `src/edge/server/tests`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Credential, Manner, Protocol};
use flashjob_sim::http::{free_address, get};
use flashjob_sim::{PATIENCE, eventually};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

const SILENT: usize = 5_000;
const HALF: usize = 2_000;
/// Whoever lost a connection opens another after so long.
const PAUSE: Duration = Duration::from_secs(1);
/// Half of what the Deployment may have.
const MOST_MIB: f64 = 256.0;

/// Connects, says this, and then nothing until it is cut off; again and again.
async fn falls_silent(address: SocketAddr, said: Arc<Vec<u8>>) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            let _ = stream.write_all(&said).await;
            let mut heard = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut heard).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The first message of a handshake.
fn hello(credential: &Credential) -> Result<Vec<u8>> {
    let (tls, name) = (credential.tls(Protocol::H2)?, ServerName::try_from("project-flotta.io")?);
    let mut hello = Vec::new();
    rustls::ClientConnection::new(tls, name)?.write_tls(&mut hello)?;
    Ok(hello)
}

type Stream = tokio_rustls::client::TlsStream<TcpStream>;

async fn dial(address: SocketAddr, credential: &Credential, protocol: Protocol) -> Result<Stream> {
    let tls = TlsConnector::from(credential.tls(protocol)?);
    let stream = TcpStream::connect(address).await?;
    Ok(tls.connect(ServerName::try_from("project-flotta.io")?, stream).await?)
}

/// Sends a long body, a byte a second.
async fn drips(address: SocketAddr, credential: Arc<Credential>) {
    loop {
        if let Ok(mut stream) = dial(address, &credential, Protocol::H1).await {
            let head = "POST /api/flotta-management/v1/data/slow/out HTTP/1.1\r\nhost: x\r\n\
                        content-type: application/json\r\ncontent-length: 1000000\r\n\r\n";
            let mut went = stream.write_all(head.as_bytes()).await;
            while went.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                went = stream.write_all(b" ").await;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Opens streams and gives them up, as fast as it can.
async fn resets(address: SocketAddr, credential: Arc<Credential>) {
    loop {
        let reset = async {
            let io = TokioIo::new(dial(address, &credential, Protocol::H2).await?);
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
            let connection = tokio::spawn(connection);
            while sender.ready().await.is_ok() {
                let request = http::Request::get(
                    "https://project-flotta.io/api/flotta-management/v1/data/resets/in",
                );
                let answer = sender.send_request(request.body(Empty::<Bytes>::new())?);
                // Long enough for it to be sent.
                let _ = tokio::time::timeout(Duration::from_micros(200), answer).await;
            }
            connection.abort();
            anyhow::Ok(())
        };
        let _ = reset.await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// How many had not finished their handshake in time.
fn cut_off(metrics: &str) -> usize {
    let line = "edge_server_refusals_total{cause=\"handshake_timeout\"} ";
    let count = metrics.lines().find_map(|text| text.strip_prefix(line)?.parse().ok());
    count.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_served_whoever_else_is_connected() -> Result<()> {
    let _alone = super::alone().await;
    let site = EdgeSite::new().await?;
    let metrics = free_address().await?;
    let operator =
        site.operator_with(&[&format!("--metrics-bind-address={metrics}")], None).await?;
    let device = site.registered("good", Manner::Flotta).await?;
    let (address, bundle) = (operator.address, site.bundle().await?);
    let known = Credential::new(bundle.key().clone(), bundle.ca().clone(), Default::default());

    let mut harm = JoinSet::new();
    let whole = hello(&known)?;
    let half = Arc::new(whole[..whole.len() / 2].to_vec());
    let (nothing, whole) = (Arc::new(Vec::new()), Arc::new(whole));
    (0..SILENT).for_each(|_| drop(harm.spawn(falls_silent(address, nothing.clone()))));
    for said in [half, whole] {
        (0..HALF / 2).for_each(|_| drop(harm.spawn(falls_silent(address, said.clone()))));
    }
    for _ in 0..20 {
        harm.spawn(drips(address, known.clone()));
    }
    for _ in 0..4 {
        harm.spawn(resets(address, known.clone()));
    }
    // From the moment they are there until each has been cut off once.
    let all_cut_off = eventually("all to be cut off", PATIENCE, async || {
        let (_, text) = get(metrics, "/metrics").await?;
        Ok((cut_off(&text) >= SILENT + HALF).then_some(()))
    });
    let (mut answered, mut missed, mut in_a_row) = (0, 0, 0);
    let asked = async {
        loop {
            let told = [
                device.heartbeat().await,
                device.fetch_configuration().await,
                device.fetch_commands().await,
            ];
            for told in told {
                let served = told.as_ref().is_ok_and(|told| told.code() == 200);
                (answered, missed) =
                    (answered + usize::from(served), missed + usize::from(!served));
                in_a_row = if served { 0 } else { in_a_row + 1 };
                // The original's agent tries again as often; the machine has other work than this.
                assert!(in_a_row < 3, "three in a row had no answer within 1 s: {told:?}");
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    };
    tokio::select! {
        () = asked => {}
        cut_off = all_cut_off => cut_off?,
    }
    let usage = operator.operator.usage()?;
    println!("{answered} answered, {missed} not within 1 s, {usage:?}");
    assert!(answered > 20, "{answered}");
    assert!(usage.peak_mi_b < MOST_MIB, "{usage:?}");
    harm.shutdown().await;
    assert_eq!(device.heartbeat().await?.code(), 200);
    Ok(())
}
