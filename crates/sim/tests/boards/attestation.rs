//! The attestation service, as callers meet it.

use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_sim::flashjob::Attestation;
use flashjob_sim::flashjob::board::{Identity, MacAddress};

use crate::requests::{get, post};

/// Its 2.5 seconds are 100 ms.
const SPEED: f64 = 25.0;

async fn status(service: &Attestation, body: &str) -> Result<u16> {
    let answer = post(service.address(), "/any/path", body).await?;
    assert!(answer.head.contains("Connection: close"), "{}", answer.head);
    let expected = match answer.status {
        200 => r#"{"status": "Certificate OK"}"#,
        _ => r#"{"status": "Certificate Invalid"}"#,
    };
    assert_eq!(answer.text(), expected);
    Ok(answer.status)
}

#[tokio::test]
async fn only_enrolled_boards_are_welcome() -> Result<()> {
    let service = Attestation::start(SPEED).await?;
    let [one, two, stranger] = [1, 2, 3].map(|n| Identity::of(MacAddress::nth(n)).unwrap());
    assert_eq!(status(&service, &one.attestation_pem()).await?, 401);
    service.enrol(&one.root_pem())?;
    service.enrol(&two.root_pem())?;
    assert_eq!(status(&service, &one.attestation_pem()).await?, 200);
    assert_eq!(status(&service, &two.attestation_pem()).await?, 200);
    assert_eq!(status(&service, &stranger.attestation_pem()).await?, 401);
    assert_eq!(status(&service, &one.root_pem()).await?, 200, "a root is trusted as it stands");
    service.forget();
    assert_eq!(status(&service, &one.attestation_pem()).await?, 401);
    let statuses: Vec<_> = service.asked().iter().map(|question| question.status).collect();
    assert_eq!(statuses, [401, 200, 200, 401, 200, 401]);
    Ok(())
}

#[tokio::test]
async fn what_was_changed_or_is_no_certificate_is_not_welcome() -> Result<()> {
    let service = Attestation::start(SPEED).await?;
    let identity = Identity::of(MacAddress::nth(1))?;
    service.enrol(&identity.root_pem())?;
    let pem = identity.attestation_pem();
    let lines: Vec<_> = pem.lines().collect();
    // A line of the DICE inputs, which are zero; and the last one, the end of the signature.
    let zeros = lines.iter().position(|line| *line == "A".repeat(64)).unwrap();
    for line in [zeros, lines.len() - 2] {
        let mut changed: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let other = if changed[line].starts_with('A') { "B" } else { "A" };
        changed[line].replace_range(0..1, other);
        assert_eq!(status(&service, &changed.join("\n")).await?, 401, "line {line}");
    }
    assert_eq!(status(&service, "").await?, 401);
    assert_eq!(status(&service, "hello").await?, 401);
    assert_eq!(status(&service, &pem).await?, 200);
    Ok(())
}

#[tokio::test]
async fn only_post_is_allowed() -> Result<()> {
    let service = Attestation::start(SPEED).await?;
    let answer = get(service.address(), "/").await?;
    assert_eq!((answer.status, answer.text().as_str()), (405, "Only POST method allowed"));
    Ok(())
}

#[tokio::test]
async fn callers_are_served_one_after_the_other() -> Result<()> {
    let service = Attestation::start(SPEED).await?;
    let since = Instant::now();
    let one = || post(service.address(), "/", "hello");
    tokio::try_join!(one(), one(), one(), one())?;
    assert!(since.elapsed() >= Duration::from_millis(400), "{:?}", since.elapsed());
    Ok(())
}
