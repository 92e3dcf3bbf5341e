//! Who we are to a registry, and whom we trust.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashjob_api::flashjob::Reason::PullFailed;
use flashjob_sim::flashjob::Registry;
use flashjob_sim::flashjob::registry::image::Image;
use flashjob_sim::flashjob::registry::{PASSWORD, RegistryOptions, USER};
use tempfile::TempDir;

use crate::front::{Front, RequestFate};
use crate::{pull, refused, source};

fn config(folder: &TempDir, host: &str, entry: &str) -> Result<Option<PathBuf>> {
    let file = folder.path().join("config.json");
    fs::write(&file, format!(r#"{{"auths":{{"{host}":{entry}}}}}"#))?;
    Ok(Some(file))
}

#[tokio::test]
async fn a_registry_that_asks_for_a_login_gets_the_right_one_and_says_no_to_others() -> Result<()> {
    let registry =
        Registry::start_with(RegistryOptions { login: true, ..RegistryOptions::default() }).await?;
    registry.push("fw", "1", &Image::of_firmware(b"secret")?).await?;
    let folder = tempfile::tempdir()?;
    let mut source = source(&registry, "fw:1");
    refused(&source, PullFailed, "none are given").await;
    source.credentials = Some(folder.path().join("not-there"));
    refused(&source, PullFailed, "none are given").await;

    let host = registry.host();
    let auth = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let (plain, packed) = (
        format!(r#"{{"username":"{USER}","password":"{PASSWORD}"}}"#),
        format!(r#"{{"auth":"{auth}"}}"#),
    );
    for entry in [&plain, &packed] {
        source.credentials = config(&folder, &format!("http://{host}/v2/"), entry)?;
        assert_eq!(pull(&source).await?.0, b"secret");
    }
    source.credentials = config(&folder, "other.example", &plain)?;
    refused(&source, PullFailed, "none are given").await;
    source.credentials = config(&folder, &host, r#"{"identitytoken":"hunter2"}"#)?;
    refused(&source, PullFailed, "identitytoken").await;
    source.credentials = config(&folder, &host, r#"{"username":"flasher","password":"hunter2"}"#)?;
    let failure = refused(&source, PullFailed, "refuses fw to the user \"flasher\"").await;
    assert!(!failure.message.contains("hunter2"), "{failure}");
    Ok(())
}

#[tokio::test]
async fn a_token_is_fetched_where_the_registry_says_with_the_login_and_again_when_it_runs_out()
-> Result<()> {
    let registry = Registry::start().await?;
    registry.push("fw", "1", &Image::of_firmware(b"secret")?).await?;
    let basic = format!("authorization: Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let front = Front::start(&registry.host(), move |number, head| {
        let head = head.to_owned();
        let lower = head.to_ascii_lowercase();
        let host = lower.split_once("\r\nhost: ").and_then(|(_, rest)| rest.split_once('\r'));
        let host = host.map(|(host, _)| host.to_owned()).unwrap_or_default();
        if head.starts_with("GET /token?") {
            let fine =
                head.contains("scope=repository%3Afw%3Apull") && head.contains("service=sim");
            return if fine && head.to_ascii_lowercase().contains(&basic.to_ascii_lowercase()) {
                RequestFate::Answer("200 OK", String::new(), format!(r#"{{"token":"t{number}"}}"#))
            } else {
                RequestFate::Answer("401 Unauthorized", String::new(), String::new())
            };
        }
        // The first token is good for manifests alone, as if it ran out on the way.
        let good = lower.contains("authorization: bearer t")
            && !(head.contains("/blobs/") && lower.contains("authorization: bearer t3\r"));
        if good {
            RequestFate::Pass
        } else {
            let challenge = format!(
                "WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"sim\"\r\n"
            );
            RequestFate::Answer("401 Unauthorized", challenge, String::new())
        }
    })
    .await?;
    let folder = tempfile::tempdir()?;
    let mut source = source(&registry, "");
    source.image = format!("{}/fw:1", front.host);
    refused(&source, PullFailed, "none are given").await;
    let before = front.heads().len();
    let entry = format!(r#"{{"username":"{USER}","password":"{PASSWORD}"}}"#);
    source.credentials = config(&folder, &front.host, &entry)?;
    assert_eq!(pull(&source).await?.0, b"secret");
    let asked = front.heads().iter().skip(before).filter(|head| head.contains("/token?")).count();
    assert_eq!(asked, 2, "one token for the manifest, one for the blobs");
    // The password goes to the token service alone.
    for head in &front.heads()[before..] {
        let has_password = head.to_ascii_lowercase().contains("authorization: basic");
        assert_eq!(has_password, head.starts_with("GET /token?"), "{head}");
    }
    Ok(())
}

#[tokio::test]
async fn a_registry_with_a_ca_of_its_own_is_trusted_once_the_ca_is_given() -> Result<()> {
    let registry =
        Registry::start_with(RegistryOptions { tls: true, ..RegistryOptions::default() }).await?;
    let stranger =
        Registry::start_with(RegistryOptions { tls: true, ..RegistryOptions::default() }).await?;
    registry.push("fw", "1", &Image::of_firmware(b"over TLS")?).await?;
    let mut source = source(&registry, "fw:1");
    source.plain_http = false;
    refused(&source, PullFailed, "give that in REGISTRY_CA").await;
    source.ca = Some(stranger.ca_pem().to_owned());
    refused(&source, PullFailed, "give that in REGISTRY_CA").await;
    source.ca = Some("not a certificate".into());
    refused(&source, PullFailed, "no certificate in PEM").await;
    source.ca = Some(registry.ca_pem().to_owned());
    assert_eq!(pull(&source).await?.0, b"over TLS");
    Ok(())
}

#[tokio::test]
async fn plain_http_is_spoken_only_when_asked_for() -> Result<()> {
    let registry = Registry::start().await?;
    registry.push("fw", "1", &Image::of_firmware(b"over HTTP")?).await?;
    let mut source = source(&registry, "fw:1");
    source.plain_http = false;
    refused(&source, PullFailed, "REGISTRY_PLAIN_HTTP=1").await;
    let requests = registry.requests()?;
    assert!(requests.is_empty(), "{requests:?}");
    source.plain_http = true;
    assert_eq!(pull(&source).await?.0, b"over HTTP");
    Ok(())
}

#[tokio::test]
async fn a_registry_under_tls_cannot_send_us_or_our_password_to_plain_http() -> Result<()> {
    let registry = Registry::start().await?;
    let spy = Front::start(&registry.host(), |_, _| RequestFate::Pass).await?;
    let challenge =
        format!("WWW-Authenticate: Bearer realm=\"http://{}/token\",service=\"sim\"\r\n", spy.host);
    let redirect = format!("Location: http://{}/v2/fw/manifests/1\r\n", spy.host);
    for (status, headers) in [("401 Unauthorized", challenge), ("307 Temporary Redirect", redirect)]
    {
        let answer = move |_, _: &str| RequestFate::Answer(status, headers.clone(), String::new());
        let (front, ca) = Front::start_tls(&registry.host(), answer).await?;
        let folder = tempfile::tempdir()?;
        let mut source = source(&registry, "");
        source.image = format!("{}/fw:1", front.host);
        source.plain_http = false;
        source.ca = Some(ca);
        source.credentials = config(&folder, &front.host, r#"{"username":"u","password":"p"}"#)?;
        refused(&source, PullFailed, "REGISTRY_PLAIN_HTTP=1").await;
        assert_eq!(front.heads().len(), 1);
    }
    assert!(spy.heads().is_empty(), "{:?}", spy.heads());
    Ok(())
}
