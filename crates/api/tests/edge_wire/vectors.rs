//! The messages of the original, in both directions: read, and written again without what is empty.

use flashjob_api::edge::wire::{
    Command, DeviceConfigurationMessage, Enrolment, Heartbeat, Message, MessageResponse,
    MessageType, Registration, RegistrationAnswer, directive,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads it as `T`, writes that, and reads what was written.
fn around<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(said: &Value) -> Value {
    let read: T = serde_json::from_str(&said.to_string()).unwrap();
    let written = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<T>(&written).unwrap(), read);
    serde_json::from_str(&written).unwrap()
}

fn registration() -> Value {
    json!({
        "type": "data", "message_id": "4acd7f23", "version": 1, "sent": "2022-03-20T14:45:25.271Z",
        "directive": "registration", "metadata": null, "response_to": "",
        "content": {
            "certificate_request": "-----BEGIN CERTIFICATE REQUEST-----\n",
            "hardware": {
                "hostname": "edge1",
                "cpu": { "architecture": "x86_64", "model_name": "i7", "flags": [] },
                "system_vendor": {
                    "manufacturer": "LENOVO", "product_name": "20EQ", "serial_number": "PC0M"
                },
                "interfaces": [
                    { "ipv4_addresses": ["10.0.0.2/24"], "ipv6_addresses": [], "flags": [] }
                ],
                "disks": null, "gpus": null,
                "host_devices": [{
                    "path": "/dev/loop0", "device_type": "block", "owner": 0, "group": 6,
                    "major": 7, "minor": 0
                }],
                "mounts": [{ "device": "/dev/sda1", "directory": "/", "type": "ext4" }]
            }
        }
    })
}

#[test]
fn a_registration_with_every_key_of_yggd() {
    let said = registration();
    let message: Message = serde_json::from_value(said.clone()).unwrap();
    assert_eq!(message.type_, MessageType::Data);
    assert_eq!(message.directive, directive::REGISTRATION);
    let mut envelope = said.clone();
    let keys = envelope.as_object_mut().unwrap();
    keys.remove("metadata");
    keys.remove("response_to");
    assert_eq!(around::<Message>(&said), envelope);

    let registration: Registration = serde_json::from_value(message.content).unwrap();
    let hardware = registration.hardware.as_ref().unwrap();
    assert_eq!(hardware.hostname, "edge1");
    assert_eq!((hardware.disks.as_deref(), hardware.gpus.as_deref()), (None, None));
    let mut content = said["content"].clone();
    let parts = content["hardware"].as_object_mut().unwrap();
    parts.remove("disks");
    parts.remove("gpus");
    let device = parts["host_devices"][0].as_object_mut().unwrap();
    device.remove("owner");
    device.remove("minor");
    assert_eq!(around::<Registration>(&said["content"]), content);
}

#[test]
fn an_answer_to_a_registration() {
    let said = json!({
        "directive": "registration", "message_id": "4acd7f23",
        "content": { "certificate": "-----BEGIN CERTIFICATE-----\n" }
    });
    assert_eq!(around::<MessageResponse>(&said), said);
    assert_eq!(around::<RegistrationAnswer>(&said["content"]), said["content"]);
    let ours = json!({ "certificate": "a", "ca_bundle": "b" });
    assert_eq!(around::<RegistrationAnswer>(&ours), ours);
}

#[test]
fn an_enrolment() {
    let hardware = registration()["content"]["hardware"]["cpu"].clone();
    let said = json!({
        "features": { "modelName": "gateway", "hardware": { "cpu": hardware } },
        "target_namespace": "default"
    });
    assert_eq!(around::<Enrolment>(&said), said);
    assert_eq!(around::<Enrolment>(&json!({ "features": null })), json!({}));
}

#[test]
fn a_heartbeat() {
    let said = json!({
        "status": "up", "version": "54429",
        "workloads": [
            { "name": "nginx", "status": "Running", "last_data_upload": "0001-01-01T00:00:00.000Z" }
        ],
        "playbook-executions": null,
        "upgrade": { "current_commit_ID": "unknown" },
        "events": [{ "reason": "Failed", "message": "no such image", "type": "warn" }]
    });
    let mut written = said.clone();
    written["workloads"] = json!([{ "name": "nginx", "status": "Running" }]);
    written["playbook-executions"] = json!([]);
    assert_eq!(around::<Heartbeat>(&said), written);
    let ours = json!({
        "name": "nginx", "status": "Exited", "exit_code": 137, "message": "killed", "restarts": 3,
        "last_data_upload": "2022-03-20T14:45:25.271Z"
    });
    written["workloads"] = json!([ours]);
    assert_eq!(around::<Heartbeat>(&written), written);
}

/// As the original writes it, so nothing of it that is empty.
fn configuration() -> Value {
    json!({
        "device_id": "242e48d0", "version": "54429",
        "configuration": {
            "heartbeat": {
                "period_seconds": 60, "hardware_profile": { "include": true, "scope": "full" }
            },
            "storage": { "s3": {
                "bucket_host": "s3.apps", "bucket_port": 443, "bucket_name": "b",
                "bucket_region": "ignore", "aws_access_key_id": "aWQ=",
                "aws_secret_access_key": "a2V5", "aws_ca_bundle": "UEVN"
            } },
            "metrics": {
                "retention": { "max_mib": 200, "max_hours": 24 },
                "system": { "interval": 60, "allow_list": { "names": ["node_load1"] } },
                "data-transfer": { "interval": 30, "disabled": true },
                "receiver": {
                    "url": "https://receiver", "timeout_seconds": 10,
                    "request_num_samples": 30000, "caCert": "PEM"
                }
            },
            "os": {
                "commit_id": "c", "hosted_objects_url": "http://h", "automatically_upgrade": true
            },
            "log-collection": { "syslog": {
                "kind": "syslog", "buffer_size": 12,
                "syslog_config": { "address": "host:514", "protocol": "tcp" }
            } },
            "ansible-manager": { "period_seconds": 60 },
            "mounts": [
                { "device": "/dev/sdb", "directory": "/mnt", "type": "ext4", "options": "rw" }
            ]
        },
        "workloads": [{
            "name": "nginx", "namespace": "default", "labels": { "a": "b" },
            "annotations": { "c": "d" }, "specification": "containers: []\n",
            "data": { "egress": [{ "source": "stats", "target": "statistics" }], "ingress": [] },
            "imageRegistries": { "authFile": "{\"auths\":{}}" },
            "metrics": {
                "path": "/", "port": 8080, "interval": 60, "allow_list": { "names": [] },
                "containers": { "c": { "path": "/m", "port": 1 } }
            },
            "configmaps": ["kind: ConfigMap\n"], "log_collection": "syslog"
        }],
        "secrets": [{ "name": "s", "data": "{\"key\":\"a2V5\"}" }],
        "workloads_monitoring_interval": 15
    })
}

#[test]
fn a_configuration() {
    let said = configuration();
    assert_eq!(around::<DeviceConfigurationMessage>(&said), said);
    let mut more = said.clone();
    more["workloads"][0]["metrics"]["containers"]["c"]["disabled"] = json!(false);
    more["configuration"]["metrics"]["system"]["disabled"] = json!(false);
    assert_eq!(around::<DeviceConfigurationMessage>(&more), said, "what is false is left out");
}

#[test]
fn an_empty_configuration_still_has_its_lists() {
    let said = json!({ "configuration": {}, "workloads": [{ "data": {}, "labels": {} }] });
    let written = json!({
        "configuration": { "mounts": [] },
        "workloads": [{ "data": { "egress": [], "ingress": [] } }]
    });
    assert_eq!(around::<DeviceConfigurationMessage>(&said), written);
}

#[test]
fn a_configuration_of_the_first_days_has_paths() {
    let said =
        json!({ "workloads": [{ "data": { "paths": [{ "source": "a", "target": "b" }] } }] });
    let written = around::<DeviceConfigurationMessage>(&said);
    assert_eq!(written["workloads"][0]["data"]["egress"][0]["source"], "a");
}

#[test]
fn no_secret_is_in_what_a_log_would_show() {
    let said = configuration();
    let message: DeviceConfigurationMessage = serde_json::from_value(said.clone()).unwrap();
    let envelope = Message { content: said, ..Message::default() };
    let shown = format!("{message:?} {envelope:?}");
    for secret in ["a2V5", "aWQ=", "auths"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn a_disconnect_has_its_arguments_even_though_there_are_none() {
    let said = json!({
        "type": "command", "message_id": "m", "version": 1, "sent": "2022-03-20T14:45:25.000Z",
        "content": { "command": "disconnect", "arguments": null }
    });
    assert_eq!(around::<Message>(&said), said);
    let ours = serde_json::to_value(Command::new(Command::DISCONNECT)).unwrap();
    assert_eq!(ours, said["content"]);
    let delayed = json!({ "command": "reconnect", "arguments": { "delay": 5 } });
    assert_eq!(around::<Command>(&delayed), delayed);
}
