use std::collections::BTreeMap;

use flashjob_sim::flashjob::{KeyKind, ServerCert};
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use super::observe::{AkriDevices, Balanced, Crd, Observations};
use super::writers::Rbac;
use super::*;
use crate::check::rights::Right;
use crate::check::{Mark, Observed, ReadError, draw};

const DENIED: ReadError = ReadError::Forbidden;

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn broken() -> ReadError {
    ReadError::Failed("connection\x1b[2J refused".into())
}

fn deployment(available: i32, wanted: i32) -> Deployment {
    let text = json!({ "spec": { "replicas": wanted, "selector": {}, "template": {} }, "status": { "availableReplicas": available } });
    serde_json::from_value(text).unwrap()
}

fn lease(holder: &str, renewed: &str) -> Lease {
    let text = json!({ "spec": { "holderIdentity": holder, "renewTime": renewed } });
    serde_json::from_value(text).unwrap()
}

fn found(all: usize, without: &[&str]) -> AkriDevices {
    let without_endpoint = without.iter().map(|name| (*name).to_owned()).collect();
    AkriDevices::Found { all, without_endpoint }
}

fn service(since: &str, addresses: &[&str]) -> Balanced {
    let addresses = addresses.iter().map(|text| (*text).to_owned()).collect();
    Balanced { path: "site/s".into(), since: Some(since.parse().unwrap()), addresses }
}

fn secret(certificate: &str, key: &str) -> Secret {
    let data = [("tls.crt", certificate), ("tls.key", key)];
    let data = data.map(|(name, text)| (name.to_owned(), ByteString(text.as_bytes().to_vec())));
    Secret { data: Some(BTreeMap::from(data)), ..Secret::default() }
}

fn settings(all: &[(&str, &str)]) -> Observed<Option<BTreeMap<String, String>>> {
    let all = all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Ok(Some(all.collect()))
}

fn all_well() -> Observations {
    let made = ServerCert::self_signed(KeyKind::P256).unwrap();
    Observations {
        version: Ok("v1.33.0".into()),
        crd: Ok(Crd::Ours),
        deployment: Ok(Some(deployment(1, 1))),
        lease: Err(DENIED),
        devices: Ok(found(3, &[])),
        services: Ok(vec![service("2026-11-15T11:00:00Z", &["192.0.2.1"])]),
        secret: Ok(Some(secret(&made.chain, &made.key))),
        settings: settings(&[("DICE_AUTH_URL", "http://dice-auth-service:8000")]),
        dice_service: Err(DENIED),
        rights: rights::WANTED.map(|right| (right, Ok(true))).into(),
        rbac: Ok(Rbac::default()),
    }
}

#[test]
fn where_all_is_well_every_line_says_so() {
    let lines = judge(&all_well(), "site", now());
    assert_eq!(lines.len(), 10);
    for line in lines {
        assert_eq!((line.mark, &line.fix), (Mark::Ok, &None), "{line:?}");
    }
}

#[test]
fn where_nothing_can_be_seen_every_line_says_that_and_what_to_do() {
    for error in [DENIED, broken()] {
        let seen = Observations {
            version: Err(error.clone()),
            crd: Err(error.clone()),
            deployment: Err(error.clone()),
            lease: Err(error.clone()),
            devices: Err(error.clone()),
            services: Err(error.clone()),
            secret: Err(error.clone()),
            settings: Err(error.clone()),
            dice_service: Err(error.clone()),
            rights: rights::WANTED.map(|right| (right, Err(error.clone()))).into(),
            rbac: Err(error.clone()),
        };
        let lines = judge(&seen, "site", now());
        assert_eq!(lines.len(), 10);
        for line in lines.iter().skip(1) {
            assert_eq!(line.mark, Mark::Unsure, "{line:?}");
            assert!(line.fix.is_some(), "{line:?}");
        }
        let failed = matches!(error, ReadError::Failed(_));
        assert_eq!(lines[0].mark, if failed { Mark::Fail } else { Mark::Ok });
        let text: String = lines.iter().map(|line| draw(line, |_, word| word.to_owned())).collect();
        assert!(!text.contains('\x1b'), "the server's words must not move the cursor");
    }
}

#[test]
fn one_thing_that_cannot_be_seen_hides_no_other() {
    let mut seen = all_well();
    seen.devices = Err(broken());
    let marks: Vec<Mark> = judge(&seen, "site", now()).iter().map(|line| line.mark).collect();
    assert_eq!(marks.iter().filter(|mark| **mark == Mark::Ok).count(), 9);
    assert_eq!(marks[3], Mark::Unsure);
}

#[test]
fn a_line_has_its_mark_first_and_its_fix_on_a_line_of_its_own() {
    let plain = |line: &Check| draw(line, |_, word| word.to_owned());
    assert_eq!(plain(&Check::ok("Akri", "3 devices")), "ok    Akri: 3 devices\n");
    assert_eq!(plain(&Check::fail("a", "b", "c\nd")), "FAIL  a: b\n      fix: c d\n");
    assert_eq!(plain(&Check::unsure("a", "b", "c")), "?     a: b\n      fix: c\n");
}

#[test]
fn the_original_crd_is_told_from_ours() {
    assert_eq!(cluster::flashjobs(&Ok(Crd::Original)).mark, Mark::Fail);
    assert_eq!(cluster::flashjobs(&Ok(Crd::Missing)).mark, Mark::Fail);
    assert_eq!(observe::whose(&flashjob_api::flashjob::crd::flashjob()), Crd::Ours);
    let original = json!({ "properties": { "status": { "properties": { "message": {} } } } });
    assert_eq!(observe::whose(&original), Crd::Original);
}

#[test]
fn the_operator_is_judged_by_its_deployment_and_else_by_its_lease() {
    let fresh = || Ok(Some(lease("a", "2026-11-15T11:59:58.000000Z")));
    let old = || Ok(Some(lease("a", "2026-11-15T11:00:00.000000Z")));
    let released = || Ok(Some(lease("", "2026-11-15T11:59:58.000000Z")));
    let cases = [
        (Ok(Some(deployment(1, 2))), Err(DENIED), Mark::Ok),
        (Ok(Some(deployment(0, 1))), old(), Mark::Fail),
        (Ok(Some(deployment(0, 1))), fresh(), Mark::Ok),
        (Ok(Some(deployment(0, 0))), Err(DENIED), Mark::Fail),
        (Ok(None), Ok(None), Mark::Fail),
        (Ok(None), old(), Mark::Fail),
        (Ok(None), fresh(), Mark::Ok),
        (Err(DENIED), fresh(), Mark::Ok),
        (Err(DENIED), old(), Mark::Fail),
        (Err(DENIED), released(), Mark::Fail),
        (Err(DENIED), Ok(None), Mark::Unsure),
        (Err(DENIED), Err(DENIED), Mark::Unsure),
    ];
    for (deployment, lease, mark) in cases {
        let line = cluster::operator(&deployment, &lease, now());
        assert_eq!(line.mark, mark, "{lease:?}: {line:?}");
    }
}

#[test]
fn devices_without_an_address_are_named_and_only_some_of_many() {
    assert_eq!(cluster::akri(&Ok(AkriDevices::NoCrd)).mark, Mark::Fail);
    assert_eq!(cluster::akri(&Ok(found(0, &[]))).mark, Mark::Fail);
    let names: Vec<String> = (0..9).map(|n| format!("site/d{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let line = cluster::akri(&Ok(found(20, &names)));
    assert_eq!(line.mark, Mark::Fail);
    assert!(line.finding.contains("20 devices, 9 without"), "{line:?}");
    assert!(line.finding.contains("site/d4 and 4 more"), "{line:?}");
}

#[test]
fn a_load_balancer_is_one_that_gives_addresses_boards_can_dial() {
    let (young, old) = ("2026-11-15T11:59:30Z", "2026-11-15T11:58:00Z");
    let cases = [
        (vec![], Mark::Unsure),
        (vec![service(young, &[])], Mark::Unsure),
        (vec![service(young, &[]), service(old, &[])], Mark::Fail),
        (vec![service(old, &[]), service(young, &["192.0.2.1"])], Mark::Ok),
        (vec![service(old, &["lb.example"])], Mark::Ok),
        (vec![service(old, &["2001:db8::1"])], Mark::Fail),
        (vec![service(old, &["2001:db8::1", "192.0.2.1"])], Mark::Ok),
    ];
    for (services, mark) in cases {
        let line = cluster::load_balancer(&Ok(services.clone()), now());
        assert_eq!(line.mark, mark, "{services:?}: {line:?}");
    }
    let fix = cluster::load_balancer(&Ok(vec![]), now()).fix.unwrap();
    for word in ["create service loadbalancer", "get service", "delete service"] {
        assert!(fix.contains(word), "{fix}");
    }
}

#[test]
fn the_server_certificate_is_judged_as_boards_and_flasher_do() {
    let made = ServerCert::self_signed(KeyKind::P256).unwrap();
    let other = made.signs("other.example", KeyKind::P256).unwrap();
    let judged =
        |secret: Secret, at: Timestamp| flasher::certificate(&Ok(Some(secret)), "site", at);
    let cases = [
        (Secret::default(), "no tls.crt"),
        (secret(&made.chain, &other.key), "does not fit"),
        (secret(&other.chain, &other.key), "other.example"),
        (secret("nonsense", &made.key), "no certificate"),
    ];
    for (secret, wanted) in cases {
        let line = judged(secret, now());
        assert_eq!(line.mark, Mark::Fail, "{wanted}: {line:?}");
        assert!(line.finding.contains(wanted), "{wanted}: {line:?}");
    }
    let missing = flasher::certificate(&Ok(None), "site", now());
    assert_eq!(missing.mark, Mark::Fail);
    assert!(missing.fix.unwrap().contains("server-cert create --dir ./pinned -n site"));
    let end = crate::flashjob::server_cert::of_secret(&secret(&made.chain, &made.key))
        .ok()
        .unwrap()
        .leaf()
        .not_after();
    let days = |days: i64| SignedDuration::from_hours(days * 24);
    for (at, mark) in
        [(end - days(31), Mark::Ok), (end - days(29), Mark::Unsure), (end + days(1), Mark::Unsure)]
    {
        let line = judged(secret(&made.chain, &made.key), at);
        assert_eq!(line.mark, mark, "{line:?}");
        assert_eq!(mark == Mark::Ok, !line.finding.contains("boards do not look"), "{line:?}");
    }
}

#[test]
fn who_judges_devices_goes_by_the_flashers_own_order() {
    let root = ServerCert::self_signed(KeyKind::P256).unwrap().chain;
    let url = ("DICE_AUTH_URL", "http://dice:8000");
    let roots = ("ATTESTATION_ROOTS", root.as_str());
    let cases = [
        (settings(&[]), Ok(false), Mark::Fail, "nobody"),
        (Ok(None), Err(DENIED), Mark::Fail, "nobody"),
        (Ok(None), Ok(true), Mark::Unsure, "dice-auth-service"),
        (settings(&[url]), Ok(false), Mark::Ok, "http://dice:8000"),
        (settings(&[url, roots]), Ok(false), Mark::Ok, "ROOTS, 1 in all"),
        (settings(&[url, roots, ("ATTESTATION", "none")]), Ok(false), Mark::Unsure, "any device"),
        (settings(&[url, ("ATTESTATION", "off")]), Ok(false), Mark::Fail, "may be none"),
        (settings(&[url, ("ATTESTATION", " ")]), Ok(false), Mark::Ok, "http://dice:8000"),
        (
            settings(&[("ATTESTATION_ROOTS", "-----BEGIN x")]),
            Ok(false),
            Mark::Fail,
            "no certificate",
        ),
        (settings(&[("ATTESTATION_ROOTS", "/r.pem")]), Ok(false), Mark::Unsure, "/r.pem"),
        (settings(&[("DICE_AUTH_URL", "dice")]), Ok(false), Mark::Fail, "no URL"),
        (settings(&[("DICE_AUTH_URL", "ftp://dice")]), Ok(false), Mark::Fail, "no URL"),
        (settings(&[("DICE_AUTH_URL", "http://u:hush@dice")]), Ok(false), Mark::Fail, "login"),
    ];
    for (settings, service, mark, wanted) in cases {
        let line = flasher::attestation(&settings, &service, "site");
        assert_eq!(line.mark, mark, "{settings:?}: {line:?}");
        assert!(line.finding.contains(wanted), "{settings:?}: {line:?}");
        assert!(!line.finding.contains("hush"), "{line:?}");
    }
}

#[test]
fn a_right_that_is_missing_is_named_with_the_role_that_has_it() {
    let of = |allowed: fn(&Right) -> bool| {
        let seen = rights::WANTED.map(|right| (right, Ok(allowed(&right))));
        rights::judge(&seen, "site")
    };
    let viewer = of(|right| !["create", "patch"].contains(&right.verb));
    let marks: Vec<Mark> = viewer.iter().map(|line| line.mark).collect();
    assert_eq!(marks, [Mark::Ok, Mark::Unsure]);
    assert!(viewer[1].finding.contains("create flashjobs, patch flashjobs"), "{:?}", viewer[1]);
    let fix = viewer[1].fix.clone().unwrap();
    assert!(fix.contains("--clusterrole=operator-flashjob-editor-role") && fix.contains("-n site"));
    let nobody = of(|_| false);
    let marks: Vec<Mark> = nobody.iter().map(|line| line.mark).collect();
    assert_eq!(marks, [Mark::Fail, Mark::Unsure]);
    assert!(nobody.iter().all(|line| line.fix.is_some()));
    assert!(nobody[0].fix.clone().unwrap().contains("operator-flashjob-viewer-role"));
    assert!(nobody[0].finding.contains("get pods/log"));
}

/// Roles of these names, with these rules, and who has which: `who=role`.
fn rbac(roles: &[(&str, serde_json::Value)], bound: &[&str]) -> Rbac {
    let cluster_roles = roles.iter().map(|(name, rules)| {
        serde_json::from_value(json!({ "metadata": { "name": name }, "rules": rules })).unwrap()
    });
    let bindings = bound.iter().map(|binding| {
        let (who, role) = binding.split_once('=').unwrap();
        let (kind, name) = who.split_once(' ').unwrap();
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let subject = json!({ "kind": kind, "name": name, "namespace": namespace });
        let role =
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
        let all = json!({ "metadata": {}, "roleRef": role, "subjects": [subject] });
        serde_json::from_value(all).unwrap()
    });
    Rbac { cluster_roles: cluster_roles.collect(), bindings: bindings.collect(), ..Rbac::default() }
}

#[test]
fn who_may_look_and_write_ledgers_and_not_flash_is_named() {
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!([{ "apiGroups": [group], "resources": [resource], "verbs": verbs }]);
    let flashjobs = "application.flashjob.nbfc.io";
    let mut one = rule("", "configmaps", &["update"]);
    one[0]["resourceNames"] = json!(["settings"]);
    let roles = [
        ("view", rule(flashjobs, "flashjobs", &["get", "list"])),
        ("maps", rule("", "configmaps", &["create"])),
        ("one", one),
        ("flash", rule(flashjobs, "*", &["patch"])),
        ("pods", rule("", "pods", &["create"])),
        ("jobs", rule("batch", "jobs", &["*"])),
        ("all", rule("*", "*", &["*"])),
    ];
    let cases: [(&[&str], &str); 11] = [
        (&["User a=view", "User a=maps"], "User a"),
        (&["User a=view", "User b=maps"], ""),
        (&["User a=view", "User a=one"], ""),
        (&["User a=view", "User a=maps", "User a=flash"], ""),
        (&["User a=view", "User a=maps", "User a=pods"], ""),
        (&["User a=view", "User a=maps", "User a=jobs"], ""),
        (&["User a=all", "Group b=all"], ""),
        (&["Group system:authenticated=view", "Group dev=maps", "User x=view"], "Group dev"),
        (
            &["Group system:authenticated=maps", "Group system:authenticated=view", "User a=view"],
            "Group system:authenticated",
        ),
        (
            &["Group system:serviceaccounts:ci=view", "ServiceAccount ci/bot=maps"],
            "ServiceAccount ci/bot",
        ),
        (&["ServiceAccount kube-system/x=maps", "ServiceAccount kube-system/x=view"], ""),
    ];
    for (bound, wanted) in cases {
        let line = writers::judge(&Ok(rbac(&roles, bound)), "site");
        let mark = if wanted.is_empty() { Mark::Ok } else { Mark::Unsure };
        assert_eq!(line.mark, mark, "{bound:?}: {line:?}");
        if !wanted.is_empty() {
            let named = line.finding.rsplit(": ").next();
            assert_eq!(named, Some(wanted), "{bound:?}");
        }
    }
}
