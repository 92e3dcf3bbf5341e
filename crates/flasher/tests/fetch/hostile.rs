//! Images and registries that mean harm: refused, in bounds, and without a trace on the disk.

use std::fs;

use anyhow::Result;
use flashjob_api::flashjob::Reason::PullFailed;
use flashjob_sim::flashjob::Registry;
use flashjob_sim::flashjob::registry::image::{Archive, Image, Layer, Words};

use crate::{MAX_BYTES, pull, refused, source};

#[tokio::test]
async fn names_that_climb_out_are_refused_and_absolute_ones_mean_the_root_of_the_image()
-> Result<()> {
    let registry = Registry::start().await?;
    let good = || Archive::default().file("firmware/ota.bin", b"good");
    let outside = "/tmp/flashjob-climbed-out";
    for (tag, archive) in [
        ("parent", good().file("../../../../tmp/flashjob-climbed-out", b"evil")),
        ("middle", good().file("firmware/../../tmp/flashjob-climbed-out", b"evil")),
        ("hardlink", good().hardlink("firmware/b.bin", "../../etc/passwd")),
        ("whiteout", good().file("firmware/.wh...", b"")),
    ] {
        registry.push("fw", tag, &Image::new(vec![Layer::gzip(&archive)?])).await?;
        let words = if tag == "whiteout" { "removes nothing" } else { "climbs out" };
        refused(&source(&registry, &format!("fw:{tag}")), PullFailed, words).await;
    }
    let absolute = good().file(outside, b"evil");
    registry.push("fw", "absolute", &Image::new(vec![Layer::gzip(&absolute)?])).await?;
    assert_eq!(pull(&source(&registry, "fw:absolute")).await?.0, b"good");
    let absolute = Archive::default().file("/firmware/ota.bin", b"rooted");
    registry.push("fw", "rooted", &Image::new(vec![Layer::gzip(&absolute)?])).await?;
    assert_eq!(pull(&source(&registry, "fw:rooted")).await?.0, b"rooted");
    assert!(!fs::exists(outside)?);
    Ok(())
}

#[tokio::test]
async fn links_that_lead_out_or_in_circles_are_refused() -> Result<()> {
    let registry = Registry::start().await?;
    for (tag, archive, words) in [
        (
            "relative",
            Archive::default().symlink("firmware/a", "../../../etc/passwd"),
            "out of the image",
        ),
        ("absolute", Archive::default().symlink("firmware/a", "/etc/passwd"), "leads to nothing"),
        (
            "circle",
            Archive::default().symlink("firmware/a", "b").symlink("firmware/b", "a"),
            "itself",
        ),
        ("folder", Archive::default().symlink("firmware", "../.."), "out of the image"),
    ] {
        registry.push("fw", tag, &Image::new(vec![Layer::gzip(&archive)?])).await?;
        refused(&source(&registry, &format!("fw:{tag}")), PullFailed, words).await;
    }
    // The trick that fools tools which unpack: a link out of the folder, and then a file through it.
    let trick =
        Archive::default().symlink("firmware", "/tmp").file("firmware/flashjob-trick", b"evil");
    registry.push("fw", "trick", &Image::new(vec![Layer::gzip(&trick)?])).await?;
    assert_eq!(pull(&source(&registry, "fw:trick")).await?.0, b"evil");
    assert!(!fs::exists("/tmp/flashjob-trick")?);
    Ok(())
}

#[tokio::test]
async fn a_layer_that_claims_10_gib_is_refused_before_it_is_read() -> Result<()> {
    let registry = Registry::start().await?;
    let mut image = Image::of_firmware(b"small")?;
    image.layers[0].claimed = Some(10 << 30);
    registry.push("fw", "1", &image).await?;
    refused(&source(&registry, "fw:1"), PullFailed, "claim 10737418240 bytes").await;
    let requests = registry.requests()?;
    assert!(requests.iter().any(|request| request.contains("/manifests/1")), "{requests:?}");
    assert!(!requests.iter().any(|request| request.contains("/blobs/")), "{requests:?}");

    image.layers = vec![image.layers[0].clone(); 2];
    image.layers[0].claimed = Some(u64::MAX >> 1);
    image.layers[1].claimed = Some(u64::MAX >> 1);
    registry.push("fw", "2", &image).await?;
    refused(&source(&registry, "fw:2"), PullFailed, "at most").await;
    Ok(())
}

#[tokio::test]
async fn a_layer_of_another_length_than_it_claims_is_refused() -> Result<()> {
    let registry = Registry::start().await?;
    let mut image = Image::of_firmware(b"small")?;
    let length = image.layers[0].bytes.len() as u64;
    for (tag, claimed, words) in
        [("long", length - 1, "longer than"), ("short", length + 1, "ends after")]
    {
        image.layers[0].claimed = Some(claimed);
        registry.push("fw", tag, &image).await?;
        refused(&source(&registry, &format!("fw:{tag}")), PullFailed, words).await;
    }
    Ok(())
}

#[tokio::test]
async fn what_unpacks_without_end_ends_at_the_limit() -> Result<()> {
    let registry = Registry::start().await?;
    let zeros = vec![0; 16 << 20];
    let far = 10 << 30;
    for (tag, archive) in [
        ("file", Archive::default().file("firmware/ota.bin", &zeros)),
        ("beside", Archive::default().file("firmware/ota.bin", b"x").file("bomb", &zeros)),
        ("after", Archive::default().file("firmware/ota.bin", b"x").end().file("bomb", &zeros)),
        ("claim", Archive::default().file_that_claims("firmware/ota.bin", b"x", far)),
        (
            "name",
            Archive::default().entry(
                tar::EntryType::GNULongName,
                "n",
                "",
                &zeros,
                zeros.len() as u64,
            ),
        ),
    ] {
        for (with, layer) in [("gzip", Layer::gzip(&archive)?), ("zstd", Layer::zstd(&archive))] {
            let tag = format!("{tag}-{with}");
            registry.push("fw", &tag, &Image::new(vec![layer])).await?;
            refused(&source(&registry, &format!("fw:{tag}")), PullFailed, "more than the").await;
        }
    }
    // Large names below the limit of bytes are a cost of their own: they are kept in memory.
    let name = vec![b'a'; 1 << 20];
    let archive = Archive::default().entry(tar::EntryType::GNULongName, "n", "", &name, 1 << 20);
    registry.push("fw", "name", &Image::new(vec![Layer::gzip(&archive)?])).await?;
    refused(&source(&registry, "fw:name"), PullFailed, "a name of more than").await;
    let mut many = Archive::default();
    for number in 0..8_000 {
        many = many.file(&format!("{number}/{}", "n".repeat(90)), b"");
    }
    let layer = Layer::gzip(&many)?;
    let image = Image::new(vec![layer; 4]);
    registry.push("fw", "many", &image).await?;
    let mut large = source(&registry, "fw:many");
    large.max_bytes = 16 << 20;
    refused(&large, PullFailed, "too many files").await;
    Ok(())
}

#[tokio::test]
async fn firmware_may_be_as_large_as_the_limit_and_not_larger_nor_empty() -> Result<()> {
    let registry = Registry::start().await?;
    let limit = MAX_BYTES as usize;
    registry.push("fw", "fits", &Image::of_firmware(&vec![1; limit])?).await?;
    assert_eq!(pull(&source(&registry, "fw:fits")).await?.0.len(), limit);
    registry.push("fw", "large", &Image::of_firmware(&vec![1; limit + 1])?).await?;
    refused(&source(&registry, "fw:large"), PullFailed, "1048577 bytes").await;
    registry.push("fw", "empty", &Image::of_firmware(b"")?).await?;
    refused(&source(&registry, "fw:empty"), PullFailed, "empty").await;
    Ok(())
}

#[tokio::test]
async fn other_bytes_than_the_digest_says_are_refused_wherever_they_stand() -> Result<()> {
    let registry = Registry::start().await?;
    let image = Image::of_firmware(b"genuine")?;
    let entry = [("custom/esp32s3", &image)];
    let digests = registry.push_index("fw", "1", Words::Oci, &entry).await?;
    let evil = Image::of_firmware(b"evil!!!")?.label("a", "b");
    let evil_digests =
        registry.push_index("evil", "1", Words::Docker, &[("custom/esp32s3", &evil)]).await?;
    assert_eq!(pull(&source(&registry, "fw:1")).await?.0, b"genuine");

    let config = |image: &Image| serde_json::to_vec(&image.config);
    // Of the same length, so that nothing but the digest tells.
    let resized = |other: &[u8], like: &[u8]| {
        let mut other = other.to_vec();
        other.resize(like.len(), b' ');
        other
    };
    let blob =
        |bytes: &[u8]| registry.blob_file(&flashjob_sim::flashjob::registry::image::digest(bytes));
    for (file, other) in [
        (blob(&image.layers[0].bytes), resized(&evil.layers[0].bytes, &image.layers[0].bytes)),
        (blob(&config(&image)?), resized(&config(&evil)?, &config(&image)?)),
        (registry.blob_file(&digests[1]), fs::read(registry.blob_file(&evil_digests[1]))?),
        (registry.blob_file(&digests[0]), fs::read(registry.blob_file(&evil_digests[0]))?),
    ] {
        let genuine = fs::read(&file)?;
        fs::write(&file, &other)?;
        for image in ["fw:1".to_owned(), format!("fw@{}", digests[0])] {
            refused(&source(&registry, &image), PullFailed, "other content").await;
        }
        fs::write(&file, &genuine)?;
    }
    assert_eq!(pull(&source(&registry, "fw:1")).await?.0, b"genuine");
    Ok(())
}

#[tokio::test]
async fn what_is_no_image_of_layers_is_named() -> Result<()> {
    let registry = Registry::start().await?;
    let wasm = Image::new(vec![Layer::new(b"wasm".to_vec(), "application/wasm")]);
    registry.push("fw", "wasm", &wasm).await?;
    refused(&source(&registry, "fw:wasm"), PullFailed, "application/wasm").await;
    let noise =
        Layer::new(b"not an archive".repeat(100), Layer::tar(&Archive::default()).media_type);
    registry.push("fw", "noise", &Image::new(vec![noise])).await?;
    refused(&source(&registry, "fw:noise"), PullFailed, "cannot be read").await;
    let mut cut = Image::of_firmware(&crate::noise(10_000))?;
    cut.layers[0].bytes.truncate(5_000);
    registry.push("fw", "cut", &cut).await?;
    refused(&source(&registry, "fw:cut"), PullFailed, "cannot be read").await;
    // Pushed as it is, so its digest is right: only gzip's own checksum at the end tells.
    let mut spoiled = Image::of_firmware(&crate::noise(10_000))?;
    let checksum = spoiled.layers[0].bytes.len() - 8;
    spoiled.layers[0].bytes[checksum] ^= 1;
    registry.push("fw", "spoiled", &spoiled).await?;
    refused(&source(&registry, "fw:spoiled"), PullFailed, "cannot be read").await;
    refused(&source(&registry, "Not/An/Image"), PullFailed, "lower case").await;
    Ok(())
}
