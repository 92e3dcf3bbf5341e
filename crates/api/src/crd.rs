//! CRDs as they are shipped: what a derived schema needs before API servers of all ages take it.
//!
//! Every optional field is nullable. API servers prune a null where the schema allows none, but not on server-side apply,
//! and manifests written for the originals carry explicit nulls.
//!
//! The derived schema is nearly right; what is changed here, and why:
//! - descriptions lose the line breaks of the source; `kubectl explain` wraps them itself.
//! - defaults go: they stand in the operator, where a manifest of any age meets them, and some servers refuse an empty one.
//! - an enum that may be null becomes a pattern: servers check a null against an enum's list, and old ones take no null in
//!   the list.
//! - whole-number bounds lose their `.0`.

use kube::CustomResourceExt;
use serde_json::{Value, json};

/// The CRD of a kind, tidied.
pub fn of<K: CustomResourceExt>() -> Value {
    let mut crd = serde_json::to_value(K::crd()).unwrap_or_default();
    tidy(&mut crd);
    crd
}

/// A CRD as YAML: the text of a file in `config/crd/bases`.
pub fn yaml(crd: &Value) -> String {
    serde_saphyr::to_string(crd).unwrap_or_default()
}

/// An object whose fields the schema leaves open; who reads it checks them.
pub(crate) fn open_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
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
