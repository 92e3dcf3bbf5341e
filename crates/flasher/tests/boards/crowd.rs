//! Many at once: strangers at the door, and boards at the attestation service.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use flashjob_sim::eventually;
use flashjob_sim::flashjob::Board;
use futures::future::try_join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::desk::{Desk, NEW, OLD};

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_strangers_cost_nothing_and_end_nothing() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    // Another board that is enrolled, and is told to call the wrong flasher.
    let lost = desk.board().await?;
    let mut flasher = desk.flasher(&board).await?.env("ATTEMPT", "2");
    let door = SocketAddr::from((flasher.address, 4433));
    let child = flasher.start()?;
    let patience = Duration::from_secs(60);
    eventually("the flasher to listen", patience, async || Ok(TcpStream::connect(door).await.ok()))
        .await?;
    let mut strangers = Vec::new();
    for number in 0..200 {
        let Ok(mut stranger) = TcpStream::connect(door).await else { continue };
        // A third is silent, a third talks nonsense, a third hangs up.
        match number % 3 {
            0 => strangers.push(stranger),
            1 => {
                let _ = stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
                strangers.push(stranger);
            }
            _ => drop(stranger),
        }
    }
    let client = reqwest::Client::builder().no_proxy().build()?;
    let ask = |board: &Board| {
        let request = client.post(format!("http://{}/update", board.endpoint()));
        request.body(format!("ip: {}", flasher.address)).send()
    };
    ask(&lost).await?;
    lost.until("it is turned away", patience, |l| l.updates.iter().any(|u| u.end.is_some()))
        .await?;
    ask(&board).await?;
    let ended = flasher.end(child).await?;
    ended.well()?;
    assert_eq!((board.version(), lost.version()), (NEW.into(), OLD.into()));
    assert_eq!(board.ledger().overlaps, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_five_boards_wait_their_turn_at_the_attestation_service() -> Result<()> {
    let desk = Desk::new().await?;
    let boards = try_join_all((0..25).map(|_| desk.board())).await?;
    let flashers = try_join_all(boards.iter().map(|board| desk.flasher(board))).await?;
    for ended in try_join_all(flashers.into_iter().map(|flasher| flasher.run())).await? {
        ended.well()?;
    }
    for board in &boards {
        assert_eq!((board.version(), board.ledger().overlaps), (NEW.into(), 0));
    }
    assert!(desk.attestation.asked().len() >= 25);
    Ok(())
}
