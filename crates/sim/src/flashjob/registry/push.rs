//! Pushing: blobs in one request each, then the manifests that name them.

use anyhow::{Context, Result, bail};
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::image::{Image, Layer, Words, digest};
use super::sign::Signer;
use super::{PASSWORD, Registry, USER};
use crate::flashjob::esp_image::Firmware;

impl Registry {
    fn request(&self, method: Method, url: &str) -> RequestBuilder {
        let url =
            if url.starts_with('/') { format!("{}{url}", self.url()) } else { url.to_owned() };
        let request = self.client.request(method, url);
        if self.options.login { request.basic_auth(USER, Some(PASSWORD)) } else { request }
    }

    /// Pushes a blob.
    pub async fn push_blob(&self, repository: &str, bytes: &[u8]) -> Result<()> {
        let start = format!("/v2/{repository}/blobs/uploads/");
        let answer = self.request(Method::POST, &start).send().await?;
        let place =
            answer.headers().get(LOCATION).context("an upload without a place")?.to_str()?;
        let url = format!("{place}&digest={}", digest(bytes));
        let answer = self.request(Method::PUT, &url).body(bytes.to_vec()).send().await?;
        expect_created(answer).await
    }

    /// Pushes signed firmware for every one of these kinds of boards; the image's name.
    pub async fn push_firmware(
        &self,
        repository: &str,
        version: &str,
        devices: &[&str],
        signer: &Signer,
    ) -> Result<String> {
        let mut images = Vec::new();
        for device in devices {
            let firmware = Firmware::new(version).device(device);
            images.push((format!("custom/{device}"), Image::of_firmware(&firmware.build())?));
        }
        let listed: Vec<(&str, &Image)> = images.iter().map(|(p, i)| (p.as_str(), i)).collect();
        let digests = self.push_index(repository, version, Words::Oci, &listed).await?;
        let index = digests.first().context("an index has a digest")?;
        self.sign(repository, index, signer).await?;
        Ok(format!("{}/{repository}:{version}", self.host()))
    }

    /// Pushes a manifest or index under a tag or digest. Returns its digest.
    pub async fn push_manifest(
        &self,
        repository: &str,
        name: &str,
        media_type: &str,
        document: &Value,
    ) -> Result<String> {
        let bytes = serde_json::to_vec(document)?;
        let digest = digest(&bytes);
        let name = if name.is_empty() { &digest } else { name };
        let url = format!("/v2/{repository}/manifests/{name}");
        let request = self.request(Method::PUT, &url).header(CONTENT_TYPE, media_type);
        expect_created(request.body(bytes).send().await?).await?;
        Ok(digest)
    }

    /// Pushes an image under a tag; an empty tag means by digest alone. Returns its digest.
    pub async fn push(&self, repository: &str, tag: &str, image: &Image) -> Result<String> {
        let document = self.push_parts(repository, image).await?;
        self.push_manifest(repository, tag, image.words.manifest(), &document).await
    }

    /// Pushes an index of images by `os/architecture`. Returns the digests: the index's, then the images'.
    pub async fn push_index(
        &self,
        repository: &str,
        tag: &str,
        words: Words,
        images: &[(&str, &Image)],
    ) -> Result<Vec<String>> {
        let mut digests = Vec::new();
        let mut entries = Vec::new();
        for (platform, image) in images {
            let (os, architecture) = platform.split_once('/').context("a platform is os/arch")?;
            let document = self.push_parts(repository, image).await?;
            let size = serde_json::to_vec(&document)?.len();
            let media_type = image.words.manifest();
            let digest = self.push_manifest(repository, "", media_type, &document).await?;
            entries.push(json!({
                "mediaType": media_type, "digest": digest, "size": size,
                "platform": {"os": os, "architecture": architecture},
            }));
            digests.push(digest);
        }
        let index = json!({"schemaVersion": 2, "mediaType": words.index(), "manifests": entries});
        digests.insert(0, self.push_manifest(repository, tag, words.index(), &index).await?);
        Ok(digests)
    }

    /// Pushes config and layers. Returns the manifest that names them.
    async fn push_parts(&self, repository: &str, image: &Image) -> Result<Value> {
        let config = serde_json::to_vec(&image.config)?;
        self.push_blob(repository, &config).await?;
        let mut layers = Vec::new();
        for layer in &image.layers {
            self.push_blob(repository, &layer.bytes).await?;
            layers.push(described(layer));
        }
        Ok(json!({
            "schemaVersion": 2, "mediaType": image.words.manifest(),
            "config": {
                "mediaType": image.words.config(), "digest": digest(&config), "size": config.len(),
            },
            "layers": layers,
        }))
    }
}

fn described(layer: &Layer) -> Value {
    let mut descriptor = json!({
        "mediaType": layer.media_type,
        "digest": digest(&layer.bytes),
        "size": layer.claimed.unwrap_or(layer.bytes.len() as u64),
    });
    if !layer.annotations.is_empty() {
        descriptor["annotations"] = json!(layer.annotations);
    }
    descriptor
}

async fn expect_created(answer: reqwest::Response) -> Result<()> {
    match answer.status() {
        StatusCode::CREATED => Ok(()),
        status => bail!("the registry answered {status}: {}", answer.text().await?),
    }
}
