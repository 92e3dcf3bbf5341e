//! What the original operator got wrong, where no other story shows that it is right here (docs/original-bugs.md).

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::NewObject;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::json;

use crate::phase;
use crate::world::World;

/// The Service and the Pod that are made for one device.
fn made() -> (Service, Pod) {
    let mut world = World::new(&["a"], json!({ "timeouts": { "deviceSeconds": 77 } }));
    let mut objects = Vec::new();
    for _ in 0..8 {
        objects.extend(world.step().creates);
    }
    let [NewObject::Service { object: service, .. }, NewObject::Pod { object: pod, .. }] =
        objects.as_slice()
    else {
        panic!("{} objects", objects.len())
    };
    (*service.clone(), *pod.clone())
}

#[test]
fn a_job_is_completed_only_with_its_last_device() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.settle();
    world.ends("a", 0, "");
    let one = world.settle();
    assert_eq!(phase(&one), Phase::InProgress);
    assert_eq!(one.status.unwrap().done.as_deref(), Some("1/2"));
    world.ends("b", 0, "");
    assert_eq!(phase(&world.settle()), Phase::Completed);
}

#[test]
fn the_job_is_the_controller_of_what_it_makes() {
    let (service, pod) = made();
    for metadata in [service.metadata, pod.metadata] {
        let owners = metadata.owner_references.unwrap();
        let [owner] = owners.as_slice() else { panic!("{owners:?}") };
        assert_eq!((owner.uid.as_str(), owner.controller), ("job-uid", Some(true)));
    }
}

#[test]
fn a_flash_pod_has_a_deadline_and_no_rights_in_the_cluster() {
    let spec = made().1.spec.unwrap();
    assert_eq!(spec.active_deadline_seconds, Some(77));
    assert_eq!(spec.automount_service_account_token, Some(false));
    let security = spec.containers[0].security_context.clone().unwrap();
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(security.capabilities.unwrap().drop.unwrap(), ["ALL"]);
    let profile = spec.security_context.unwrap().seccomp_profile.unwrap();
    assert_eq!(profile.type_, "RuntimeDefault");
}

#[test]
fn an_image_that_the_job_names_finds_services_in_its_environment() {
    assert_eq!(made().1.spec.unwrap().enable_service_links, Some(true));
}
