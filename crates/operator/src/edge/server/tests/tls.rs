//! The handshake: TLS 1.3 alone, with a certificate whose key the client has, whoever that may be.

use std::process::Command;

use flashjob_pki::Chain;
use rustls::client::ResolvesClientCert;
use rustls::{ClientConfig, SignatureScheme, version};
use tokio::io::AsyncReadExt;

use super::client::{tls, tls_config};
use super::*;

/// What a client is told at the end of its handshake. With TLS 1.3 it believes itself through before the server has judged it.
async fn told(api: &Api, config: ClientConfig) -> String {
    let told = match tls(api.address, config).await {
        Ok(mut stream) => stream.read_u8().await.expect_err("a refusal").to_string(),
        Err(error) => format!("{error:#}"),
    };
    // Others are served.
    let got = api.client(Manner::H2).await.ask(get("/data/d1/in")).await;
    assert_eq!(got.status.as_u16(), 200);
    told
}

#[tokio::test]
async fn tls_1_2_is_refused() {
    let api = Api::start(Settings::default()).await;
    let key = Some(&api.keys.device);
    let config = tls_config_of(&[&version::TLS12], &api.keys.ca, key, Manner::H1);
    assert!(told(&api, config).await.contains("ProtocolVersion"));
}

#[tokio::test]
async fn without_a_certificate_the_handshake_is_refused() {
    let api = Api::start(Settings::default()).await;
    for manner in BOTH {
        let config = tls_config(&api.keys.ca, None, manner);
        assert!(told(&api, config).await.contains("CertificateRequired"));
    }
}

/// Shows a certificate, and signs with another key.
#[derive(Debug)]
struct Borrowed(Arc<rustls::sign::CertifiedKey>);

impl ResolvesClientCert for Borrowed {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_certificate_whose_key_the_client_has_not_is_refused() {
    let api = Api::start(Settings::default()).await;
    let own = for_rustls(&signed(&api.keys.ca, &profile("own")));
    let shown = api.keys.device.chain().ders();
    let borrowed = rustls::sign::CertifiedKey::new(shown, own.key.clone());
    for manner in BOTH {
        let mut config = tls_config(&api.keys.ca, None, manner);
        config.client_auth_cert_resolver = Arc::new(Borrowed(Arc::new(borrowed.clone())));
        assert!(told(&api, config).await.contains("DecryptError"));
    }
}

/// A self-signed certificate with a key that openssl has made.
fn rsa() -> CertifiedKey {
    let args = ["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
    let made = Command::new("openssl").args(args).output().unwrap();
    let key = PrivateKey::from_pem(&made.stdout).expect("a key of openssl");
    CertifiedKey::self_signed(key, &profile("rsa")).unwrap()
}

#[tokio::test]
async fn expired_self_signed_foreign_and_rsa_certificates_are_for_the_handler_to_judge() {
    let api = Api::start(Settings::default()).await;
    let past = Timestamp::constant(1_000_000_000, 0);
    let expired = signed(&api.keys.ca, &Profile { not_after: past, ..profile("device") });
    let key = PrivateKey::generate().unwrap();
    let self_signed = CertifiedKey::self_signed(key, &profile("device")).unwrap();
    let other = Keys::new();
    let chain = Chain::new(other.device.leaf().clone(), [other.ca.leaf().clone()]);
    let key = PrivateKey::from_pem(other.device.key().pem().as_bytes()).unwrap();
    let foreign = CertifiedKey::new(chain, key).unwrap();
    let rsa = rsa();
    assert!(rsa.leaf().is_rsa());
    for (shown, length) in [(&expired, 1), (&self_signed, 1), (&foreign, 2), (&rsa, 1)] {
        for manner in BOTH {
            let config = tls_config(&api.keys.ca, Some(shown), manner);
            let mut client = Client::connect(api.address, config).await.expect("a connection");
            let got = client.ask(get("/data/d1/in")).await;
            assert_eq!(got.status.as_u16(), 200);
            assert_eq!(got.text(), format!(r#"{{"device":"d1","chain":{length}}}"#));
        }
    }
}

#[tokio::test]
async fn a_new_key_is_shown_to_new_connections_and_ends_none() {
    let api = Api::start(Settings::default()).await;
    let old = api.keys.server.leaf().der();
    let mut open = Vec::new();
    for manner in BOTH {
        let mut client = api.client(manner).await;
        assert_eq!(client.shown, *old);
        assert_eq!(client.ask(get("/data/d1/in")).await.status.as_u16(), 200);
        open.push(client);
    }
    let new = server_key(&api.keys.ca, "server, renewed");
    api.key.replace(for_rustls(&new));
    for manner in BOTH {
        let mut client = api.client(manner).await;
        assert_eq!(client.shown, *new.leaf().der());
        assert_eq!(client.ask(get("/data/d1/in")).await.status.as_u16(), 200);
    }
    for mut client in open {
        assert_eq!(client.ask(get("/data/d1/in")).await.status.as_u16(), 200);
    }
}
