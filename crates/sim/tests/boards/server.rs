//! Which servers a board takes firmware from.

use anyhow::Result;
use flashjob_sim::flashjob::board::SessionEnd;
use flashjob_sim::flashjob::{Board, Firmware, KeyKind, ServerCert};

use crate::agent::Agent;
use crate::{LIMIT, ask, options};

/// The agent shows one certificate, the board pins another; it must be flashed all the same.
async fn accepted(shown: ServerCert, pinned: ServerCert) -> Result<()> {
    let agent = Agent::start(&shown).await?;
    let board = Board::start(options(&agent, &pinned)?).await?;
    ask(&board).await?;
    agent.serve(&Firmware::new("0.2.0").build()).await?;
    board.until("its second start", LIMIT, |ledger| ledger.boots.len() == 2).await?;
    assert_eq!(board.version(), "0.2.0");
    Ok(())
}

/// The board must give up after its twenty tries, and say this of the last.
async fn refused(agent: Agent, pinned: ServerCert, why: &str) -> Result<()> {
    let board = Board::start(options(&agent, &pinned)?).await?;
    ask(&board).await?;
    let given_up = board.until("the end", LIMIT, |ledger| ledger.updates[0].end.is_some());
    let ledger = tokio::select! {
        ledger = given_up => ledger?,
        () = agent.only_handshakes() => unreachable!("the agent's port is open"),
    };
    let update = &ledger.updates[0];
    assert_eq!(update.end, Some(SessionEnd::NoServer));
    assert_eq!((update.attempts, update.session, update.bytes), (20, None, 0));
    let error = update.last_error.as_deref().unwrap_or_default();
    assert!(error.contains(why), "{error}");
    assert_eq!(board.version(), "0.1.0");
    Ok(())
}

#[tokio::test]
async fn the_pinned_certificate_with_an_rsa_key_is_taken() -> Result<()> {
    let cert = ServerCert::self_signed(KeyKind::Rsa2048)?;
    accepted(cert.clone(), cert).await
}

#[tokio::test]
async fn the_pinned_certificate_with_a_p256_key_is_taken() -> Result<()> {
    let cert = ServerCert::self_signed(KeyKind::P256)?;
    accepted(cert.clone(), cert).await
}

#[tokio::test]
async fn a_renewed_certificate_is_taken() -> Result<()> {
    for (old, new) in [
        (KeyKind::Rsa2048, KeyKind::P256),
        (KeyKind::P256, KeyKind::Rsa2048),
        (KeyKind::P256, KeyKind::P256),
        (KeyKind::Rsa2048, KeyKind::Rsa2048),
    ] {
        let pinned = ServerCert::self_signed(old)?;
        accepted(pinned.renewed(new)?, pinned).await?;
    }
    Ok(())
}

#[tokio::test]
async fn another_certificate_of_that_name_is_refused() -> Result<()> {
    let agent = Agent::start(&ServerCert::self_signed(KeyKind::P256)?).await?;
    refused(agent, ServerCert::self_signed(KeyKind::P256)?, "neither the pinned one").await
}

/// Its issuer has the right name and the wrong key.
#[tokio::test]
async fn a_certificate_renewed_by_somebody_else_is_refused() -> Result<()> {
    let other = ServerCert::self_signed(KeyKind::P256)?.renewed(KeyKind::P256)?;
    let agent = Agent::start(&other).await?;
    refused(agent, ServerCert::self_signed(KeyKind::P256)?, "neither the pinned one").await
}

/// A leaf is no CA, whatever it signs.
#[tokio::test]
async fn what_a_renewed_certificate_signs_is_refused() -> Result<()> {
    let pinned = ServerCert::self_signed(KeyKind::P256)?;
    let agent = Agent::start(&pinned.renewed(KeyKind::P256)?.renewed(KeyKind::P256)?).await?;
    refused(agent, pinned, "neither the pinned one").await
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() -> Result<()> {
    let pinned = ServerCert::self_signed(KeyKind::P256)?;
    let agent = Agent::start(&pinned.signs("ota-agent.example.org", KeyKind::P256)?).await?;
    refused(agent, pinned, "not for ota-agent").await
}

#[tokio::test]
async fn a_server_without_tls_1_2_is_refused() -> Result<()> {
    let cert = ServerCert::self_signed(KeyKind::P256)?;
    let agent = Agent::speaking(&cert, &[&rustls::version::TLS13]).await?;
    refused(agent, cert, "ProtocolVersion").await
}
