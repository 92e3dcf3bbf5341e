//! The Service that gives a flash Pod an address a board can dial.

use std::collections::BTreeMap;

use flashjob_api::ExternalTrafficPolicy;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::facts::Job;
use crate::names;
use crate::spec::Spec;

/// The port every board dials.
pub const FLASH_PORT: i32 = 4433;

/// The Service of one device.
pub fn service(job: &Job, spec: &Spec, target: &str, uid: &str) -> Service {
    Service {
        metadata: ObjectMeta {
            name: Some(names::service(&job.name, target)),
            namespace: Some(job.namespace.clone()),
            labels: Some(labels(job, target, uid)),
            annotations: Some(spec.service_annotations.clone()).filter(|a| !a.is_empty()),
            owner_references: Some(vec![owner(job)]),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".into()),
            selector: Some(BTreeMap::from([(names::TARGET.to_owned(), target.to_owned())])),
            ports: Some(vec![ServicePort {
                name: Some("flash".into()),
                port: FLASH_PORT,
                target_port: Some(IntOrString::Int(FLASH_PORT)),
                protocol: Some("TCP".into()),
                ..ServicePort::default()
            }]),
            // Asks the load balancer for this very address; those that cannot ignore it.
            load_balancer_ip: spec.external_ip.clone(),
            load_balancer_class: spec.load_balancer_class.clone(),
            external_traffic_policy: spec.external_traffic_policy.map(|policy| match policy {
                ExternalTrafficPolicy::Cluster => "Cluster".into(),
                ExternalTrafficPolicy::Local => "Local".into(),
            }),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The labels of a device's objects: ours, and the two the original used, for people and tools that know them.
pub fn labels(job: &Job, target: &str, uid: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (names::JOB_UID.to_owned(), job.uid.clone()),
        (names::TARGET.to_owned(), target.to_owned()),
        ("app".to_owned(), names::label_value(&job.name)),
        ("uuid".to_owned(), names::label_value(uid)),
    ])
}

/// Says that the job owns an object, as its one controller.
pub fn owner(job: &Job) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/v1alpha1", flashjob_api::GROUP),
        kind: "FlashJob".into(),
        name: job.name.clone(),
        uid: job.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
