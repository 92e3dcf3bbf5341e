//! A device's way to its bucket, with what its configuration says and nothing else: the original's agent speaks HTTPS to
//! `host:port`, puts the bucket into the path, and trusts the CA it was sent.
//!
//! It differs in that it trusts no other: there is no system whose CAs it could have. And its URLs are signed, where the
//! original's has a header for that.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flashjob_api::edge::wire::S3;
use reqwest::{Certificate, Client, ClientBuilder, RequestBuilder, Url};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};

/// For so long an address that was signed is good.
const GOOD: Duration = Duration::from_secs(60);
/// How long an answer may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct BucketClient {
    http: Client,
    bucket: Bucket,
    credentials: Credentials,
}

impl BucketClient {
    /// For the bucket that a device is told of.
    pub fn told(told: &S3) -> Result<Self> {
        Self::with(told, Client::builder())
    }

    /// The same, where a router takes what is sent to the host, and carries it to this address.
    pub fn through(told: &S3, address: SocketAddr) -> Result<Self> {
        Self::with(told, Client::builder().resolve(&told.bucket_host, address))
    }

    fn with(told: &S3, http: ClientBuilder) -> Result<Self> {
        // Another part of the process may have chosen already, and then it was the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ca = Certificate::from_pem_bundle(&decoded(&told.aws_ca_bundle)?)?;
        let http = http.no_proxy().timeout(PATIENCE).tls_certs_only(ca).build()?;
        let endpoint = format!("https://{}:{}", told.bucket_host, told.bucket_port);
        let endpoint: Url =
            endpoint.parse().with_context(|| format!("{endpoint} is no address"))?;
        let (name, region) = (told.bucket_name.clone(), told.bucket_region.clone());
        let bucket = Bucket::new(endpoint, UrlStyle::Path, name, region)?;
        let id = text(&told.aws_access_key_id)?;
        let credentials = Credentials::new(id, text(&told.aws_secret_access_key)?);
        Ok(Self { http, bucket, credentials })
    }

    /// Puts a file there, and says what the server answers. An error if there is no answer, or the server is not to be trusted.
    pub async fn put(&self, file: &str, content: impl Into<Bytes>) -> Result<u16> {
        let url = self.bucket.put_object(Some(&self.credentials), file).sign(GOOD);
        Ok(sent(self.http.put(url).body(content.into())).await?.0)
    }

    /// Fetches a file: the status, and the content.
    pub async fn get(&self, file: &str) -> Result<(u16, Bytes)> {
        let url = self.bucket.get_object(Some(&self.credentials), file).sign(GOOD);
        sent(self.http.get(url)).await
    }
}

async fn sent(request: RequestBuilder) -> Result<(u16, Bytes)> {
    // The URL is as good as the key for a while: it is no part of an error.
    let answer = request.send().await.map_err(reqwest::Error::without_url)?;
    Ok((answer.status().as_u16(), answer.bytes().await.map_err(reqwest::Error::without_url)?))
}

fn decoded(base64: &str) -> Result<Vec<u8>> {
    STANDARD.decode(base64).context("what should be in base64 is not")
}

fn text(base64: &str) -> Result<String> {
    String::from_utf8(decoded(base64)?).context("a key that is no text")
}
