//! Whoever deletes an EdgeDevice waits for nobody, and its device is told to disconnect when it is there: once, whatever has
//! happened to the operator or the object in between.

use anyhow::Result;
use flashjob_api::edge::{EdgeDevice, EdgeDeviceSignedRequest};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, Identity, Manner, Operation};
use flashjob_sim::{PATIENCE, eventually};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::kit::{
    COLUMNS, approve, beats, codes, delete, gone, in_use, live, names, patch_device, patch_request,
    phase, quick, quick_and_registered, tombstones,
};

const FLAGS: [&str; 1] = ["--leader-elect=false"];
const BY_HAND: [&str; 2] = ["--leader-elect=false", "--edge-auto-approval=false"];
const KEYS: &str = "management.project-flotta.io/keys";
const FINALIZER: &str = "management.project-flotta.io/edgedevice-finalizer";
const THIRD: &str = "example.org/third";

/// Waits until a device was told to disconnect. It was told so once.
async fn told_once(device: &Device) -> Result<()> {
    device.until("a disconnect", PATIENCE, |ledger| ledger.disconnects() > 0).await?;
    assert_eq!(device.ledger().disconnects(), 1);
    Ok(())
}

/// Waits until there is no tombstone.
async fn no_tombstone(site: &EdgeSite) -> Result<()> {
    eventually("the end of all tombstones", PATIENCE, async || {
        Ok(tombstones(site).await?.is_empty().then_some(()))
    })
    .await
}

/// An EdgeDevice as somebody makes it by hand, with more in its metadata.
async fn make(site: &EdgeSite, name: &str, more: Value) -> Result<()> {
    let mut metadata = json!({ "name": name, "namespace": site.namespace });
    for (key, value) in more.as_object().into_iter().flatten() {
        metadata[key] = value.clone();
    }
    let made: EdgeDevice = serde_json::from_value(json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDevice",
        "metadata": metadata, "spec": {},
    }))?;
    site.devices().create(&PostParams::default(), &made).await?;
    Ok(())
}

/// Waits until an EdgeDevice has these finalizers.
async fn has_finalizers(site: &EdgeSite, name: &str, wanted: &[&str]) -> Result<()> {
    eventually(&format!("{name} to have {wanted:?}"), PATIENCE, async || {
        Ok((site.devices().get(name).await?.finalizers() == wanted).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_off_is_not_waited_for_and_told_when_it_is_back() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator_with(&FLAGS, None).await?;
    let on = quick_and_registered(&site, "on", Manner::Ours).await?;
    let off = quick_and_registered(&site, "off", Manner::Ours).await?;
    let never = quick_and_registered(&site, "never", Manner::Flotta).await?;
    let flottas = quick_and_registered(&site, "flottas", Manner::Ours).await?;
    let forgotten = json!({ "metadata": { "annotations": { (KEYS): null } } });
    patch_device(&site, "flottas", forgotten).await?;
    let _on = live(&on);
    for device in ["on", "off", "never", "flottas"] {
        delete(&site, device).await?;
    }
    told_once(&on).await?;
    assert_eq!(tombstones(&site).await?.len(), 4);
    drop(operator);

    let _operator = site.operator_with(&FLAGS, None).await?;
    let _lives = [live(&off), live(&flottas)];
    for device in [&off, &flottas] {
        told_once(device).await?;
    }
    for device in [&on, &off, &flottas] {
        device.rejoin();
        beats(device).await?;
        in_use(&site, device).await?;
        assert_eq!(device.ledger().disconnects(), 1);
    }
    assert_eq!(names(&site).await?, ["flottas", "off", "on"]);
    let left = tombstones(&site).await?;
    assert_eq!(left.iter().map(|left| &left["name"]).collect::<Vec<_>>(), ["never"]);
    assert_eq!(never.ledger().disconnects(), 0);
    Ok(())
}

/// What the device has from before is worth as much as the registration certificate, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_made_again_has_to_register_again() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator_with(&FLAGS, None).await?;
    let device = site.registered("a", Manner::Ours).await?;
    delete(&site, "a").await?;
    make(&site, "a", json!({ "labels": { "edgedeviceSignedRequest": "true" } })).await?;
    no_tombstone(&site).await?;
    assert_eq!(codes(&device, Identity::Own, &COLUMNS).await, [401, 401, 401, 401, 208, 200]);
    assert_eq!(codes(&device, Identity::Own, &COLUMNS).await, [200, 200, 200, 200, 208, 200]);
    assert_eq!(codes(&device, Identity::Older(1), &COLUMNS).await, [401; 6], "the first one");
    assert_eq!(device.ledger().disconnects(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_of_flotta_go_and_those_of_others_hold_back_the_object_only() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator_with(&FLAGS, None).await?;
    let flottas = ["yggdrasil-connection-finalizer", THIRD, "device-finalizer"];
    let label = json!({ "edgedeviceSignedRequest": "true" });
    make(&site, "a", json!({ "labels": label, "finalizers": flottas })).await?;
    has_finalizers(&site, "a", &[THIRD, FINALIZER]).await?;
    let device = quick_and_registered(&site, "a", Manner::Ours).await?;
    let _life = live(&device);
    site.devices().delete("a", &DeleteParams::default()).await?;
    told_once(&device).await?;
    has_finalizers(&site, "a", &[THIRD]).await?;
    patch_device(&site, "a", json!({ "metadata": { "finalizers": null } })).await?;
    gone(&site, "a").await?;
    device.rejoin();
    beats(&device).await?;
    assert_eq!(device.ledger().disconnects(), 1);

    // One that was deleted while Flotta was at work, which waited for the device.
    drop(operator);
    make(&site, "b", json!({ "finalizers": flottas })).await?;
    site.devices().delete("b", &DeleteParams::default()).await?;
    let _operator = site.operator_with(&FLAGS, None).await?;
    has_finalizers(&site, "b", &[THIRD]).await?;
    assert_eq!(tombstones(&site).await?.len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_at_once_cost_few_tombstone_writes() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator_with(&FLAGS, None).await?;
    let made = stream::iter(0..300).map(async |n| {
        make(&site, &format!("box-{n}"), json!({ "finalizers": [FINALIZER] })).await
    });
    made.buffer_unordered(16).try_collect::<Vec<_>>().await?;
    let (params, all) = (DeleteParams::default(), ListParams::default());
    site.devices().delete_collection(&params, &all).await?;
    eventually("the end of all of them", PATIENCE, async || {
        Ok(names(&site).await?.is_empty().then_some(()))
    })
    .await?;
    assert_eq!(tombstones(&site).await?.len(), 300);
    let writes = site.operators.writes(&site.home)?;
    let writes = writes.iter().filter(|write| write.resource == "configmaps").count();
    println!("{writes} writes of tombstones");
    assert!(writes <= 100, "{writes}");
    Ok(())
}

/// With the namespace go the operator's rights there, maybe before its finalizers do. A person has to give them back then.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_deleted_goes_and_its_devices_are_told() -> Result<()> {
    let site = EdgeSite::new().await?;
    let Some(_manager) = site.cluster.controller_manager(&["namespace"]).await? else {
        println!("the assets have no kube-controller-manager");
        return Ok(());
    };
    let operator = site.operator_with(&FLAGS, None).await?;
    let on = quick_and_registered(&site, "on", Manner::Ours).await?;
    let off = quick_and_registered(&site, "off", Manner::Ours).await?;
    let _on = live(&on);
    let namespaces: Api<Namespace> = Api::all(site.client.clone());
    namespaces.delete(&site.namespace, &DeleteParams::default()).await?;
    told_once(&on).await?;
    let rights = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": format!("rescue-{}", site.namespace) },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "flotta-edge-api-devices",
        },
        "subjects": [
            { "kind": "ServiceAccount", "name": "flotta-edge-api", "namespace": site.home },
        ],
    });
    site.cluster.apply_yaml(&rights.to_string()).await?;
    eventually("the end of the namespace", PATIENCE, async || {
        Ok(namespaces.get_opt(&site.namespace).await?.is_none().then_some(()))
    })
    .await?;
    drop(operator);
    let _operator = site.operator_with(&FLAGS, None).await?;
    let _off = live(&off);
    told_once(&off).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_with_its_device_and_who_is_declined_is_told_so() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator_with(&BY_HAND, None).await?;
    let device = Device::new(quick(&site, "a", Manner::Ours).await?)?;
    assert_eq!(codes(&device, Identity::Current, &[Operation::Enrol]).await, [200]);
    approve(&site, "a").await?;
    let columns = [Operation::Register, Operation::Heartbeat];
    assert_eq!(codes(&device, Identity::Current, &columns).await, [200, 200]);
    delete(&site, "a").await?;
    let requests: Api<EdgeDeviceSignedRequest> = site.api();
    assert_eq!(requests.get_opt("a").await?.map(|left| left.name_any()), None);
    codes(&device, Identity::Own, &[Operation::FetchCommands]).await;
    told_once(&device).await?;
    let again = codes(&device, Identity::Current, &[Operation::Enrol]).await;
    assert_eq!(again, [200], "it has to be approved once more");

    let device = Device::new(quick(&site, "b", Manner::Ours).await?)?;
    assert_eq!(codes(&device, Identity::Current, &[Operation::Enrol]).await, [200]);
    let annotations = json!({ "management.project-flotta.io/declined": "true" });
    patch_request(&site, "b", json!({ "metadata": { "annotations": annotations } })).await?;
    phase(&site, "b", "declined").await?;
    let columns = [Operation::Enrol, Operation::Register];
    assert_eq!(codes(&device, Identity::Current, &columns).await, [403, 404]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_a_thousand_devices_wait_for_approval() -> Result<()> {
    let site = EdgeSite::new().await?;
    let requests: Api<EdgeDeviceSignedRequest> = site.api();
    let made = stream::iter(0..1000).map(async |n| {
        let metadata = json!({ "name": format!("stranger-{n}"), "namespace": site.namespace });
        let made: EdgeDeviceSignedRequest = serde_json::from_value(json!({
            "apiVersion": "management.project-flotta.io/v1alpha1",
            "kind": "EdgeDeviceSignedRequest", "metadata": metadata,
            "spec": { "targetNamespace": site.namespace, "approved": false },
        }))?;
        anyhow::Ok(requests.create(&PostParams::default(), &made).await?)
    });
    made.buffer_unordered(16).try_collect::<Vec<_>>().await?;
    let _operator = site.operator_with(&BY_HAND, None).await?;
    let device = Device::new(quick(&site, "late", Manner::Ours).await?)?;
    assert_eq!(codes(&device, Identity::Current, &[Operation::Enrol]).await, [429]);
    requests.delete("stranger-7", &DeleteParams::default()).await?;
    let room = async || Ok((device.enrol().await?.code() == 200).then_some(()));
    eventually("room for one more", PATIENCE, room).await?;
    let later = Device::new(quick(&site, "later", Manner::Ours).await?)?;
    assert_eq!(codes(&later, Identity::Current, &[Operation::Enrol]).await, [429]);
    let waits = codes(&device, Identity::Current, &[Operation::Enrol]).await;
    assert_eq!(waits, [200], "it waits already");
    Ok(())
}
