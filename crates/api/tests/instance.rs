//! Akri's Instance as its versions write it.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

use flashjob_api::flashjob::instance::{HOST_ENDPOINT, Instance, same_board};
use serde_json::json;

#[test]
fn an_instance_of_v0_13_reads() {
    let instance: Instance = serde_json::from_value(json!({
        "apiVersion": "akri.sh/v0", "kind": "Instance",
        "metadata": { "name": "http-21ab05", "namespace": "default", "finalizers": ["node-a"] },
        "spec": {
            "brokerProperties": { "HOST_ENDPOINT": "192.0.2.140", "DEVICE": "esp32c6" },
            "capacity": 2, "cdiName": "akri.sh/http=21ab05", "configurationName": "http",
            "deviceUsage": { "http-21ab05-0": "node-a", "http-21ab05-1": "" },
            "nodes": ["node-a"], "shared": true,
        },
    }))
    .unwrap();
    assert_eq!(instance.spec.broker_properties[HOST_ENDPOINT], "192.0.2.140");
    assert_eq!(instance.spec.capacity, Some(2));
}

#[test]
fn an_instance_of_v0_12_and_one_with_nearly_nothing_read() {
    for spec in [json!({ "configurationName": "http", "shared": true, "rbac": "x" }), json!({})] {
        let object = json!({ "metadata": { "name": "a" }, "spec": spec });
        let instance: Instance = serde_json::from_value(object).unwrap();
        assert_eq!(instance.spec.capacity, None);
        assert!(instance.spec.broker_properties.is_empty());
    }
}

#[test]
fn a_type_of_board_may_be_written_in_many_ways_and_nothing_is_no_type() {
    assert!(same_board("esp32-S3", "ESP32_s3") && same_board(" esp32s3", "esp32s3"));
    assert!(!same_board("esp32", "esp32s3") && !same_board("-", "") && !same_board("a", ""));
}
