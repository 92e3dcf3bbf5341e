//! Plays MetalLB or k3s' ServiceLB: gives addresses from a finite pool to Services of type LoadBalancer.
//!
//! Addresses go out in the order the Services were made and come back when a Service goes, and then the next in the
//! queue is served at once. A Service that asks for a load balancer class or for another pool is left alone, as the real
//! ones do. It differs in that no packet ever flows, and that a Service waits in silence: the real
//! ones write an event.

mod book;

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use self::book::{Book, Grant};
use crate::lock;
use crate::observe::{Change, observe};
use crate::retry::retry;

/// The addresses there are to give.
#[derive(Debug, Clone)]
pub enum AddressPool {
    /// These addresses, each to one Service at a time.
    Addresses(Vec<String>),
    /// One host name for every Service, as cloud load balancers do. It never runs out.
    Hostname(String),
}

impl AddressPool {
    /// A pool of `n` addresses nobody has: 192.0.2.0/24 is for documentation, and 198.18.0.0/15 for benchmarks.
    pub fn of(n: usize) -> Self {
        let documentation = (1..255).map(|d| format!("192.0.2.{d}"));
        let benchmark = (0..256).flat_map(|c| (1..255).map(move |d| format!("198.18.{c}.{d}")));
        Self::Addresses(documentation.chain(benchmark).take(n).collect())
    }
}

/// Which Services get nothing for now.
#[derive(Debug, Clone, Default)]
struct Withheld {
    all: bool,
    services: Vec<String>,
}

impl Withheld {
    fn contains(&self, service: &str) -> bool {
        self.all || self.services.iter().any(|name| name == service)
    }
}

/// A running load balancer. It stops when dropped; addresses that were given stay in the Services.
#[derive(Debug)]
pub struct LoadBalancer {
    book: Arc<Mutex<Book>>,
    withheld: watch::Sender<Withheld>,
    task: JoinHandle<()>,
}

impl LoadBalancer {
    /// Starts on the current runtime, for one namespace or for all.
    pub fn start(client: Client, namespace: Option<&str>, pool: AddressPool) -> Self {
        let services = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let book = Arc::new(Mutex::new(Book::new(pool)));
        let (withheld, receiver) = watch::channel(Withheld::default());
        let task = tokio::spawn(run(client, services, book.clone(), receiver));
        Self { book, withheld, task }
    }

    /// Gives no address to this Service, or to any when none is named, until [`resume`](Self::resume).
    pub fn withhold(&self, service: Option<&str>) {
        self.withheld.send_modify(|withheld| match service {
            Some(service) => withheld.services.push(service.to_owned()),
            None => withheld.all = true,
        });
    }

    /// Serves everyone again.
    pub fn resume(&self) {
        self.withheld.send_replace(Withheld::default());
    }

    /// How many Services have an address.
    pub fn in_use(&self) -> usize {
        lock(&self.book).in_use()
    }

    /// The most Services that ever had an address at once.
    pub fn peak(&self) -> usize {
        lock(&self.book).peak()
    }

    /// How many Services wait for one.
    pub fn waiting(&self) -> usize {
        lock(&self.book).waiting()
    }
}

impl Drop for LoadBalancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    client: Client,
    services: Api<Service>,
    book: Arc<Mutex<Book>>,
    mut withheld: watch::Receiver<Withheld>,
) {
    let mut events = Box::pin(observe(services));
    // Owned here, so that the writes end with this task.
    let mut writes = JoinSet::new();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Change::Here(service)) => lock(&book).see(&service),
                Some(Change::Gone(uid)) => lock(&book).forget(&uid),
                None => return,
            },
            changed = withheld.changed() => if changed.is_err() { return },
            Some(_) = writes.join_next() => continue,
        }
        let grants = {
            let withheld = withheld.borrow_and_update();
            lock(&book).serve(|service| withheld.contains(service))
        };
        for grant in grants {
            writes.spawn(write(client.clone(), grant));
        }
    }
}

async fn write(client: Client, grant: Grant) {
    let services: Api<Service> = Api::namespaced(client, &grant.namespace);
    let patch = Patch::Merge(json!({
        // With the uid, a Service that was made anew under this name is left alone.
        "metadata": { "uid": grant.uid },
        "status": { "loadBalancer": { "ingress": [grant.ingress] } },
    }));
    let params = PatchParams::default();
    retry("give a Service its address", || services.patch_status(&grant.name, &params, &patch))
        .await;
}

/// With MetalLB, a Service says by this annotation which pool its address is to come from.
pub const ADDRESS_POOL: &str = "metallb.io/address-pool";
/// The same, as older ones write it.
const OLD_ADDRESS_POOL: &str = "metallb.universe.tf/address-pool";

/// Whether a Service asks this load balancer for an address. One that names a class asks another, and one that names a pool
/// asks for what there is not, as with the real ones.
fn wants_address(service: &Service) -> bool {
    let asks = service.spec.as_ref().is_some_and(|spec| {
        spec.type_.as_deref() == Some("LoadBalancer") && spec.load_balancer_class.is_none()
    });
    let pools = [ADDRESS_POOL, OLD_ADDRESS_POOL];
    let elsewhere = pools.iter().any(|pool| service.annotations().contains_key(*pool));
    asks && !elsewhere && service.metadata.deletion_timestamp.is_none()
}
