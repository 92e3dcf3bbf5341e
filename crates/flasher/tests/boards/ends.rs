//! How a session ends when it does not end well. For a board an orderly end is the end of the image, so nothing but a
//! whole image may end that way; and what a board was seen to do proves something only if it has had all of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_sim::flashjob::board::SessionEnd;
use flashjob_sim::flashjob::{Board, Fault, Firmware, Times};
use tokio::process::{Child, Command};

use crate::desk::{Desk, Ended, Flasher, NEW, OLD, firmware};

const PATIENCE: Duration = Duration::from_secs(60);

/// A flasher in the middle of a transfer that would take a minute.
async fn midway(desk: &Desk, deadline: &str) -> Result<(Board, Flasher, Child)> {
    let board = desk.enrolled(desk.options()?.with(Fault::Slow(10_000), Times::Always)).await?;
    let image = firmware(&Firmware::new(NEW).size(600_000)).await?;
    let flasher = desk.flasher_for(&board.endpoint(), &image);
    let mut flasher = flasher.env("DEADLINE_SECONDS", deadline);
    let child = flasher.start()?;
    let begun = |update: &flashjob_sim::flashjob::board::Update| update.bytes > 0;
    board.until("the image is on its way", PATIENCE, |l| l.updates.iter().any(begun)).await?;
    Ok((board, flasher, child))
}

/// The board knows that it was interrupted, and did not take what it had for an image.
async fn was_reset(board: &Board) -> Result<()> {
    let ended =
        |ledger: &flashjob_sim::flashjob::board::BoardLedger| ledger.updates[0].end.is_some();
    let ledger = board.until("the update ends", PATIENCE, ended).await?;
    ensure!(matches!(ledger.updates[0].end, Some(SessionEnd::Interrupted(_))), "{ledger:#?}");
    Ok(())
}

async fn signal(child: &Child, name: &str) -> Result<()> {
    let pid = child.id().context("the flasher has ended already")?.to_string();
    ensure!(Command::new("kill").args([name, &pid]).status().await?.success(), "kill {name} {pid}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flasher_that_is_told_to_end_resets_the_transfer() -> Result<()> {
    let desk = Desk::new().await?;
    let (board, flasher, child) = midway(&desk, "120").await?;
    signal(&child, "-TERM").await?;
    flasher.end(child).await?.badly("Timeout", "told to end")?;
    was_reset(&board).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flasher_that_is_killed_resets_the_transfer() -> Result<()> {
    let desk = Desk::new().await?;
    let (board, _, mut child) = midway(&desk, "120").await?;
    signal(&child, "-KILL").await?;
    child.wait().await?;
    was_reset(&board).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_resets_the_transfer() -> Result<()> {
    let desk = Desk::new().await?;
    let (board, flasher, child) = midway(&desk, "15").await?;
    flasher.end(child).await?.badly("Timeout", "sending the image")?;
    was_reset(&board).await
}

/// Flashes a board that resets the connection when it has read the last byte, and so never sees the end.
async fn lost_at_the_end(times: Times, env: &[(&str, &str)]) -> Result<(Ended, Board)> {
    let desk = Desk::new().await?;
    let last = Firmware::new(NEW).build().len() as u64;
    let board = desk.enrolled(desk.options()?.with(Fault::DropsAt(last), times)).await?;
    let mut flasher = desk.flasher(&board).await?;
    for (name, value) in env {
        flasher = flasher.env(name, value);
    }
    Ok((flasher.run().await?, board))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_lost_at_the_end_is_no_success_for_anybody() -> Result<()> {
    let (ended, board) = lost_at_the_end(Times::Always, &[("VERIFY", "None")]).await?;
    ended.badly("TransferInterrupted", "")?;
    assert_eq!(board.version(), OLD);
    let (ended, board) = lost_at_the_end(Times::Always, &[]).await?;
    ended.badly("TransferInterrupted", "3 sessions")?;
    assert_eq!((board.version(), board.ledger().overlaps), (OLD.into(), 0));
    let (ended, board) = lost_at_the_end(Times::First(1), &[]).await?;
    ended.well()?;
    assert_eq!((board.version(), board.ledger().posts), (NEW.into(), 2));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_after_a_line_that_was_lost_proves_nothing() -> Result<()> {
    for (name, value) in [("VERIFY", "Version"), ("VERIFY", "Restart")] {
        let desk = Desk::new().await?;
        let build = Firmware::new(OLD);
        let drops = Fault::DropsAt(build.build().len() as u64);
        let board = desk.enrolled(desk.options()?.with(drops, Times::First(1))).await?;
        let flasher = desk.flasher_for(&board.endpoint(), &firmware(&build).await?);
        let mut flasher = flasher.env("VERSION", OLD).env(name, value);
        let child = flasher.start()?;
        let dropped = |ledger: &flashjob_sim::flashjob::board::BoardLedger| {
            ledger.updates.first().is_some_and(|update| update.end == Some(SessionEnd::Dropped))
        };
        board.until("the line is lost", PATIENCE, dropped).await?;
        board.switch_off(Duration::from_millis(500)).await;
        flasher.end(child).await?.well()?;
        let ledger = board.ledger();
        ensure!(ledger.updates.iter().any(|u| u.end == Some(SessionEnd::Accepted)), "{ledger:#?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_attempt_that_ends_well_while_a_later_one_listens_is_enough() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let mut later = desk.flasher(&board).await?.env("ATTEMPT", "2");
    let child = later.start()?;
    board.until("the later one has met it", PATIENCE, |ledger| ledger.onboards > 0).await?;
    desk.flasher(&board).await?.env("VERIFY", "None").run().await?.well()?;
    let ended = later.end(child).await?;
    ended.well()?;
    assert_eq!((board.ledger().posts, board.version()), (1, NEW.into()), "{}", ended.log);
    Ok(())
}

/// A board whose `/info` shows only the first characters of its version.
async fn short_sighted(desk: &Desk, characters: usize) -> Result<Board> {
    let mut options = desk.options()?;
    options.application = "x".repeat(51 - characters);
    desk.enrolled(options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_which_too_little_is_seen_proves_nothing() -> Result<()> {
    let desk = Desk::new().await?;
    // Both versions look alike: "0.".
    let board = short_sighted(&desk, 2).await?;
    board.inject(Fault::BootsOldSlot, Times::Always);
    let ended = desk.flasher(&board).await?.run().await?;
    ended.badly("InfoUnreadable", "cut off")?;
    let ended = desk.flasher(&board).await?.env("ATTEMPT", "2").run().await?;
    ended.badly("InfoUnreadable", "cut off")?;
    let posts = board.ledger().posts;
    let skip = desk.flasher(&board).await?.env("VERSION_POLICY", "IfDifferent");
    skip.run().await?.badly("InfoUnreadable", "cut off")?;
    assert_eq!((board.ledger().posts, board.version()), (posts + 1, OLD.into()));
    // Three are enough to tell them apart.
    let board = short_sighted(&desk, 3).await?;
    desk.flasher(&board).await?.run().await?.well()?;
    assert_eq!(board.version(), NEW);
    Ok(())
}
