//! A real S3 server, for buckets that devices can be sent to: crate s3s-fs on a free loopback port, a folder per bucket.
//!
//! It speaks HTTPS with a certificate of a CA that nobody knows, takes bucket names in the path, and checks the signature of each
//! request. What it does not have of a provider's are users: a key is good for one bucket, and is known from the moment that
//! bucket is made.

mod client;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use flashjob_pki::{CertifiedKey, PrivateKey};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3Result, s3_error};
use s3s_fs::FileSystem;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use self::client::BucketClient;
use crate::process::Scratch;
use crate::{lock, pki};

/// A running server. It ends when this is dropped, and its buckets with it.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    ca_pem: String,
    keys: Keys,
    buckets: Scratch,
    task: JoinHandle<()>,
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl S3Server {
    /// A name that its certificate is good for, beside its address: whoever has no DNS leads it there by hand.
    pub const OUTSIDE: &str = "s3.apps.example.com";

    /// Starts one without buckets, on the current runtime.
    pub async fn start() -> Result<Self> {
        let buckets = Scratch::new("flashjob-s3-")?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for S3")?;
        let address = listener.local_addr()?;
        let ca = pki::ca("flashjob-sim S3")?;
        let key = PrivateKey::generate()?;
        let names = [&*address.ip().to_string(), "localhost", Self::OUTSIDE];
        let certificate = ca.sign(&key.public(), &pki::server("s3", &names))?;
        let made = CertifiedKey::from_pem(certificate.pem().as_bytes(), key.pem().as_bytes())?;
        let keys = Keys::default();
        let files = FileSystem::new(buckets.path());
        let files = files.map_err(|error| anyhow::anyhow!("no folder for buckets: {error:?}"))?;
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(keys.clone());
        service.set_access(keys.clone());
        let task = tokio::spawn(serve(listener, pki::acceptor(&made)?, service.build()));
        Ok(Self { address, ca_pem: ca.chain().pem(), keys, buckets, task })
    }

    /// Where it is dialled.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CA that its certificate is of.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Makes a bucket, which this access key and its secret are good for and no others. One that is there gets another key.
    pub fn make_bucket(&self, name: &str, access_key: &str, secret_key: &str) -> Result<()> {
        fs::create_dir_all(self.buckets.path().join(name))
            .with_context(|| format!("cannot make the bucket {name}"))?;
        let mut keys = lock(&self.keys.0);
        keys.retain(|_, grant| grant.bucket != name);
        let grant = Grant { bucket: name.to_owned(), secret: secret_key.to_owned() };
        keys.insert(access_key.to_owned(), grant);
        Ok(())
    }

    /// What is in a bucket, by the server's own files.
    pub fn objects(&self, bucket: &str) -> Result<BTreeMap<String, Vec<u8>>> {
        let (root, mut found) = (self.buckets.path().join(bucket), BTreeMap::new());
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder);
            for entry in entries.with_context(|| format!("there is no bucket {bucket}"))? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                found.insert(key_of(&root, &path), fs::read(&path)?);
            }
        }
        Ok(found)
    }
}

fn key_of(bucket: &Path, file: &Path) -> String {
    file.strip_prefix(bucket).unwrap_or(file).display().to_string()
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, service: S3Service) {
    // Owned here, so that connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(talk(acceptor.clone(), stream, service.clone()));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn talk(acceptor: TlsAcceptor, stream: TcpStream, service: S3Service) {
    // Whoever does not trust it hangs up.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Who may do what, by access key.
#[derive(Debug, Clone, Default)]
struct Keys(Arc<Mutex<HashMap<String, Grant>>>);

#[derive(Debug)]
struct Grant {
    bucket: String,
    secret: String,
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let secret = lock(&self.0).get(access_key).map(|grant| grant.secret.clone());
        secret.map(SecretKey::from).ok_or_else(|| s3_error!(InvalidAccessKeyId))
    }
}

#[async_trait::async_trait]
impl S3Access for Keys {
    async fn check(&self, request: &mut S3AccessContext<'_>) -> S3Result<()> {
        let bucket = request.s3_path().get_bucket_name();
        let key = request.credentials().map(|credentials| credentials.access_key.as_str());
        let keys = lock(&self.0);
        let grant = key.and_then(|key| keys.get(key));
        if grant.is_some_and(|grant| Some(grant.bucket.as_str()) == bucket) {
            return Ok(());
        }
        Err(s3_error!(AccessDenied))
    }
}

#[cfg(test)]
mod tests;
