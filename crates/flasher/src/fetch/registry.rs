//! A client for the part of the registry API that a pull needs: manifests, blobs and tokens.
//!
//! It is our own because of what it refuses: answers without a limit, redirects and token services over plain HTTP
//! (both would see the credentials), layers from other hosts. Every byte it hands out has the digest it was asked for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_RANGE, HeaderValue, RANGE};
use reqwest::{Response, StatusCode};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use super::credentials::Login;
use super::manifest::{Descriptor, MEDIA_TYPES};
use super::patience::{Patience, Trouble};
use super::reference::{Reference, is_digest};
use super::{client, token};
use crate::Failure;

/// What registries allow for a manifest.
const MANIFEST_LIMIT: u64 = 4 << 20;

/// One repository of a registry.
pub(super) struct Registry {
    pub(super) client: reqwest::Client,
    pub(super) image: Reference,
    pub(super) login: Option<Login>,
    scheme: &'static str,
    patience: Duration,
    /// What the registry asked for, once it has.
    authorization: Mutex<Option<HeaderValue>>,
}

impl Registry {
    pub(super) fn new(
        image: Reference,
        login: Option<Login>,
        ca: Option<&str>,
        plain_http: bool,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let client = client::build(ca, plain_http)?;
        let scheme = if plain_http { "http" } else { "https" };
        let authorization = Mutex::default();
        Ok(Self { client, image, login, scheme, patience, authorization })
    }

    pub(super) fn host(&self) -> &str {
        self.image.host()
    }

    /// A manifest by tag or digest, and its digest. `None`: the registry has none of that name.
    pub(super) async fn manifest(&self, name: &str) -> Result<Option<(Vec<u8>, String)>, Failure> {
        let mut patience = Patience::new(self.patience);
        loop {
            match self.manifest_once(name).await {
                Ok(found) => return Ok(Some(found)),
                Err(Trouble::Missing) => return Ok(None),
                Err(Trouble::Lasting(failure)) => return Err(failure),
                Err(Trouble::Passing(text)) => patience.wait(self.host(), &text).await?,
            }
        }
    }

    async fn manifest_once(&self, name: &str) -> Result<(Vec<u8>, String), Trouble> {
        let response = self.get(&format!("manifests/{name}"), MEDIA_TYPES, 0).await?;
        let header = response.headers().get("docker-content-digest");
        let header = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bytes = self.body(response, MANIFEST_LIMIT).await?;
        let digest = digest_of(&bytes);
        let named = is_digest(name).then(|| name.to_owned());
        for expected in named.into_iter().chain(header.filter(|header| is_digest(header))) {
            if expected != digest {
                return Err(Trouble::lasting(wrong_digest("a manifest", &expected, &digest)));
            }
        }
        Ok((bytes, digest))
    }

    /// What stands below the repository's own path. Nobody has checked it against a digest.
    pub(super) async fn unchecked(
        &self,
        path: &str,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let mut patience = Patience::new(self.patience);
        loop {
            let answer = match self.get(path, MEDIA_TYPES, 0).await {
                Ok(response) => self.body(response, limit).await,
                Err(trouble) => Err(trouble),
            };
            match answer {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Trouble::Missing) => return Ok(None),
                Err(Trouble::Lasting(failure)) => return Err(failure),
                Err(Trouble::Passing(text)) => patience.wait(self.host(), &text).await?,
            }
        }
    }

    /// A small blob, such as an image's config.
    pub(super) async fn small(&self, blob: &Descriptor, limit: u64) -> Result<Vec<u8>, Failure> {
        if blob.size > limit {
            let message =
                format!("{} has {} bytes, at most {limit} are read", blob.digest, blob.size);
            return Err(Failure::pull(message));
        }
        let path = format!("blobs/{}", blob.digest);
        let bytes =
            self.unchecked(&path, blob.size).await?.ok_or_else(|| self.missing(&blob.digest))?;
        match digest_of(&bytes) {
            actual if actual == blob.digest => Ok(bytes),
            actual => Err(Failure::pull(wrong_digest("a blob", &blob.digest, &actual))),
        }
    }

    /// Brings a blob to a file. A broken download goes on where it broke.
    pub(super) async fn download(
        &self,
        blob: &Descriptor,
        file: &mut tokio::fs::File,
    ) -> Result<(), Failure> {
        let mut patience = Patience::new(self.patience);
        let mut progress = Progress::default();
        loop {
            let before = progress.bytes;
            match self.download_rest(blob, file, &mut progress).await {
                Ok(()) => break,
                Err(Trouble::Missing) => return Err(self.missing(&blob.digest)),
                Err(Trouble::Lasting(failure)) => return Err(failure),
                Err(Trouble::Passing(text)) => {
                    if progress.bytes > before {
                        patience.progress();
                    }
                    patience.wait(self.host(), &text).await?;
                }
            }
        }
        let actual = format!("sha256:{:x}", Hex(&progress.hash.finalize()));
        if actual != blob.digest {
            return Err(Failure::pull(wrong_digest("a layer", &blob.digest, &actual)));
        }
        Ok(())
    }

    async fn download_rest(
        &self,
        blob: &Descriptor,
        file: &mut tokio::fs::File,
        progress: &mut Progress,
    ) -> Result<(), Trouble> {
        let path = format!("blobs/{}", blob.digest);
        let response = self.get(&path, "application/octet-stream", progress.bytes).await?;
        if !goes_on(&response, progress.bytes) {
            *progress = Progress::default();
            file.set_len(0).await.map_err(local)?;
            file.rewind().await.map_err(local)?;
        }
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| Trouble::of(self.host(), error))?;
            progress.bytes += chunk.len() as u64;
            if progress.bytes > blob.size {
                let (digest, size) = (&blob.digest, blob.size);
                let message =
                    format!("the layer {digest} is longer than the {size} bytes it claims");
                return Err(Trouble::lasting(message));
            }
            progress.hash.update(&chunk);
            file.write_all(&chunk).await.map_err(local)?;
        }
        file.flush().await.map_err(local)?;
        if progress.bytes < blob.size {
            let (digest, size, bytes) = (&blob.digest, blob.size, progress.bytes);
            let message =
                format!("the layer {digest} ends after {bytes} of the {size} bytes it claims");
            return Err(Trouble::lasting(message));
        }
        Ok(())
    }

    fn missing(&self, digest: &str) -> Failure {
        let (host, repository) = (self.host(), &self.image.repository);
        Failure::pull(format!("the registry {host} has no {digest} in {repository}"))
    }

    /// One request, answered with success. A challenge is met once, also when an earlier token has run out.
    async fn get(&self, path: &str, accept: &str, from: u64) -> Result<Response, Trouble> {
        let (scheme, host, repository) = (self.scheme, self.host(), &self.image.repository);
        let url = format!("{scheme}://{host}/v2/{repository}/{path}");
        let mut answered = false;
        loop {
            let mut request = self.client.get(&url).header(ACCEPT, accept);
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            let authorization = lock(&self.authorization).clone();
            if let Some(value) = authorization {
                request = request.header(AUTHORIZATION, value);
            }
            let response = request.send().await.map_err(|error| Trouble::of(host, error))?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && !answered {
                let value = token::answer(self, response.headers()).await?;
                *lock(&self.authorization) = Some(value);
                answered = true;
                continue;
            }
            return match status {
                status if status.is_success() => Ok(response),
                StatusCode::NOT_FOUND => Err(Trouble::Missing),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(token::refused(self)),
                status if passes(status) => Err(Trouble::Passing(format!("it answered {status}"))),
                status => Err(Trouble::lasting(format!("the registry {host} answered {status}"))),
            };
        }
    }

    /// A whole answer, as long as it is small.
    pub(super) async fn body(&self, response: Response, limit: u64) -> Result<Vec<u8>, Trouble> {
        let mut bytes = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| Trouble::of(self.host(), error))?;
            if bytes.len() as u64 + chunk.len() as u64 > limit {
                let host = self.host();
                let message =
                    format!("an answer of the registry {host} is longer than {limit} bytes");
                return Err(Trouble::lasting(message));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

#[derive(Default)]
struct Progress {
    bytes: u64,
    hash: Sha256,
}

pub(super) fn passes(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// Whether the answer starts where we asked; a server may also start over.
fn goes_on(response: &Response, from: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    from > 0
        && response.status() == StatusCode::PARTIAL_CONTENT
        && range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

fn local(error: std::io::Error) -> Trouble {
    Trouble::lasting(format!("cannot keep a layer on disk: {error}"))
}

fn wrong_digest(what: &str, expected: &str, actual: &str) -> String {
    format!(
        "the registry served {what} with other content: {expected} was asked for, {actual} came"
    )
}

pub(super) fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Hex(&Sha256::digest(bytes)))
}

struct Hex<'a>(&'a [u8]);

impl std::fmt::LowerHex for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
