//! What agents of every age may send.

use flashjob_api::edge::Hardware;
use flashjob_api::edge::wire::{
    Agent, DeviceConfigurationMessage, Enrolment, HardwareInfo, Heartbeat, Message, MessageType,
    Registration,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

fn sent(text: &str) -> Result<Option<String>, serde_json::Error> {
    let message: Message = serde_json::from_value(json!({ "sent": text }))?;
    let written = serde_json::to_value(message)?;
    Ok(written["sent"].as_str().map(str::to_owned))
}

#[test]
fn times_have_up_to_nine_digits_and_are_written_with_three() {
    for (said, written) in [
        ("2022-03-20T14:45:25Z", "2022-03-20T14:45:25.000Z"),
        ("2022-03-20T14:45:25.2Z", "2022-03-20T14:45:25.200Z"),
        ("2022-03-20T14:45:25.271828182Z", "2022-03-20T14:45:25.271Z"),
        ("2022-03-20T16:45:25.271828+02:00", "2022-03-20T14:45:25.271Z"),
    ] {
        assert_eq!(sent(said).unwrap().as_deref(), Some(written), "{said}");
    }
    for none in
        ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z", "0001-01-01T05:00:00+05:00", ""]
    {
        assert_eq!(sent(none).unwrap(), None, "{none}");
    }
    for wrong in ["yesterday", "2022-03-20", "2022-03-20T14:45:25"] {
        assert!(sent(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn only_four_types_are_messages() {
    let read = |text: Value| {
        serde_json::from_value::<Message>(json!({ "type": text })).map(|message| message.type_)
    };
    assert_eq!(read(json!("connection-status")).unwrap(), MessageType::ConnectionStatus);
    assert_eq!(read(json!("command")).unwrap(), MessageType::Command);
    assert_eq!(read(json!("event")).unwrap(), MessageType::Event);
    for data in [json!("data"), json!(""), json!(null)] {
        assert_eq!(read(data).unwrap(), MessageType::Data);
    }
    assert!(read(json!("date")).is_err());
}

/// Each key of a written message is null in turn, at every depth; all of them are read.
fn with_nulls<T: DeserializeOwned>(said: &Value) {
    fn each(value: &Value, change: &mut dyn FnMut(Value)) {
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    let with = |new: Value| {
                        let mut map: Map<String, Value> = map.clone();
                        map.insert(key.clone(), new);
                        Value::Object(map)
                    };
                    change(with(Value::Null));
                    each(child, &mut |new| change(with(new)));
                }
            }
            Value::Array(items) => {
                change(json!([null]));
                for item in items {
                    each(item, &mut |new| change(json!([new])));
                }
            }
            _ => {}
        }
    }
    let mut read = 0;
    each(said, &mut |changed| {
        read += 1;
        if let Err(e) = serde_json::from_value::<T>(changed.clone()) {
            panic!("{e}: {changed}");
        }
    });
    assert!(read > 1, "{said}");
}

fn hardware() -> Value {
    json!({
        "hostname": "edge1", "boot": { "current_boot_mode": "uefi", "pxe_interface": "eth0" },
        "cpu": {
            "architecture": "x86_64", "count": 4, "flags": ["sse"], "frequency": 2400.5,
            "model_name": "i7"
        },
        "memory": { "physical_bytes": 2, "usable_bytes": 1 },
        "system_vendor": {
            "manufacturer": "m", "product_name": "p", "serial_number": "s", "virtual": true
        },
        "interfaces": [{
            "biosdevname": "b", "client_id": "c", "flags": ["up"], "has_carrier": true,
            "ipv4_addresses": ["10.0.0.2/24"], "ipv6_addresses": ["fe80::1/64"],
            "mac_address": "00:00", "mtu": 1500, "name": "eth0", "product": "p",
            "speed_mbps": 1000, "vendor": "v"
        }],
        "disks": [{
            "bootable": true, "by_id": "i", "by_path": "p", "drive_type": "SSD", "hctl": "0:0",
            "id": "i", "io_perf": { "sync_duration": 3 }, "is_installation_media": true,
            "model": "m", "name": "sda", "path": "/dev/sda", "serial": "s", "size_bytes": 9,
            "smart": "{}", "vendor": "v", "wwn": "w"
        }],
        "gpus": [{
            "address": "a", "device_id": "d", "name": "n", "vendor": "v", "vendor_id": "i"
        }],
        "host_devices": [{
            "path": "/dev/null", "device_type": "char", "owner": 0, "group": 6, "major": 1,
            "minor": 3
        }],
        "mounts": [{ "device": "/dev/sda1", "directory": "/", "type": "ext4", "options": "rw" }]
    })
}

#[test]
fn null_is_read_everywhere() {
    with_nulls::<HardwareInfo>(&hardware());
    with_nulls::<Registration>(&json!({ "hardware": hardware(), "certificate_request": "c" }));
    with_nulls::<Enrolment>(&json!({
        "features": { "modelName": "m", "hardware": hardware() }, "target_namespace": "n"
    }));
    with_nulls::<Heartbeat>(&json!({
        "status": "up", "version": "1", "playbook-executions": [{}], "hardware": hardware(),
        "workloads": [{
            "name": "n", "status": "s", "last_data_upload": "", "exit_code": 1, "message": "m",
            "restarts": 2
        }],
        "upgrade": {
            "current_commit_ID": "c", "last_upgrade_status": "failed", "last_upgrade_time": "t"
        },
        "events": [{ "reason": "r", "message": "m", "type": "warn" }],
        "agent": { "name": "flashjob-agent", "version": "0.1.0" }
    }));
    with_nulls::<DeviceConfigurationMessage>(&json!({
        "device_id": "d", "version": "v", "secrets": [{ "name": "n", "data": "{}" }],
        "workloads": [{ "labels": {}, "data": { "egress": [{ "source": "s" }] }, "metrics": {
            "allow_list": { "names": ["n"] }, "containers": {} } }],
        "configuration": { "mounts": [{}], "log-collection": {}, "metrics": { "system": {} } },
    }));
    let every_key = ["type", "message_id", "response_to", "version", "sent", "directive"];
    let message: Map<String, Value> = every_key
        .into_iter()
        .chain(["metadata", "content"])
        .map(|k| (k.into(), Value::Null))
        .collect();
    assert_eq!(serde_json::from_value::<Message>(message.into()).unwrap(), Message::default());
}

#[test]
fn unknown_keys_are_passed_over() {
    let said = json!({ "status": "up", "time": "12:00", "more": { "a": [1] } });
    assert_eq!(serde_json::from_value::<Heartbeat>(said).unwrap().status, "up");
    let said = json!({ "certificate_request": "c", "os_image_id": "i" });
    assert_eq!(serde_json::from_value::<Registration>(said).unwrap().certificate_request, "c");
}

#[test]
fn an_agent_that_says_otherwise_who_it_is_is_heard_all_the_same() {
    let agent = |said: Value| {
        let said = json!({ "status": "up", "agent": said });
        let read: Heartbeat = serde_json::from_value(said).unwrap();
        assert_eq!(read.status, "up");
        read.agent
    };
    let ours = Agent { name: Agent::OURS.into(), version: "0.1.0".into() };
    assert_eq!(agent(json!({ "name": "flashjob-agent", "version": "0.1.0" })), Some(ours));
    for other in [json!("flotta 1.2"), json!(7), json!({ "name": 7 }), json!(null)] {
        assert_eq!(agent(other.clone()), None, "{other}");
    }
}

#[test]
fn hardware_has_no_control_characters() {
    let said = json!({ "hostname": "a\u{1b}[31mb", "cpu": { "flags": ["x\ny"] } });
    let said: HardwareInfo = serde_json::from_value(said).unwrap();
    let shown = Hardware::from(&said);
    assert_eq!(shown.hostname.as_deref(), Some("a [31mb"));
    assert_eq!(shown.cpu.unwrap().flags, Some(vec!["x y".to_owned()]));
}

#[test]
fn hardware_becomes_that_of_the_kind() {
    let said: HardwareInfo = serde_json::from_value(hardware()).unwrap();
    let shown = serde_json::to_value(Hardware::from(&said)).unwrap();
    let mut expected = camel(&hardware());
    expected["cpu"]["frequency"] = json!("2400.50");
    let mount = expected["mounts"][0].as_object_mut().unwrap();
    let folder = mount.remove("directory").unwrap();
    mount.insert("folder".into(), folder);
    assert_eq!(shown, expected);
    let nothing = Hardware::from(&HardwareInfo::default());
    assert_eq!(serde_json::to_value(nothing).unwrap(), json!({}));
}

fn camel(value: &Value) -> Value {
    let name = |key: &String| {
        let mut words = key.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
    };
    match value {
        Value::Object(map) => map.iter().map(|(k, v)| (name(k), camel(v))).collect(),
        Value::Array(items) => items.iter().map(camel).collect(),
        other => other.clone(),
    }
}

#[test]
fn hardware_without_end_is_cut() {
    let flags: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    let said = json!({ "hostname": "ä".repeat(100_000), "cpu": { "flags": flags } });
    let said: HardwareInfo = serde_json::from_value(said).unwrap();
    let shown = Hardware::from(&said);
    assert_eq!(shown.hostname.unwrap().chars().count(), 256);
    assert_eq!(shown.cpu.unwrap().flags.unwrap().len(), 512);
}
