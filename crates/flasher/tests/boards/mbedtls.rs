//! One session with the TLS library that boards have. The simulated boards speak TLS with the flasher's own library, so
//! the two could agree on what no board understands.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_sim::flashjob::{Fault, Firmware, KeyKind, ServerCert, Times};
use tokio::process::Command;

use crate::desk::{Desk, NEW, firmware};

const HACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/mbedtls.sh");
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/boards/mbedtls_client.c");

async fn run(program: impl AsRef<Path>, args: &[&Path]) -> Result<Output> {
    let program = program.as_ref();
    let run = Command::new(program).args(args).kill_on_drop(true).output();
    let ended = tokio::time::timeout(Duration::from_secs(120), run).await;
    ended.ok().and_then(Result::ok).with_context(|| format!("{} does not run", program.display()))
}

/// The client, compiled.
async fn client(folder: &Path) -> Result<PathBuf> {
    let found = run(HACK, &[]).await?;
    ensure!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let library = String::from_utf8(found.stdout)?;
    let library = Path::new(library.trim());
    let program = folder.join("mbedtls_client");
    let mut args: Vec<PathBuf> = ["-Wall", "-Werror", "-o"].map(PathBuf::from).into();
    args.extend([program.clone(), SOURCE.into()]);
    args.extend(["-I".into(), library.join("include"), "-L".into(), library.join("lib")]);
    args.extend(["-lmbedtls", "-lmbedx509", "-lmbedcrypto"].map(PathBuf::from));
    let args: Vec<&Path> = args.iter().map(PathBuf::as_path).collect();
    let built = run("cc", &args).await?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(program)
}

/// Flashes a board whose own half of TLS is idle: the client takes its place, with its certificate.
async fn flash(pinned: ServerCert, kind: KeyKind) -> Result<()> {
    let renewed = pinned.renewed(kind)?;
    let desk = Desk::with(pinned).await?;
    let client = client(desk.folder.path()).await?;
    let image = Firmware::new(NEW).build();
    for (number, server) in [desk.certificate.clone(), renewed].iter().enumerate() {
        std::fs::write(desk.path("pinned.pem"), &desk.certificate.chain)?;
        std::fs::write(desk.path("tls.crt"), &server.chain)?;
        std::fs::write(desk.path("tls.key"), &server.key)?;
        let options = desk.options()?.with(Fault::NeverCallsBack, Times::Always);
        let board = desk.enrolled(options).await?;
        std::fs::write(desk.path("board.der"), board.identity()?.attestation_der())?;
        let mut flasher = desk.flasher(&board).await?.env("VERIFY", "None");
        let address: Ipv4Addr = flasher.address;
        let child = flasher.start()?;
        board.until("it is asked", Duration::from_secs(60), |l| !l.updates.is_empty()).await?;
        let address = PathBuf::from(address.to_string());
        let call = async |pinned: &Path, out: &Path| {
            run(&client, &[&address, pinned, &desk.path("board.der"), out]).await
        };
        // It does look at the certificate, and who hangs up in the handshake ends nothing.
        let stranger = desk.path("stranger.pem");
        std::fs::write(&stranger, ServerCert::self_signed(KeyKind::P256)?.chain)?;
        let refused = call(&stranger, &desk.path("nothing")).await?;
        let words = String::from_utf8_lossy(&refused.stderr);
        ensure!(!refused.status.success() && words.contains("handshake"), "{refused:?}");

        let out = desk.path(&format!("received-{number}"));
        let taken = call(&desk.path("pinned.pem"), &out).await?;
        let words = String::from_utf8_lossy(&taken.stdout);
        ensure!(taken.status.success(), "{taken:?}");
        ensure!(words.contains("TLSv1.2") && words.contains("ended by close_notify"), "{words}");
        ensure!(std::fs::read(&out)? == image, "another image arrived: {words}");
        flasher.end(child).await?.well()?;
    }
    Ok(())
}

/// The rest of a small image fits into the kernel's buffers, and a goodbye looks like one that follows the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_quits_before_the_end_has_not_taken_the_image() -> Result<()> {
    let desk = Desk::new().await?;
    let client = client(desk.folder.path()).await?;
    let options = desk.options()?.with(Fault::NeverCallsBack, Times::Always);
    let board = desk.enrolled(options).await?;
    std::fs::write(desk.path("board.der"), board.identity()?.attestation_der())?;
    let mut flasher = desk.flasher(&board).await?.env("VERIFY", "None");
    let address = PathBuf::from(flasher.address.to_string());
    let child = flasher.start()?;
    board.until("it is asked", Duration::from_secs(60), |l| !l.updates.is_empty()).await?;
    let (pinned, der) = (desk.path("tls.crt"), desk.path("board.der"));
    let mut quitter = Command::new(&client)
        .args([&address, &pinned, &der, &desk.path("nothing"), Path::new("quits")])
        .kill_on_drop(true)
        .spawn()?;
    // It is asked once more, and does not call.
    let ended = flasher.end(child).await?;
    ended.badly("NoCallback", "")?;
    ensure!(ended.log.contains("the device hung up"), "{}", ended.log);
    quitter.kill().await?;
    Ok(())
}

/// A second session of the device that waits while the first is served is at work: it is served, and not asked again.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_on_the_line_is_not_asked() -> Result<()> {
    let desk = Desk::new().await?;
    let client = client(desk.folder.path()).await?;
    let options = desk.options()?.with(Fault::DropsAt(40_000), Times::Always);
    let board = desk.enrolled(options.with(Fault::Slow(10_000), Times::Always)).await?;
    std::fs::write(desk.path("board.der"), board.identity()?.attestation_der())?;
    // More than fits into the kernel's buffers.
    let build = Firmware::new(NEW).size(600_000);
    let flasher = desk.flasher_for(&board.endpoint(), &firmware(&build).await?);
    let mut flasher = flasher.env("VERIFY", "None");
    let address = PathBuf::from(flasher.address.to_string());
    let child = flasher.start()?;
    let begun = |ledger: &flashjob_sim::flashjob::board::BoardLedger| {
        ledger.updates.iter().any(|u| u.bytes > 0)
    };
    board.until("the first is served", Duration::from_secs(60), begun).await?;
    let (pinned, der, out) = (desk.path("tls.crt"), desk.path("board.der"), desk.path("received"));
    let second = run(&client, &[&address, &pinned, &der, &out]).await?;
    flasher.end(child).await?.well()?;
    ensure!(second.status.success() && std::fs::read(&out)? == build.build());
    assert_eq!(board.ledger().posts, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_on_mbedtls_takes_the_image_from_a_server_with_an_rsa_key() -> Result<()> {
    flash(ServerCert::self_signed(KeyKind::Rsa2048)?, KeyKind::Rsa2048).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_on_mbedtls_takes_the_image_from_a_server_with_a_p256_key() -> Result<()> {
    flash(ServerCert::self_signed(KeyKind::P256)?, KeyKind::P256).await
}
