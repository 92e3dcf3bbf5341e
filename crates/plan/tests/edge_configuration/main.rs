//! Manifests, and beside each the content that the original's rules make of them (every field it knows).
//!
//! YAML in the content is compared by what it says: in the expected files it stands as what it reads as.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flashjob_api::edge::wire::{DeviceConfigurationMessage, Workload};
use flashjob_api::edge::{DeviceSpec, Settings, WorkloadSpec};
use flashjob_plan::edge::configuration::{
    Bucket, ConfigMapData, Found, Material, Membership, Needs, SecretData, SettingsText,
    WorkloadInput, compose, effective, fragment, render_settings,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Default)]
struct Manifests {
    device: Value,
    set: Option<Settings>,
    workloads: Vec<Value>,
    secrets: BTreeMap<String, Arc<SecretData>>,
    config_maps: BTreeMap<String, Arc<ConfigMapData>>,
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

impl Manifests {
    fn read(yaml: &str) -> Self {
        let mut manifests = Self::default();
        for object in serde_saphyr::from_multiple::<Value>(yaml).unwrap() {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            match object["kind"].as_str().unwrap() {
                "EdgeDevice" => manifests.device = object,
                "EdgeDeviceSet" => manifests.set = Some(read(&object["spec"])),
                "EdgeWorkload" => manifests.workloads.push(object),
                "Secret" => {
                    let secret: k8s_openapi::api::core::v1::Secret = read(&object);
                    manifests.secrets.insert(name, Arc::new(secret.into()));
                }
                "ConfigMap" => {
                    let map: k8s_openapi::api::core::v1::ConfigMap = read(&object);
                    manifests.config_maps.insert(name, Arc::new(map.into()));
                }
                other => panic!("{other}"),
            }
        }
        manifests
    }

    fn content(&self, bucket: Option<&Bucket>) -> String {
        let device: DeviceSpec = read(&self.device["spec"]);
        let membership = self.set.as_ref().map_or(Membership::None, Membership::Of);
        let (of_device, problem) = effective("default", &device.settings, membership);
        assert_eq!(problem, None);
        let material = Read { manifests: self, needs: Needs::of_settings(&of_device) };
        let rendered = render_settings("default", &of_device, bucket, &material);
        assert_eq!((rendered.problems, rendered.unread), (vec![], false));
        let fragments = self.workloads.iter().map(|workload| {
            let spec: WorkloadSpec = read(&workload["spec"]);
            let material = Read { manifests: self, needs: Needs::of_workload(&spec) };
            // Who reads workloads strips the prefix.
            let podman = |of: &str| -> BTreeMap<String, String> {
                let said: BTreeMap<String, String> =
                    serde_json::from_value(workload["metadata"][of].clone()).unwrap_or_default();
                let stripped = |(key, value): (String, String)| {
                    Some((key.strip_prefix("podman/")?.to_owned(), value))
                };
                said.into_iter().filter_map(stripped).collect()
            };
            let input = WorkloadInput {
                namespace: "default",
                name: workload["metadata"]["name"].as_str().unwrap(),
                labels: &podman("labels"),
                annotations: &podman("annotations"),
                spec: &spec,
            };
            Arc::new(fragment(&input, &material).unwrap())
        });
        let name = self.device["metadata"]["name"].as_str().unwrap();
        let composed = compose(name, &SettingsText::new(&rendered.configuration), fragments);
        assert!(composed.left_out.is_empty());
        composed.configuration.content_json()
    }
}

/// What was read: that which is needed. Asking for more is a mistake.
struct Read<'a> {
    manifests: &'a Manifests,
    needs: Needs,
}

fn look<T>(of: &BTreeMap<String, Arc<T>>, needed: &BTreeSet<String>, name: &str) -> Found<T> {
    assert!(needed.contains(name), "nobody said that {name} is needed");
    of.get(name).map_or(Found::Missing, |found| Found::There(Arc::clone(found)))
}

impl Material for Read<'_> {
    fn secret(&self, _: &str, name: &str) -> Found<SecretData> {
        look(&self.manifests.secrets, &self.needs.secrets, name)
    }

    fn config_map(&self, _: &str, name: &str) -> Found<ConfigMapData> {
        look(&self.manifests.config_maps, &self.needs.config_maps, name)
    }
}

fn yaml(text: &Value) -> Value {
    let text = text.as_str().unwrap();
    assert!(text.ends_with('\n'), "the agent joins documents with `---` in a line of its own");
    serde_saphyr::from_str(text).unwrap()
}

/// What is sent for the manifests, with its YAML read, is what the file says.
fn golden(manifests: &str, expected: &str, bucket: Option<&Bucket>) {
    let content = Manifests::read(manifests).content(bucket);
    let message: DeviceConfigurationMessage = serde_json::from_str(&content).unwrap();
    assert_eq!(serde_json::to_string(&message).unwrap(), content, "it is what serde writes");

    let mut content: Value = serde_json::from_str(&content).unwrap();
    let version = content["version"].take();
    assert_eq!(version.as_str().unwrap().len(), 32);
    for workload in content.get_mut("workloads").and_then(Value::as_array_mut).into_iter().flatten()
    {
        let _: Workload = read(workload);
        workload["specification"] = yaml(&workload["specification"]);
        for map in
            workload.get_mut("configmaps").and_then(Value::as_array_mut).into_iter().flatten()
        {
            *map = yaml(map);
        }
    }
    let mut expected: Value = serde_json::from_str(expected).unwrap();
    expected["version"] = Value::Null;
    assert_eq!(content, expected, "{content:#}");
}

#[test]
fn every_field_there_is() {
    golden(include_str!("full.yaml"), include_str!("full.json"), None);
}

#[test]
fn a_device_that_says_nothing() {
    golden(include_str!("bare.yaml"), include_str!("bare.json"), None);
}

#[test]
fn a_member_of_a_set_with_a_claimed_bucket() {
    let bucket = Bucket {
        host: "s3.apps.example.com".into(),
        port: 443,
        name: "edge3-7f2c".into(),
        region: "ignore".into(),
        access_key: b"id".to_vec(),
        secret_key: b"key".to_vec(),
        ca: b"PEM".to_vec(),
    };
    golden(include_str!("member.yaml"), include_str!("member.json"), Some(&bucket));
}

#[test]
fn the_originals_example_of_the_first_days() {
    golden(include_str!("seed.yaml"), include_str!("seed.json"), None);
}
