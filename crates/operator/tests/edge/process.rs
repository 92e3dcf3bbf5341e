//! The process around Edge: its rights, its roles for people, its metrics and its health.

use anyhow::Result;
use flashjob_api::edge::EdgeDeployment;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, Identity, Manner};
use flashjob_sim::http::{answers, free_address, get};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SubjectAccessReview};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::heartbeats::{deploy, seen};

const GROUP: &str = "management.project-flotta.io";

/// What the shipped roles give the process, and what they do not.
#[tokio::test(flavor = "multi_thread")]
async fn the_process_may_do_what_it_needs_and_no_more() -> Result<()> {
    let site = EdgeSite::new().await?;
    let client = site.cluster.client_with_token(&site.operators.token)?;
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client);
    let (home, devices, elsewhere) = (site.home.as_str(), site.namespace.as_str(), "kube-system");
    let (requests, crds) = ("edgedevicesignedrequest", "customresourcedefinitions");
    let cases = [
        (
            GROUP,
            "edgedevices",
            "",
            devices,
            "get list watch create patch",
            "update delete deletecollection",
        ),
        (GROUP, "edgedevices", "status", devices, "patch", "update"),
        (
            GROUP,
            requests,
            "",
            devices,
            "get list watch create patch delete",
            "update deletecollection",
        ),
        (GROUP, requests, "status", devices, "patch", "update"),
        (GROUP, "edgedeployments", "", devices, "get list watch patch", "create update delete"),
        (GROUP, "edgeworkloads", "", devices, "get list watch patch", "create update delete"),
        (GROUP, "edgedeployments", "status", devices, "patch", "update"),
        (GROUP, "edgeworkloads", "status", devices, "patch", "update"),
        (GROUP, "edgedevicesets", "", devices, "get list watch", "create update patch delete"),
        (GROUP, "edgedevicegroups", "", devices, "get list watch", "create update patch delete"),
        ("", "secrets", "", devices, "get list watch", "create update patch delete"),
        ("", "configmaps", "", devices, "get list watch", "create update patch delete"),
        (
            "objectbucket.io",
            "objectbucketclaims",
            "",
            devices,
            "get list watch create",
            "update patch delete",
        ),
        (GROUP, "edgedevices", "", home, "", "get list create"),
        (GROUP, "edgedevices", "", elsewhere, "", "get list create patch"),
        ("", "secrets", "", home, "get list watch create patch delete", "update deletecollection"),
        ("", "secrets", "", elsewhere, "", "get list"),
        ("", "configmaps", "", home, "get list create patch delete", "update watch"),
        ("", "pods", "", home, "get patch", "list create delete"),
        ("", "pods", "", devices, "", "get list create patch delete"),
        ("", "pods", "exec", home, "", "create"),
        ("apps", "deployments", "", home, "", "get create patch"),
        ("coordination.k8s.io", "leases", "", home, "get create update", "patch delete"),
        ("apiextensions.k8s.io", crds, "", "", "", "get list patch delete"),
    ];
    for (group, resource, subresource, namespace, may, may_not) in cases {
        let wanted = may.split_whitespace().map(|verb| (verb, true));
        let unwanted = may_not.split_whitespace().map(|verb| (verb, false));
        for (verb, expected) in wanted.chain(unwanted) {
            let review = json!({ "spec": { "resourceAttributes": {
                "group": group, "resource": resource, "subresource": subresource,
                "verb": verb, "namespace": namespace,
            } } });
            let review: SelfSubjectAccessReview = serde_json::from_value(review)?;
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            assert_eq!(allowed, expected, "{verb} {group}/{resource}/{subresource} in {namespace}");
        }
    }
    Ok(())
}

/// The roles for people are for the namespaces' own `view` and `edit`, which no test cluster without controllers fills. So they
/// are bound by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_look_may_not_change_and_who_may_edit_may_not_read_keys() -> Result<()> {
    let site = EdgeSite::new().await?;
    for role in ["viewer", "editor"] {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": role },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": format!("flotta-edge-{role}-role") },
            "subjects": [{ "kind": "User", "name": role, "apiGroup": "rbac.authorization.k8s.io" }],
        });
        site.cluster.apply_yaml_in(&site.namespace, &binding.to_string()).await?;
    }
    let kinds = flashjob_api::edge::crd::NAMES;
    let may = async |user: &str, verb: &str, group: &str, resource: &str| {
        let review = json!({ "spec": { "user": user, "resourceAttributes": {
            "group": group, "resource": resource, "verb": verb, "namespace": site.namespace,
        } } });
        let review: SubjectAccessReview = serde_json::from_value(review)?;
        let reviews: Api<SubjectAccessReview> = Api::all(site.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        anyhow::Ok(answer.status.is_some_and(|status| status.allowed))
    };
    for kind in kinds {
        for verb in ["get", "list", "watch"] {
            assert!(may("viewer", verb, GROUP, kind).await?, "{verb} {kind}");
            assert!(may("editor", verb, GROUP, kind).await?, "{verb} {kind}");
        }
        for verb in ["create", "update", "patch", "delete"] {
            assert!(!may("viewer", verb, GROUP, kind).await?, "{verb} {kind}");
            assert!(may("editor", verb, GROUP, kind).await?, "{verb} {kind}");
        }
    }
    assert!(!may("editor", "deletecollection", GROUP, "edgedevices").await?);
    for user in ["viewer", "editor"] {
        assert!(!may(user, "get", "", "secrets").await?);
    }
    Ok(())
}

/// Has a device run something, and say more than anybody wants to read; then that cannot be sent any more.
async fn keeps_what_it_has(site: &EdgeSite, device: &Device) -> Result<()> {
    deploy(site, &["web"]).await?;
    eventually("a workload to run", PATIENCE, async || {
        device.fetch_configuration().await?;
        Ok(device
            .read(|l| l.configuration().is_some_and(|c| !c.workloads.is_empty()))
            .then_some(()))
    })
    .await?;
    (0..15).for_each(|_| device.say_event("Failed", "no such image", "warn"));
    device.heartbeat().await?;
    let runs = |found: &Value| found["status"]["running"] == "1/1";
    seen(site, device.id(), "it runs", runs).await?;
    let env_from = json!([{ "secretRef": { "name": "not-there" } }]);
    let container = json!({ "name": "web", "image": "nginx:1", "envFrom": env_from });
    let spec = json!({ "pod": { "spec": { "containers": [container] } } });
    let deployments: Api<EdgeDeployment> = site.api();
    let patch = Patch::Merge(json!({ "spec": spec }));
    deployments.patch("web", &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_what_happened_and_name_no_device() -> Result<()> {
    let site = EdgeSite::new().await?;
    let (health, metrics) = (free_address().await?, free_address().await?);
    let flags = [
        format!("--health-probe-bind-address={health}"),
        format!("--metrics-bind-address={metrics}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let _operator = site.operator_with(&flags, None).await?;
    answers(health, "/readyz", 200, "ok").await?;
    let device = site.registered("pump-7", Manner::Flotta).await?;
    device.say_connection_status().await?;
    assert_eq!(device.with(Identity::Registration).register().await?.code(), 403);
    keeps_what_it_has(&site, &device).await?;
    // What devices lack is counted now and then.
    answers(metrics, "/metrics", 200, "edge_configurations_held 1\n").await?;
    let (_, text) = get(metrics, "/metrics").await?;
    for line in [
        "edge_is_leader 1\n",
        "edge_registrations_total 1\n",
        "edge_refusals_total{cause=\"key_in_use\"} 1\n",
        "edge_heartbeats_total 2\n",
        "edge_missed_heartbeats_total 0\n",
        "edge_devices{state=\"reporting\"} 1\n",
        "edge_devices{state=\"missing\"} 0\n",
        "edge_devices{state=\"unknown\"} 0\n",
        "edge_configurations_held 1\n",
        "edge_devices_behind 0\n",
        "edge_oldest_behind_seconds 0\n",
        "edge_device_certificates_expiring 0\n",
        "edge_events_dropped_total 5\n",
        "edge_renders_total ",
        "edge_status_writes_total ",
        "edge_control_messages_total 1\n",
        "edge_requests_total{operation=\"registration\",code=\"200\"} 1\n",
        "edge_requests_total{operation=\"registration\",code=\"403\"} 1\n",
        "edge_handshakes_total{result=\"ok\"}",
        "edge_connections ",
        "edge_waiting_requests 0\n",
        "edge_ca_days 365",
        "edge_server_certificate_days 36",
        "edge_certificate_problems 0\n",
        "edge_writes_total{method=\"POST\"}",
        "flotta_api_edge_devices_successful_registration 1",
        "flotta_api_edge_devices_failed_registration 1",
        "flotta_api_edge_devices_unregistration 0",
        "flotta_api_edge_devices_failed_authentication 0",
        "flotta_api_edge_devices_invalid_owner 0",
        "flotta_api_edge_devices_heartbeat 2",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("pump-7"), "{text}");
    Ok(())
}

/// What is installed selects what is installed.
#[test]
fn the_service_and_the_policy_are_about_the_deployments_pods() -> Result<()> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(flashjob_sim::edge::site::INSTALL)?;
    let find = |kind: &str, name: &str| {
        let found = documents.iter().find(|d| d["kind"] == kind && d["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let name = "flotta-edge-api";
    let (deployment, service) = (find("Deployment", name), find("Service", name));
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(find("NetworkPolicy", name)["spec"]["podSelector"], deployment["spec"]["selector"]);
    assert_eq!(labels["app"], service["spec"]["selector"]["app"]);
    let serving = "management.project-flotta.io/serving";
    assert_eq!(service["spec"]["selector"][serving], "true");
    assert_eq!(labels[serving], Value::Null, "only who serves has that label");
    assert_eq!(service["spec"]["ports"][0]["port"], 8043);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    Ok(())
}
