//! An ObjectBucketClaim as it is made, and as it is found.

use std::fmt;

use flashjob_api::edge::{EdgeReason, GROUP, ObjectBucketClaim, ObjectBucketClaimSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::edge::problem::Problem;

/// A device, and so its claim.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    /// Of the EdgeDevice.
    pub uid: &'a str,
}

/// A claim, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFacts {
    pub owner: ClaimOwner,
    /// What the provisioner says.
    pub phase: Option<String>,
    pub being_deleted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOwner {
    /// As the original made them, or a person.
    Nobody,
    /// The EdgeDevice of the same name with this uid, or an earlier one.
    Device(String),
    Other,
}

impl ClaimOwner {
    /// The owner of the claim of this name.
    pub fn read(claim: &str, owners: &[OwnerReference]) -> Self {
        let group = |owner: &OwnerReference| owner.api_version.split('/').next() == Some(GROUP);
        let is_device = |owner: &&OwnerReference| {
            group(owner) && owner.kind == "EdgeDevice" && owner.name == claim
        };
        match owners.iter().find(is_device) {
            Some(device) => Self::Device(device.uid.clone()),
            None if owners.is_empty() => Self::Nobody,
            None => Self::Other,
        }
    }
}

/// The claim of a device. It does not block the deletion of the device: to say so takes a right to its finalizers in some
/// clusters.
pub fn object(device: Place<'_>, class: &str) -> ObjectBucketClaim {
    let spec = ObjectBucketClaimSpec {
        generate_bucket_name: device.name.to_owned(),
        storage_class_name: class.to_owned(),
    };
    let mut claim = ObjectBucketClaim::new(device.name, spec);
    claim.metadata.namespace = Some(device.namespace.to_owned());
    claim.metadata.owner_references = Some(vec![OwnerReference {
        api_version: format!("{}/v1alpha1", GROUP),
        kind: "EdgeDevice".to_owned(),
        name: device.name.to_owned(),
        uid: device.uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    claim
}

/// Why there is no claim after a try to make one, in the cluster's words. `refused`: it has said no.
pub fn not_made(device: Place<'_>, words: &str, refused: bool) -> Problem {
    if refused {
        let message = format!("the cluster does not take the {device}: {words}");
        return Problem::new(EdgeReason::BucketRefused, message);
    }
    pending(format!("the {device} could not be made and is tried again: {words}"))
}

pub(super) fn pending(message: String) -> Problem {
    Problem::new(EdgeReason::BucketPending, message)
}

/// The claim.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectBucketClaim {}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PUMP: Place<'_> = Place { namespace: "plant", name: "pump-7", uid: "u1" };

    #[test]
    fn a_claim_is_the_devices_and_goes_with_it() {
        let made = serde_json::to_value(object(PUMP, "fast")).unwrap();
        let wanted = json!({
            "apiVersion": "objectbucket.io/v1alpha1", "kind": "ObjectBucketClaim",
            "metadata": {
                "name": "pump-7", "namespace": "plant",
                "ownerReferences": [{
                    "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDevice",
                    "name": "pump-7", "uid": "u1", "controller": true
                }]
            },
            "spec": { "generateBucketName": "pump-7", "storageClassName": "fast" }
        });
        assert_eq!(made, wanted);
        let owners = object(PUMP, "fast").metadata.owner_references.unwrap();
        assert_eq!(ClaimOwner::read("pump-7", &owners), ClaimOwner::Device("u1".into()));
    }

    #[test]
    fn who_has_another_kind_group_or_name_is_another_owner() {
        let ours = || object(PUMP, "").metadata.owner_references.unwrap().remove(0);
        let other = |change: fn(&mut OwnerReference)| {
            let mut owner = ours();
            change(&mut owner);
            owner
        };
        let others = [
            other(|owner| owner.kind = "EdgeDeployment".into()),
            other(|owner| owner.api_version = "example.com/v1".into()),
            other(|owner| owner.name = "pump-8".into()),
        ];
        for owner in others.clone() {
            assert_eq!(ClaimOwner::read("pump-7", &[owner]), ClaimOwner::Other);
        }
        let [one, ..] = others;
        assert_eq!(ClaimOwner::read("pump-7", &[one, ours()]), ClaimOwner::Device("u1".into()));
        assert_eq!(ClaimOwner::read("pump-7", &[]), ClaimOwner::Nobody);
    }

    #[test]
    fn a_refusal_has_the_clusters_words_and_an_outage_is_no_refusal() {
        let problem = not_made(PUMP, "exceeded quota: tight", true);
        assert_eq!(problem.reason, EdgeReason::BucketRefused);
        assert!(problem.message.ends_with("plant/pump-7: exceeded quota: tight"));
        assert_eq!(not_made(PUMP, "no answer", false).reason, EdgeReason::BucketPending);
    }
}
