use anyhow::Result;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::eventually;
use flashjob_sim::node::{AddressPool, LoadBalancer};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::LIMIT;

async fn create(services: &Api<Service>, name: &str) -> Result<()> {
    let service = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "type": "LoadBalancer", "selector": { "a": "b" }, "ports": [{ "port": 4433 }] },
    }))?;
    services.create(&PostParams::default(), &service).await?;
    Ok(())
}

async fn address(services: &Api<Service>, name: &str) -> Result<Option<String>> {
    let status = services.get(name).await?.status.and_then(|status| status.load_balancer);
    let first = status.and_then(|status| status.ingress?.into_iter().next());
    Ok(first.and_then(|ingress| ingress.ip.or(ingress.hostname)))
}

#[tokio::test]
async fn the_second_of_two_gets_the_only_address_when_the_first_goes() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let namespace = cluster.namespace("balancer").await?;
    let client = cluster.client("load-balancer")?;
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let balancer = LoadBalancer::start(client, Some(&namespace), AddressPool::of(1));
    create(&services, "first").await?;
    create(&services, "second").await?;
    let given = eventually("an address", LIMIT, || address(&services, "first")).await?;
    assert_eq!(given, "192.0.2.1");
    eventually("the queue", LIMIT, || async { Ok((balancer.waiting() == 1).then_some(())) })
        .await?;
    assert_eq!(address(&services, "second").await?, None);
    services.delete("first", &Default::default()).await?;
    let given = eventually("an address", LIMIT, || address(&services, "second")).await?;
    assert_eq!(given, "192.0.2.1");
    assert_eq!((balancer.in_use(), balancer.peak()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_withheld_address_comes_when_the_balancer_goes_on() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let namespace = cluster.namespace("balancer").await?;
    let client = cluster.client("load-balancer")?;
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let pool = AddressPool::Hostname("lb.example.org".to_owned());
    let balancer = LoadBalancer::start(client, Some(&namespace), pool);
    balancer.withhold(Some("first"));
    create(&services, "first").await?;
    create(&services, "second").await?;
    eventually("an address", LIMIT, || address(&services, "second")).await?;
    assert_eq!(address(&services, "first").await?, None);
    balancer.resume();
    let given = eventually("an address", LIMIT, || address(&services, "first")).await?;
    assert_eq!(given, "lb.example.org");
    Ok(())
}
