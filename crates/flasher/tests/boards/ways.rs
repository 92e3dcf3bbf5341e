//! The ways a flash goes well.

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::eventually;
use flashjob_sim::flashjob::board::SessionEnd;
use flashjob_sim::flashjob::{Firmware, KeyKind, ServerCert};
use sha2::{Digest, Sha256};

use crate::desk::{Desk, NEW, OLD, firmware, peak_memory};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_is_flashed_and_says_so_itself() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let ended = desk.flasher(&board).await?.run().await?;
    ended.well()?;
    assert_eq!((&ended.report["from"], &ended.report["to"]), (&OLD.into(), &NEW.into()));
    assert!(ended.report["digest"].as_str().is_some_and(|d| d.starts_with("sha256:")));
    let ledger = board.ledger();
    assert_eq!((ledger.posts, ledger.updates.len(), ledger.overlaps), (1, 1, 0));
    assert_eq!(ledger.updates[0].end, Some(SessionEnd::Accepted));
    assert_eq!(ledger.updates[0].sha256, Some(sha256(&Firmware::new(NEW).build())));
    assert_eq!(board.version(), NEW);
    // The log is for people, and has no secrets.
    for words in ["fetched", "the device is", "on the line", "100 %", "done: the device runs 0.2.0"]
    {
        assert!(ended.log.contains(words), "{words:?} is not in\n{}", ended.log);
    }
    assert!(!ended.log.contains("BEGIN"), "{}", ended.log);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_ca_certificates_will_do_where_nothing_speaks_https() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let nowhere = desk.path("no-certificates").display().to_string();
    let flasher = desk.flasher(&board).await?;
    let flasher = flasher.env("SSL_CERT_FILE", &nowhere).env("SSL_CERT_DIR", &nowhere);
    flasher.run().await?.well()?;
    assert_eq!(board.version(), NEW);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_rsa_certificate_and_a_renewed_one_are_fine() -> Result<()> {
    let pinned = ServerCert::self_signed(KeyKind::Rsa2048)?;
    let renewed = pinned.renewed(KeyKind::P256)?;
    let desk = Desk::with(pinned).await?;
    let (first, second) = (desk.board().await?, desk.board().await?);
    desk.flasher(&first).await?.run().await?.well()?;
    // Boards keep what they pin; the server has a new key.
    std::fs::write(desk.path("tls.crt"), &renewed.chain)?;
    std::fs::write(desk.path("tls.key"), &renewed.key)?;
    desk.flasher(&second).await?.run().await?.well()?;
    assert_eq!((first.version(), second.version()), (NEW.into(), NEW.into()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_version_is_flashed_again_and_has_to_restart() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let image = firmware(&Firmware::new(OLD)).await?;
    let again = desk.flasher_for(&board.endpoint(), &image).env("VERSION", OLD);
    again.run().await?.well()?;
    assert_eq!(board.ledger().boots.len(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_runs_the_version_is_left_alone_where_that_is_asked_for() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let flasher = desk.flasher(&board).await?;
    let ended = flasher.env("VERSION", "v0.1.0").env("VERSION_POLICY", "IfDifferent").run().await?;
    assert_eq!((ended.code, &ended.report["result"]), (0, &"skipped".into()));
    assert_eq!(board.ledger().posts, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_attempt_has_done_is_not_done_again() -> Result<()> {
    let desk = Desk::new().await?;
    let mut options = desk.options()?;
    options.version = NEW.into();
    let board = desk.enrolled(options).await?;
    let ended = desk.flasher(&board).await?.env("ATTEMPT", "2").run().await?;
    ended.well()?;
    assert_eq!((board.ledger().posts, &ended.report["from"]), (0, &OLD.into()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_attempt_listens_before_it_asks() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let flasher = desk.flasher(&board).await?.env("ATTEMPT", "2");
    // An attempt before has asked, and its Pod is gone.
    let client = reqwest::Client::builder().no_proxy().build()?;
    let request = client.post(format!("http://{}/update", board.endpoint()));
    request.body(format!("ip: {}", flasher.address)).send().await?.error_for_status()?;
    flasher.run().await?.well()?;
    let ledger = board.ledger();
    assert_eq!((ledger.posts, ledger.overlaps), (1, 0), "it was not asked a second time");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_or_nothing_is_enough_where_that_is_asked_for() -> Result<()> {
    let desk = Desk::new().await?;
    let (first, second) = (desk.board().await?, desk.board().await?);
    let restart = desk.flasher(&first).await?.env("VERIFY", "Restart").env("VERSION", "9.9.9");
    restart.run().await?.well()?;
    assert_eq!(first.ledger().boots.len(), 2);
    let none = desk.flasher(&second).await?.env("VERIFY", "None").env("VERSION", "9.9.9");
    none.run().await?.well()?;
    second.until("it has the image", Duration::from_secs(60), |l| !l.updates.is_empty()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_info_that_is_cut_off_is_read_as_far_as_it_goes() -> Result<()> {
    let desk = Desk::new().await?;
    let mut options = desk.options()?;
    options.application = "x".repeat(46);
    let board = desk.enrolled(options).await?;
    let ended = desk.flasher(&board).await?.run().await?;
    ended.well()?;
    assert!(ended.log.contains("cut off"), "{}", ended.log);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_image_needs_little_memory() -> Result<()> {
    let desk = Desk::new().await?;
    let mut options = desk.options()?;
    options.partition = 17 << 20;
    // A simulated board checks so large an image in seconds, not in a blink.
    options.speed = 4.0;
    let board = desk.enrolled(options).await?;
    let image = firmware(&Firmware::new(NEW).size(16 << 20)).await?;
    let mut flasher = desk.flasher_for(&board.endpoint(), &image).env("BOARD_SPEED", "4");
    let child = flasher.start()?;
    let pid = child.id().unwrap();
    let mut peak = 0;
    let watched = eventually("the flasher to end", Duration::from_secs(170), async || {
        match peak_memory(pid) {
            Some(now) => peak = now,
            None => return Ok(Some(())),
        }
        Ok(None)
    });
    watched.await?;
    flasher.end(child).await?.well()?;
    assert!(peak > 0 && peak < 24 << 10, "{peak} KiB");
    Ok(())
}
