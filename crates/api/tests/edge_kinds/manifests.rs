//! Objects as the original's users and its operator wrote them, read into the types.

use std::fs;
use std::path::Path;

use flashjob_api::edge::{EdgeDeployment, EdgeDevice, EdgeDeviceSet, EdgeDeviceSignedRequest, crd};
use serde_json::{Value, json};

use crate::read;

fn of<K: serde::de::DeserializeOwned>(spec: Value, status: Value) -> K {
    let object = json!({ "metadata": { "name": "x" }, "spec": spec, "status": status });
    serde_json::from_value(object).unwrap()
}

#[test]
fn a_device_that_the_original_left_behind_is_read() {
    let spec = json!({
        "requestTime": "2022-03-20T14:45:25Z",
        "heartbeat": { "periodSeconds": 5, "hardwareProfile": null },
        "storage": { "s3": { "createOBC": true } },
        "logCollection": { "syslog": { "kind": "syslog", "syslogConfig": { "name": "logs" } }, "none": null },
        "mounts": [{ "device": "/dev/sdb", "folder": "/mnt" }, null],
    });
    let status = json!({
        "phase": "up",
        "lastSyncedResourceVersion": "54429",
        "lastSeenTime": "2022-03-20T14:45:25Z",
        "dataObc": "x",
        "deployments": [{ "name": "web", "phase": "Running", "lastDataUpload": null, "lastTransitionTime": null }],
        "hardware": { "disks": [], "gpus": null, "cpu": { "flags": ["fpu"] } },
    });
    let device: EdgeDevice = of(spec, status);
    let settings = &device.spec.settings;
    assert!(device.spec.request_time.is_some());
    assert_eq!(settings.heartbeat.as_ref().unwrap().period_seconds, Some(5));
    assert_eq!(settings.storage.as_ref().unwrap().s3.as_ref().unwrap().create_obc, Some(true));
    let logs = settings.log_collection.as_ref().unwrap();
    assert_eq!(logs.keys().collect::<Vec<_>>(), ["syslog"], "a null is no entry");
    let mounts = settings.mounts.as_ref().unwrap();
    assert_eq!((mounts.len(), mounts[0].directory.as_deref()), (1, Some("/mnt")));
    let status = device.status.unwrap();
    assert_eq!(status.deployments[0].name, "web");
    assert_eq!(status.deployments[0].last_data_upload, None);
    assert_eq!(status.workloads, []);
}

#[test]
fn what_is_not_said_is_not_written() {
    let device = EdgeDevice::new("x", Default::default());
    let written = serde_json::to_value(&device).unwrap();
    assert_eq!(written["spec"], json!({}));
    let mut set = EdgeDeviceSet::new("x", Default::default());
    set.spec.mounts = Some(Vec::new());
    let written = serde_json::to_value(&set).unwrap();
    assert_eq!(written["spec"], json!({ "mounts": [] }), "an empty list is said");
}

#[test]
fn a_pod_is_kept_as_it_was_written() {
    let pod = json!({ "containers": [{ "name": "web", "image": "web:1", "future": null }], "hostNetwork": true });
    let spec = json!({
        "deviceSelector": { "matchLabels": { "dc": "home" }, "matchExpressions": null },
        "type": "pod",
        "pod": { "spec": pod },
        "data": { "paths": [{ "source": "stats", "target": "statistics" }] },
        "metrics": { "port": 8080, "containers": { "web": null } },
    });
    let deployment: EdgeDeployment = of(spec, Value::Null);
    let written = serde_json::to_value(&deployment.spec.pod).unwrap();
    assert_eq!(written["spec"], pod);
    assert_eq!(deployment.spec.type_.as_deref(), Some("pod"));
    let paths = deployment.spec.data.as_ref().unwrap().paths.as_ref().unwrap();
    assert_eq!(paths[0].target.as_deref(), Some("statistics"));
}

#[test]
fn conditions_in_small_letters_are_read() {
    let status = json!({ "conditions": [{ "type": "approved", "status": "true" }, { "type": "pending", "status": "false" }] });
    let request: EdgeDeviceSignedRequest = of(json!({ "approved": true }), status);
    let conditions = request.status.unwrap().conditions;
    assert_eq!(conditions[0].type_.as_deref(), Some("approved"));
    assert_eq!(conditions[0].status.as_deref(), Some("true"));
    assert_eq!(request.spec.approved, Some(true));
}

/// Every field of a sample is one that the types know, and none is lost between reading and writing.
#[test]
fn the_samples_are_read_whole() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/samples");
    for plural in crd::NAMES {
        let singular = crd::named(plural).unwrap()["spec"]["names"]["singular"].clone();
        let name = format!("management_v1alpha1_{}.yaml", singular.as_str().unwrap());
        let text = fs::read_to_string(samples.join(&name)).unwrap();
        let sample: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read(plural, sample.clone()), Ok(sample), "{name}");
    }
}
