use flashjob_api::edge::EdgeReason;
use serde_json::{Value, json};

use super::super::material::tests::Namespace;
use super::*;

fn rendered(said: &Value, namespace: &Namespace) -> RenderedSettings {
    render("default", &serde_json::from_value(said.clone()).unwrap(), None, namespace)
}

/// What is sent, and the problems.
fn sent(said: &Value, namespace: &Namespace) -> (Value, Vec<(EdgeReason, String)>) {
    let rendered = rendered(said, namespace);
    assert!(!rendered.unread);
    let problems = rendered.problems.into_iter();
    let problems = problems.map(|problem| (problem.reason, problem.message)).collect();
    (serde_json::to_value(rendered.configuration).unwrap(), problems)
}

#[test]
fn a_period_that_is_none_is_a_minute() {
    let period = |said: Value| {
        let (sent, _) = sent(&json!({ "heartbeat": said }), &Namespace::default());
        sent["heartbeat"]["period_seconds"].clone()
    };
    let periods =
        [json!(null), json!({}), json!({ "periodSeconds": 0 }), json!({ "periodSeconds": -1 })];
    assert!(periods.into_iter().map(period).all(|seconds| seconds == 60));
    assert_eq!(period(json!({ "periodSeconds": 5 })), 5);
}

#[test]
fn the_originals_agent_finds_the_hardware_profile_and_the_receiver_wherever_it_looks() {
    for said in [json!({}), json!({ "heartbeat": {}, "metrics": {} })] {
        let (sent, problems) = sent(&said, &Namespace::default());
        assert_eq!(sent["heartbeat"]["hardware_profile"], json!({}), "{said}");
        let receiver = json!({ "timeout_seconds": 10, "request_num_samples": 30000 });
        assert_eq!(sent["metrics"], json!({ "receiver": receiver }), "{said}");
        assert!(problems.is_empty());
    }
}

#[test]
fn a_log_server_that_cannot_be_had_is_left_out_and_the_others_are_not() {
    let logs = json!({
        "gone": { "syslogConfig": { "name": "gone" } },
        "no-address": { "syslogConfig": { "name": "no-address" } },
        "odd": { "syslogConfig": { "name": "odd" } },
        "good": { "bufferSize": 3, "syslogConfig": { "name": "good" } },
        "plain": { "kind": "syslog", "bufferSize": 0 }
    });
    let namespace = Namespace::default()
        .config_map("no-address", &[("Protocol", "udp")])
        .config_map("odd", &[("Address", "h:1"), ("Protocol", "tls")])
        .config_map("good", &[("Address", "h:514"), ("Protocol", "udp")]);
    let (sent, problems) = sent(&json!({ "logCollection": logs }), &namespace);
    let wanted = json!({
        "good": {
            "kind": "syslog", "buffer_size": 3,
            "syslog_config": { "address": "h:514", "protocol": "udp" }
        },
        "plain": { "kind": "syslog", "buffer_size": 12 }
    });
    assert_eq!(sent["log-collection"], wanted);
    let said = [
        (
            EdgeReason::ConfigMapMissing,
            "there is no ConfigMap default/gone; logCollection.gone.syslogConfig needs it",
        ),
        (
            EdgeReason::ConfigMapKeyMissing,
            "Protocol of the ConfigMap default/odd is neither tcp nor udp; \
             logCollection.odd.syslogConfig needs it",
        ),
        (
            EdgeReason::ConfigMapKeyMissing,
            "the ConfigMap default/no-address has no key Address; \
             logCollection.no-address.syslogConfig needs it",
        ),
    ];
    assert_eq!(problems, said.map(|(reason, message)| (reason, message.to_owned())));
}

#[test]
fn a_receiver_whose_ca_cannot_be_had_gets_nothing() {
    let receiver = |url: &str| {
        let receiver = json!({
            "url": url, "caSecretName": "ca", "timeoutSeconds": 3, "requestNumSamples": 0
        });
        json!({ "metrics": { "receiverConfiguration": receiver } })
    };
    let limits = json!({ "timeout_seconds": 3, "request_num_samples": 30000 });
    let (sent_, problems) = sent(&receiver("https://r"), &Namespace::default());
    assert_eq!(
        (&sent_["metrics"]["receiver"], problems[0].0),
        (&limits, EdgeReason::SecretMissing)
    );
    let empty = Namespace::default().secret("ca", &[("ca.crt", "")]);
    let (sent_, problems) = sent(&receiver("https://r"), &empty);
    assert_eq!(
        (&sent_["metrics"]["receiver"], problems[0].0),
        (&limits, EdgeReason::SecretKeyMissing)
    );
    // Without TLS there is nothing to prove.
    let (sent_, problems) = sent(&receiver("http://r"), &Namespace::default());
    assert_eq!(sent_["metrics"]["receiver"]["url"], "http://r");
    assert!(problems.is_empty());
}

#[test]
fn what_is_switched_off_stays_off_without_its_allow_list() {
    let said = json!({ "metrics": {
        "system": { "disabled": true, "interval": 5, "allowList": { "name": "gone" } },
        "dataTransfer": { "interval": 0, "allowList": { "name": "list" } }
    } });
    let namespace =
        Namespace::default().config_map("list", &[("metrics_list.yaml", "names:\n- a\n- b\n")]);
    let (sent, problems) = sent(&said, &namespace);
    assert_eq!(sent["metrics"]["system"], json!({ "disabled": true, "interval": 5 }));
    let transfer = json!({ "interval": 60, "allow_list": { "names": ["a", "b"] } });
    assert_eq!(sent["metrics"]["data-transfer"], transfer);
    let message =
        "there is no ConfigMap default/gone; metrics.system.allowList needs it".to_owned();
    assert_eq!(problems, [(EdgeReason::ConfigMapMissing, message)]);
}

#[test]
fn an_allow_list_may_say_nothing_but_not_just_anything() {
    let list = |text: &str| {
        let said = json!({ "metrics": { "system": { "allowList": { "name": "list" } } } });
        let namespace = Namespace::default().config_map("list", &[("metrics_list.yaml", text)]);
        let (sent, problems) = sent(&said, &namespace);
        (sent["metrics"]["system"]["allow_list"].clone(), problems.first().map(|problem| problem.0))
    };
    for none in ["names: []", "names:", "{}", "# nothing", "other: 1"] {
        assert_eq!(list(none), (json!({ "names": [] }), None), "{none}");
    }
    let long = format!("names: [{}]", "a, ".repeat(100_000));
    for wrong in ["", "names: a", "names: [[a]]", "names: {", "- a", long.as_str()] {
        let wanted = (json!(null), Some(EdgeReason::ConfigMapKeyMissing));
        assert_eq!(list(wrong), wanted, "{:.20}", wrong);
    }
}

#[test]
fn what_was_not_read_yet_is_said() {
    let said = json!({ "logCollection": { "a": { "syslogConfig": { "name": "c" } } } });
    let rendered = rendered(&said, &Namespace::default().unread("c"));
    assert!(rendered.unread && rendered.problems.is_empty());
}
