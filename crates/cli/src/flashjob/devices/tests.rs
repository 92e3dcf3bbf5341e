use super::*;
use crate::output::{Output, print};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn devices() -> Vec<ListedDevice> {
    let instance = |name: &str, device: &str, version: &str| Instance {
        uid: format!("uid-{name}"),
        namespace: "site-a".to_owned(),
        name: name.to_owned(),
        endpoint: "192.0.2.1".into(),
        device: device.to_owned(),
        application: "thermo".to_owned(),
        version: version.to_owned(),
        configuration: "http-disc".to_owned(),
        ..Instance::default()
    };
    let flashing = Involved {
        at_work: Some(AtWork {
            job: "site-a/thermo-0.2.0".into(),
            state: flashjob_api::flashjob::DeviceState::Flashing,
        }),
        last: None,
    };
    let failed = Involved {
        at_work: None,
        last: Some(LastResult {
            job: "site-a/old".to_owned(),
            version: "0.1.5".to_owned(),
            result: "Failed".to_owned(),
            reason: Some("NoCallback".to_owned()),
            message: Some("nobody called".to_owned()),
            at: Some(at(100)),
        }),
    };
    vec![
        ListedDevice::new(&instance("http-disc-1", "esp32s3", "0.1.0"), Some(&flashing)),
        ListedDevice::new(&instance("http-disc-2", "", "0.1.0"), Some(&failed)),
        ListedDevice::new(&instance("x", "esp\u{1b}32", ""), None),
    ]
}

fn printed(output: Output) -> String {
    print(&devices(), output, at(400), true).unwrap()
}

#[test]
fn the_table_is_kubectls() {
    let wanted = "\
NAMESPACE   NAME          DEVICE    APPLICATION   VERSION   JOB                              LAST RESULT
site-a      http-disc-1   esp32s3   thermo        0.1.0     site-a/thermo-0.2.0 (Flashing)   -
site-a      http-disc-2   -         thermo        0.1.0     -                                Failed NoCallback 0.1.5, 5m ago
site-a      x             esp 32    thermo        -         -                                -
";
    assert_eq!(printed(Output::Table), wanted);
    let more = print(&devices(), Output::Table, at(400), false).unwrap();
    assert!(!more.contains("NAMESPACE") && more.lines().count() == 3, "{more}");
}

#[test]
fn wide_has_address_configuration_and_uid() {
    let wide = printed(Output::Wide);
    let lines: Vec<&str> = wide.lines().collect();
    assert!(
        lines[0].ends_with("LAST RESULT                       ENDPOINT    CONFIGURATION   UUID"),
        "{wide}"
    );
    assert!(lines[1].ends_with("192.0.2.1   http-disc       uid-http-disc-1"), "{wide}");
}

#[test]
fn names_are_what_uuid_takes() {
    assert_eq!(printed(Output::Name), "site-a/http-disc-1\nsite-a/http-disc-2\nsite-a/x\n");
}

#[test]
fn json_and_yaml_say_the_same() {
    let json: serde_json::Value = serde_json::from_str(&printed(Output::Json)).unwrap();
    let wanted = serde_json::json!({
        "namespace": "site-a",
        "name": "http-disc-2",
        "uuid": "uid-http-disc-2",
        "device": "",
        "application": "thermo",
        "version": "0.1.0",
        "endpoint": "192.0.2.1",
        "configuration": "http-disc",
        "lastResult": {
            "job": "site-a/old",
            "version": "0.1.5",
            "result": "Failed",
            "reason": "NoCallback",
            "message": "nobody called",
            "at": "1970-01-01T00:01:40Z",
        },
    });
    assert_eq!(json["devices"][1], wanted);
    assert_eq!(json["devices"][0]["atWork"]["state"], "Flashing");
    let yaml: serde_json::Value = serde_saphyr::from_str(&printed(Output::Yaml)).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn nothing_is_printed_as_nothing_and_as_an_empty_list() {
    let none = |output| print::<ListedDevice>(&[], output, at(0), true).unwrap();
    assert_eq!(none(Output::Table), "");
    assert_eq!(none(Output::Json), "{\n  \"devices\": []\n}\n");
}
