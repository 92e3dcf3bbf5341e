//! Which Secrets and ConfigMaps have to be known before something is rendered, all of them in its own namespace.
//!
//! A name that no object can have is left out: whoever asked the API server for it would ask for something else.

use std::collections::BTreeSet;

use flashjob_api::edge::{NameRef, Settings, WorkloadSpec};

use super::references::{Kind, of_pod};
use super::{settings, storage};
use crate::edge::device_id::is_subdomain;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub secrets: BTreeSet<String>,
    pub config_maps: BTreeSet<String>,
}

impl Needs {
    pub fn of_workload(spec: &WorkloadSpec) -> Self {
        let mut needs = Self::default();
        let pod = spec.pod.as_ref().and_then(|pod| pod.spec.as_ref());
        for reference in pod.into_iter().flat_map(of_pod) {
            needs.add(reference.kind, Some(reference.name));
        }
        let registries = spec.image_registries.as_ref();
        needs.add(Kind::Secret, name(registries.and_then(|of| of.secret_ref.as_ref())));
        let metrics = spec.metrics.as_ref();
        needs.add(Kind::ConfigMap, name(metrics.and_then(|of| of.allow_list.as_ref())));
        needs
    }

    /// Of what a device and its set say together.
    pub fn of_settings(settings: &Settings) -> Self {
        let mut needs = Self::default();
        for log in settings.log_collection.iter().flat_map(|logs| logs.values()) {
            needs.add(Kind::ConfigMap, name(log.syslog_config.as_ref()));
        }
        if let Some(metrics) = &settings.metrics {
            for part in [&metrics.system, &metrics.data_transfer].into_iter().flatten() {
                needs.add(Kind::ConfigMap, name(part.allow_list.as_ref()));
            }
            let receiver = metrics.receiver_configuration.as_ref();
            needs.add(Kind::Secret, receiver.and_then(settings::ca_secret));
        }
        if let Some((secret, config_map)) = storage::external(settings) {
            needs.add(Kind::Secret, secret);
            needs.add(Kind::ConfigMap, config_map);
        }
        needs
    }

    fn add(&mut self, kind: Kind, name: Option<&str>) {
        let Some(name) = name.filter(|name| is_subdomain(name)) else { return };
        let names = match kind {
            Kind::Secret => &mut self.secrets,
            Kind::ConfigMap => &mut self.config_maps,
        };
        names.insert(name.to_owned());
    }
}

/// The name of an object, if there is one.
pub(super) fn name(reference: Option<&NameRef>) -> Option<&str> {
    reference?.name.as_deref().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(names: &BTreeSet<String>) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_workload_needs_all_that_its_containers_volumes_registries_and_metrics_name() {
        let env = |name: &str, field: &str| {
            let key = json!({ "name": name, "key": "k" });
            json!({ "valueFrom": { field: key } })
        };
        let spec: WorkloadSpec = serde_json::from_value(json!({
            "pod": { "spec": {
                "initContainers": [{ "envFrom": [{ "secretRef": { "name": "s1" } }] }],
                "containers": [
                    { "env": [env("s2", "secretKeyRef"), env("c1", "configMapKeyRef")] },
                    { "envFrom": [{ "configMapRef": { "name": "c2", "optional": true } }] }
                ],
                "volumes": [
                    { "secret": { "secretName": "s3", "items": [{ "key": "a", "path": "a" }] } },
                    { "configMap": { "name": "c3" } }, { "emptyDir": {} }
                ]
            } },
            "imageRegistries": { "secretRef": { "name": "s4" } },
            "metrics": { "allowList": { "name": "c4" } }
        }))
        .unwrap();
        let needs = Needs::of_workload(&spec);
        assert_eq!(names(&needs.secrets), ["s1", "s2", "s3", "s4"]);
        assert_eq!(names(&needs.config_maps), ["c1", "c2", "c3", "c4"]);
    }

    #[test]
    fn settings_need_what_logs_metrics_and_storage_name() {
        let settings: Settings = serde_json::from_value(json!({
            "logCollection": { "a": { "syslogConfig": { "name": "c1" } }, "b": {} },
            "metrics": {
                "system": { "allowList": { "name": "c2" } },
                "dataTransfer": { "allowList": { "name": "c3" } },
                "receiverConfiguration": { "url": "https://r", "caSecretName": "s1" }
            },
            "storage": { "s3": { "secretName": "s2", "configMapName": "c4" } }
        }))
        .unwrap();
        let needs = Needs::of_settings(&settings);
        assert_eq!(names(&needs.secrets), ["s1", "s2"]);
        assert_eq!(names(&needs.config_maps), ["c1", "c2", "c3", "c4"]);
        assert_eq!(Needs::of_settings(&Settings::default()), Needs::default());
    }

    #[test]
    fn nothing_is_asked_for_by_a_name_that_leads_elsewhere() {
        let spec = |name: &str| {
            let reference = Some(NameRef { name: Some(name.into()) });
            let registries = flashjob_api::edge::ImageRegistries { secret_ref: reference };
            WorkloadSpec { image_registries: Some(registries), ..WorkloadSpec::default() }
        };
        for wrong in ["", "../configmaps/x", "a/b", "A", "a?watch=1"] {
            assert_eq!(Needs::of_workload(&spec(wrong)), Needs::default(), "{wrong:?}");
        }
    }

    #[test]
    fn a_pod_of_any_form_is_read() {
        for odd in [json!(null), json!(1), json!([1, null, {}]), json!({ "a": 1 }), json!([[]])] {
            let container = json!({ "env": odd, "envFrom": odd });
            let pod = json!({ "containers": odd, "initContainers": [container], "volumes": odd });
            let spec: WorkloadSpec =
                serde_json::from_value(json!({ "pod": { "spec": pod } })).unwrap();
            assert_eq!(Needs::of_workload(&spec), Needs::default(), "{odd}");
        }
    }
}
