//! What says what devices are to have: read from one namespace, as a preview takes it.

use anyhow::Result;
use flashjob_api::edge::{
    EdgeDeployment, EdgeDevice, EdgeDeviceGroup, EdgeDeviceSet, EdgeWorkload,
};
use flashjob_plan::edge::preview::{Device, Fleet, Set};
use flashjob_plan::edge::read::workload;
use flashjob_plan::edge::sets::SetKind;
use flashjob_plan::edge::workloads::{WorkloadFacts, WorkloadKind};
use kube::Resource;
use kube::api::{DynamicObject, ListParams};

use crate::connect::Connected;
use crate::edge::SYSTEM;
use crate::read::{Scope, dynamic, in_scope, pages_of};

/// All of it.
pub async fn read(to: &Connected, namespace: &str) -> Result<Fleet> {
    let devices =
        list::<EdgeDevice, _>(to, namespace, |o| Device::read(&o.metadata, &o.data["spec"]));
    Ok(Fleet { devices: devices.await?, ..without_devices(to, namespace).await? })
}

pub async fn without_devices(to: &Connected, namespace: &str) -> Result<Fleet> {
    let facts = |kind| {
        move |o: DynamicObject| -> WorkloadFacts { workload(kind, &o.metadata, &o.data["spec"]) }
    };
    let set = |kind| move |o: DynamicObject| Set::read(kind, &o.metadata, &o.data["spec"]);
    let mut fleet = Fleet::default();
    let (older, newer) = (WorkloadKind::EdgeDeployment, WorkloadKind::EdgeWorkload);
    fleet.workloads.extend(list::<EdgeDeployment, _>(to, namespace, facts(older)).await?);
    fleet.workloads.extend(list::<EdgeWorkload, _>(to, namespace, facts(newer)).await?);
    let (older, newer) = (SetKind::EdgeDeviceGroup, SetKind::EdgeDeviceSet);
    fleet.sets.extend(list::<EdgeDeviceGroup, _>(to, namespace, set(older)).await?);
    fleet.sets.extend(list::<EdgeDeviceSet, _>(to, namespace, set(newer)).await?);
    Ok(fleet)
}

async fn list<K, T>(
    to: &Connected,
    namespace: &str,
    read: impl Fn(DynamicObject) -> T,
) -> Result<Vec<T>>
where
    K: Resource<DynamicType = ()>,
{
    let what = format!("{}s", K::kind(&()));
    let pages = |namespace: Option<String>| {
        let (api, read) = (dynamic::<K>(&to.client, namespace.as_deref()), &read);
        async move { pages_of(&api, ListParams::default(), read).await }
    };
    in_scope(&SYSTEM, &what, Scope::Only(namespace), &mut Vec::new(), pages).await
}
