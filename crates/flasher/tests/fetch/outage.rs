//! Registries that are away, come back, break off or stay broken.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Reason::PullFailed;
use flashjob_sim::flashjob::Registry;
use flashjob_sim::flashjob::registry::image::Image;
use tokio::time::sleep;

use crate::front::{Front, RequestFate};
use crate::{noise, pull, refused, source};

#[tokio::test]
async fn a_registry_that_comes_back_after_some_seconds_does_not_fail_a_flash() -> Result<()> {
    let registry = Registry::start().await?;
    registry.push("fw", "1", &Image::of_firmware(b"worth the wait")?).await?;
    registry.stop();
    let mut source = source(&registry, "fw:1");
    refused(&source, PullFailed, "could not be used for 1 s").await;
    source.patience = Duration::from_secs(60);
    let back = async {
        sleep(Duration::from_secs(3)).await;
        registry.start_again().await
    };
    let (pulled, back) = tokio::join!(pull(&source), back);
    back?;
    assert_eq!(pulled?.0, b"worth the wait");
    Ok(())
}

#[tokio::test]
async fn answers_of_5xx_are_tried_again_and_no_others() -> Result<()> {
    let registry = Registry::start().await?;
    registry.push("fw", "1", &Image::of_firmware(b"at last")?).await?;
    let answer = |status| RequestFate::Answer(status, String::new(), String::new());
    let front = Front::start(&registry.host(), move |number, _| match number % 3 {
        0 => answer("503 Service Unavailable"),
        1 => answer("500 Internal Server Error"),
        _ => RequestFate::Pass,
    })
    .await?;
    let mut through = source(&registry, "");
    through.image = format!("{}/fw:1", front.host);
    through.patience = Duration::from_secs(60);
    assert_eq!(pull(&through).await?.0, b"at last");

    for status in
        ["400 Bad Request", "403 Forbidden", "404 Not Found", "401 Unauthorized", "410 Gone"]
    {
        let front = Front::start(&registry.host(), move |_, _| answer(status)).await?;
        through.image = format!("{}/fw:1", front.host);
        refused(&through, PullFailed, &front.host).await;
        assert_eq!(front.heads().len(), 1, "{status} was tried again");
    }
    Ok(())
}

#[tokio::test]
async fn a_download_that_breaks_off_goes_on_where_it_broke() -> Result<()> {
    let registry = Registry::start().await?;
    let content = noise(900_000);
    registry.push("fw", "1", &Image::of_firmware(&content)?).await?;
    let front = Front::start(&registry.host(), |_, head| {
        if head.contains("/blobs/") { RequestFate::Cut(300_000) } else { RequestFate::Pass }
    })
    .await?;
    let mut through = source(&registry, "");
    through.image = format!("{}/fw:1", front.host);
    through.patience = Duration::from_secs(60);
    assert_eq!(pull(&through).await?.0, content);
    let heads = front.heads();
    let resumed = heads.iter().filter(|head| head.to_ascii_lowercase().contains("range: bytes="));
    assert!(resumed.count() >= 2, "{heads:?}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_starts_over_is_followed_to_the_start() -> Result<()> {
    let registry = Registry::start().await?;
    let content = noise(900_000);
    let image = Image::of_firmware(&content)?;
    registry.push("fw", "1", &image).await?;
    let layer = flashjob_sim::flashjob::registry::image::digest(&image.layers[0].bytes);
    let second = std::sync::atomic::AtomicBool::new(false);
    let host = registry.host();
    let front = Front::start(&host, move |_, head| {
        if !head.contains(&layer) {
            RequestFate::Pass
        } else if second.swap(true, std::sync::atomic::Ordering::SeqCst) {
            // A server that knows no ranges: the whole again.
            RequestFate::Whole
        } else {
            RequestFate::Cut(300_000)
        }
    })
    .await?;
    let mut through = source(&registry, "");
    through.image = format!("{}/fw:1", front.host);
    through.patience = Duration::from_secs(60);
    assert_eq!(pull(&through).await?.0, content);
    Ok(())
}

#[tokio::test]
async fn an_answer_without_end_is_cut_at_its_limit() -> Result<()> {
    let registry = Registry::start().await?;
    let front = Front::start(&registry.host(), |_, _| {
        RequestFate::Answer("200 OK", String::new(), " ".repeat(5 << 20))
    })
    .await?;
    let mut through = source(&registry, "");
    through.image = format!("{}/fw:1", front.host);
    refused(&through, PullFailed, "longer than 4194304 bytes").await;
    Ok(())
}
