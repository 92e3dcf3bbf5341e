//! How a board knows the server: by one certificate that is compiled into its firmware.
//!
//! What mbedTLS does with it: the server shows that certificate itself, or one that chains to it, for the name the
//! board expects. A board has no clock, so dates are not looked at. rustls' own verifier would refuse both the
//! certificate that is its own CA and the missing subjectAltName of the original's.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, PeerIncompatible,
    SignatureScheme,
};
use x509_cert::Certificate;
use x509_cert::der::asn1::{PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::der::{Any, Decode, Encode, Tag, Tagged};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, SubjectAltName};

/// The name boards ask for.
pub const SERVER_NAME: &str = "ota-agent";
/// mbedTLS follows this many certificates between the first and the pinned one.
const MAX_INTERMEDIATES: usize = 8;

/// TLS as a board speaks it: version 1.2 only, no client certificate, every session from the start.
pub(super) fn client(pinned: &[u8]) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let pin = Pin {
        pinned: CertificateDer::from(pinned.to_vec()),
        anchor: Certificate::from_der(pinned).context("the pinned certificate cannot be read")?,
        provider: provider.clone(),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pin))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

#[derive(Debug)]
struct Pin {
    pinned: CertificateDer<'static>,
    anchor: Certificate,
    provider: Arc<CryptoProvider>,
}

impl Pin {
    fn judge(&self, leaf: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<()> {
        let parsed = Certificate::from_der(leaf).context("it cannot be read")?;
        ensure!(is_named(&parsed, SERVER_NAME), "it is not for {SERVER_NAME}");
        if *leaf == self.pinned {
            return Ok(());
        }
        let others: Vec<_> =
            others.iter().filter_map(|der| Certificate::from_der(der).ok()).collect();
        let mut current = &parsed;
        for _ in 0..=MAX_INTERMEDIATES {
            if self.has_signed(&self.anchor, current) {
                return Ok(());
            }
            let Some(issuer) = others.iter().find(|other| self.has_signed(other, current)) else {
                break;
            };
            current = issuer;
        }
        anyhow::bail!("it is neither the pinned one nor signed by it")
    }

    fn has_signed(&self, issuer: &Certificate, subject: &Certificate) -> bool {
        let (from, to) = (issuer.tbs_certificate(), subject.tbs_certificate());
        let is_ca = matches!(from.get_extension::<BasicConstraints>(), Ok(Some((_, c))) if c.ca);
        if !is_ca || to.issuer() != from.subject() {
            return false;
        }
        let key = from.subject_public_key_info();
        let (Some(key_algorithm), Some(algorithm), Ok(message)) =
            (contents(&key.algorithm), contents(subject.signature_algorithm()), to.to_der())
        else {
            return false;
        };
        self.provider.signature_verification_algorithms.all.iter().any(|known| {
            known.public_key_alg_id().as_ref() == key_algorithm
                && known.signature_alg_id().as_ref() == algorithm
                && known
                    .verify_signature(
                        key.subject_public_key.raw_bytes(),
                        &message,
                        subject.signature().raw_bytes(),
                    )
                    .is_ok()
        })
    }
}

/// An algorithm's encoding without the SEQUENCE around it, which is how rustls names them. None is as long as 128 bytes.
fn contents(algorithm: &impl Encode) -> Option<Vec<u8>> {
    algorithm.to_der().ok()?.get(2..).map(<[u8]>::to_vec)
}

/// By its subjectAltName; where there is none, by its common name.
fn is_named(certificate: &Certificate, name: &str) -> bool {
    let body = certificate.tbs_certificate();
    if let Ok(Some((_, names))) = body.get_extension::<SubjectAltName>() {
        return names.0.iter().any(
            |known| matches!(known, GeneralName::DnsName(dns) if dns.as_str().eq_ignore_ascii_case(name)),
        );
    }
    body.subject()
        .iter()
        .filter(|attribute| attribute.oid == COMMON_NAME)
        .filter_map(|attribute| text(&attribute.value))
        .any(|known| known.eq_ignore_ascii_case(name))
}

fn text(value: &Any) -> Option<String> {
    let text = match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>().ok()?.as_str().to_owned(),
        Tag::PrintableString => {
            value.decode_as::<PrintableStringRef<'_>>().ok()?.as_str().to_owned()
        }
        Tag::TeletexString => value.decode_as::<TeletexStringRef<'_>>().ok()?.as_str().to_owned(),
        _ => return None,
    };
    Some(text)
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.judge(leaf, others) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(reason) => {
                Err(CertificateError::Other(OtherError(Arc::from(Box::<
                    dyn std::error::Error + Send + Sync,
                >::from(reason))))
                .into())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
