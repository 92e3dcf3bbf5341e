//! What is refused before a board is touched.

use anyhow::Result;
use flashjob_sim::flashjob::registry::image::{Archive, Image, Layer, Words};
use flashjob_sim::flashjob::registry::sign::Signer;
use flashjob_sim::flashjob::{Board, Firmware, KeyKind, ServerCert};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::desk::{Desk, NEW, OLD, firmware, registry};

/// The board knows nothing of it.
fn untouched(board: &Board) {
    let ledger = board.ledger();
    assert_eq!((ledger.posts, ledger.updates.len(), board.version()), (0, 0, OLD.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_nobody_vouches_for_is_not_asked() -> Result<()> {
    let desk = Desk::new().await?;
    let board = Board::start(desk.options()?).await?;
    let ended = desk.flasher(&board).await?.run().await?;
    ended.badly("AttestationFailed", "is it enrolled?")?;
    untouched(&board);
    // By given roots: another board's does not do, its own does.
    let other = Board::start(desk.options()?).await?;
    let flasher = desk.flasher(&board).await?.without("DICE_AUTH_URL");
    let ended = flasher.env("ATTESTATION_ROOTS", other.identity()?.root_pem()).run().await?;
    ended.badly("AttestationFailed", "does not vouch")?;
    untouched(&board);
    let flasher = desk.flasher(&board).await?.without("DICE_AUTH_URL");
    flasher.env("ATTESTATION_ROOTS", board.identity()?.root_pem()).run().await?.well()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_who_judges_is_refused_unless_that_is_wanted() -> Result<()> {
    let desk = Desk::new().await?;
    let board = Board::start(desk.options()?).await?;
    let ended = desk.flasher(&board).await?.without("DICE_AUTH_URL").run().await?;
    ended.badly("AttestationUnavailable", "ATTESTATION=none")?;
    untouched(&board);
    let flasher = desk.flasher(&board).await?.without("DICE_AUTH_URL");
    flasher.env("ATTESTATION", "none").run().await?.well()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_server_certificate_the_command_to_run_is_told() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let flasher = desk.flasher(&board).await?.env("SERVER_CRT_PATH", "/nowhere/tls.crt");
    let ended = flasher.run().await?;
    ended.badly("ServerCertMissing", "kubectl create secret tls flashjob-server-tls")?;
    untouched(&board);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_boards_do_not_know_gets_no_call() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let stranger = ServerCert::self_signed(KeyKind::P256)?;
    std::fs::write(desk.path("tls.crt"), &stranger.chain)?;
    std::fs::write(desk.path("tls.key"), &stranger.key)?;
    let ended = desk.flasher(&board).await?.run().await?;
    ended.badly("NoCallback", "the one pinned in it")?;
    assert_eq!(board.version(), OLD);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn firmware_that_is_not_signed_by_the_key_never_leaves() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let (right, wrong) = (Signer::generate()?, Signer::generate()?);
    let registry = registry().await?;
    let image = Image::of_firmware(&Firmware::new(NEW).build())?;
    let digest = registry.push("signed", NEW, &image).await?;
    let name = format!("{}/signed:{NEW}", registry.host());
    let flasher = || {
        let flasher = desk.flasher_for(&board.endpoint(), &name);
        flasher.env("COSIGN_PUBLIC_KEY", right.public_pem())
    };
    flasher().run().await?.badly("SignatureInvalid", "")?;
    registry.sign("signed", &digest, &wrong).await?;
    flasher().run().await?.badly("SignatureInvalid", "")?;
    untouched(&board);
    registry.sign("signed", &digest, &right).await?;
    flasher().run().await?.well()
}

#[tokio::test(flavor = "multi_thread")]
async fn firmware_for_another_board_and_none_at_all_are_refused() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let registry = registry().await?;
    let image = Image::of_firmware(&Firmware::new(NEW).build())?;
    registry.push_index("others", NEW, Words::Oci, &[("custom/esp32c6", &image)]).await?;
    let name = format!("{}/others:{NEW}", registry.host());
    let ended = desk.flasher_for(&board.endpoint(), &name).run().await?;
    ended.badly("WrongPlatform", "esp32c6")?;
    let name = format!("{}/nothing:{NEW}", registry.host());
    desk.flasher_for(&board.endpoint(), &name).run().await?.badly("PullFailed", "")?;
    let linux = desk.flasher_for(&board.endpoint(), &name).env("DEVICE", "linux").run().await?;
    linux.badly("ProtocolUnsupported", "linux")?;
    let v6 = desk.flasher_for(&board.endpoint(), &name).env("EXTERNAL_IP", "::1").run().await?;
    v6.badly("AddressUnsupported", "IPv4")?;
    untouched(&board);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_means_harm_is_refused_before_a_byte_goes_out() -> Result<()> {
    let desk = Desk::new().await?;
    let board = desk.board().await?;
    let registry = registry().await?;
    let good = Archive::default().file("firmware/ota.bin", &Firmware::new(NEW).build());
    let climbs = good.file("../../../../tmp/flashjob-climbed", b"evil");
    registry.push("harm", "climbs", &Image::new(vec![Layer::gzip(&climbs)?])).await?;
    let mut huge = Image::of_firmware(&Firmware::new(NEW).build())?;
    huge.layers[0].claimed = Some(10 << 30);
    registry.push("harm", "huge", &huge).await?;
    let other = format!("@sha256:{}", "0".repeat(64));
    for (name, words) in [(":climbs", "climbs out"), (":huge", "claim"), (&other, "has no")] {
        let name = format!("{}/harm{name}", registry.host());
        let ended = desk.flasher_for(&board.endpoint(), &name).run().await?;
        ended.badly("PullFailed", words)?;
    }
    untouched(&board);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_of_another_type_at_the_address_is_not_asked() -> Result<()> {
    let desk = Desk::new().await?;
    let mut options = desk.options()?;
    options.device = "esp32c6".into();
    let board = desk.enrolled(options).await?;
    // Firmware that names no platform would fit it, and the version it runs is no proof either.
    for (version, policy) in [(NEW, "Always"), (OLD, "IfDifferent")] {
        let flasher = desk.flasher(&board).await?.env("VERSION", version);
        let ended = flasher.env("VERSION_POLICY", policy).run().await?;
        ended.badly("WrongDevice", "the firmware is for esp32s2, and the board at http://127.")?;
        ended.badly("WrongDevice", "says it is esp32c6")?;
    }
    untouched(&board);
    assert_eq!(board.ledger().onboards, 0, "nobody asked who it is");
    // Nor is there an earlier attempt to wait for: it is refused at the first look.
    let ended = desk.flasher(&board).await?.env("ATTEMPT", "2").run().await?;
    ended.badly("WrongDevice", "esp32c6")?;
    untouched(&board);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_passes_to_another_board_after_the_first_look_is_noticed() -> Result<()> {
    let desk = Desk::new().await?;
    let right = desk.board().await?;
    let mut options = desk.options()?;
    options.device = "esp32c6".into();
    let other = desk.enrolled(options).await?;
    let door = TcpListener::bind("127.0.0.1:0").await?;
    let address = door.local_addr()?.to_string();
    let mut boards = [right.endpoint()].into_iter().chain(std::iter::repeat(other.endpoint()));
    let leads = tokio::spawn(async move {
        while let (Ok((mut caller, _)), Some(board)) = (door.accept().await, boards.next()) {
            let Ok(mut board) = TcpStream::connect(board).await else { continue };
            tokio::spawn(async move { copy_bidirectional(&mut caller, &mut board).await });
        }
    });
    let image = firmware(&Firmware::new(NEW)).await?;
    let ended = desk.flasher_for(&address, &image).run().await?;
    leads.abort();
    ended.badly("WrongDevice", "says it is esp32c6")?;
    assert_eq!((right.ledger().infos, other.ledger().onboards), (1, 1), "it passed in between");
    untouched(&right);
    untouched(&other);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_in_other_letters_is_the_same_and_a_board_without_one_is_judged_by_its_certificate()
-> Result<()> {
    let desk = Desk::new().await?;
    for said in ["ESP32-S2", ""] {
        let mut options = desk.options()?;
        options.device = said.into();
        let board = desk.enrolled(options).await?;
        desk.flasher(&board).await?.run().await?.well()?;
        assert_eq!(board.version(), NEW, "{said:?}");
    }
    Ok(())
}
