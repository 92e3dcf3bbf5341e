//! What the user may do with FlashJobs in the namespace, and what to ask for.

use crate::check::rights::{self, Need, Right, Role, right};
use crate::check::{Check, Observed};

const FLASHJOBS: &str = "application.flashjob.nbfc.io";

/// What this program uses.
pub const WANTED: [Right; 9] = [
    right(Need::View, "get", FLASHJOBS, "flashjobs", ""),
    right(Need::View, "list", FLASHJOBS, "flashjobs", ""),
    right(Need::View, "watch", FLASHJOBS, "flashjobs", ""),
    right(Need::View, "list", "akri.sh", "instances", ""),
    right(Need::View, "list", "", "pods", ""),
    right(Need::View, "get", "", "pods", "log"),
    right(Need::View, "list", "", "configmaps", ""),
    right(Need::Edit, "create", FLASHJOBS, "flashjobs", ""),
    right(Need::Edit, "patch", FLASHJOBS, "flashjobs", ""),
];

const ROLES: [Role; 2] = [
    Role {
        need: Need::View,
        what: "you may look",
        role: "operator-flashjob-viewer-role",
        binding: "flashjob-viewer",
    },
    Role {
        need: Need::Edit,
        what: "you may flash",
        role: "operator-flashjob-editor-role",
        binding: "flashjob-editor",
    },
];

/// One line for each role.
pub fn judge(observed: &[(Right, Observed<bool>)], namespace: &str) -> Vec<Check> {
    rights::judge(observed, &ROLES, namespace)
}
