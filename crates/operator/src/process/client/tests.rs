//! The guard's bound, on API servers that say nothing.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

use super::*;

/// A server that never answers.
pub struct Silent {
    address: SocketAddr,
    _listener: TcpListener,
    /// Connections that nobody will ever accept: they fill the queue, so that the next cannot even connect.
    _queue: Vec<TcpStream>,
}

impl Silent {
    /// Connects, and says nothing.
    pub async fn accepting() -> Silent {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Silent { address, _listener: listener, _queue: Vec::new() }
    }

    /// Does not even connect.
    async fn full() -> Silent {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(connected) =
            timeout(Duration::from_millis(500), TcpStream::connect(address)).await
        {
            queue.push(connected.unwrap());
        }
        Silent { address, _listener: listener, _queue: queue }
    }
}

pub fn config(silent: &Silent) -> Config {
    // Only tests of the whole process choose a provider for TLS otherwise.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Config::new(format!("http://{}", silent.address).parse().unwrap())
}

/// A client whose lease lasts for ever.
fn client(silent: &Silent) -> Client {
    let window = WriteWindow::default();
    window.open();
    guarded(
        &config(silent),
        &window,
        &SystemMetrics::default(),
        #[cfg(feature = "crash")]
        None,
    )
    .unwrap()
}

/// A write lasts as long as the guard says, and the reason is told.
async fn ends_in_time<T>(call: impl Future<Output = kube::Result<T>>) {
    let began = Instant::now();
    let ended = timeout(MARGIN + Duration::from_secs(4), call).await;
    let error = ended.unwrap_or_else(|_| panic!("not over after {:?}", began.elapsed())).err();
    assert!(began.elapsed() >= MARGIN, "{error:?}");
    assert_eq!(
        error.as_ref().map(error_message).as_deref(),
        Some("the API server did not answer in time")
    );
}

#[tokio::test]
async fn a_write_that_is_not_answered_ends_within_the_margin() {
    let silent = Silent::accepting().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&silent));
    ends_in_time(api.create(&PostParams::default(), &ConfigMap::default())).await;
}

#[tokio::test]
async fn a_write_that_cannot_connect_ends_within_the_margin() {
    let silent = Silent::full().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&silent));
    ends_in_time(api.delete("any", &DeleteParams::default())).await;
}
