//! Keys, certificates and CSRs of openssl are read here, and what is made here is judged by openssl.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod certificates;
mod csr;
mod keys;
mod rotation;

use std::io::Write;
use std::process::{Command, Stdio};

use flashjob_pki::{CertifiedKey, PrivateKey, Profile};
use jiff::{SignedDuration, Timestamp};
use tempfile::{NamedTempFile, TempDir};

const EC: [&str; 3] = ["genpkey", "-algorithm", "EC"];
const P256: &str = "ec_paramgen_curve:prime256v1";
const P384: &str = "ec_paramgen_curve:secp384r1";
const P521: &str = "ec_paramgen_curve:secp521r1";

fn try_openssl(args: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new("openssl")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cannot run openssl; Debian has it in the package openssl");
    // It may end without reading all of it, and then says why.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
    if output.status.success() { Ok(out) } else { Err(format!("{args:?}: {out}{err}")) }
}

fn openssl(args: &[&str], input: &str) -> String {
    try_openssl(args, input).unwrap_or_else(|error| panic!("{error}"))
}

/// What openssl says of certificates that are trusted, those in between, and one to judge.
fn openssl_verify(anchors: &str, between: &str, leaf: &str, purpose: &str) -> Result<(), String> {
    let (dir, has_between) = (TempDir::new().unwrap(), !between.is_empty());
    let [anchors, between, leaf] = [("anchors", anchors), ("between", between), ("leaf", leaf)]
        .map(|(name, pem)| {
            let path = dir.path().join(name);
            std::fs::write(&path, pem).unwrap();
            path.to_str().unwrap().to_owned()
        });
    // At a time of ours, as everything here.
    let at = now().as_second().to_string();
    let args = ["verify", "-x509_strict", "-attime", &at, "-purpose", purpose];
    // And with none to trust beyond these.
    let trusted = ["-no-CApath", "-no-CAstore", "-CAfile", &anchors];
    let untrusted = ["-untrusted", &between];
    let untrusted = if has_between { &untrusted[..] } else { &[] };
    let all = [&args[..], &trusted, untrusted, &[&leaf]].concat();
    try_openssl(&all, "").map(drop)
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn days(days: i64) -> Timestamp {
    now() + SignedDuration::from_hours(24 * days)
}

fn ca(name: &str) -> CertifiedKey {
    let profile = Profile::ca(name, now(), days(3650));
    CertifiedKey::self_signed(PrivateKey::generate().unwrap(), &profile).unwrap()
}

fn leaf(name: &str) -> Profile {
    Profile::leaf(name, now(), days(30))
}
