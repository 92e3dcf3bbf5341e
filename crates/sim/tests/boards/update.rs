//! An update, whole and broken.

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::flashjob::board::{SessionEnd, Update};
use flashjob_sim::flashjob::{Board, BoardOptions, Firmware, KeyKind, ServerCert};
use sha2::{Digest, Sha256};
use tokio::time::sleep;

use crate::agent::Agent;
use crate::requests::get;
use crate::{LIMIT, SPEED, ask, options};

async fn pair() -> Result<(Agent, Board)> {
    let cert = ServerCert::self_signed(KeyKind::P256)?;
    let agent = Agent::start(&cert).await?;
    let board = Board::start(options(&agent, &cert)?).await?;
    Ok((agent, board))
}

/// Waits until the `n`th update is over.
async fn ended(board: &Board, n: usize) -> Result<Update> {
    let over = |update: &Update| update.end.is_some();
    let ledger = board.until("the end", LIMIT, |l| l.updates.get(n).is_some_and(over)).await?;
    Ok(ledger.updates[n].clone())
}

/// The board runs what it came with and was never restarted.
async fn unchanged(board: &Board) -> Result<()> {
    assert_eq!(board.ledger().boots.len(), 1);
    assert!(get(board.address().into(), "/info").await?.text().contains(r#""version":"0.1.0""#));
    Ok(())
}

/// Asked again, the board works as if nothing had been.
async fn works_again(agent: &Agent, board: &Board) -> Result<()> {
    ask(board).await?;
    agent.serve(&Firmware::new("0.2.0").build()).await?;
    board.until("its second start", LIMIT, |ledger| ledger.boots.len() == 2).await?;
    assert_eq!(board.version(), "0.2.0");
    assert_eq!(board.ledger().overlaps, 0);
    Ok(())
}

#[tokio::test]
async fn a_board_fetches_its_firmware_and_comes_back_with_it() -> Result<()> {
    let (agent, board) = pair().await?;
    let image = Firmware::new("0.2.0").size(300_000).build();
    unchanged(&board).await?;
    ask(&board).await?;
    let certificate = agent.serve(&image).await?;
    assert_eq!(certificate, board.identity()?.attestation_der());
    let ledger = board.until("its second start", LIMIT, |l| l.boots.len() == 2).await?;

    let info = get(board.address().into(), "/info").await?.text();
    assert_eq!(info, r#"{"device":"esp32s2","application":"thermo","version":"0.2.0"}"#);
    let [update] = &ledger.updates[..] else { panic!("{ledger:?}") };
    assert_eq!(update.server, "127.0.0.1");
    assert_eq!(update.end, Some(SessionEnd::Accepted));
    assert_eq!(update.version.as_deref(), Some("0.2.0"));
    assert_eq!((update.attempts, update.bytes), (1, image.len() as u64));
    let digest: String = Sha256::digest(&image).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(update.sha256.as_ref(), Some(&digest));
    assert_eq!((ledger.posts, ledger.overlaps), (1, 0));
    let boots: Vec<_> =
        ledger.boots.iter().map(|b| (b.slot, b.version.as_str(), b.fell_back)).collect();
    assert_eq!(boots, [(0, "0.1.0", false), (1, "0.2.0", false)]);
    Ok(())
}

#[tokio::test]
async fn the_same_version_again_is_a_restart_from_the_other_slot() -> Result<()> {
    let (agent, board) = pair().await?;
    for (n, slot) in [(2, 1), (3, 0)] {
        ask(&board).await?;
        agent.serve(&Firmware::new("0.1.0").build()).await?;
        let ledger = board.until("a start", LIMIT, |ledger| ledger.boots.len() == n).await?;
        assert_eq!(ledger.boots[n - 1].slot, slot);
    }
    Ok(())
}

#[tokio::test]
async fn an_end_without_a_byte_means_not_authorised() -> Result<()> {
    let (agent, board) = pair().await?;
    ask(&board).await?;
    agent.serve(&[]).await?;
    let update = ended(&board, 0).await?;
    assert_eq!(update.end, Some(SessionEnd::NotAuthorised));
    assert_eq!((update.bytes, update.sha256), (0, None));
    unchanged(&board).await?;
    works_again(&agent, &board).await
}

#[tokio::test]
async fn an_orderly_end_in_the_middle_is_taken_for_the_whole_and_rejected() -> Result<()> {
    let (agent, board) = pair().await?;
    ask(&board).await?;
    agent.serve(&Firmware::new("0.2.0").build()[..30_000]).await?;
    let update = ended(&board, 0).await?;
    assert!(
        matches!(&update.end, Some(SessionEnd::Rejected(why)) if why.contains("cut")),
        "{update:?}"
    );
    assert_eq!((update.bytes, update.version), (30_000, None));
    unchanged(&board).await?;
    works_again(&agent, &board).await
}

#[tokio::test]
async fn a_reset_in_the_middle_is_an_interruption() -> Result<()> {
    let (agent, board) = pair().await?;
    ask(&board).await?;
    let mut session = agent.session().await?;
    session.send(&Firmware::new("0.2.0").build()[..30_000]).await?;
    // The reset would overtake what has not been read.
    board.until("30000 bytes", LIMIT, |ledger| ledger.updates[0].bytes == 30_000).await?;
    session.reset()?;
    let update = ended(&board, 0).await?;
    assert!(matches!(update.end, Some(SessionEnd::Interrupted(_))), "{update:?}");
    unchanged(&board).await?;
    works_again(&agent, &board).await
}

#[tokio::test]
async fn what_is_no_image_for_this_board_is_rejected() -> Result<()> {
    let (agent, board) = pair().await?;
    let mut flipped = Firmware::new("0.2.0").build();
    flipped[1000] ^= 1;
    let cases = [
        (b"<html>404</html>".repeat(100), "begins with"),
        (flipped, "checksum"),
        (Firmware::new("0.2.0").device("esp32s3").build(), "chip"),
        (Firmware::new("0.2.0").size(0x29_0010).build(), "partition"),
    ];
    for (n, (image, why)) in cases.into_iter().enumerate() {
        ask(&board).await?;
        agent.serve(&image).await?;
        let update = ended(&board, n).await?;
        assert!(
            matches!(&update.end, Some(SessionEnd::Rejected(said)) if said.contains(why)),
            "{why}: {update:?}"
        );
        assert_eq!(update.bytes, image.len() as u64);
        unchanged(&board).await?;
    }
    works_again(&agent, &board).await
}

#[tokio::test]
async fn the_first_session_of_a_boot_bears_silence_and_later_ones_do_not() -> Result<()> {
    let cert = ServerCert::self_signed(KeyKind::P256)?;
    let agent = Agent::start(&cert).await?;
    let bears_silence = Duration::from_secs(3);
    let board = Board::start(BoardOptions { bears_silence, ..options(&agent, &cert)? }).await?;
    let silence = bears_silence.div_f64(SPEED);
    ask(&board).await?;
    let mut session = agent.session().await?;
    sleep(silence * 10).await;
    assert_eq!(board.ledger().updates[0].end, None);
    session.end().await;
    assert_eq!(ended(&board, 0).await?.end, Some(SessionEnd::NotAuthorised));

    ask(&board).await?;
    let _session = agent.session().await?;
    assert_eq!(ended(&board, 1).await?.end, Some(SessionEnd::Interrupted("silence".to_owned())));
    unchanged(&board).await
}

#[tokio::test]
async fn overlapping_updates_are_recorded_and_spoil_the_slot_for_both() -> Result<()> {
    let (agent, board) = pair().await?;
    let image = Firmware::new("0.2.0").build();
    ask(&board).await?;
    let mut one = agent.session().await?;
    one.send(&image[..30_000]).await?;
    board.until("30000 bytes", LIMIT, |ledger| ledger.updates[0].bytes == 30_000).await?;
    ask(&board).await?;
    assert_eq!(board.ledger().overlaps, 1);
    let mut two = agent.session().await?;
    two.send(&image).await?;
    board.until("a whole image", LIMIT, |l| l.updates[1].bytes == image.len() as u64).await?;
    one.send(&image[30_000..]).await?;
    one.end().await;
    let update = ended(&board, 0).await?;
    assert!(matches!(update.end, Some(SessionEnd::Rejected(_))), "{update:?}");
    two.end().await;
    let update = ended(&board, 1).await?;
    assert!(matches!(update.end, Some(SessionEnd::Rejected(_))), "{update:?}");
    unchanged(&board).await
}

#[tokio::test]
async fn an_update_that_waits_for_its_server_counts_as_at_work() -> Result<()> {
    let (agent, board) = pair().await?;
    let image = Firmware::new("0.2.0").build();
    ask(&board).await?;
    ask(&board).await?;
    agent.serve(&image).await?;
    let ledger = board.until("its second start", LIMIT, |l| l.boots.len() == 2).await?;
    assert_eq!((ledger.posts, ledger.overlaps), (2, 1));
    let mut ends: Vec<_> = ledger.updates.iter().filter_map(|u| u.end.clone()).collect();
    ends.sort_by_key(|end| *end == SessionEnd::PowerLost);
    assert_eq!(ends, [SessionEnd::Accepted, SessionEnd::PowerLost]);
    Ok(())
}

#[tokio::test]
async fn a_server_named_by_nonsense_is_never_reached() -> Result<()> {
    let (_agent, board) = pair().await?;
    let address = board.address().into();
    assert_eq!(crate::requests::post(address, "/update", "10.0.0.1").await?.status, 200);
    let update = ended(&board, 0).await?;
    assert_eq!((update.end, update.attempts), (Some(SessionEnd::NoServer), 20));
    unchanged(&board).await
}
