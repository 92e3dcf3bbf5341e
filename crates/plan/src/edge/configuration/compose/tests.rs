use flashjob_api::edge::wire::{DeviceConfigurationMessage, MessageType, directive};
use serde_json::{Value, json};

use super::super::fragment::tests::{render, rendered, workload};
use super::super::material::tests::Namespace;
use super::*;

/// A workload that uses that Secret.
fn using(name: &str, secret: Option<&str>, namespace: &Namespace) -> Arc<Fragment> {
    Arc::new(render(name, &workload(secret), namespace).unwrap())
}

fn namespace() -> Namespace {
    Namespace::default().secret("s", &[("key", "a")]).secret("t", &[("key", "b")])
}

fn settings(period: i64) -> SettingsText {
    let configuration: DeviceConfiguration =
        serde_json::from_value(json!({ "heartbeat": { "period_seconds": period } })).unwrap();
    SettingsText::new(&configuration)
}

fn composed(fragments: &[&Arc<Fragment>]) -> Configuration {
    let composed = compose("edge1", &settings(60), fragments.iter().map(|of| Arc::clone(of)));
    assert!(composed.left_out.is_empty());
    composed.configuration
}

fn read(configuration: &Configuration) -> DeviceConfigurationMessage {
    serde_json::from_str(&configuration.content_json()).unwrap()
}

#[test]
fn the_order_in_which_workloads_come_changes_nothing() {
    let namespace = namespace();
    let [a, b] = ["a", "b"].map(|name| using(name, Some("s"), &namespace));
    let (one, other) = (composed(&[&a, &b]), composed(&[&b, &a]));
    assert_eq!(one.version(), other.version());
    assert_eq!(one.content_json(), other.content_json());
}

#[test]
fn the_version_changes_with_all_that_is_sent() {
    let version = |device: &str, period, fragments: &[&Arc<Fragment>]| {
        let fragments = fragments.iter().map(|of| Arc::clone(of));
        compose(device, &settings(period), fragments).configuration.version()
    };
    let namespace = namespace();
    let changed = Namespace::default().secret("s", &[("key", "other")]);
    let [plain, with, after] = [
        using("a", None, &namespace),
        using("a", Some("s"), &namespace),
        using("a", Some("s"), &changed),
    ];
    let other_name = using("b", None, &namespace);
    let versions = [
        version("edge1", 60, &[]),
        version("edge2", 60, &[]),
        version("edge1", 61, &[]),
        version("edge1", 60, &[&plain]),
        version("edge1", 60, &[&with]),
        version("edge1", 60, &[&after]),
        version("edge1", 60, &[&other_name]),
        version("edge1", 60, &[&plain, &other_name]),
    ];
    let different: BTreeSet<_> = versions.iter().collect();
    assert_eq!(different.len(), versions.len());
    assert!(versions.iter().all(|version| version.len() == 32));
    assert_eq!(versions[4], version("edge1", 60, &[&using("a", Some("s"), &self::namespace())]));
}

#[test]
fn a_secret_of_two_workloads_is_sent_once() {
    let namespace = namespace();
    let a = using("a", Some("t"), &namespace);
    let b = using("b", Some("s"), &namespace);
    let c = using("c", Some("t"), &namespace);
    let message = read(&composed(&[&a, &b, &c]));
    let names: Vec<_> = message.secrets.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(names, ["s", "t"]);
    assert_eq!(message.workloads.len(), 3);
}

#[test]
fn a_secret_that_is_not_sent_does_not_change_the_version() {
    let older = Namespace::default().secret("s", &[("key", "older")]);
    let first = using("a", Some("s"), &namespace());
    let [same, behind] = [&namespace(), &older].map(|namespace| using("b", Some("s"), namespace));
    let (one, other) = (composed(&[&first, &same]), composed(&[&first, &behind]));
    assert_eq!(one.content_json(), other.content_json());
    assert_eq!(one.version(), other.version());
}

#[test]
fn a_device_without_workloads_is_sent_no_list_of_them() {
    let json: Value = serde_json::from_str(&composed(&[]).content_json()).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["configuration", "device_id", "version", "workloads_monitoring_interval"]);
}

#[test]
fn what_is_put_together_reads_as_what_went_in() {
    let namespace = namespace();
    let plain = rendered(json!({ "logCollection": "a \"quoted\" word" }));
    let configuration = composed(&[&using("db", Some("s"), &namespace), &Arc::new(plain)]);
    let message = read(&configuration);
    assert_eq!(message.device_id, "edge1");
    assert_eq!(message.version, configuration.version());
    assert_eq!(message.workloads[1].log_collection, "a \"quoted\" word");
    assert_eq!(message.secrets[0].data, r#"{"key":"YQ=="}"#);
    assert_eq!(message.workloads_monitoring_interval, 15);
    // Written by serde it is the same, byte by byte.
    assert_eq!(serde_json::to_string(&message).unwrap(), configuration.content_json());
}

#[test]
fn a_body_is_a_message_with_this_content() {
    let configuration = composed(&[&using("db", Some("s"), &namespace())]);
    let envelope = Message {
        type_: MessageType::Data,
        message_id: "m".into(),
        version: Message::VERSION,
        directive: directive::DEVICE.into(),
        content: json!("is not looked at"),
        ..Message::default()
    };
    let message: Message = serde_json::from_str(&configuration.body(&envelope)).unwrap();
    let content: Value = serde_json::from_str(&configuration.content_json()).unwrap();
    assert_eq!(message, Message { content, ..envelope });
}

#[test]
fn what_there_is_no_room_for_is_left_out_by_name() {
    let big = "x".repeat(1 << 20);
    let namespace = Namespace::default().secret("s", &[("key", "a")]);
    let fragment = |name: &str, size: usize| {
        let mut spec = workload(Some("s"));
        spec.log_collection = Some(big[..size].to_owned());
        Arc::new(render(name, &spec, &namespace).unwrap())
    };
    let names = ["c", "a", "d", "b", "e"];
    let sizes = [1 << 20, 1 << 20, 1 << 20, 1 << 20, 100];
    let all = names.into_iter().zip(sizes).map(|(name, size)| fragment(name, size));
    let composed = compose("edge1", &settings(60), all);
    assert_eq!(composed.left_out, ["c", "d"]);
    let kept = composed.configuration;
    assert!(kept.has("a") && kept.has("b") && kept.has("e") && !kept.has("c"));
    assert!(kept.content_json().len() <= LARGEST_CONFIGURATION + 1024);
}

#[test]
fn what_a_device_costs_is_a_few_pointers() {
    let namespace = namespace();
    let shared = using("db", Some("s"), &namespace);
    let devices: Vec<_> = (0..100).map(|_| composed(&[&shared])).collect();
    assert_eq!(Arc::strong_count(&shared), 101);
    assert!(std::mem::size_of_val(&devices[0]) <= 128);
}

#[test]
fn no_log_has_what_is_sent() {
    let configuration = composed(&[&using("db", Some("s"), &namespace())]);
    let shown = format!("{configuration:?} {:?}", settings(60));
    assert!(
        shown.contains("edge1") && !shown.contains("YQ==") && !shown.contains("period"),
        "{shown}"
    );
}
