//! Carries TCP connections to where an address leads: what kube-proxy and the data path of a load balancer are for.
//!
//! A connection to a Service's address ends in a Pod that is ready, as the cluster's own Endpoints have it at that moment;
//! one to any other address is broken at once, and so is one to a Service without a ready Pod. It differs in that a Pod
//! sees this machine as the caller, and that a connection is taken before it is known whether it leads anywhere.
//!
//! A broken connection is broken on the other side too: some take an orderly end for the end of what they were to get.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::warn;

/// Where connections are carried.
#[derive(Clone)]
pub enum To {
    /// Always here.
    Address(SocketAddr),
    /// Where it says at that moment.
    Latest(watch::Receiver<Option<SocketAddr>>),
    /// To a Pod of the Service that has been given the address that was dialled.
    Services(Client),
}

/// A forwarder at work. It stops when dropped, and its connections break.
#[derive(Debug)]
pub struct Forwarder {
    address: SocketAddr,
    dialled: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Forwarder {
    /// Listens on the current runtime.
    pub async fn start(listen: SocketAddr, to: To) -> Result<Self> {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot forward from {listen}"))?;
        let address = listener.local_addr()?;
        let dialled = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(serve(listener, to, dialled.clone()));
        Ok(Self { address, dialled, task })
    }

    /// How many connections were opened to it so far.
    pub fn dialled(&self) -> usize {
        self.dialled.load(Ordering::Relaxed)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, to: To, dialled: Arc<AtomicUsize>) {
    // Owned here, so that connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                dialled.fetch_add(1, Ordering::Relaxed);
                connections.spawn(carry(stream, to.clone()));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn carry(mut near: TcpStream, to: To) {
    let carried = async {
        let local = near.local_addr()?;
        let target = to.target(local).await?;
        let mut far = TcpStream::connect(target).await.context("nobody listens there")?;
        // What the two ends send at once arrives at once.
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let copied = copy_bidirectional(&mut near, &mut far).await;
        if copied.is_err() {
            // One that is closed already cannot be broken any more.
            let _ = far.set_zero_linger();
        }
        copied.with_context(|| format!("the connection from {local} to {target} broke"))
    };
    if let Err(error) = carried.await {
        warn!("{error:#}");
        let _ = near.set_zero_linger();
    }
}

impl To {
    async fn target(&self, dialled: SocketAddr) -> Result<SocketAddr> {
        match self {
            Self::Address(address) => Ok(*address),
            Self::Latest(address) => {
                let latest = *address.borrow();
                latest.with_context(|| format!("{dialled} leads nowhere now"))
            }
            Self::Services(client) => pod_behind(client, dialled)
                .await?
                .with_context(|| format!("no Service with a ready Pod has the address {dialled}")),
        }
    }
}

async fn pod_behind(client: &Client, dialled: SocketAddr) -> Result<Option<SocketAddr>> {
    let services: Api<Service> = Api::all(client.clone());
    let all = services.list(&ListParams::default()).await.context("no Services")?.items;
    let Some(service) = all.into_iter().find(|service| has_address(service, dialled.ip())) else {
        return Ok(None);
    };
    let namespace = service.namespace().unwrap_or_default();
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), &namespace);
    let found = endpoints.get_opt(&service.name_any()).await.context("no Endpoints")?;
    Ok(found.as_ref().and_then(|found| ready_pod(found, &service, dialled.port())))
}

fn has_address(service: &Service, address: IpAddr) -> bool {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let mut given = status.and_then(|status| status.ingress.as_deref()).into_iter().flatten();
    given.any(|ingress| ingress.ip.as_ref().is_some_and(|ip| *ip == address.to_string()))
}

/// The first ready Pod, and the port that the Service's port leads to there.
fn ready_pod(endpoints: &Endpoints, service: &Service, port: u16) -> Option<SocketAddr> {
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    let wanted = ports.iter().find(|wanted| wanted.port == i32::from(port))?;
    endpoints.subsets.as_ref()?.iter().find_map(|subset| {
        let address = subset.addresses.as_ref()?.first()?.ip.parse().ok()?;
        let port = subset.ports.as_ref()?.iter().find(|port| port.name == wanted.name)?.port;
        Some(SocketAddr::new(address, u16::try_from(port).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn pair() -> Result<(TcpStream, TcpStream, Forwarder)> {
        let there = TcpListener::bind("127.0.0.1:0").await?;
        let here = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let forwarder = Forwarder::start(here, To::Address(there.local_addr()?)).await?;
        let near = TcpStream::connect(here).await?;
        let (far, _) = there.accept().await?;
        Ok((near, far, forwarder))
    }

    #[tokio::test]
    async fn an_orderly_end_arrives_as_one_and_a_broken_connection_as_broken() -> Result<()> {
        let (mut near, mut far, _forwarder) = pair().await?;
        far.write_all(b"all of it").await?;
        far.shutdown().await?;
        let mut all = Vec::new();
        near.read_to_end(&mut all).await?;
        assert_eq!(all, b"all of it");

        let (mut near, mut far, _forwarder) = pair().await?;
        far.write_all(b"firm").await?;
        near.read_exact(&mut [0; 4]).await?;
        far.set_zero_linger()?;
        drop(far);
        let broken = near.read(&mut [0; 4]).await.unwrap_err();
        assert_eq!(broken.kind(), std::io::ErrorKind::ConnectionReset);
        Ok(())
    }

    #[test]
    fn only_a_ready_pod_is_led_to_and_by_the_services_own_port() -> Result<()> {
        let service: Service = serde_json::from_value(json!({
            "spec": { "ports": [{ "name": "tls", "port": 4433, "targetPort": 5000 }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "10.0.0.1" }] } },
        }))?;
        assert!(has_address(&service, "10.0.0.1".parse()?));
        assert!(!has_address(&service, "10.0.0.10".parse()?));
        let ports = json!([{ "name": "other", "port": 1 }, { "name": "tls", "port": 5000 }]);
        let of = |addresses: &str| -> Result<Endpoints> {
            let subset = json!({ addresses: [{ "ip": "10.1.0.2" }], "ports": ports });
            Ok(serde_json::from_value(json!({ "subsets": [subset] }))?)
        };
        let pod = Some("10.1.0.2:5000".parse()?);
        assert_eq!(ready_pod(&of("addresses")?, &service, 4433), pod);
        assert_eq!(ready_pod(&of("addresses")?, &service, 80), None);
        assert_eq!(ready_pod(&of("notReadyAddresses")?, &service, 4433), None);
        Ok(())
    }
}
