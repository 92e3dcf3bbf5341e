//! Who has which address, and who waits. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use kube::ResourceExt;

use super::{AddressPool, wants_address};

/// Creation time, then arrival: creation times are whole seconds.
type Place = (jiff::Timestamp, u64);

#[derive(Debug)]
struct Entry {
    namespace: String,
    name: String,
    place: Place,
    /// The address's index in the pool; `None` while waiting. Host names all have index 0.
    given: Option<usize>,
}

/// An address that goes to a Service.
#[derive(Debug, PartialEq)]
pub(super) struct Grant {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) ingress: LoadBalancerIngress,
}

#[derive(Debug)]
pub(super) struct Book {
    pool: AddressPool,
    free: BTreeSet<usize>,
    services: HashMap<String, Entry>,
    queue: BTreeMap<Place, String>,
    arrivals: u64,
    peak: usize,
}

impl Book {
    pub(super) fn new(pool: AddressPool) -> Self {
        let size = match &pool {
            AddressPool::Addresses(addresses) => addresses.len(),
            AddressPool::Hostname(_) => 1,
        };
        Self {
            pool,
            free: (0..size).collect(),
            services: HashMap::new(),
            queue: BTreeMap::new(),
            arrivals: 0,
            peak: 0,
        }
    }

    /// A Service is there, new or changed.
    pub(super) fn see(&mut self, service: &Service) {
        let uid = service.uid().unwrap_or_default();
        if !wants_address(service) {
            return self.forget(&uid);
        }
        if self.services.contains_key(&uid) {
            return;
        }
        self.arrivals += 1;
        let created = service.creation_timestamp().map_or(jiff::Timestamp::MIN, |t| t.0);
        let place = (created, self.arrivals);
        // A load balancer that starts anew finds the addresses an earlier one gave.
        let given = self.index_of(service);
        match given {
            Some(index) => self.take(index),
            None => drop(self.queue.insert(place, uid.clone())),
        }
        let entry = Entry {
            namespace: service.namespace().unwrap_or_default(),
            name: service.name_any(),
            place,
            given,
        };
        self.services.insert(uid, entry);
        self.peak = self.peak.max(self.in_use());
    }

    /// A Service is gone, and its address is free.
    pub(super) fn forget(&mut self, uid: &str) {
        if let Some(entry) = self.services.remove(uid) {
            self.queue.remove(&entry.place);
            self.free.extend(entry.given);
        }
    }

    /// Gives what is free to those who wait, first come first served.
    pub(super) fn serve(&mut self, withheld: impl Fn(&str) -> bool) -> Vec<Grant> {
        let mut grants = Vec::new();
        let mut served = Vec::new();
        for (place, uid) in &self.queue {
            let Some(&index) = self.free.first() else { break };
            let Some(entry) = self.services.get_mut(uid) else { continue };
            if withheld(&entry.name) {
                continue;
            }
            entry.given = Some(index);
            grants.push(Grant {
                namespace: entry.namespace.clone(),
                name: entry.name.clone(),
                uid: uid.clone(),
                ingress: ingress(&self.pool, index),
            });
            served.push(*place);
            if matches!(self.pool, AddressPool::Addresses(_)) {
                self.free.remove(&index);
            }
        }
        for place in served {
            self.queue.remove(&place);
        }
        self.peak = self.peak.max(self.in_use());
        grants
    }

    pub(super) fn in_use(&self) -> usize {
        self.services.len() - self.queue.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    fn take(&mut self, index: usize) {
        if matches!(self.pool, AddressPool::Addresses(_)) {
            self.free.remove(&index);
        }
    }

    fn index_of(&self, service: &Service) -> Option<usize> {
        let status = service.status.as_ref()?.load_balancer.as_ref()?;
        let ingress = status.ingress.as_ref()?.first()?;
        match &self.pool {
            AddressPool::Addresses(addresses) => {
                let ip = ingress.ip.as_ref()?;
                addresses.iter().position(|address| address == ip)
            }
            AddressPool::Hostname(_) => ingress.hostname.as_ref().map(|_| 0),
        }
    }
}

fn ingress(pool: &AddressPool, index: usize) -> LoadBalancerIngress {
    let mut ingress = LoadBalancerIngress::default();
    match pool {
        AddressPool::Addresses(addresses) => ingress.ip = addresses.get(index).cloned(),
        AddressPool::Hostname(name) => ingress.hostname = Some(name.clone()),
    }
    ingress
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(name: &str, second: u8) -> Service {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "a", "uid": name,
                "creationTimestamp": format!("2025-01-01T00:00:{second:02}Z"),
            },
            "spec": { "type": "LoadBalancer" },
        }))
        .expect("a Service")
    }

    fn names(grants: &[Grant]) -> Vec<&str> {
        grants.iter().map(|grant| grant.name.as_str()).collect()
    }

    #[test]
    fn the_oldest_is_served_first_and_a_freed_address_goes_to_the_next() {
        let mut book = Book::new(AddressPool::of(1));
        book.see(&service("late", 9));
        book.see(&service("early", 1));
        let grants = book.serve(|_| false);
        assert_eq!(names(&grants), ["early"]);
        assert_eq!(grants[0].ingress.ip.as_deref(), Some("192.0.2.1"));
        assert_eq!((book.in_use(), book.waiting()), (1, 1));
        book.forget("early");
        assert_eq!(names(&book.serve(|_| false)), ["late"]);
        book.forget("late");
        assert_eq!((book.in_use(), book.waiting(), book.peak()), (0, 0, 1));
    }

    #[test]
    fn a_withheld_service_does_not_keep_others_waiting() {
        let mut book = Book::new(AddressPool::of(2));
        book.see(&service("first", 1));
        book.see(&service("second", 2));
        assert_eq!(names(&book.serve(|name| name == "first")), ["second"]);
        assert_eq!(names(&book.serve(|_| false)), ["first"]);
    }

    #[test]
    fn who_asks_for_another_class_or_pool_is_left_alone() {
        let mut book = Book::new(AddressPool::of(2));
        let asks = [
            json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": "typo" } }),
            json!({
                "metadata": { "annotations": { "metallb.universe.tf/address-pool": "nowhere" } },
                "spec": { "type": "LoadBalancer" },
            }),
            json!({ "spec": { "type": "ClusterIP" } }),
        ];
        for asks in asks {
            book.see(&serde_json::from_value(asks).expect("a Service"));
        }
        assert_eq!((book.in_use(), book.waiting(), book.serve(|_| false).len()), (0, 0, 0));
    }

    #[test]
    fn a_host_name_never_runs_out() {
        let mut book = Book::new(AddressPool::Hostname("lb.example".into()));
        book.see(&service("first", 1));
        book.see(&service("second", 2));
        let grants = book.serve(|_| false);
        assert_eq!(names(&grants), ["first", "second"]);
        assert_eq!(grants[1].ingress.hostname.as_deref(), Some("lb.example"));
        book.forget("first");
        book.see(&service("third", 3));
        assert_eq!(names(&book.serve(|_| false)), ["third"]);
    }

    #[test]
    fn big_pools_have_no_address_twice() {
        let AddressPool::Addresses(addresses) = AddressPool::of(3000) else { unreachable!() };
        assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), 3000);
    }
}
