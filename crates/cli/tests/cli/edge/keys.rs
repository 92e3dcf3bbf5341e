//! Boxes are replaced, sent away and kept out.

use anyhow::Result;
use flashjob_sim::edge::{Manner, Operation};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{EdgeCli, becomes, code};

const KEYS: &str = "management.project-flotta.io/keys";

#[tokio::test]
async fn after_a_reset_another_box_may_register_and_the_first_to_use_its_key_has_the_device()
-> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let old = site.registered("edge1", Manner::Ours).await?;
    let new = site.new_box("edge1").await?;
    assert_eq!(code(async || new.register().await).await?, 403, "the key is in use");
    let reset = site.run(&["reset", "edge1"]).await;
    assert!(reset.err.contains("stays good until the new one is used"), "{reset:#?}");
    assert_eq!(reset.well(), "edgedevices.management.project-flotta.io/edge1 reset\n");
    assert_eq!(code(async || old.heartbeat().await).await?, 200, "nothing is lost by a mistake");
    let again = site.run(&["reset", "edge1"]).await;
    assert!(again.err.contains("waits for a box to register already"), "{again:#?}");
    let explained = site.run_at_home(&["explain", "edge1"]).await.well();
    assert!(explained.contains("reset: any box"), "{explained}");
    becomes("the other box to register", 200, async || new.register().await).await?;
    assert_eq!(code(async || new.heartbeat().await).await?, 200);
    assert_eq!(code(async || old.heartbeat().await).await?, 401, "its key was replaced");

    // The key of this one was stolen.
    let forgotten = site.run(&["reset", "edge1", "--forget-key"]).await;
    assert!(forgotten.err.contains("nothing but register again"), "{forgotten:#?}");
    forgotten.well();
    becomes("the stolen key to be refused", 401, async || new.heartbeat().await).await?;
    site.run(&["reset", "nobody"]).await.badly(1, "there is no EdgeDevice nobody");
    Ok(())
}

#[tokio::test]
async fn a_spoilt_record_of_keys_is_mended_by_a_reset() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let device = site.registered("edge1", Manner::Ours).await?;
    let spoilt = Patch::Merge(json!({ "metadata": { "annotations": { (KEYS): "mine" } } }));
    site.devices().patch("edge1", &PatchParams::default(), &spoilt).await?;
    becomes("it to be refused", 503, async || device.heartbeat().await).await?;
    let explained = site.run_at_home(&["explain", "edge1"]).await.well();
    assert!(explained.contains("cannot be read, so the device is refused"), "{explained}");
    assert!(site.run(&["devices"]).await.well().contains("unreadable"));
    let reset = site.run(&["reset", "edge1"]).await;
    assert!(reset.err.contains("writes the record anew"), "{reset:#?}");
    reset.well();
    becomes("it to register", 200, async || device.register().await).await?;
    assert_eq!(code(async || device.heartbeat().await).await?, 200);
    assert!(site.keys("edge1").await?["current"].is_object());
    Ok(())
}

#[tokio::test]
async fn who_is_removed_disconnects_and_who_is_declined_too_does_not_come_back() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let one = site.registered("edge1", Manner::Ours).await?;
    let two = site.registered("edge2", Manner::Ours).await?;
    site.run(&["remove", "edge1"]).await.badly(2, "add --yes");
    site.run(&["remove", "nobody", "--yes"]).await.badly(1, "there is no EdgeDevice nobody");
    let made = "edgedevices.management.project-flotta.io/edge1 deleted\n";
    assert_eq!(site.run(&["remove", "edge1", "--yes"]).await.well(), made);
    let gone = async |device: &flashjob_sim::edge::Device| {
        eventually("the device to disconnect", PATIENCE, async || {
            device.fetch_commands().await?;
            Ok((device.ledger().disconnects() > 0).then_some(()))
        })
        .await
    };
    let explained = site.run_at_home(&["explain", "edge1"]).await.well();
    assert!(explained.contains("edge1"), "{explained}");
    gone(&one).await?;
    // Nobody has to approve here.
    becomes("edge1 to come back", 208, async || one.enrol().await).await?;

    let decline = format!("--request-namespace={}", site.namespace);
    let ended = site.run(&["remove", "edge2", "--decline", &decline, "--yes"]).await;
    assert!(ended.out.ends_with("edge2 declined\n"), "{ended:#?}");
    ended.well();
    assert!(site.devices().get_opt("edge2").await?.is_none(), "it was waited for");
    let explained = site.run_at_home(&["explain", "edge2"]).await.well();
    let first = format!("{}/edge2 was deleted on", site.namespace);
    assert!(explained.starts_with(&first), "what matters most comes first: {explained}");
    for words in ["told to disconnect", "declined: the device is refused"] {
        assert!(explained.contains(words), "{words}: {explained}");
    }
    gone(&two).await?;
    becomes("edge2 to be refused", 403, async || two.enrol().await).await?;
    let new = site.new_box("edge2").await?;
    assert_eq!(code(async || new.register().await).await?, 403, "another box, too");
    assert_eq!(new.ledger().last_status(Operation::Register), Some(403));

    // Once more is no error, and works for an id that was never seen.
    for id in ["edge2", "edge9"] {
        site.run(&["remove", id, "--decline", &decline, "--yes"]).await.well();
    }
    let ninth = site.new_box("edge9").await?;
    becomes("edge9 to be refused", 403, async || ninth.enrol().await).await?;
    Ok(())
}

#[tokio::test]
async fn without_an_operator_nobody_waits_for_ever() -> Result<()> {
    let site = EdgeCli::new().await?;
    let mut operator = site.operator().await?;
    site.registered("edge1", Manner::Ours).await?;
    operator.kill();
    let decline = format!("--request-namespace={}", site.namespace);
    let args = ["remove", "edge1", "--decline", &decline, "--yes", "--timeout=1s"];
    site.run(&args).await.badly(1, "still there, so it is not declined yet");
    let going: Value = serde_json::from_str(&site.run(&["devices", "-o", "json"]).await.well())?;
    assert_eq!(going["devices"][0]["beingDeleted"], true);
    site.run(&["reset", "edge1"]).await.badly(1, "is being deleted");
    let home = format!("--operator-namespace={}", site.home);
    site.run(&["ca", "rotate", "--timeout=1s", &home]).await.badly(4, "Not answered in time");
    site.run(&["ca", "rotate", &home]).await.badly(1, "is not answered yet");
    Ok(())
}
