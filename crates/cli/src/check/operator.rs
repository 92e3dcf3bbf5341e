//! Whether an operator is at work.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;

use super::{Check, Observed};
use crate::table::ago;

/// How old a lease that is held may look: it is renewed every 2 s, and clocks differ.
const STALE: SignedDuration = SignedDuration::from_secs(60);

/// How it is installed.
pub struct Installed<'a> {
    pub namespace: &'a str,
    pub deployment: &'a str,
    /// What installs it.
    pub install: &'a str,
}

impl Installed<'_> {
    pub fn judge(
        &self,
        deployment: &Observed<Option<Deployment>>,
        lease: &Observed<Option<Lease>>,
        now: Timestamp,
    ) -> Check {
        let what = "operator";
        let Self { namespace, deployment: name, install } = self;
        let logs = format!("kubectl -n {namespace} describe deployment {name}");
        if let Ok(Some(deployment)) = deployment {
            let ready = deployment.status.as_ref().and_then(|status| status.available_replicas);
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            return match ready.unwrap_or(0) {
                0 if wanted == 0 => Check::fail(
                    what,
                    "it is scaled to 0",
                    format!("kubectl -n {namespace} scale deployment {name} --replicas=1"),
                ),
                // Somebody may run it by hand while the Deployment is not up.
                0 if is_held(lease, now) => {
                    Check::ok(what, "at work, though not by its Deployment")
                }
                0 => Check::fail(what, "no Pod of its Deployment is available", logs),
                n => Check::ok(what, format!("{n} of {wanted} available")),
            };
        }
        match (deployment, lease) {
            (_, Ok(Some(_))) if is_held(lease, now) => {
                Check::ok(what, "at work: it renews its lease")
            }
            (Err(_), Ok(Some(lease))) => {
                let since = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
                let since =
                    since.map_or("never".into(), |time| format!("{} ago", ago(time.0, now)));
                let finding = format!("nobody holds its lease; last renewed: {since}");
                Check::fail(what, finding, logs)
            }
            (Ok(_), _) => {
                let finding = format!("there is no Deployment {name} in namespace {namespace}");
                Check::fail(what, finding, *install)
            }
            (Err(error), _) => error.unsure(what, &logs),
        }
    }
}

fn is_held(lease: &Observed<Option<Lease>>, now: Timestamp) -> bool {
    let Ok(Some(lease)) = lease else { return false };
    let Some(spec) = &lease.spec else { return false };
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let renewed = spec.renew_time.as_ref();
    !holder.is_empty() && renewed.is_some_and(|time| now.duration_since(time.0).abs() < STALE)
}
