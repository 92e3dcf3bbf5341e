//! Thousands who mean harm, with the limits as they are shipped: meanwhile a device is answered within its second, and the
//! memory stays within bounds.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use anyhow::Context;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio_rustls::client::TlsStream;

use super::apart::{Apart, KIB_EACH};
use super::client::tls;
use super::frames::*;
use super::limits::client_hello;
use super::*;

/// Connected, and not a byte.
const SILENT: usize = 5000;
/// Half a ClientHello, or a whole one, and nothing more.
const HALF: usize = 2000;
/// The agent gives up after a second.
const ITS_SECOND: Duration = Duration::from_secs(1);
/// Of each of them while we share the machine with all that is tried here, and with others.
const LONGEST: Duration = Duration::from_secs(10);
/// What a flood sends in one go.
const AT_ONCE: usize = 64;
/// How often a good device asks.
const PAUSE: Duration = Duration::from_millis(50);

/// Those who attack, and how they fared.
#[derive(Default)]
struct Attack {
    stop: AtomicBool,
    ended: AtomicUsize,
    cut_off: [AtomicUsize; FLOODS.len()],
}

/// Requests given up at once, with all of their headers or half of them, and what needs an answer each time.
const FLOODS: [fn(u32) -> Vec<u8>; 4] = [
    |n| [getting(2 * n + 1, "/data/hangs/in"), reset(2 * n + 1)].concat(),
    |n| {
        let half = frame(HEADERS, 0, 2 * n + 1, &asking("GET", "/data/d1/in"));
        [half, reset(2 * n + 1)].concat()
    },
    |n| frame(PING, 0, 0, &u64::from(n).to_be_bytes()),
    |_| frame(SETTINGS, 0, 0, &[]),
];

/// Until the server has had enough.
async fn send_and_read(
    stream: TlsStream<TcpStream>,
    begin: Vec<u8>,
    mut all: impl Iterator<Item = Vec<u8>>,
) {
    let (mut reading, mut writing) = tokio::io::split(stream);
    let write = async {
        let mut batch = begin;
        while writing.write_all(&batch).await.is_ok() {
            batch = all.by_ref().take(AT_ONCE).flatten().collect();
        }
    };
    tokio::join!(write, until_end(&mut reading));
}

async fn until_end(reading: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = [0; 1024];
    while reading.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
}

impl Attack {
    fn begin(self: &Arc<Self>, server: &Apart) {
        let (address, keys) = (server.address, &server.keys);
        let hello: Arc<[u8]> = client_hello(keys).into();
        let half: Arc<[u8]> = hello[..hello.len() / 2].into();
        for number in 0..SILENT + HALF {
            let said = match number {
                ..SILENT => [].into(),
                _ if number % 2 == 0 => hello.clone(),
                _ => half.clone(),
            };
            tokio::spawn(self.clone().hold(address, said));
        }
        for which in 0..FLOODS.len() {
            tokio::spawn(self.clone().flood(address, keys.clone(), which));
        }
        // They share the machine with the server: more of them would take from it what no limit of its own gives back.
        for _ in 0..2 {
            tokio::spawn(self.clone().ask(address, keys.clone()));
            tokio::spawn(self.clone().dribble(address, keys.clone()));
        }
    }

    /// Says this and falls silent, again and again.
    async fn hold(self: Arc<Self>, address: SocketAddr, said: Arc<[u8]>) {
        loop {
            if let Ok(mut stream) = TcpStream::connect(address).await {
                let _ = stream.write_all(&said).await;
                until_end(&mut stream).await;
                self.ended.fetch_add(1, Relaxed);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends these frames until it is cut off, again and again.
    async fn flood(self: Arc<Self>, address: SocketAddr, keys: Arc<Keys>, which: usize) {
        loop {
            let config = tls_config(&keys.ca, Some(&keys.device), Manner::H2);
            let Ok(stream) = tls(address, config).await else { continue };
            let all = (0..).map(FLOODS[which]);
            send_and_read(stream, opening(), all).await;
            self.cut_off[which].fetch_add(1, Relaxed);
        }
    }

    /// Asks and asks, and does not wait for the answers.
    async fn ask(self: Arc<Self>, address: SocketAddr, keys: Arc<Keys>) {
        let one = format!("GET {BASE}/data/d1/in HTTP/1.1\r\nhost: localhost\r\n\r\n");
        loop {
            let config = tls_config(&keys.ca, Some(&keys.device), Manner::H1);
            let Ok(stream) = tls(address, config).await else { continue };
            let all = std::iter::repeat_with(|| one.clone().into_bytes());
            send_and_read(stream, Vec::new(), all).await;
        }
    }

    /// A body that comes byte by byte, again and again.
    async fn dribble(self: Arc<Self>, address: SocketAddr, keys: Arc<Keys>) {
        let head = format!(
            "POST {BASE}/data/d1/out HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
        );
        loop {
            let config = tls_config(&keys.ca, Some(&keys.device), Manner::H1);
            let Ok(mut stream) = tls(address, config).await else { continue };
            let mut said = head.as_bytes();
            while stream.write_all(said).await.is_ok() && stream.flush().await.is_ok() {
                said = b" ";
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Asks as long as the attack goes on; how long each answer took.
async fn good(
    attack: &Attack,
    address: SocketAddr,
    keys: &Keys,
    manner: Manner,
    fresh: bool,
) -> anyhow::Result<Vec<Duration>> {
    let connect = || Client::connect(address, tls_config(&keys.ca, Some(&keys.device), manner));
    let mut client = connect().await?;
    let mut took = Vec::new();
    while !attack.stop.load(Relaxed) {
        let begun = Instant::now();
        let answered = async {
            if fresh {
                client = connect().await?;
            }
            let heartbeat = r#"{"type":"data","directive":"heartbeat","content":{}}"#;
            client.send(post("/data/d1/out", heartbeat)).await
        };
        let got = tokio::time::timeout(LONGEST, answered).await;
        let got = got.with_context(|| format!("no answer in {LONGEST:?}"))??;
        anyhow::ensure!(got.status == StatusCode::OK, "{got:?}");
        took.push(begun.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    took.sort();
    Ok(took)
}

/// Good devices on a thread of their own, so that only the server makes them wait.
fn all_good(attack: &Attack, address: SocketAddr, keys: &Keys) -> Vec<(String, Vec<Duration>)> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let kinds = BOTH.into_iter().flat_map(|manner| [(manner, false), (manner, true)]);
        let asked = kinds.map(async |(manner, fresh)| {
            let name = format!("{manner:?}, fresh connections: {fresh}");
            let took = good(attack, address, keys, manner, fresh).await;
            (name.clone(), took.with_context(|| name).unwrap())
        });
        futures::future::join_all(asked).await
    })
}

#[tokio::test]
async fn whoever_attacks_a_good_device_is_answered_in_its_second_and_memory_is_bounded() {
    let possible = files::connections(SILENT + HALF);
    assert_eq!(possible, SILENT + HALF, "too few files may be open: raise the hard limit");
    let server = Apart::start();
    let (address, keys) = (server.address, server.keys.clone());
    let attack = Arc::new(Attack::default());
    let before = server.usage();
    let devices = std::thread::spawn({
        let (attack, keys) = (attack.clone(), keys.clone());
        move || all_good(&attack, address, &keys)
    });
    attack.begin(&server);
    let all_were_ended = || {
        let floods = attack.cut_off.iter().all(|times| times.load(Relaxed) > 0);
        floods && attack.ended.load(Relaxed) >= SILENT + HALF
    };
    // It takes the 10 s that a handshake has.
    wait_for(all_were_ended).await;
    attack.stop.store(true, Relaxed);
    for (name, took) in devices.join().expect("all are answered") {
        let [median, last] = [took[took.len() / 2], took[took.len() - 1]];
        println!("{name}: {} answers, half in {median:?}, all in {last:?}", took.len());
        assert!(took.len() >= 5 && median < ITS_SECOND, "{name}: {median:?}");
    }
    let more = server.usage().peak_mi_b - before.mi_b;
    println!("{more} MiB more for {} connections", SILENT + HALF);
    assert!(more * 1024.0 < KIB_EACH * (SILENT + HALF) as f64, "{more} MiB");
}
