//! Each fault does what it says, and no more once it is used up.

use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_sim::flashjob::board::{BoardLedger, Identity, MacAddress, SessionEnd, Update};
use flashjob_sim::flashjob::{Board, Fault, Firmware, KeyKind, ServerCert, Times};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::agent::Agent;
use crate::requests::{get, post};
use crate::{LIMIT, ask, options};

struct Bench {
    agent: Agent,
    board: Board,
}

impl Bench {
    /// A board under this fault, the first time only.
    async fn new(fault: Fault) -> Result<Self> {
        let cert = ServerCert::self_signed(KeyKind::P256)?;
        let agent = Agent::start(&cert).await?;
        let options = options(&agent, &cert)?.with(fault, Times::First(1));
        Ok(Self { board: Board::start(options).await?, agent })
    }

    async fn get(&self, path: &str) -> Result<crate::requests::Answer> {
        get(self.board.address().into(), path).await
    }

    async fn until(&self, what: &str, wish: impl Fn(&BoardLedger) -> bool) -> Result<BoardLedger> {
        self.board.until(what, LIMIT, wish).await
    }

    /// How the first update ended.
    async fn end(&self) -> Result<Update> {
        let ledger = self.until("the end", |l| l.updates.first().is_some_and(|u| u.end.is_some()));
        Ok(ledger.await?.updates[0].clone())
    }

    /// Asked (again), the board is flashed without a fault.
    async fn works(&self) -> Result<()> {
        let boots = self.board.ledger().boots.len();
        ask(&self.board).await?;
        self.agent.serve(&Firmware::new("0.9.0").build()).await?;
        let ledger = self.until("another start", |l| l.boots.len() > boots).await?;
        assert_eq!(self.board.version(), "0.9.0");
        assert_eq!(ledger.overlaps, 0);
        Ok(())
    }
}

#[tokio::test]
async fn answers_500() -> Result<()> {
    let bench = Bench::new(Fault::Answers500).await?;
    let address = bench.board.address().into();
    assert_eq!(post(address, "/update", "ip: 127.0.0.1").await?.status, 500);
    let ledger = bench.board.ledger();
    assert_eq!((ledger.posts, ledger.updates.len()), (1, 0));
    bench.works().await
}

#[tokio::test]
async fn gives_no_answer_and_begins_nothing() -> Result<()> {
    let bench = Bench::new(Fault::NoAnswer).await?;
    let address = bench.board.address().into();
    assert!(post(address, "/update", "ip: 127.0.0.1").await.is_err());
    let ledger = bench.board.ledger();
    assert_eq!((ledger.posts, ledger.updates.len()), (1, 0));
    bench.works().await
}

#[tokio::test]
async fn loses_its_answer_and_updates_all_the_same() -> Result<()> {
    let bench = Bench::new(Fault::AnswerLost).await?;
    let address = bench.board.address().into();
    assert!(post(address, "/update", "ip: 127.0.0.1").await.is_err());
    bench.agent.serve(&Firmware::new("0.2.0").build()).await?;
    bench.until("its second start", |ledger| ledger.boots.len() == 2).await?;
    assert_eq!(bench.board.version(), "0.2.0");
    bench.works().await
}

#[tokio::test]
async fn never_calls_back() -> Result<()> {
    let bench = Bench::new(Fault::NeverCallsBack).await?;
    ask(&bench.board).await?;
    let update = bench.end().await?;
    assert_eq!((update.end, update.attempts), (Some(SessionEnd::NeverCalled), 0));
    bench.works().await
}

#[tokio::test]
async fn drops_at_a_byte() -> Result<()> {
    let bench = Bench::new(Fault::DropsAt(100_001)).await?;
    ask(&bench.board).await?;
    let mut session = bench.agent.session().await?;
    // More than any buffer between us takes, so that the cut is seen here too.
    let image = Firmware::new("0.2.0").size(20 << 20).build();
    assert!(session.send(&image).await.is_err());
    let update = bench.end().await?;
    assert_eq!((update.end, update.bytes), (Some(SessionEnd::Dropped), 100_001));
    assert_eq!(bench.board.version(), "0.1.0");
    bench.works().await
}

#[tokio::test]
async fn rejects_a_good_image() -> Result<()> {
    let bench = Bench::new(Fault::RejectsImage).await?;
    ask(&bench.board).await?;
    bench.agent.serve(&Firmware::new("0.2.0").build()).await?;
    let update = bench.end().await?;
    assert!(matches!(update.end, Some(SessionEnd::Rejected(_))), "{update:?}");
    assert_eq!(bench.board.ledger().boots.len(), 1);
    assert_eq!(bench.board.version(), "0.1.0");
    bench.works().await
}

#[tokio::test]
async fn boots_the_old_slot() -> Result<()> {
    let bench = Bench::new(Fault::BootsOldSlot).await?;
    ask(&bench.board).await?;
    bench.agent.serve(&Firmware::new("0.2.0").build()).await?;
    let ledger = bench.until("its second start", |ledger| ledger.boots.len() == 2).await?;
    assert_eq!(ledger.updates[0].end, Some(SessionEnd::Accepted));
    assert_eq!((ledger.boots[1].slot, ledger.boots[1].version.as_str()), (0, "0.1.0"));
    bench.works().await
}

#[tokio::test]
async fn reboots_slowly() -> Result<()> {
    // 50 times as fast: half a second.
    let bench = Bench::new(Fault::RebootsSlowly(Duration::from_secs(25))).await?;
    ask(&bench.board).await?;
    bench.agent.serve(&Firmware::new("0.2.0").build()).await?;
    bench.end().await?;
    let since = Instant::now();
    bench.until("its second start", |ledger| ledger.boots.len() == 2).await?;
    assert!(since.elapsed() >= Duration::from_millis(300), "{:?}", since.elapsed());
    bench.works().await
}

#[tokio::test]
async fn shows_the_certificate_of_another() -> Result<()> {
    let other = MacAddress::nth(60_000);
    let bench = Bench::new(Fault::ShowsCertificateOf(other)).await?;
    ask(&bench.board).await?;
    let shown = bench.agent.serve(&[]).await?;
    assert_eq!(shown, Identity::of(other)?.attestation_der());
    assert_eq!(
        bench.get("/onboard").await?.body,
        bench.board.identity()?.attestation_der(),
        "only in the session"
    );
    bench.end().await?;
    bench.works().await
}

#[tokio::test]
async fn is_slow() -> Result<()> {
    let bench = Bench::new(Fault::Slow(100_000)).await?;
    ask(&bench.board).await?;
    let since = Instant::now();
    bench.agent.serve(&Firmware::new("0.2.0").size(50_000).build()).await?;
    bench.until("its second start", |ledger| ledger.boots.len() == 2).await?;
    assert!(since.elapsed() >= Duration::from_millis(500), "{:?}", since.elapsed());
    bench.works().await
}

#[tokio::test]
async fn takes_raw_firmware_without_tls() -> Result<()> {
    let bench = Bench::new(Fault::RawTcp).await?;
    let address = bench.board.address();
    let answer = post(address.into(), "/update", "ip: 127.0.0.1").await?;
    assert_eq!(answer.text(), "Received update request: About to update (Insecure)\n");
    let mut stream = flashjob_sim::eventually("port 3333", LIMIT, async || {
        Ok(TcpStream::connect((*address.ip(), 3333)).await.ok())
    })
    .await?;
    stream.write_all(&Firmware::new("0.2.0").build()).await?;
    drop(stream);
    bench.until("its second start", |ledger| ledger.boots.len() == 2).await?;
    assert_eq!(bench.board.version(), "0.2.0");
    bench.works().await
}

#[tokio::test]
async fn has_no_onboard() -> Result<()> {
    let bench = Bench::new(Fault::NoOnboard).await?;
    assert_eq!(bench.get("/onboard").await?.status, 404);
    assert_eq!(bench.get("/onboard").await?.status, 200);
    bench.works().await
}

#[tokio::test]
async fn cannot_make_its_certificate() -> Result<()> {
    let bench = Bench::new(Fault::OnboardFails).await?;
    let answer = bench.get("/onboard").await?;
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (500, "Could not generate the certificate")
    );
    assert_eq!(bench.get("/onboard").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn onboards_as_another() -> Result<()> {
    let other = MacAddress::nth(60_001);
    let bench = Bench::new(Fault::OnboardsAs(other)).await?;
    let shown = bench.get("/onboard").await?.body;
    assert_eq!(shown, Identity::of(other)?.attestation_der());
    Ok(())
}

#[tokio::test]
async fn fails_to_tell_its_version() -> Result<()> {
    let bench = Bench::new(Fault::InfoFails).await?;
    assert_eq!(bench.get("/info").await?.status, 500);
    assert_eq!(bench.get("/info").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn a_fault_for_always_stays_until_the_board_is_healed() -> Result<()> {
    let bench = Bench::new(Fault::NoOnboard).await?;
    bench.board.inject(Fault::InfoFails, Times::Always);
    for _ in 0..3 {
        assert_eq!(bench.get("/info").await?.status, 500);
    }
    bench.board.heal();
    assert_eq!(bench.get("/info").await?.status, 200);
    assert_eq!(bench.get("/onboard").await?.status, 200);
    Ok(())
}
