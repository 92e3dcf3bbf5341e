//! Somebody wants a bucket. The kind and its CRD come with who provides buckets (NooBaa, Rook); here are the fields that a claim
//! is made with.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What is claimed.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[kube(
    group = "objectbucket.io",
    version = "v1alpha1",
    kind = "ObjectBucketClaim",
    plural = "objectbucketclaims",
    doc = "ObjectBucketClaim is a bucket that somebody wants.",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ObjectBucketClaimSpec {
    /// What the name of the bucket begins with.
    pub generate_bucket_name: String,
    /// Who provides the bucket.
    pub storage_class_name: String,
}
