//! What the user may do in a namespace, and what to ask for.

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::{Check, Observed, soon};

/// Something one may do or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: &'static str,
    pub need: Need,
}

/// Which role has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    View,
    Edit,
}

pub const fn right(
    need: Need,
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
) -> Right {
    Right { verb, group, resource, subresource, need }
}

/// A role that is shipped.
pub struct Role {
    pub need: Need,
    /// What one may with it.
    pub what: &'static str,
    pub role: &'static str,
    /// A name for its RoleBinding.
    pub binding: &'static str,
}

/// One line for each role.
pub fn judge(observed: &[(Right, Observed<bool>)], roles: &[Role], namespace: &str) -> Vec<Check> {
    let line = |Role { need, what, role, binding }: &Role| {
        let mine = || observed.iter().filter(|(right, _)| right.need == *need);
        let missing: Vec<String> =
            mine().filter(|(_, may)| *may == Ok(false)).map(|(right, _)| right.named()).collect();
        if !missing.is_empty() {
            let finding = format!("not in namespace {namespace}: {}", missing.join(", "));
            let fix = format!(
                "an administrator: kubectl create rolebinding {binding} --clusterrole={role} --user=YOU -n {namespace}"
            );
            return match need {
                Need::View => Check::fail(what, finding, fix),
                // Who only looks needs no more.
                Need::Edit => Check::unsure(what, finding, fix),
            };
        }
        match mine().find_map(|(_, may)| may.as_ref().err()) {
            Some(error) => error.unsure(what, &format!("kubectl auth can-i --list -n {namespace}")),
            None => {
                let all: Vec<String> = mine().map(|(right, _)| right.named()).collect();
                Check::ok(what, all.join(", "))
            }
        }
    };
    roles.iter().map(line).collect()
}

impl Right {
    pub fn named(&self) -> String {
        let Right { verb, resource, subresource, .. } = self;
        if subresource.is_empty() {
            return format!("{verb} {resource}");
        }
        format!("{verb} {resource}/{subresource}")
    }

    /// As the API server is asked.
    pub fn attributes(&self, namespace: &str) -> ResourceAttributes {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ResourceAttributes {
            namespace: text(namespace),
            group: text(self.group),
            resource: text(self.resource),
            subresource: text(self.subresource),
            verb: text(self.verb),
            ..ResourceAttributes::default()
        }
    }
}

/// Asks for all of them at once.
pub async fn mine(
    client: &Client,
    namespace: &str,
    wanted: &[Right],
) -> Vec<(Right, Observed<bool>)> {
    let ask = async |right: &Right| (*right, soon(may(client, namespace, right)).await);
    join_all(wanted.iter().map(ask)).await
}

async fn may(client: &Client, namespace: &str, right: &Right) -> kube::Result<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(right.attributes(namespace)),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
