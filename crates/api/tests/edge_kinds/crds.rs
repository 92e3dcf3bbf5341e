//! The CRDs: the files in the repository are what the types say.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use flashjob_api::edge::{GROUP, crd};
use serde_json::{Value, json};

use crate::read;

fn schema(plural: &str) -> Value {
    let crd = crd::named(plural).unwrap();
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema").cloned().unwrap()
}

/// A step from an object to what is in it.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Entry,
    Value,
}

/// Calls `look` with every schema below this one and the way to it. Standard conditions are left alone: they are Kubernetes'.
fn each(schema: &Value, way: &[Step], look: &mut impl FnMut(&[Step], &Value)) {
    let mut go = |step: Step, child: &Value| {
        let way = [way, &[step]].concat();
        look(&way, child);
        each(child, &way, look);
    };
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        go(Step::Field(name.clone()), child);
    }
    let merged_by_key = schema["x-kubernetes-list-type"] == "map";
    if schema["items"].is_object() && !merged_by_key {
        go(Step::Entry, &schema["items"]);
    }
    if schema["additionalProperties"].is_object() {
        go(Step::Value, &schema["additionalProperties"]);
    }
}

/// An object that has this value at the end of the way.
fn at(way: &[Step], value: Value) -> Value {
    way.iter().rev().fold(value, |inner, step| match step {
        Step::Field(name) => json!({ name.as_str(): inner }),
        Step::Entry => json!([inner]),
        Step::Value => json!({ "some-name": inner }),
    })
}

#[test]
fn the_files_are_not_stale_and_none_is_missing() {
    let bases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd/bases");
    for plural in crd::NAMES {
        let file = fs::read_to_string(bases.join(format!("{GROUP}_{plural}.yaml"))).unwrap();
        let fresh = flashjob_api::crd::yaml(&crd::named(plural).unwrap());
        assert!(file == fresh, "{plural} is stale: run `make manifests`");
    }
    let files = fs::read_dir(bases).unwrap().map(|e| e.unwrap().file_name());
    let ours = files.filter(|name| name.to_string_lossy().starts_with(GROUP)).count();
    assert_eq!(ours, crd::NAMES.len());
    assert_eq!(crd::named("flashjobs"), None);
}

#[test]
fn nothing_is_required_or_filled_in_and_every_field_is_described_and_may_be_null() {
    for plural in crd::NAMES {
        let root = schema(plural);
        assert_eq!(root["required"], Value::Null, "{plural}");
        each(&root, &[], &mut |way, schema| {
            for key in ["required", "default", "enum", "pattern"] {
                assert_eq!(schema[key], Value::Null, "{plural} {way:?}: {key}");
            }
            if let Some(Step::Field(_)) = way.last() {
                assert_eq!(schema["nullable"], true, "{plural} {way:?}");
                let words = schema["description"].as_str().unwrap_or_default();
                assert!(words.len() > 8 && !words.contains('\n'), "{plural} {way:?}: {words:?}");
            }
        });
    }
}

/// The schema promises to take these nulls, so the types must read them.
#[test]
fn whatever_may_be_null_is_read() {
    for plural in crd::NAMES {
        let mut nulls = 0;
        each(&schema(plural), &[], &mut |way, schema| {
            if schema["nullable"] == true {
                let mut object = at(way, Value::Null);
                object["metadata"] = json!({ "name": "x" });
                let written =
                    read(plural, object).unwrap_or_else(|e| panic!("{plural} {way:?}: {e}"));
                assert!(written["spec"].is_object(), "{plural} {way:?}: {written}");
                nulls += 1;
            }
        });
        assert!(nulls > 20, "{plural}: {nulls}");
        let bare = read(plural, json!({ "metadata": { "name": "x" } })).unwrap();
        assert_eq!(bare["spec"], json!({}), "{plural}");
    }
}

#[test]
fn two_names_of_one_thing_have_one_schema() {
    for (older, newer) in
        [("edgedeployments", "edgeworkloads"), ("edgedevicegroups", "edgedevicesets")]
    {
        assert_eq!(schema(older)["properties"], schema(newer)["properties"], "{older}");
    }
    let fields = |plural: &str| -> BTreeSet<String> {
        let schema = schema(plural);
        schema["properties"]["spec"]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let more: Vec<String> =
        fields("edgedevices").difference(&fields("edgedevicesets")).cloned().collect();
    assert_eq!(more, ["requestTime"], "a set says all that a device says, but for when it came");
}

/// Everything the original's kinds have, of both its eras, and what we add.
#[test]
fn every_field_of_the_original_is_there() {
    let fields = |plural: &str, path: &str| -> Vec<String> {
        let schema = schema(plural);
        let path = path.replace("{}", "/additionalProperties").replace("[]", "/items");
        let pointer = path.split('.').map(|name| format!("/properties/{name}")).collect::<String>();
        let found = schema.pointer(&format!("{pointer}/properties"));
        found
            .and_then(Value::as_object)
            .unwrap_or_else(|| panic!("{path}"))
            .keys()
            .cloned()
            .collect()
    };
    let rows = [
        (
            "edgedevices",
            "spec",
            "heartbeat logCollection metrics mounts osInformation requestTime storage",
        ),
        ("edgedevices", "spec.osInformation", "automaticallyUpgrade commitID hostedObjectsURL"),
        ("edgedevices", "spec.heartbeat", "hardwareProfile periodSeconds"),
        ("edgedevices", "spec.heartbeat.hardwareProfile", "include scope"),
        ("edgedevices", "spec.storage.s3", "configMapName createOBC secretName"),
        ("edgedevices", "spec.metrics", "dataTransfer receiverConfiguration retention system"),
        ("edgedevices", "spec.metrics.retention", "maxHours maxMiB"),
        ("edgedevices", "spec.metrics.system", "allowList disabled interval"),
        (
            "edgedevices",
            "spec.metrics.receiverConfiguration",
            "caSecretName requestNumSamples timeoutSeconds url",
        ),
        ("edgedevices", "spec.logCollection{}", "bufferSize kind syslogConfig"),
        ("edgedevices", "spec.logCollection{}.syslogConfig", "name"),
        ("edgedevices", "spec.mounts[]", "device folder options type"),
        (
            "edgedevices",
            "status",
            "conditions dataObc deployments hardware lastSeenTime lastSyncedResourceVersion phase running upgradeInformation \
             workloads",
        ),
        (
            "edgedevices",
            "status.workloads[]",
            "exitCode lastDataUpload lastTransitionTime message name phase restarts",
        ),
        (
            "edgedevices",
            "status.upgradeInformation",
            "currentCommitID lastUpgradeStatus lastUpgradeTime",
        ),
        (
            "edgeworkloads",
            "spec",
            "data device deviceSelector imageRegistries logCollection metrics pod type",
        ),
        ("edgeworkloads", "spec.deviceSelector", "matchExpressions matchLabels"),
        ("edgeworkloads", "spec.data", "egress ingress paths"),
        ("edgeworkloads", "spec.data.paths[]", "source target"),
        ("edgeworkloads", "spec.imageRegistries.secretRef", "name"),
        ("edgeworkloads", "spec.metrics", "allowList containers interval path port"),
        ("edgeworkloads", "spec.metrics.containers{}", "disabled path port"),
        ("edgeworkloads", "status", "conditions counts message observedGeneration running"),
        ("edgeworkloads", "status.counts", "deploying failed matched offline running"),
        ("edgedevicesignedrequest", "spec", "approved features targetNamespace targetSet"),
        ("edgedevicesignedrequest", "spec.features", "hardware modelName"),
        ("edgedevicesignedrequest", "status", "conditions phase"),
        (
            "edgedevicesignedrequest",
            "status.conditions[]",
            "lastTransitionTime message status type",
        ),
    ];
    for (plural, path, wanted) in rows {
        let wanted: Vec<&str> = wanted.split(' ').collect();
        assert_eq!(fields(plural, path), wanted, "{plural} {path}");
    }
    let pod =
        schema("edgeworkloads").pointer("/properties/spec/properties/pod/properties/spec").cloned();
    assert_eq!(pod.unwrap()["x-kubernetes-preserve-unknown-fields"], true);
}

#[test]
fn names_and_columns_are_as_documented() {
    let rows = [
        ("edgedevices", "EdgeDevice", "Ready Synced Workloads Age"),
        ("edgedeployments", "EdgeDeployment", "Accepted Running Age"),
        ("edgeworkloads", "EdgeWorkload", "Accepted Running Age"),
        ("edgedevicegroups", "EdgeDeviceGroup", "Age"),
        ("edgedevicesets", "EdgeDeviceSet", "Age"),
        (
            "edgedevicesignedrequest",
            "EdgeDeviceSignedRequest",
            "deviceid targetNamespace Approved Status Age",
        ),
    ];
    assert_eq!(rows.map(|row| row.0), crd::NAMES);
    for (plural, kind, wanted) in rows {
        let crd = crd::named(plural).unwrap();
        assert_eq!(crd["metadata"]["name"], format!("{plural}.{GROUP}"));
        let names = &crd["spec"]["names"];
        assert_eq!((&names["plural"], &names["kind"]), (&json!(plural), &json!(kind)));
        assert_eq!(names["singular"], kind.to_lowercase());
        assert_eq!(names["categories"], json!(["edge"]));
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["subresources"], json!({ "status": {} }), "{plural}");
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        let columns: Vec<&str> = columns.iter().flat_map(|c| c["name"].as_str()).collect();
        assert_eq!(columns.join(" "), wanted, "{plural}");
    }
    let request = crd::named("edgedevicesignedrequest").unwrap();
    assert_eq!(request["spec"]["names"]["shortNames"], json!(["edsr"]));
}
