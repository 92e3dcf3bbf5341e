//! The CRDs that FlashJob works with.

use crate::process::crds::Needed;

/// Our own CRD.
pub const FLASHJOBS: Needed = Needed {
    group_version: "application.flashjob.nbfc.io/v1alpha1",
    resource: "flashjobs",
    crd: "flashjobs.application.flashjob.nbfc.io",
    comes_from: "apply dist/install.yaml or run `make install`",
};

/// Akri's CRD.
pub const INSTANCES: Needed = Needed {
    group_version: "akri.sh/v0",
    resource: "instances",
    crd: "instances.akri.sh",
    comes_from: "install Akri",
};
