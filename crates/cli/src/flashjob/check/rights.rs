//! What the user may do in the namespace, and what to ask for.

use super::{Check, Observed};

/// Something one may do or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: &'static str,
    need: Need,
}

/// Which role has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    View,
    Edit,
}

const FLASHJOBS: &str = "application.flashjob.nbfc.io";

const fn right(
    need: Need,
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
) -> Right {
    Right { verb, group, resource, subresource, need }
}

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

/// One line for each role.
pub fn judge(observed: &[(Right, Observed<bool>)], namespace: &str) -> Vec<Check> {
    let bind = |role: &str, named: &str| {
        format!("kubectl create rolebinding {named} --clusterrole={role} --user=YOU -n {namespace}")
    };
    let roles = [
        (Need::View, "you may look", bind("operator-flashjob-viewer-role", "flashjob-viewer")),
        (Need::Edit, "you may flash", bind("operator-flashjob-editor-role", "flashjob-editor")),
    ];
    let line = |(need, what, fix): (Need, &'static str, String)| {
        let mine = || observed.iter().filter(|(right, _)| right.need == need);
        let missing: Vec<String> =
            mine().filter(|(_, may)| *may == Ok(false)).map(|(right, _)| named(right)).collect();
        if !missing.is_empty() {
            let finding = format!("not in namespace {namespace}: {}", missing.join(", "));
            let fix = format!("an administrator: {fix}");
            return match need {
                Need::View => Check::fail(what, finding, fix),
                // Who only looks needs no more.
                Need::Edit => Check::unsure(what, finding, fix),
            };
        }
        match mine().find_map(|(_, may)| may.as_ref().err()) {
            Some(error) => error.unsure(what, &format!("kubectl auth can-i --list -n {namespace}")),
            None => {
                let all: Vec<String> = mine().map(|(right, _)| named(right)).collect();
                Check::ok(what, all.join(", "))
            }
        }
    };
    roles.map(line).into()
}

fn named(right: &Right) -> String {
    let Right { verb, resource, subresource, .. } = right;
    if subresource.is_empty() {
        return format!("{verb} {resource}");
    }
    format!("{verb} {resource}/{subresource}")
}
