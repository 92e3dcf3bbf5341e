//! The kinds of Edge on a real API server: it takes the CRDs, the samples, whatever the original's users wrote, and a null
//! for every field.

use anyhow::{Context, Result};
use flashjob_api::edge::{
    EdgeDeployment, EdgeDevice, EdgeDeviceGroup, EdgeDeviceSet, EdgeDeviceSignedRequest,
    EdgeWorkload, GROUP, crd,
};
use flashjob_sim::cluster::Cluster;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const SAMPLES: [&str; 6] = [
    include_str!("../../../../config/samples/management_v1alpha1_edgedevice.yaml"),
    include_str!("../../../../config/samples/management_v1alpha1_edgedeployment.yaml"),
    include_str!("../../../../config/samples/management_v1alpha1_edgeworkload.yaml"),
    include_str!("../../../../config/samples/management_v1alpha1_edgedevicegroup.yaml"),
    include_str!("../../../../config/samples/management_v1alpha1_edgedeviceset.yaml"),
    include_str!("../../../../config/samples/management_v1alpha1_edgedevicesignedrequest.yaml"),
];

/// The shared cluster with the CRDs of Edge, and a namespace of one's own.
async fn site() -> Result<(&'static Cluster, Client, String)> {
    static CRDS: OnceCell<()> = OnceCell::const_new();
    let cluster = Cluster::shared().await?;
    CRDS.get_or_try_init(async || {
        for plural in crd::NAMES {
            let crd = crd::named(plural).context(plural)?;
            cluster.apply_yaml(&flashjob_api::crd::yaml(&crd)).await?;
        }
        anyhow::Ok(())
    })
    .await?;
    Ok((cluster, cluster.client("admin")?, cluster.namespace("edge").await?))
}

fn path(namespace: &str, plural: &str) -> String {
    format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/{plural}")
}

fn object(plural: &str, name: &str, spec: &Value, status: &Value) -> Value {
    let crd = crd::named(plural).unwrap();
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": crd["spec"]["names"]["kind"],
        "metadata": { "name": name },
        "spec": spec,
        "status": status,
    })
}

async fn send(client: &Client, method: &str, path: &str, object: &Value) -> Result<Value> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(object)?)?;
    client.request(request).await.with_context(|| format!("{method} {path}: {object}"))
}

/// What `kubectl get` prints, without the ages.
async fn table(client: &Client, namespace: &str, plural: &str) -> Result<Vec<String>> {
    let request = http::Request::get(path(namespace, plural))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = client.request(request).await?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |cells: Vec<String>| cells.join(" | ");
    let head = table["columnDefinitions"].as_array().context("columns")?;
    let mut lines = vec![row(head.iter().map(|column| text(&column["name"])).collect())];
    for line in table["rows"].as_array().context("rows")? {
        let cells = line["cells"].as_array().context("cells")?;
        lines.push(row(cells[..cells.len() - 1].iter().map(text).collect()));
    }
    Ok(lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_samples_apply_and_are_read_as_they_were_written() -> Result<()> {
    let (cluster, client, namespace) = site().await?;
    for (plural, sample) in crd::NAMES.into_iter().zip(SAMPLES) {
        cluster.apply_yaml_in(&namespace, sample).await?;
        let wanted: Value = serde_saphyr::from_str(sample)?;
        let name = wanted["metadata"]["name"].as_str().context("a name")?;
        let path = format!("{}/{name}", path(&namespace, plural));
        let found: Value = client.request(http::Request::get(path).body(Vec::new())?).await?;
        assert_eq!(found["spec"], wanted["spec"], "{plural}: nothing is pruned");
        assert_eq!(found["kind"], wanted["kind"]);
    }
    Ok(())
}

/// In the shapes of the original's samples, of both its eras, with fields that it has dropped since.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_for_the_original_applies() -> Result<()> {
    let (cluster, client, namespace) = site().await?;
    let manifests = r#"
apiVersion: management.project-flotta.io/v1alpha1
kind: EdgeDevice
metadata:
  name: old
  finalizers: [yggdrasil-connection-finalizer, yggdrasil-workload-finalizer]
  labels: {dc: home, device.hostname: fedora}
spec:
  heartbeat: {periodSeconds: 5}
  requestTime: "2021-09-22T08:35:25Z"
status:
  dataObc: old
  hardware:
    boot: {current_boot_mode: bios}
    cpu: {count: 32, flags: [fpu], frequency: "3400.00", model_name: old}
    disks: []
    gpus: [{device_id: 1b06}]
    interfaces: [{flags: [up], has_carrier: true, ipv4_addresses: [10.220.200.106/24], speed_mbps: -1}]
    memory: {physical_bytes: 68719476736}
    system_vendor: {manufacturer: unknown}
  lastSeenTime: "2021-09-23T09:27:58Z"
  phase: up
---
apiVersion: management.project-flotta.io/v1alpha1
kind: EdgeDeployment
metadata:
  name: old
spec:
  deviceSelector: {matchLabels: {dc: home}}
  device:
  type: pod
  pod:
    spec:
      containers:
        - {name: web, image: "docker.io/nginx:1.14.2", ports: [{containerPort: 80, hostPort: 9090}]}
  data: {paths: [{source: stats, target: statistics}]}
---
apiVersion: management.project-flotta.io/v1alpha1
kind: EdgeDevice
metadata:
  name: bare
"#;
    cluster.apply_yaml_in(&namespace, manifests).await?;
    let devices: Api<EdgeDevice> = Api::namespaced(client.clone(), &namespace);
    let old = devices.get("old").await?;
    assert_eq!(old.spec.settings.heartbeat.as_ref().unwrap().period_seconds, Some(5));
    assert_eq!(devices.get("bare").await?.spec, Default::default());
    let deployments: Api<EdgeDeployment> = Api::namespaced(client.clone(), &namespace);
    let pod = deployments.get("old").await?.spec.pod.clone().unwrap().spec.unwrap();
    assert_eq!(pod["containers"][0]["ports"][0]["hostPort"], 9090);

    // The scaffold that the original's sample of a group still is. Server-side apply refuses it, a plain create does not.
    let scaffold = object("edgedevicegroups", "old", &json!({ "foo": "bar" }), &Value::Null);
    let group = send(&client, "POST", &path(&namespace, "edgedevicegroups"), &scaffold).await?;
    assert_eq!(group["spec"], json!({}));

    // What the original's operator writes into a status, nulls of unset times included.
    let status = json!({
        "phase": "up",
        "lastSyncedResourceVersion": "54429",
        "deployments": [{ "name": "old", "phase": "Running", "lastTransitionTime": null, "lastDataUpload": null }],
        "upgradeInformation": { "currentCommitID": "unknown" },
    });
    let mut object = serde_json::to_value(&old)?;
    object["status"] = status;
    send(&client, "PUT", &format!("{}/old/status", path(&namespace, "edgedevices")), &object)
        .await?;
    let old = devices.get("old").await?.status.unwrap();
    assert_eq!(old.deployments[0].phase.as_deref(), Some("Running"));

    // No device of these: nothing takes off their finalizers.
    devices
        .patch(
            "old",
            &PatchParams::default(),
            &Patch::Merge(json!({ "metadata": { "finalizers": null } })),
        )
        .await?;
    Ok(())
}

/// The deepest object of a schema, with a null in every field that has no fields of its own.
fn nulls(schema: &Value) -> Value {
    let by_key = schema["x-kubernetes-list-type"] == "map";
    if let Some(fields) = schema["properties"].as_object() {
        fields.iter().map(|(name, field)| (name.clone(), nulls(field))).collect()
    } else if schema["items"]["properties"].is_object() && !by_key {
        json!([nulls(&schema["items"])])
    } else if schema["additionalProperties"]["properties"].is_object() {
        json!({ "some-name": nulls(&schema["additionalProperties"]) })
    } else {
        Value::Null
    }
}

/// The same with a null for every field right below `spec` or `status`.
fn flat(schema: &Value) -> Value {
    let fields = schema["properties"].as_object();
    fields.into_iter().flatten().map(|(name, _)| (name.clone(), Value::Null)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_may_be_null() -> Result<()> {
    let (_, client, namespace) = site().await?;
    for plural in crd::NAMES {
        let crd = crd::named(plural).context(plural)?;
        let schema =
            crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties").context("schema")?;
        let cases = [
            ("deep", nulls(&schema["spec"]), nulls(&schema["status"])),
            ("flat", flat(&schema["spec"]), flat(&schema["status"])),
            ("none", Value::Null, Value::Null),
        ];
        for (name, spec, status) in cases {
            let object = |name: &str| object(plural, name, &spec, &status);
            let path = path(&namespace, plural);
            let created = send(&client, "POST", &path, &object(name)).await?;
            let mut again = object(name);
            again["metadata"] = created["metadata"].clone();
            send(&client, "PUT", &format!("{path}/{name}/status"), &again).await?;

            let applied = format!("{name}-applied");
            let request = http::Request::patch(format!("{path}/{applied}?fieldManager=test"))
                .header("content-type", "application/apply-patch+yaml")
                .body(serde_json::to_vec(&object(&applied))?)?;
            client
                .request::<Value>(request)
                .await
                .with_context(|| format!("{plural} {applied}"))?;
        }
    }
    // All of them are read as what they are.
    read_all::<EdgeDevice>(&client, &namespace).await?;
    read_all::<EdgeDeployment>(&client, &namespace).await?;
    read_all::<EdgeWorkload>(&client, &namespace).await?;
    read_all::<EdgeDeviceGroup>(&client, &namespace).await?;
    read_all::<EdgeDeviceSet>(&client, &namespace).await?;
    read_all::<EdgeDeviceSignedRequest>(&client, &namespace).await
}

async fn read_all<K>(client: &Client, namespace: &str) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let items = api.list(&ListParams::default()).await?.items;
    assert_eq!(items.len(), 6, "{}", K::plural(&()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_what_matters() -> Result<()> {
    let (_, client, namespace) = site().await?;
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": "Told", "message": "",
            "lastTransitionTime": "2022-03-20T14:45:25Z",
        })
    };
    let rows = [
        (
            "edgedevices",
            json!({}),
            json!({ "conditions": [condition("Ready"), condition("Synced")], "running": "2/3" }),
            ["Name | Ready | Synced | Workloads | Age", "x | True | True | 2/3"],
        ),
        (
            "edgedeployments",
            json!({}),
            json!({ "conditions": [condition("Accepted")], "running": "3/5" }),
            ["Name | Accepted | Running | Age", "x | True | 3/5"],
        ),
        (
            "edgeworkloads",
            json!({}),
            json!({ "conditions": [condition("Accepted")], "running": "3/5", "counts": { "matched": 5 } }),
            ["Name | Accepted | Running | Age", "x | True | 3/5"],
        ),
        (
            "edgedevicesignedrequest",
            json!({ "targetNamespace": "default", "approved": true }),
            json!({ "phase": "approved", "conditions": [{ "type": "approved", "status": "true" }] }),
            [
                "Name | deviceid | targetNamespace | Approved | Status | Age",
                "x | x | default | true | approved",
            ],
        ),
    ];
    for (plural, spec, status, wanted) in rows {
        let mut object = object(plural, "x", &spec, &status);
        let path = path(&namespace, plural);
        let created = send(&client, "POST", &path, &object).await?;
        assert_eq!(created["status"], Value::Null, "{plural} has a status of its own");
        object["metadata"] = created["metadata"].clone();
        send(&client, "PUT", &format!("{path}/x/status"), &object).await?;
        assert_eq!(table(&client, &namespace, plural).await?, wanted, "{plural}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_out_of_range_are_refused() -> Result<()> {
    let (_, client, namespace) = site().await?;
    let rows = [
        (
            "edgedevices",
            json!({ "heartbeat": { "periodSeconds": 0 } }),
            "spec.heartbeat.periodSeconds",
        ),
        (
            "edgedevicesets",
            json!({ "metrics": { "system": { "interval": -1 } } }),
            "spec.metrics.system.interval",
        ),
        (
            "edgedevicegroups",
            json!({ "logCollection": { "a": { "bufferSize": 0 } } }),
            "bufferSize",
        ),
        ("edgeworkloads", json!({ "metrics": { "port": 65_536 } }), "spec.metrics.port"),
        (
            "edgedeployments",
            json!({ "metrics": { "interval": 3_000_000_000_i64 } }),
            "spec.metrics.interval",
        ),
    ];
    for (plural, spec, field) in rows {
        let object = object(plural, "x", &spec, &Value::Null);
        let refused = send(&client, "POST", &path(&namespace, plural), &object).await.unwrap_err();
        let words = format!("{refused:#}");
        assert!(words.contains("422") || words.contains("Invalid"), "{words}");
        assert!(words.contains(field), "{words}");
    }
    Ok(())
}
