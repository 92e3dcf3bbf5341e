//! The CA is rotated and retired by command, and no device is left behind.

use anyhow::Result;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Identity, Manner, Operation};

use super::kit::{codes, command, delete, in_use};

/// Devices that have come in a moment ago count as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_ca_that_a_device_depends_on_is_not_retired_however_soon() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    site.bundle().await?;
    for id in ["one", "two"] {
        let device = site.registered(id, Manner::Ours).await?;
        let told = command(&site, "rotate").await?;
        assert!(told.starts_with("rotated on"), "{told}");
        let told = command(&site, "retire").await?;
        assert!(told.starts_with("not retired: 1 EdgeDevice depends on"), "{told}");
        let columns = [Operation::Heartbeat, Operation::Renew, Operation::Heartbeat];
        assert_eq!(codes(&device, Identity::Own, &columns).await, [200; 3]);
        let told = command(&site, "retire").await?;
        assert!(told.starts_with("retired"), "{told}");
        assert_eq!(codes(&device, Identity::Own, &[Operation::Heartbeat]).await, [200]);
        in_use(&site, &device).await?;
        delete(&site, id).await?;
    }
    Ok(())
}
