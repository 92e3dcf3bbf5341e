//! What our own agent leaves undone.

use std::sync::Arc;

use flashjob_api::edge::wire::DeviceConfiguration;

use super::fragment::Fragment;

/// What is asked for and not done by our agent, in alphabetical order.
pub fn unsupported(
    settings: &DeviceConfiguration,
    fragments: &[Arc<Fragment>],
) -> Vec<&'static str> {
    let measured = settings.metrics.as_ref().is_some_and(|metrics| {
        let parts = [&metrics.system, &metrics.data_transfer];
        // The limits of a receiver are always there.
        metrics.receiver.as_ref().is_some_and(|receiver| !receiver.url.is_empty())
            || metrics.retention.is_some()
            || parts.into_iter().flatten().any(|part| !part.disabled)
    });
    let asked = [
        ("logs", !settings.log_collection.is_empty() || fragments.iter().any(|of| of.logs)),
        ("metrics", measured || fragments.iter().any(|of| of.metrics)),
        ("mounts", !settings.mounts.is_empty()),
        ("os", settings.os.is_some()),
    ];
    asked.into_iter().filter_map(|(name, asked)| asked.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use flashjob_api::edge::Settings;
    use serde_json::{Value, json};

    use super::super::fragment::tests::rendered;
    use super::super::material::tests::Namespace;
    use super::super::settings;
    use super::*;

    fn of_settings(settings: Value) -> Vec<&'static str> {
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let rendered = settings::render("default", &settings, None, &Namespace::default());
        unsupported(&rendered.configuration, &[])
    }

    #[test]
    fn what_nobody_asks_for_is_not_missed() {
        assert!(of_settings(json!({})).is_empty());
        let off = json!({ "metrics": { "system": { "disabled": true } }, "mounts": [] });
        assert!(of_settings(off).is_empty());
        let done = json!({ "heartbeat": { "periodSeconds": 5 } });
        assert!(of_settings(done).is_empty());
    }

    #[test]
    fn each_that_is_asked_for_is_named() {
        let all = json!({
            "osInformation": { "commitID": "c" }, "mounts": [{ "device": "/dev/a" }],
            "logCollection": { "a": {} }, "metrics": { "system": {} }
        });
        assert_eq!(of_settings(all), ["logs", "metrics", "mounts", "os"]);
        let receiver = json!({ "metrics": { "receiverConfiguration": { "url": "http://r" } } });
        assert_eq!(of_settings(receiver), ["metrics"]);
    }

    #[test]
    fn a_workload_may_ask_for_it_too() {
        let none = DeviceConfiguration::default();
        let logs = Arc::new(rendered(json!({ "logCollection": "syslog" })));
        assert_eq!(unsupported(&none, &[logs]), ["logs"]);
        let metrics = Arc::new(rendered(json!({ "metrics": { "port": 1 } })));
        assert_eq!(unsupported(&none, &[metrics]), ["metrics"]);
        assert!(unsupported(&none, &[Arc::new(rendered(json!({})))]).is_empty());
    }
}
