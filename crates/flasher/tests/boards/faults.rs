//! What goes wrong at the board: each ends with its reason, or well at the next try, and never with two updates at once.

use std::time::Duration;

use anyhow::{Result, ensure};
use flashjob_sim::flashjob::board::MacAddress;
use flashjob_sim::flashjob::{Board, Fault, Times};

use crate::desk::{Desk, Ended, NEW, OLD};

/// Flashes a board that has this fault.
async fn flash(fault: Fault, times: Times, env: &[(&str, &str)]) -> Result<(Ended, Board)> {
    let desk = Desk::new().await?;
    let board = desk.enrolled(desk.options()?.with(fault, times)).await?;
    let mut flasher = desk.flasher(&board).await?;
    for (name, value) in env {
        flasher = flasher.env(name, value);
    }
    let ended = flasher.run().await?;
    ensure!(board.ledger().overlaps == 0, "two updates at once: {:#?}", board.ledger());
    Ok((ended, board))
}

async fn fails(fault: Fault, reason: &str, words: &str) -> Result<Board> {
    let (ended, board) = flash(fault, Times::Always, &[]).await?;
    ended.badly(reason, words)?;
    ensure!(board.version() == OLD, "it runs {}", board.version());
    Ok(board)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_refuses_is_told_by_its_answer() -> Result<()> {
    fails(Fault::Answers500, "DeviceRefused", "500").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_never_calls_is_given_up() -> Result<()> {
    let board = fails(Fault::NeverCallsBack, "NoCallback", "did not call").await?;
    assert_eq!(board.ledger().posts, 1, "asked once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_rejects_the_image_is_found_out() -> Result<()> {
    fails(Fault::RejectsImage, "ImageRejected", "did not restart").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_boots_its_old_slot_is_found_out() -> Result<()> {
    let words = "runs 0.1.0; before it ran 0.1.0, wanted is 0.2.0";
    fails(Fault::BootsOldSlot, "VersionMismatch", words).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_breaks_once_is_tried_again() -> Result<()> {
    let (ended, board) = flash(Fault::DropsAt(20_000), Times::First(1), &[]).await?;
    ended.well()?;
    assert_eq!((board.ledger().posts, board.version()), (2, NEW.into()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_always_breaks_is_an_interrupted_transfer() -> Result<()> {
    fails(Fault::DropsAt(20_000), "TransferInterrupted", "3 sessions").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_counts_as_accepted() -> Result<()> {
    let (ended, board) = flash(Fault::AnswerLost, Times::Always, &[]).await?;
    ended.well()?;
    assert_eq!(board.ledger().posts, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_stays_away_is_not_back() -> Result<()> {
    let slowly = Fault::RebootsSlowly(Duration::from_secs(6000));
    let (ended, _) = flash(slowly, Times::Always, &[("DEADLINE_SECONDS", "20")]).await?;
    ended.badly("NotBack", "has not come back")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_takes_its_time_is_waited_for() -> Result<()> {
    let slowly = Fault::RebootsSlowly(Duration::from_secs(60));
    flash(slowly, Times::Always, &[]).await?.0.well()?;
    flash(Fault::Slow(20_000), Times::Always, &[]).await?.0.well()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_is_off_for_a_while_is_waited_for_and_one_that_stays_off_is_unreachable()
-> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    board.switch_off(Duration::from_secs(3)).await;
    desk.flasher(&board).await?.run().await?.well()?;
    let endpoint = board.endpoint();
    drop(board);
    let nobody = desk.flasher_for(&endpoint, "127.0.0.1:1/nothing:1").run().await?;
    nobody.badly("DeviceUnreachable", "does not answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn another_boards_certificate_is_an_identity_mismatch() -> Result<()> {
    let other = MacAddress([2, 0, 0, 0, 9, 9]);
    fails(Fault::ShowsCertificateOf(other), "IdentityMismatch", "expected is").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_without_onboard_is_flashed_unless_its_identity_is_required() -> Result<()> {
    let (ended, _) = flash(Fault::NoOnboard, Times::Always, &[]).await?;
    ended.well()?;
    assert!(ended.log.contains("does not show who it is"), "{}", ended.log);
    let required = [("REQUIRE_IDENTITY", "1")];
    let (ended, board) = flash(Fault::NoOnboard, Times::Always, &required).await?;
    ended.badly("IdentityMismatch", "REQUIRE_IDENTITY")?;
    assert_eq!(board.ledger().posts, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_cannot_make_its_certificate_is_not_asked() -> Result<()> {
    let board = fails(Fault::OnboardFails, "AttestationFailed", "500").await?;
    assert_eq!(board.ledger().posts, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_without_tls_is_named() -> Result<()> {
    fails(Fault::RawTcp, "ProtocolUnsupported", "OTA_SECURE").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_whose_info_fails_afterwards_is_unreadable() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let mut flasher = desk.flasher(&board).await?;
    let child = flasher.start()?;
    let limit = Duration::from_secs(60);
    board.until("the update begins", limit, |ledger| !ledger.updates.is_empty()).await?;
    board.inject(Fault::InfoFails, Times::Always);
    flasher.end(child).await?.badly("InfoUnreadable", "500")
}
