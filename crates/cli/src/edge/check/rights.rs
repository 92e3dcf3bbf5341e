//! What the operator and the user may do.

use crate::check::rights::{self, Need, Right, Role, right};
use crate::check::{Check, Observed};

use super::observe::{DEPLOYMENT, Rights};

const EDGE: &str = "management.project-flotta.io";
const DEVICES: &str = "edgedevices";
const REQUESTS: &str = "edgedevicesignedrequest";
/// The role of the operator in a namespace with devices.
const ROLE: &str = "flotta-edge-api-devices";

/// What this program uses.
pub const WANTED: [Right; 13] = [
    right(Need::View, "get", EDGE, DEVICES, ""),
    right(Need::View, "list", EDGE, DEVICES, ""),
    right(Need::View, "watch", EDGE, DEVICES, ""),
    right(Need::View, "list", EDGE, REQUESTS, ""),
    right(Need::View, "watch", EDGE, REQUESTS, ""),
    right(Need::View, "list", EDGE, "edgedeployments", ""),
    right(Need::View, "list", EDGE, "edgeworkloads", ""),
    right(Need::View, "list", EDGE, "edgedevicesets", ""),
    right(Need::View, "list", EDGE, "edgedevicegroups", ""),
    right(Need::Edit, "patch", EDGE, DEVICES, ""),
    right(Need::Edit, "delete", EDGE, DEVICES, ""),
    right(Need::Edit, "create", EDGE, REQUESTS, ""),
    right(Need::Edit, "patch", EDGE, REQUESTS, ""),
];

/// What the operator needs in a namespace with devices, as config/rbac/edge/devices_role.yaml has it.
pub const OPERATORS: [Right; 13] = [
    right(Need::View, "get", EDGE, DEVICES, ""),
    right(Need::View, "list", EDGE, DEVICES, ""),
    right(Need::View, "watch", EDGE, DEVICES, ""),
    right(Need::View, "create", EDGE, DEVICES, ""),
    right(Need::View, "patch", EDGE, DEVICES, ""),
    right(Need::View, "patch", EDGE, DEVICES, "status"),
    right(Need::View, "get", EDGE, REQUESTS, ""),
    right(Need::View, "list", EDGE, REQUESTS, ""),
    right(Need::View, "watch", EDGE, REQUESTS, ""),
    right(Need::View, "create", EDGE, REQUESTS, ""),
    right(Need::View, "patch", EDGE, REQUESTS, ""),
    right(Need::View, "delete", EDGE, REQUESTS, ""),
    right(Need::View, "patch", EDGE, REQUESTS, "status"),
];

const ROLES: [Role; 2] = [
    Role {
        need: Need::View,
        what: "you may look",
        role: "flotta-edge-viewer-role",
        binding: "edge-viewer",
    },
    Role {
        need: Need::Edit,
        what: "you may let devices in and send them away",
        role: "flotta-edge-editor-role",
        binding: "edge-editor",
    },
];

/// One line for each role.
pub fn mine(observed: &[(Right, Observed<bool>)], namespace: &str) -> Vec<Check> {
    rights::judge(observed, &ROLES, namespace)
}

/// One line for each namespace with devices.
pub fn operator(observed: &[(String, Rights)], home: &str) -> Vec<Check> {
    let what = "operator's rights";
    let line = |(namespace, rights): &(String, Rights)| {
        let missing: Vec<String> = rights
            .iter()
            .filter(|(_, may)| *may == Ok(false))
            .map(|(right, _)| right.named())
            .collect();
        if !missing.is_empty() {
            let finding = format!("not in namespace {namespace}: {}", missing.join(", "));
            let fix = format!(
                "kubectl -n {namespace} create rolebinding {ROLE} --clusterrole={ROLE} --serviceaccount={home}:{DEPLOYMENT}"
            );
            return Check::fail(what, finding, fix);
        }
        match rights.iter().find_map(|(_, may)| may.as_ref().err()) {
            Some(error) => {
                let account = format!("system:serviceaccount:{home}:{DEPLOYMENT}");
                error.unsure(
                    what,
                    &format!("kubectl auth can-i --list --as={account} -n {namespace}"),
                )
            }
            None => Check::ok(what, format!("all it needs in namespace {namespace}")),
        }
    };
    observed.iter().map(line).collect()
}
