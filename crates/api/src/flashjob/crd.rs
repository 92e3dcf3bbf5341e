//! The FlashJob CRD. `uuid` gets its limits here: `maxItems` bounds the cost of the rules on servers that estimate it.

use serde_json::{Value, json};

use crate::crd;
use crate::flashjob::FlashJob;

/// At most this many entries in `spec.uuid`: what fits an etcd object beside the rest.
pub const MAX_UUIDS: usize = 40_000;

/// The FlashJob CRD, ready to be applied.
pub fn flashjob() -> Value {
    let mut crd = crd::of::<FlashJob>();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/uuid";
    if let Some(uuid) = crd.pointer_mut(spec) {
        uuid["maxItems"] = json!(MAX_UUIDS);
        uuid["items"]["maxLength"] = json!(317); // a namespace (63), "/", a name (253)
    }
    crd
}

/// The CRD as YAML: the text of `config/crd/bases/application.flashjob.nbfc.io_flashjobs.yaml`.
pub fn flashjob_yaml() -> String {
    crd::yaml(&flashjob())
}
