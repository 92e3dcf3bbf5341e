//! What a board answers over HTTP.

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::flashjob::{Board, BoardOptions, KeyKind, ServerCert};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::requests::{get, post, request};
use crate::{LIMIT, SPEED};

fn some() -> Result<BoardOptions> {
    let pinned = ServerCert::self_signed(KeyKind::P256)?;
    Ok(BoardOptions { speed: SPEED, ..BoardOptions::new(&pinned.chain)? })
}

#[tokio::test]
async fn info_tells_what_the_board_is() -> Result<()> {
    let board = Board::start(some()?).await?;
    let answer = get(board.address().into(), "/info").await?;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("Content-Type: application/json"), "{}", answer.head);
    assert_eq!(answer.text(), r#"{"device":"esp32s2","application":"thermo","version":"0.1.0"}"#);
    Ok(())
}

#[tokio::test]
async fn info_is_cut_at_the_end_of_its_buffer() -> Result<()> {
    let application = "x".repeat(60);
    let options = BoardOptions { application: application.clone(), ..some()? };
    let board = Board::start(options).await?;
    let answer = get(board.address().into(), "/info").await?;
    assert_eq!(answer.body.len(), 99);
    let whole =
        format!(r#"{{"device":"esp32s2","application":"{application}","version":"0.1.0"}}"#);
    assert!(whole.starts_with(&answer.text()));
    Ok(())
}

#[tokio::test]
async fn onboard_gives_the_attestation_certificate() -> Result<()> {
    let board = Board::start(some()?).await?;
    for _ in 0..2 {
        let answer = get(board.address().into(), "/onboard").await?;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body, board.identity()?.attestation_der());
    }
    Ok(())
}

#[tokio::test]
async fn while_onboard_works_nobody_else_is_answered() -> Result<()> {
    let for_ever = Duration::from_secs(1_000_000);
    let board = Board::start(BoardOptions { certificate_takes: for_ever, ..some()? }).await?;
    let address = board.address().into();
    let onboard = tokio::spawn(get(address, "/onboard"));
    board.until("a request", LIMIT, |ledger| ledger.onboards == 1).await?;
    // The handler does not notice that its caller has gone.
    onboard.abort();
    tokio::spawn(get(address, "/info"));
    sleep(Duration::from_millis(300)).await;
    assert_eq!(board.ledger().infos, 0);
    Ok(())
}

#[tokio::test]
async fn a_post_whose_caller_has_given_up_still_begins_an_update() -> Result<()> {
    let a_second = Duration::from_secs(50);
    let board = Board::start(BoardOptions { certificate_takes: a_second, ..some()? }).await?;
    let address = board.address().into();
    tokio::spawn(get(address, "/onboard"));
    board.until("a request", LIMIT, |ledger| ledger.onboards == 1).await?;
    let mut stream = TcpStream::connect(address).await?;
    let post = "POST /update HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\nip: 127.0.0.1";
    stream.write_all(post.as_bytes()).await?;
    drop(stream);
    board.until("an update", LIMIT, |ledger| ledger.updates.len() == 1).await?;
    Ok(())
}

#[tokio::test]
async fn one_connection_serves_many_requests() -> Result<()> {
    let board = Board::start(some()?).await?;
    let two = "GET /temp HTTP/1.1\r\nHost: x\r\n\r\nPOST /update HTTP/1.1\r\nHost: x\r\n\
               Content-Length: 30\r\n\r\nip: 127.0.0.1                 \
               GET /info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = request(board.address().into(), two).await?;
    assert_eq!(answer.text().matches("HTTP/1.1 200 OK").count(), 2, "{}", answer.text());
    assert!(answer.text().ends_with(r#""version":"0.1.0"}"#), "{}", answer.text());
    assert_eq!(board.ledger().updates.len(), 1);
    Ok(())
}

#[tokio::test]
async fn temp_is_a_number_between_0_and_50() -> Result<()> {
    let board = Board::start(some()?).await?;
    let answer = get(board.address().into(), "/temp").await?;
    assert!(answer.text().parse::<u8>()? <= 50);
    Ok(())
}

#[tokio::test]
async fn other_paths_and_methods_are_not_there() -> Result<()> {
    let board = Board::start(some()?).await?;
    let address = board.address().into();
    assert_eq!(get(address, "/manage/info").await?.status, 404);
    assert_eq!(get(address, "/update").await?.status, 405);
    assert_eq!(post(address, "/info", "x").await?.status, 405);
    assert_eq!(board.ledger().posts, 0);
    Ok(())
}

#[tokio::test]
async fn an_update_is_confirmed_at_once_and_to_anyone() -> Result<()> {
    let board = Board::start(some()?).await?;
    let answer = post(board.address().into(), "/update", "ip: 127.0.0.1").await?;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text(), "Received update request: About to update (Secure)\n");
    let ledger = board.ledger();
    assert_eq!((ledger.posts, ledger.updates[0].server.as_str()), (1, "127.0.0.1"));
    Ok(())
}

#[tokio::test]
async fn only_21_bytes_of_the_body_are_read() -> Result<()> {
    let board = Board::start(some()?).await?;
    let body = "ip: 255.255.255.255 and more";
    assert_eq!(post(board.address().into(), "/update", body).await?.status, 200);
    assert_eq!(board.ledger().updates[0].server, "255.255.255.255");
    let body = "ip:     255.255.255.255";
    assert_eq!(post(board.address().into(), "/update", body).await?.status, 200);
    assert_eq!(board.ledger().updates[1].server, "255.255.255.2");
    Ok(())
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_with_408_and_an_empty_one_not_at_all() -> Result<()>
{
    let board = Board::start(some()?).await?;
    let address = board.address().into();
    let head = "POST /update HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n";
    assert_eq!(request(address, head).await?.status, 408);
    let error = post(address, "/update", "").await.unwrap_err();
    assert!(error.to_string().contains("no answer"), "{error}");
    assert!(board.ledger().updates.is_empty());
    assert_eq!(board.ledger().posts, 2);
    Ok(())
}

#[tokio::test]
async fn a_board_that_is_off_refuses_and_comes_back_at_the_same_address() -> Result<()> {
    let board = Board::start(some()?).await?;
    let address = board.address().into();
    assert_eq!(post(address, "/update", "ip: 127.0.0.1").await?.status, 200);
    board.switch_off(Duration::from_millis(500)).await;
    assert!(get(address, "/info").await.is_err());
    assert_eq!(
        board.ledger().updates[0].end,
        Some(flashjob_sim::flashjob::board::SessionEnd::PowerLost)
    );
    board.until("its second start", LIMIT, |ledger| ledger.boots.len() == 2).await?;
    assert_eq!(get(address, "/info").await?.status, 200);
    Ok(())
}
