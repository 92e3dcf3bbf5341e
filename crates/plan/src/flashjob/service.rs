//! The Service that gives a flash Pod an address a board can dial.

use std::collections::BTreeMap;

use flashjob_api::flashjob::{ExternalTrafficPolicy, ServiceType, flash_pod};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::flashjob::facts::Job;
use crate::flashjob::ids::Target;
use crate::flashjob::names;
use crate::flashjob::spec::Spec;

/// The Service of one device.
pub fn service(job: &Job, spec: &Spec, target: Target, uid: &str) -> Service {
    let access = &spec.access;
    let (node_port, port) = (access.kind == ServiceType::NodePort, flash_pod::PORT.into());
    let mut labels = labels(job, target, uid);
    labels.insert(names::SPEC_HASH.to_owned(), access.spec_hash.clone());
    labels.insert(names::POOL.to_owned(), access.pool.clone());
    Service {
        metadata: ObjectMeta {
            name: Some(names::service(&job.name, target)),
            namespace: Some(job.namespace.clone()),
            labels: Some(labels),
            annotations: Some(access.annotations.clone()).filter(|a| !a.is_empty()),
            owner_references: Some(vec![owner(job)]),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some(if node_port { "NodePort" } else { "LoadBalancer" }.into()),
            selector: Some(BTreeMap::from([(names::TARGET.to_owned(), target.to_string())])),
            ports: Some(vec![ServicePort {
                name: Some("flash".into()),
                port,
                target_port: Some(IntOrString::Int(port)),
                // Boards dial no other; the API server takes it if its --service-node-port-range has it.
                node_port: node_port.then_some(port),
                protocol: Some("TCP".into()),
                ..ServicePort::default()
            }]),
            // Asks the load balancer for this very address; those that cannot ignore it.
            load_balancer_ip: access.wanted.clone(),
            load_balancer_class: access.load_balancer_class.clone(),
            external_traffic_policy: access.external_traffic_policy.map(|policy| match policy {
                ExternalTrafficPolicy::Cluster => "Cluster".into(),
                ExternalTrafficPolicy::Local => "Local".into(),
            }),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The labels of a device's objects: ours, and the two the original used, for people and tools that know them.
pub fn labels(job: &Job, target: Target, uid: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (names::JOB_UID.to_owned(), job.uid.to_string()),
        (names::TARGET.to_owned(), target.to_string()),
        ("app".to_owned(), names::label_value(&job.name)),
        ("uuid".to_owned(), names::label_value(uid)),
    ])
}

/// Says that the job owns an object, as its one controller.
pub fn owner(job: &Job) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/v1alpha1", flashjob_api::flashjob::GROUP),
        kind: "FlashJob".into(),
        name: job.name.clone(),
        uid: job.uid.to_string(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
