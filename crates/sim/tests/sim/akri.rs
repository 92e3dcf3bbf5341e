use anyhow::Result;
use flashjob_api::flashjob::instance::Instance;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::Akri;
use flashjob_sim::flashjob::akri::INSTANCE_CRD_V0_12;
use kube::{Api, ResourceExt};

#[tokio::test]
async fn a_board_that_comes_back_has_its_old_name_and_a_new_uid() -> Result<()> {
    let cluster = Cluster::shared().await?;
    Akri::install_crd(cluster).await?;
    let namespace = cluster.namespace("akri").await?;
    let akri = Akri::new(cluster.client("akri")?, &namespace, "http-disc-mine");

    let first = akri.discover("192.168.11.140", "esp32c6", "vanilla", "0.0.0").await?;
    assert_eq!(first.name_any(), "http-disc-mine-21ab05");
    assert_eq!(first.spec.broker_properties["HOST_ENDPOINT"], "192.168.11.140");
    let updated = akri.discover("192.168.11.140", "esp32c6", "vanilla", "0.1.0").await?;
    assert_eq!(updated.uid(), first.uid());
    assert_eq!(updated.spec.broker_properties["VERSION"], "0.1.0");

    akri.lose(&first).await?;
    let second = akri.discover("192.168.11.140", "esp32c6", "vanilla", "0.1.0").await?;
    assert_eq!(second.name_any(), first.name_any());
    assert_ne!(second.uid(), first.uid());
    // The old one stays lost, and the new one is not taken for it.
    akri.lose(&first).await?;
    let instances: Api<Instance> = Api::namespaced(cluster.client("akri")?, &namespace);
    let untouched = instances.get(&second.name_any()).await?;
    assert_eq!(untouched.metadata, second.metadata);

    akri.lose_agent_down(&second).await?;
    let lingering = instances.get(&second.name_any()).await?;
    assert!(lingering.metadata.deletion_timestamp.is_some());
    akri.agent_back(&second).await?;
    assert!(instances.get_opt(&second.name_any()).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn an_instance_of_v0_12_has_no_capacity() -> Result<()> {
    // Its own cluster: the shared one has the CRD of v0.13.
    let cluster = Cluster::start().await?;
    cluster.apply_yaml(INSTANCE_CRD_V0_12).await?;
    let akri = Akri::new(cluster.client("akri")?, "default", "http-disc-mine");
    let instance = akri.discover("10.0.0.1", "esp32c6", "vanilla", "0.0.0").await?;
    assert_eq!((instance.spec.capacity, instance.spec.cdi_name), (None, None));
    assert_eq!(instance.spec.broker_properties["DEVICE"], "esp32c6");
    Ok(())
}
