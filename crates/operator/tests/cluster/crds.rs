//! CRDs that come later than the operator are waited for and named.

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::Operator;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::{Akri, Site, installed};
use flashjob_sim::http::{answers, free_address};
use flashjob_sim::node::Script;

#[tokio::test(flavor = "multi_thread")]
async fn missing_crds_are_waited_for_and_named() -> Result<()> {
    let cluster = Cluster::start().await?;
    let crd = |document: &&str| document.contains("kind: CustomResourceDefinition");
    let (crds, rest): (Vec<&str>, Vec<&str>) = installed::INSTALL.split("\n---\n").partition(crd);
    assert_eq!(crds.len(), 1);
    cluster.apply_yaml(&rest.join("\n---\n")).await?;

    let address = free_address().await?;
    let flag = format!("--health-probe-bind-address={address}");
    let operator = Operator::start(&cluster, &[&flag]).await?;
    answers(address, "/healthz", 200, "ok").await?;
    answers(address, "/readyz", 503, "flashjobs.application.flashjob.nbfc.io").await?;
    answers(address, "/readyz", 503, "instances.akri.sh").await?;
    operator.says("waiting for the CRD").await?;

    // Ours comes; a job says what it waits for.
    cluster.apply_yaml(crds[0]).await?;
    answers(address, "/readyz", 503, "waiting for the CRD instances.akri.sh").await?;
    let site = Site::on(&cluster).namespace("default").start(|_| Script::default()).await?;
    let sample = include_str!("../../../../config/samples/application_v1alpha1_flashjob.yaml");
    cluster.apply_yaml(sample).await?;
    let waiting = site.phase("flashjob", Phase::Pending).await?;
    assert!(waiting.message.unwrap_or_default().contains("instances.akri.sh"));

    // Akri's comes, and with it the devices.
    Akri::install_crd(&cluster).await?;
    answers(address, "/readyz", 200, "ok").await?;
    for (name, endpoint) in [
        ("d95c7c2d-7dc5-427b-9bf7-51a5d299c99e", "192.0.2.21"),
        ("44606d10-7c29-4098-9d6a-dc16f95090d1", "192.0.2.22"),
    ] {
        site.akri.discover_named(name, endpoint, "esp32", "thermo", "0.1.0").await?;
    }
    site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.21", "192.0.2.22"]);
    Ok(())
}
