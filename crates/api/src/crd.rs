//! The CRD as it is shipped.
//!
//! Every optional field is nullable. API servers prune a null where the schema allows none, but not on server-side apply,
//! and manifests written for the original carry explicit nulls.
//!
//! The derived schema is nearly right; what is changed here, and why:
//! - descriptions lose the line breaks of the source; `kubectl explain` wraps them itself.
//! - defaults go: they stand in the operator, where a manifest of any age meets them, and some servers refuse an empty one.
//! - an enum that may be null becomes a pattern: servers check a null against an enum's list, and old ones take no null in
//!   the list.
//! - whole-number bounds lose their `.0`.
//! - `uuid` gets its limits. `maxItems` bounds the cost of the rules on servers that estimate it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::FlashJob;

/// At most this many entries in `spec.uuid`: what fits an etcd object beside the rest.
pub const MAX_UUIDS: usize = 40_000;

/// The FlashJob CRD, ready to be applied.
pub fn flashjob() -> Value {
    let crd: CustomResourceDefinition = FlashJob::crd();
    let mut crd = serde_json::to_value(crd).unwrap_or_default();
    tidy(&mut crd);
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/uuid";
    if let Some(uuid) = crd.pointer_mut(spec) {
        uuid["maxItems"] = json!(MAX_UUIDS);
        uuid["items"]["maxLength"] = json!(317); // a namespace (63), "/", a name (253)
    }
    crd
}

/// The CRD as YAML: the text of `config/crd/bases/application.flashjob.nbfc.io_flashjobs.yaml`.
pub fn flashjob_yaml() -> String {
    serde_saphyr::to_string(&flashjob()).unwrap_or_default()
}

fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("default");
            if map.get("nullable") == Some(&Value::Bool(true))
                && let Some(Value::Array(values)) = map.remove("enum")
            {
                let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
                map.insert("pattern".into(), json!(format!("^({})$", words.join("|"))));
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            for bound in ["minimum", "maximum"] {
                if let Some(n) = map.get(bound).and_then(Value::as_f64)
                    && n.fract() == 0.0
                {
                    map.insert(bound.into(), json!(n as i64));
                }
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}
