//! What a Pod's processes are told about names.
//!
//! They share this machine's network and its name, so a Pod's host name is given to them in `HOSTNAME` and `/etc/hostname`,
//! and names lead to this machine: `/etc/hosts` has the Pod's own, with its subdomain if it has one, at 127.0.0.1, and its
//! hostAliases. No DNS knows the names of other Pods, and `gethostname` still says the machine's.

use std::fmt::Write;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// The address of every Pod that has a process.
pub(super) const POD_IP: &str = "127.0.0.1";

/// The longest host name there is.
const LONGEST: usize = 63;

fn short_name(pod: &Pod) -> String {
    let given = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    let mut name = given.filter(|name| !name.is_empty()).unwrap_or_else(|| pod.name_any());
    name.truncate(LONGEST);
    name.trim_end_matches(['-', '.']).to_owned()
}

fn full_name(pod: &Pod) -> Option<String> {
    let subdomain = pod.spec.as_ref()?.subdomain.as_deref().filter(|name| !name.is_empty())?;
    let namespace = pod.namespace().unwrap_or_default();
    Some(format!("{}.{subdomain}.{namespace}.svc.cluster.local", short_name(pod)))
}

/// The Pod's host name.
pub(super) fn name(pod: &Pod) -> String {
    let in_full = pod.spec.as_ref().is_some_and(|spec| spec.set_hostname_as_fqdn == Some(true));
    full_name(pod).filter(|_| in_full).unwrap_or_else(|| short_name(pod))
}

/// What is in `/etc/hosts`.
pub(super) fn file(pod: &Pod) -> String {
    let mut text = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n".to_owned();
    let short = short_name(pod);
    let names = full_name(pod).map_or(short.clone(), |full| format!("{full}\t{short}"));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{POD_IP}\t{names}");
    for alias in pod.spec.iter().flat_map(|spec| spec.host_aliases.iter().flatten()) {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        let _ = writeln!(text, "{}\t{names}", alias.ip);
    }
    text
}
