//! What is judged of the objects the flasher looks for in the namespace.

use std::collections::BTreeMap;

use http::Uri;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::observe::{DICE_SERVICE, SETTINGS};
use crate::check::{Check, Observed};
use crate::flashjob::server_cert::{BOARDS_ASK_FOR, SECRET, is_for_boards, of_secret};
use crate::table::day;

/// When an end comes near.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

pub fn certificate(observed: &Observed<Option<Secret>>, namespace: &str, now: Timestamp) -> Check {
    let what = "server certificate";
    let import = format!(
        "kubectl flashjob server-cert import --cert server.crt --key server.key -n {namespace}"
    );
    let secret = match observed {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            let create =
                format!("kubectl flashjob server-cert create --dir ./pinned -n {namespace}");
            let fix = format!("{create}; or, if your boards pin one already: {import}");
            return Check::fail(what, format!("there is no Secret {SECRET} in {namespace}"), fix);
        }
        Err(error) => {
            return error.unsure(what, &format!("kubectl get secret {SECRET} -n {namespace}"));
        }
    };
    let pair = match of_secret(secret) {
        Ok(pair) => pair,
        Err(why) => return Check::fail(what, format!("Secret {SECRET}: {why}"), import),
    };
    if let Err(why) = is_for_boards(&pair) {
        return Check::fail(what, format!("Secret {SECRET}: {why}"), import);
    }
    let expires = pair.leaf().not_after();
    let left = expires.duration_since(now);
    if left > SOON {
        let finding = format!("for {BOARDS_ASK_FOR}, with its key, good until {}", day(expires));
        return Check::ok(what, finding);
    }
    let word = if left.is_negative() { "expired on" } else { "expires on" };
    let renew = format!("kubectl flashjob server-cert renew --dir ./pinned -n {namespace}");
    Check::unsure(
        what,
        format!("{word} {}; boards do not look at dates, other tools do", day(expires)),
        renew,
    )
}

/// Who judges devices, by the flasher's own rules.
pub fn attestation(
    settings: &Observed<Option<BTreeMap<String, String>>>,
    service: &Observed<bool>,
    namespace: &str,
) -> Check {
    let what = "attestation";
    let set = format!(
        "kubectl create configmap {SETTINGS} --from-literal=DICE_AUTH_URL=http://{DICE_SERVICE}:8000 -n {namespace}; or \
         ATTESTATION_ROOTS, see docs/attestation.md"
    );
    let edit = format!("kubectl edit configmap {SETTINGS} -n {namespace}; see docs/attestation.md");
    let settings = match settings {
        Ok(settings) => settings.clone().unwrap_or_default(),
        Err(error) => {
            let whom = format!("kubectl get configmap {SETTINGS} -n {namespace} -o yaml");
            return error.unsure(what, &whom);
        }
    };
    let get = |name: &str| settings.get(name).map(|v| v.trim()).filter(|v| !v.is_empty());
    match (get("ATTESTATION"), get("ATTESTATION_ROOTS"), get("DICE_AUTH_URL")) {
        (Some("none"), _, _) => Check::unsure(
            what,
            "ATTESTATION=none: any device that answers is flashed",
            format!("take it out before others can reach the boards' network: {edit}"),
        ),
        (Some(other), _, _) => {
            Check::fail(what, format!("ATTESTATION is {other:?}; it may be none"), edit)
        }
        (None, Some(text), _) if text.contains("-----BEGIN") => {
            match CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>() {
                Ok(roots) if !roots.is_empty() => {
                    Check::ok(what, format!("by ATTESTATION_ROOTS, {} in all", roots.len()))
                }
                _ => {
                    Check::fail(what, "ATTESTATION_ROOTS has no certificate that can be read", edit)
                }
            }
        }
        (None, Some(path), _) => Check::unsure(
            what,
            format!("by ATTESTATION_ROOTS, the file {path}; whether jobs mount it cannot be seen"),
            "see docs/flasher.md, Settings: the pod template of each job has to mount it",
        ),
        (None, None, Some(url)) => match judge_url(url) {
            Ok(()) => Check::ok(what, format!("by the service at {url}")),
            Err(why) => Check::fail(what, format!("DICE_AUTH_URL {why}"), edit),
        },
        (None, None, None) => match service {
            Ok(true) => Check::unsure(
                what,
                format!(
                    "only by the Service {DICE_SERVICE}, which jobs find that name an image in flashjobPodImage, and no others"
                ),
                set,
            ),
            _ => Check::fail(what, "nobody is named who judges devices", set),
        },
    }
}

fn judge_url(url: &str) -> Result<(), &'static str> {
    let uri: Uri = url.parse().map_err(|_| "is no URL")?;
    // Not repeated: there would be a password in it.
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("has a login in it; the attestation service takes none");
    }
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(()),
        _ => Err("is no URL"),
    }
}
