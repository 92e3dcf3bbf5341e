use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::check::{Mark, ReadError};
use crate::edge::device::Device;
use crate::edge::request::Request;

fn now() -> Timestamp {
    "2026-11-19T12:00:00Z".parse().unwrap()
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn deployment(args: &[&str]) -> Deployment {
    read(
        json!({ "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": "manager", "args": args }] } } } }),
    )
}

fn nothing(error: &ReadError) -> Observations {
    Observations {
        version: Err(error.clone()),
        kinds: Err(error.clone()),
        deployment: Err(error.clone()),
        lease: Err(error.clone()),
        service: Err(error.clone()),
        serving: Err(error.clone()),
        secrets: Err(error.clone()),
        devices: Err(error.clone()),
        requests: Err(error.clone()),
        operator_rights: vec![(
            "default".into(),
            rights::OPERATORS.map(|right| (right, Err(error.clone()))).into(),
        )],
        rights: rights::WANTED.map(|right| (right, Err(error.clone()))).into(),
    }
}

#[test]
fn where_nothing_can_be_seen_every_line_says_that_and_what_to_do() {
    for error in [ReadError::Forbidden, ReadError::Failed("connection\u{1b} refused".into())] {
        let lines = judge(&nothing(&error), "flotta", "default", now());
        assert_eq!(lines.len(), 11);
        for line in &lines[1..] {
            assert_eq!(line.mark, Mark::Unsure, "{line:?}");
            assert!(line.fix.is_some(), "{line:?}");
        }
    }
}

#[test]
fn a_kind_that_is_not_served_is_named() {
    let line = cluster::kinds(&Ok(vec!["edgedevices".into(), "edgedevices/status".into()]));
    assert_eq!(line.mark, Mark::Fail);
    assert!(
        line.finding.contains("edgedeployments") && !line.finding.contains("edgedevices,"),
        "{line:?}"
    );
    let all = flashjob_api::edge::crd::NAMES.map(str::to_owned).into();
    assert_eq!(cluster::kinds(&Ok(all)).mark, Mark::Ok);
}

#[test]
fn the_service_has_to_find_the_one_pod_that_serves() {
    let service = |selector: Value| {
        let spec =
            json!({ "type": "ClusterIP", "selector": selector, "ports": [{ "port": 8043 }] });
        cluster::service(&Ok(Some(read(json!({ "spec": spec })))), "flotta")
    };
    let good = service(
        json!({ "app": "flotta-edge-api", "management.project-flotta.io/serving": "true" }),
    );
    assert_eq!(
        (good.mark, good.finding.as_str()),
        (Mark::Ok, "flotta-edge-api, ClusterIP, port 8043")
    );
    assert_eq!(service(json!({ "app": "flotta-edge-api" })).mark, Mark::Fail);
    assert_eq!(cluster::service(&Ok(None), "flotta").mark, Mark::Fail);
    let pod = |name: &str, ready: &str| {
        read(
            json!({ "metadata": { "name": name }, "status": { "conditions": [{ "type": "Ready", "status": ready }] } }),
        )
    };
    let cases = [
        (vec![], Mark::Fail),
        (vec![pod("a", "True")], Mark::Ok),
        (vec![pod("a", "False")], Mark::Fail),
        (vec![pod("a", "True"), pod("b", "True")], Mark::Unsure),
    ];
    for (pods, mark) in cases {
        assert_eq!(cluster::serving(&Ok(pods), "flotta").mark, mark);
    }
}

#[test]
fn the_namespaces_that_are_served_are_those_of_the_flag() {
    let of = |args: &[&str]| namespaces(&deployment(args));
    assert_eq!(of(&["--edge-namespaces=a, b", "--x"]), ["a", "b"]);
    assert_eq!(of(&["--edge-namespaces", "a"]), ["a"]);
    assert_eq!(of(&["--edge-namespaces"]), ["default"]);
    assert_eq!(of(&["--controllers=edge"]), ["default"]);
}

#[test]
fn a_right_that_the_operator_lacks_comes_with_the_binding_that_gives_it() {
    let seen = |may: fn(&str) -> bool| {
        let all = rights::OPERATORS.map(|right| (right, Ok(may(right.verb)))).into();
        rights::operator(&[("factory".to_owned(), all)], "flotta").remove(0)
    };
    assert_eq!(seen(|_| true).mark, Mark::Ok);
    let line = seen(|verb| verb != "patch");
    assert_eq!(line.mark, Mark::Fail);
    assert!(line.finding.contains("patch edgedevices/status"), "{line:?}");
    let fix = line.fix.unwrap();
    assert!(
        fix.starts_with("kubectl -n factory create rolebinding flotta-edge-api-devices"),
        "{fix}"
    );
}

fn device(name: &str, keys: &str, ready: &str) -> Device {
    let object: DynamicObject = read(json!({
        "metadata": { "name": name, "namespace": "n", "annotations": { "management.project-flotta.io/keys": keys } },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    }));
    Device::read(object)
}

#[test]
fn devices_in_trouble_and_devices_that_wait_are_named() {
    let key =
        json!({ "key": "a".repeat(64), "ca": "0".repeat(16), "since": "2026-11-18T00:00:00Z" });
    let keys = |until: &str| json!({ "current": key, "until": until }).to_string();
    let (far, near) = (keys("2027-01-01T00:00:00Z"), keys("2026-12-01T00:00:00Z"));
    let all = vec![
        device("well", &far, "True"),
        device("ends", &near, "True"),
        device("silent", &far, "Unknown"),
        device("spoilt", "{", "True"),
    ];
    let line = fleet::devices(&Ok(all), now());
    let wanted = "of 4: 1 whose record of keys cannot be read: n/spoilt; 1 whose certificate ends within two weeks or has ended: \
                  n/ends; 1 that do not report: n/silent";
    assert_eq!((line.mark, line.finding.as_str()), (Mark::Unsure, wanted));
    assert_eq!(fleet::devices(&Ok(vec![device("well", &far, "True")]), now()).mark, Mark::Ok);
    let request =
        |approved, declined| Request { name: "r".into(), approved, declined, ..Request::default() };
    let none = fleet::requests(&Ok(vec![request(true, false), request(false, true)]));
    assert_eq!(none.mark, Mark::Ok);
    assert_eq!(fleet::requests(&Ok(vec![request(false, false)])).mark, Mark::Unsure);
}
