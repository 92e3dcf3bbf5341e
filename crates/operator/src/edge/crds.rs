//! The CRDs that Edge works with.

use crate::process::crds::Needed;

const GROUP_VERSION: &str = "management.project-flotta.io/v1alpha1";
const COMES_FROM: &str = "apply dist/install-edge.yaml or run `make deploy-edge`";

pub const EDGE_DEVICES: Needed = Needed {
    group_version: GROUP_VERSION,
    resource: "edgedevices",
    crd: "edgedevices.management.project-flotta.io",
    comes_from: COMES_FROM,
};

pub const SIGNED_REQUESTS: Needed = Needed {
    group_version: GROUP_VERSION,
    resource: "edgedevicesignedrequest",
    crd: "edgedevicesignedrequest.management.project-flotta.io",
    comes_from: COMES_FROM,
};

pub const EDGE_DEPLOYMENTS: Needed = Needed {
    group_version: GROUP_VERSION,
    resource: "edgedeployments",
    crd: "edgedeployments.management.project-flotta.io",
    comes_from: COMES_FROM,
};

pub const EDGE_WORKLOADS: Needed = Needed {
    group_version: GROUP_VERSION,
    resource: "edgeworkloads",
    crd: "edgeworkloads.management.project-flotta.io",
    comes_from: COMES_FROM,
};

pub const EDGE_DEVICE_GROUPS: Needed = Needed {
    group_version: GROUP_VERSION,
    resource: "edgedevicegroups",
    crd: "edgedevicegroups.management.project-flotta.io",
    comes_from: COMES_FROM,
};

pub const EDGE_DEVICE_SETS: Needed = Needed {
    group_version: GROUP_VERSION,
    resource: "edgedevicesets",
    crd: "edgedevicesets.management.project-flotta.io",
    comes_from: COMES_FROM,
};

/// Comes with who provides buckets, if anybody does: it is looked for, and nobody waits for it.
pub const CLAIMS: Needed = Needed {
    group_version: "objectbucket.io/v1alpha1",
    resource: "objectbucketclaims",
    crd: "objectbucketclaims.objectbucket.io",
    comes_from: "install NooBaa, OpenShift Data Foundation or Rook",
};

/// Comes with OpenShift. It is looked for, too.
pub const ROUTES: Needed = Needed {
    group_version: "route.openshift.io/v1",
    resource: "routes",
    crd: "routes.route.openshift.io",
    comes_from: "it is part of OpenShift",
};

pub const ALL: [Needed; 6] = [
    EDGE_DEVICES,
    SIGNED_REQUESTS,
    EDGE_DEPLOYMENTS,
    EDGE_WORKLOADS,
    EDGE_DEVICE_GROUPS,
    EDGE_DEVICE_SETS,
];
