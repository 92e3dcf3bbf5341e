//! Who could change what jobs say without the right to flash.
//!
//! What was done is written into ConfigMaps beside the job, its ledger. Who may flash from a namespace gains nothing by writing
//! there. Who is only meant to look at jobs, and may write ConfigMaps, can have a job say that a board was flashed, or stop it.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};

use crate::check::{Check, Observed, some_of};

/// The roles and bindings that hold in one namespace.
#[derive(Clone, Debug, Default)]
pub struct Rbac {
    pub roles: Vec<Role>,
    pub cluster_roles: Vec<ClusterRole>,
    pub bindings: Vec<RoleBinding>,
    pub cluster_bindings: Vec<ClusterRoleBinding>,
}

/// Whom a role is bound to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    User(String),
    Group(String),
    /// A service account: its namespace and name.
    Account(String, String),
}

/// The group everybody is in who has logged in.
const EVERYBODY: &str = "system:authenticated";
/// The group all service accounts are in; with a colon and a namespace behind it, those of that one.
const ACCOUNTS: &str = "system:serviceaccounts";

/// Verbs on a resource of a group, any of which is enough.
type VerbsOn = (&'static [&'static str], &'static str, &'static str);

const FLASHJOBS: &str = "application.flashjob.nbfc.io";
const VIEW: &[VerbsOn] = &[(&["get", "list", "watch"], FLASHJOBS, "flashjobs")];
const WRITE: &[VerbsOn] =
    &[(&["create", "update", "patch", "delete", "deletecollection"], "", "configmaps")];
/// Who makes Pods, by whatever makes them, can flash: see docs/security.md.
const FLASH: &[VerbsOn] = &[
    (&["create", "update", "patch"], FLASHJOBS, "flashjobs"),
    (&["create"], "", "pods"),
    (&["create"], "", "replicationcontrollers"),
    (&["create"], "apps", "deployments"),
    (&["create"], "apps", "statefulsets"),
    (&["create"], "apps", "daemonsets"),
    (&["create"], "apps", "replicasets"),
    (&["create"], "batch", "jobs"),
    (&["create"], "batch", "cronjobs"),
];

pub fn judge(observed: &Observed<Rbac>, namespace: &str) -> Check {
    let what = "ledgers";
    let list = "kubectl get rolebindings,clusterrolebindings -A -o wide";
    let writers = match observed {
        Ok(rbac) => viewers_who_write(rbac),
        Err(error) => return error.unsure(what, list),
    };
    if writers.is_empty() {
        return Check::ok(what, "who may look at jobs and not flash may not write ConfigMaps");
    }
    let finding = format!(
        "in namespace {namespace} these may look at jobs and not flash, yet write ConfigMaps, and so change what jobs say was \
         done: {}",
        some_of(&writers)
    );
    let fix = format!("take the right to write ConfigMaps from them; who has it by what: {list}");
    Check::unsure(what, finding, fix)
}

/// Each as it is bound. Who is in a group is not known here, but for those that everybody is in.
fn viewers_who_write(rbac: &Rbac) -> Vec<String> {
    let granted = granted(rbac);
    let group = |name: &str| granted.get(&Who::Group(name.to_owned())).cloned().unwrap_or_default();
    let writes = |who: &Who, own: &[&PolicyRule]| {
        let mut rules = [own, &group(EVERYBODY)].concat();
        if let Who::Account(namespace, _) = who {
            rules.extend(group(ACCOUNTS));
            rules.extend(group(&format!("{ACCOUNTS}:{namespace}")));
        }
        let may =
            |rights: &[VerbsOn]| rights.iter().any(|right| rules.iter().any(|r| gives(r, right)));
        may(VIEW) && may(WRITE) && !may(FLASH)
    };
    let found = granted.iter().filter(|(who, rules)| !who.is_the_clusters() && writes(who, rules));
    let found: Vec<&Who> = found.map(|(who, _)| who).collect();
    let everybody = Who::Group(EVERYBODY.to_owned());
    if found.contains(&&everybody) {
        vec![everybody.to_string()]
    } else {
        found.into_iter().map(Who::to_string).collect()
    }
}

fn granted(rbac: &Rbac) -> BTreeMap<Who, Vec<&PolicyRule>> {
    let mut granted: BTreeMap<Who, Vec<&PolicyRule>> = BTreeMap::new();
    let here = rbac.bindings.iter().map(|b| (&b.role_ref, &b.subjects));
    let everywhere = rbac.cluster_bindings.iter().map(|b| (&b.role_ref, &b.subjects));
    for (role, subjects) in here.chain(everywhere) {
        let rules = rules(rbac, role);
        for subject in subjects.iter().flatten() {
            granted.entry(Who::of(subject)).or_default().extend(rules);
        }
    }
    granted
}

fn rules<'a>(rbac: &'a Rbac, of: &RoleRef) -> &'a [PolicyRule] {
    let named = |name: &Option<String>| name.as_ref() == Some(&of.name);
    let rules = match of.kind.as_str() {
        "ClusterRole" => {
            rbac.cluster_roles.iter().find(|r| named(&r.metadata.name)).map(|r| &r.rules)
        }
        _ => rbac.roles.iter().find(|r| named(&r.metadata.name)).map(|r| &r.rules),
    };
    rules.and_then(Option::as_deref).unwrap_or_default()
}

/// A rule for objects of certain names says nothing of ledgers, whose names have their job's uid in them.
fn gives(rule: &PolicyRule, (verbs, group, resource): &VerbsOn) -> bool {
    let has = |given: &[String], word: &str| given.iter().any(|g| g == "*" || g == word);
    let given =
        |values: &'_ Option<Vec<String>>, value| has(values.as_deref().unwrap_or_default(), value);
    rule.resource_names.iter().flatten().next().is_none()
        && given(&rule.api_groups, group)
        && given(&rule.resources, resource)
        && verbs.iter().any(|verb| has(&rule.verbs, verb))
}

impl Who {
    fn of(subject: &Subject) -> Who {
        let name = subject.name.clone();
        let account = name.strip_prefix("system:serviceaccount:").and_then(|n| n.split_once(':'));
        match (subject.kind.as_str(), account) {
            ("ServiceAccount", _) => {
                Who::Account(subject.namespace.clone().unwrap_or_default(), name)
            }
            (_, Some((namespace, name))) => Who::Account(namespace.to_owned(), name.to_owned()),
            ("Group", _) => Who::Group(name),
            _ => Who::User(name),
        }
    }

    /// The control plane's own, which runs the cluster and does not look at jobs.
    fn is_the_clusters(&self) -> bool {
        match self {
            Who::User(name) => name.starts_with("system:"),
            Who::Group(name) => {
                let people = [EVERYBODY, "system:unauthenticated"].contains(&name.as_str());
                name.starts_with("system:") && !people && !name.starts_with(ACCOUNTS)
            }
            Who::Account(namespace, _) => namespace == "kube-system",
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::User(name) => write!(f, "User {name}"),
            Who::Group(name) => write!(f, "Group {name}"),
            Who::Account(namespace, name) => write!(f, "ServiceAccount {namespace}/{name}"),
        }
    }
}
