//! The CRD: the file in the repository is what the types say, and its rules refuse what they should.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may stop at once and say why

use flashjob_api::flashjob::crd;
use kube_cel::Validator;
use serde_json::{Value, json};

const FILE: &str =
    include_str!("../../../config/crd/bases/application.flashjob.nbfc.io_flashjobs.yaml");

fn spec_schema() -> Value {
    let crd = crd::flashjob();
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").cloned().unwrap()
}

/// Calls `look` with every schema below this one, and its path.
fn each(schema: &Value, path: &str, look: &mut impl FnMut(&str, &Value)) {
    look(path, schema);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        each(child, &format!("{path}.{name}"), look);
    }
}

#[test]
fn the_file_is_not_stale() {
    assert!(FILE == crd::flashjob_yaml(), "config/crd/bases is stale: run `make manifests`");
}

#[test]
fn every_field_says_what_it_is_for() {
    let crd = crd::flashjob();
    let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
    for part in ["spec", "status"] {
        each(&schema["properties"][part], part, &mut |path, schema| {
            let words = schema["description"].as_str().unwrap_or_default();
            assert!(words.len() > 8, "{path} is described as {words:?}");
            assert!(!words.contains('\n'), "{path} has a line break in its description");
        });
    }
}

#[test]
fn every_optional_field_may_be_null() {
    each(&spec_schema(), "spec", &mut |path, schema| {
        let required = [json!("spec"), json!("spec.firmware"), json!("spec.version")];
        if !required.contains(&json!(path)) {
            assert_eq!(schema["nullable"], true, "{path}");
        }
    });
}

#[test]
fn names_and_columns_are_as_documented() {
    let crd = crd::flashjob();
    let names = &crd["spec"]["names"];
    assert_eq!(names["plural"], "flashjobs");
    assert_eq!(names["shortNames"], json!(["fj"]));
    assert_eq!(names["categories"], json!(["edge"]));
    let columns = crd.pointer("/spec/versions/0/additionalPrinterColumns").unwrap();
    let columns: Vec<&str> =
        columns.as_array().unwrap().iter().flat_map(|c| c["name"].as_str()).collect();
    assert_eq!(columns, ["Phase", "Done", "Failed", "Version", "Age"]);
    assert_eq!(spec_schema()["properties"]["uuid"]["maxItems"], 40_000);
}

/// The API server under the other tests is older than CEL and drops the rules, so they are run here.
#[test]
fn a_spec_without_devices_is_refused_by_the_rules() {
    let rules = |spec: Value| Validator::new().validate(&spec_schema(), &spec, None);
    let base = |more: Value| {
        let mut spec = json!({ "firmware": "f", "version": "v" });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    assert!(rules(base(json!({ "uuid": ["a"] }))).is_ok());
    assert!(rules(base(json!({ "deviceSelector": { "device": "esp32" } }))).is_ok());
    let errors = rules(base(json!({}))).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(format!("{errors:?}").contains("name at least one device"));
}

/// Rules whose cost a server cannot bound make it refuse the whole CRD: only `has()` and comparisons of scalars are used.
#[test]
fn rules_are_cheap() {
    each(&spec_schema(), "spec", &mut |path, schema| {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let text = rule["rule"].as_str().unwrap();
            for costly in [".all(", ".exists(", ".map(", ".filter(", ".matches(", ".size("] {
                assert!(!text.contains(costly), "{path}: {text}");
            }
        }
    });
}
