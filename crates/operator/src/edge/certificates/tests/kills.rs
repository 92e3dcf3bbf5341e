//! The process dies before or after any of its writes, and the next one goes on.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use kube::client::Body;
use tower::BoxError;

use super::*;

/// A client that asks before each write, which it counts from 0, whether it may be sent.
pub fn before_each_write<F>(
    client: &Client,
    ask: impl Fn(usize) -> F + Clone + Send + Sync + 'static,
) -> Client
where
    F: Future<Output = bool> + Send + 'static,
{
    let (client, count) = (client.clone(), Arc::new(AtomicUsize::new(0)));
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, ask, count) = (client.clone(), ask.clone(), count.clone());
        async move {
            let writes = *request.method() != Method::GET;
            if writes && !ask(count.fetch_add(1, Ordering::SeqCst)).await {
                return Err(BoxError::from("killed"));
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}

/// A client of a process that dies before its `last`th write, or after it and before it has heard of it.
fn dies_at(client: &Client, last: usize, arrives: bool) -> Client {
    let (inner, count) = (client.clone(), Arc::new(AtomicUsize::new(0)));
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, count) = (inner.clone(), count.clone());
        async move {
            let writes = *request.method() != Method::GET;
            let number = if writes { count.fetch_add(1, Ordering::SeqCst) } else { 0 };
            if writes && number >= last {
                if arrives && number == last {
                    client.send(request).await.map_err(BoxError::from)?;
                }
                return Err(BoxError::from("killed"));
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}

/// Lets a process die at every one of its writes, and says after how many there was none left to die at.
async fn every_prefix(
    prepare: impl AsyncFn(&Place),
    judge: impl AsyncFn(&Place, &Certificates),
) -> usize {
    for last in 0.. {
        let mut died = false;
        for arrives in [false, true] {
            let place = Place::new().await;
            prepare(&place).await;
            let client = dies_at(&place.client, last, arrives);
            let mut process = place.start_with(client, settings(&[]));
            died |= process.keeper.look(|| process.devices.clone(), day(300)).await.is_err();
            let next = place.start().look(300).await;
            // Registration certificates of a CA that is retired stay until a person deletes them.
            let others = next.problems.iter().filter(|problem| !problem.contains("reg-client-ca"));
            assert_eq!(others.count(), 0, "{last} {arrives}: {:?}", next.problems);
            let ca = place.text("flotta-ca", "ca.crt").await.unwrap();
            assert!(takes(&ca, &next, "localhost", day(300)), "{last} {arrives}");
            assert!(next.registration.is_some());
            judge(&place, &next).await;
            let versions = place.versions().await;
            place.start().look(300).await;
            assert_eq!(place.versions().await, versions, "{last} {arrives}: it does not settle");
        }
        if !died {
            return last;
        }
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_may_end_anywhere() {
    let writes = every_prefix(
        async |_| {},
        async |place, _| {
            assert_eq!(place.versions().await.len(), 3, "one Secret of each");
        },
    );
    assert_eq!(writes.await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_may_end_anywhere() {
    let prepare = async |place: &Place| drop(place.start().look(0).await);
    let writes = every_prefix(prepare, async |place, _| {
        assert_eq!(place.registrations().await.len(), 2);
    });
    assert_eq!(writes.await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_may_end_anywhere_and_shuts_nobody_out() {
    let prepare = async |place: &Place| {
        place.start().look(299).await;
        place.command("rotate").await;
    };
    let writes = every_prefix(prepare, async |place, next| {
        let old = place.text("flotta-ca", "previous.crt").await.unwrap();
        assert!(takes(&old, next, "localhost", day(300)));
        assert_eq!(next.trust.as_ref().unwrap().anchors.len(), 2);
    });
    assert_eq!(writes.await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retirement_may_end_anywhere() {
    let prepare = async |place: &Place| {
        let mut process = place.start();
        process.look(298).await;
        place.command("rotate").await;
        process.look(299).await;
        place.command("retire").await;
    };
    let writes = every_prefix(prepare, async |place, next| {
        assert_eq!(place.text("flotta-ca", "previous.crt").await, None);
        assert_eq!(next.trust.as_ref().unwrap().anchors.len(), 1);
        said(next, &["nobody can register with it"]);
    });
    assert_eq!(writes.await, 1);
}
