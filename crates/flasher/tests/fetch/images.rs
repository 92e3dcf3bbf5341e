//! Which file of which image is the firmware.

use anyhow::Result;
use flashjob_api::flashjob::Reason;
use flashjob_sim::flashjob::Registry;
use flashjob_sim::flashjob::registry::image::{Archive, Image, Layer, Words, gzip};

use crate::{DIGEST_LENGTH, noise, pull, refused, source};

fn firmware(bytes: &[u8]) -> Image {
    Image::of_firmware(bytes).unwrap()
}

#[tokio::test]
async fn a_single_image_is_taken_by_tag_by_digest_and_by_default_as_latest() -> Result<()> {
    let registry = Registry::start().await?;
    let content = noise(100_000);
    let digest = registry.push("team/fw", "1.0", &firmware(&content)).await?;
    registry.push("team/fw", "latest", &firmware(b"the latest")).await?;

    let (bytes, got) = pull(&source(&registry, "team/fw:1.0")).await?;
    assert_eq!(bytes, content);
    assert_eq!((got.digest.as_str(), got.name.as_str()), (digest.as_str(), "/firmware/ota.bin"));
    let by_digest = format!("team/fw@{digest}");
    assert_eq!(pull(&source(&registry, &by_digest)).await?.0, content);
    // A digest beside a tag decides, whatever the tag says by now.
    let both = format!("team/fw:latest@{digest}");
    assert_eq!(pull(&source(&registry, &both)).await?.0, content);
    assert_eq!(pull(&source(&registry, "team/fw")).await?.0, b"the latest");

    let pull_failed = Reason::PullFailed;
    refused(&source(&registry, "team/fw:2.0"), pull_failed, "has no 2.0 in team/fw").await;
    refused(&source(&registry, "team/other:1.0"), pull_failed, "has no 1.0 in team/other").await;
    let nothing = format!("team/fw@sha256:{}", "0".repeat(64));
    refused(&source(&registry, &nothing), pull_failed, "has no sha256:0000").await;
    Ok(())
}

#[tokio::test]
async fn the_platform_of_the_board_is_taken_from_an_index_in_both_kinds_of_words() -> Result<()> {
    let registry = Registry::start().await?;
    for (tag, words) in [("oci", Words::Oci), ("docker", Words::Docker)] {
        let speak = |image: Image| match words {
            Words::Oci => image,
            Words::Docker => image.in_docker_words(),
        };
        let (s2, s3, s3r8) =
            (speak(firmware(b"for s2")), speak(firmware(b"for s3")), speak(firmware(b"for r8")));
        let images = [
            ("custom/esp32s2r2", &s2),
            ("linux/esp32s3", &s2),
            ("custom/esp32-S3", &s3),
            ("custom/esp32s3r8", &s3r8),
        ];
        let digests = registry.push_index("fw", tag, words, &images).await?;

        for device in ["esp32s3", "ESP32_S3", "esp32-s3"] {
            let mut source = source(&registry, &format!("fw:{tag}"));
            source.device = device.into();
            let (bytes, got) = pull(&source).await?;
            assert_eq!(bytes, b"for s3", "{device}");
            assert_eq!(got.digest, digests[0], "what the tag names is the index");
        }
        let mut wrong = source(&registry, &format!("fw:{tag}"));
        wrong.device = "esp32".into();
        let there = "custom/esp32s2r2, linux/esp32s3, custom/esp32-S3, custom/esp32s3r8";
        refused(&wrong, Reason::WrongPlatform, there).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_single_image_is_for_whatever_board_asks_but_an_index_must_not_lie() -> Result<()> {
    let registry = Registry::start().await?;
    let other = firmware(b"for c6").built_for("custom/esp32c6");
    registry.push("fw", "single", &other).await?;
    assert_eq!(pull(&source(&registry, "fw:single")).await?.0, b"for c6");

    registry.push_index("fw", "lie", Words::Oci, &[("custom/esp32s3", &other)]).await?;
    refused(&source(&registry, "fw:lie"), Reason::WrongPlatform, "built for custom/esp32c6").await;
    Ok(())
}

#[tokio::test]
async fn layers_are_read_plain_under_gzip_and_under_zstd_in_both_kinds_of_words() -> Result<()> {
    let registry = Registry::start().await?;
    let content = noise(300_000);
    let archive = Archive::default().folder("firmware/").file("firmware/a.bin", &content);
    // Several members of gzip, as eStargz writes them.
    let bytes = archive.bytes();
    let mut members = Layer::gzip(&archive)?;
    members.bytes = [gzip(&bytes[..1000])?, gzip(&bytes[1000..])?].concat();
    let layers = [Layer::tar(&archive), Layer::gzip(&archive)?, Layer::zstd(&archive), members];
    for (number, layer) in layers.into_iter().enumerate() {
        let image = Image::new(vec![layer]);
        registry.push("oci", &number.to_string(), &image).await?;
        registry.push("docker", &number.to_string(), &image.in_docker_words()).await?;
        for repository in ["oci", "docker"] {
            let (bytes, got) = pull(&source(&registry, &format!("{repository}:{number}"))).await?;
            assert_eq!(bytes, content, "{repository}:{number}");
            assert_eq!(got.digest.len(), DIGEST_LENGTH);
        }
    }
    Ok(())
}

#[tokio::test]
async fn later_layers_replace_and_remove_what_earlier_ones_brought() -> Result<()> {
    let registry = Registry::start().await?;
    let below = Archive::default()
        .file("firmware/old.bin", b"old")
        .file("firmware/ota.bin", b"one")
        .file("etc/motd", b"hello");
    let above =
        Archive::default().file("./firmware/ota.bin", b"two").file("firmware/.wh.old.bin", b"");
    let image = Image::new(vec![Layer::gzip(&below)?, Layer::zstd(&above)]);
    registry.push("fw", "whiteout", &image).await?;
    assert_eq!(pull(&source(&registry, "fw:whiteout")).await?.0, b"two");

    let above =
        Archive::default().file("firmware/new.bin", b"new").file("firmware/.wh..wh..opq", b"");
    let image = Image::new(vec![Layer::tar(&below), Layer::tar(&above)]);
    registry.push("fw", "opaque", &image).await?;
    assert_eq!(pull(&source(&registry, "fw:opaque")).await?.0, b"new");

    let above = Archive::default().file(".wh.firmware", b"");
    let image = Image::new(vec![Layer::tar(&below), Layer::tar(&above)]);
    registry.push("fw", "gone", &image).await?;
    refused(&source(&registry, "fw:gone"), Reason::PullFailed, "no file under /firmware/").await;
    Ok(())
}

#[tokio::test]
async fn of_several_files_the_label_names_the_one_and_without_it_they_are_listed() -> Result<()> {
    let registry = Registry::start().await?;
    let long = format!("firmware/{}/b.bin", "x".repeat(150));
    let archive = Archive::default().file("firmware/a.bin", b"a").file(&long, b"b");
    let image = Image::new(vec![Layer::gzip(&archive)?]);
    registry.push("fw", "two", &image).await?;
    let failure =
        refused(&source(&registry, "fw:two"), Reason::PullFailed, "/firmware/a.bin, /").await;
    assert!(failure.message.contains(&long), "{failure}");

    let label = "com.urunc.iot.path";
    registry.push("fw", "named", &image.clone().label(label, &format!("/{long}"))).await?;
    let (bytes, got) = pull(&source(&registry, "fw:named")).await?;
    assert_eq!((bytes.as_slice(), got.name), (&b"b"[..], format!("/{long}")));
    registry.push("fw", "wrong", &image.label(label, "/firmware/c.bin")).await?;
    refused(&source(&registry, "fw:wrong"), Reason::PullFailed, "/firmware/c.bin").await;
    Ok(())
}

#[tokio::test]
async fn links_lead_to_files_of_the_image() -> Result<()> {
    let registry = Registry::start().await?;
    let base = Archive::default().file("build/out.bin", b"built");
    let links = [
        Archive::default().symlink("firmware/ota.bin", "/build/out.bin"),
        Archive::default().symlink("firmware/ota.bin", "../build/out.bin"),
        Archive::default().hardlink("firmware/ota.bin", "build/out.bin"),
    ];
    for (number, link) in links.iter().enumerate() {
        let tag = number.to_string();
        let image = Image::new(vec![Layer::gzip(&base)?, Layer::gzip(link)?]);
        registry.push("fw", &tag, &image).await?;
        assert_eq!(pull(&source(&registry, &format!("fw:{tag}"))).await?.0, b"built", "{tag}");
    }
    Ok(())
}
