//! The CA is replaced, and images get what they need.

use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use flashjob_sim::edge::{Bundle, Device, DeviceOptions, Manner};
use serde_json::Value;

use super::{EdgeCli, becomes, code};

#[tokio::test]
async fn the_ca_is_rotated_and_retired_when_nobody_depends_on_it() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let device = site.registered("edge1", Manner::Ours).await?;
    let one = site.run_at_home(&["ca", "retire", "--yes"]).await;
    assert!(one.err.contains("nothing to retire"), "{one:#?}");
    one.well();
    let old: Value =
        serde_json::from_str(&site.run_at_home(&["ca", "status", "-o", "json"]).await.well())?;
    let old = old["certificates"][0]["name"].as_str().unwrap_or_default().to_owned();

    let rotated = site.run_at_home(&["ca", "rotate"]).await.well();
    assert!(rotated.starts_with("rotated on") && rotated.contains(&old), "{rotated}");
    let status = site.run_at_home(&["ca", "status"]).await.well();
    for words in
        [format!("previous CA    {old}"), format!("depend on the CA {old}: 1 device: edge1")]
    {
        assert!(status.contains(&words), "{words}: {status}");
    }
    assert!(!status.contains("PRIVATE") && !status.contains("BEGIN"), "{status}");
    site.run_at_home(&["ca", "rotate"]).await.badly(1, "not rotated");
    site.run_at_home(&["ca", "retire"]).await.badly(2, "add --yes");
    let early = site.run_at_home(&["ca", "retire", "--yes"]).await;
    early.badly(1, "not retired: 1 EdgeDevice depends on the CA");
    assert_eq!(code(async || device.renew().await).await?, 200);
    assert_eq!(code(async || device.heartbeat().await).await?, 200);
    let retired = site.run_at_home(&["ca", "retire", "--yes"]).await.well();
    assert_eq!(retired, format!("retired: the CA {old} is not trusted any more\n"));
    assert_eq!(code(async || device.heartbeat().await).await?, 200);
    Ok(())
}

#[tokio::test]
async fn a_bundle_registers_a_device_and_is_not_written_over_by_mistake() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    site.bundle().await?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("bundle");
    let server = format!("--server={}", site.address());
    let to = format!("--out={}", out.display());
    let made = site.run_at_home(&["bundle", &server, &to]).await;
    assert!(!made.err.contains("note:"), "127.0.0.1 is among the server's names: {made:#?}");
    assert_eq!(made.well().lines().count(), 4);
    let mode = out.join("key.pem").metadata()?.permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let config = std::fs::read_to_string(out.join("config.toml"))?;
    assert!(config.contains(&format!("server = \"{}\"", site.address())), "{config}");
    let device = |bundle: Bundle| async {
        let options = site.options("edge1", Manner::Ours).await?;
        Device::new(DeviceOptions { bundle, ..options })
    };
    let first = device(Bundle::from_folder(&out)?).await?;
    assert_eq!(code(async || first.register().await).await?, 200);
    assert_eq!(code(async || first.heartbeat().await).await?, 200);

    site.run_at_home(&["bundle", &server, &to]).await.badly(1, "is there already");
    site.run_at_home(&["bundle", "--server=edge", &to]).await.badly(2, "no HOST:PORT");
    // Of two registration certificates the one of the present CA is handed out, as soon as there is one.
    site.run_at_home(&["ca", "rotate"]).await.well();
    site.bundle().await?;
    let again = ["bundle", "--server=elsewhere.example:1", &to, "--force"];
    let ended = site.run_at_home(&again).await;
    assert!(ended.err.contains("devices would not trust it"), "{ended:#?}");
    ended.well();
    let (new, ca) = (Bundle::from_folder(&out)?, site.ca().await?);
    assert_eq!(new.ca()[0].key_fingerprint(), ca.leaf().key_fingerprint());
    let purpose = flashjob_pki::KeyPurpose::ClientAuth;
    let now = flashjob_sim::clock::now();
    new.key().chain().verify(std::slice::from_ref(ca.leaf()), purpose, now)?;
    site.run(&["reset", "edge1"]).await.well();
    let second = device(new).await?;
    becomes("it to register", 200, async || second.register().await).await
}
