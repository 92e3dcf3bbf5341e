//! A certificate with those it chains to, and its key: read from PEM and judged as the flasher and boards judge it.
//!
//! No error says anything of what was read: one file is easily taken for the other, and then it would show a key.

use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, SubjectAltName, SubjectKeyIdentifier};

/// The name boards ask for, whatever the address is.
pub const BOARDS_ASK_FOR: &str = "ota-agent";

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// A certificate that its key fits.
pub struct Pair {
    leaf: Certificate,
    others: Vec<Certificate>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Pair {
    /// Reads a chain, the leaf first, and the leaf's key. The error is for people, and has nothing of the key in it.
    pub fn read(certificates: &[u8], key: &[u8]) -> Result<Pair, String> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|_| "the certificate is not PEM that can be read".to_owned())?;
        let mut parsed = Vec::new();
        for (at, der) in chain.iter().enumerate() {
            let certificate = Certificate::from_der(der)
                .map_err(|_| format!("certificate {} of the chain cannot be read", at + 1))?;
            parsed.push(certificate);
        }
        if parsed.is_empty() {
            return Err("there is no certificate in it; it must be PEM".into());
        }
        let leaf = parsed.remove(0);
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| no_key(key))?;
        fits(&chain, &key)?;
        Ok(Pair { leaf, others: parsed, chain, key })
    }

    /// What boards ask of the name: the subjectAltName where there is one, else the common name.
    pub fn is_for_boards(&self) -> Result<(), String> {
        let body = self.leaf.tbs_certificate();
        let is_name = |name: &str| name.eq_ignore_ascii_case(BOARDS_ASK_FOR);
        let common: Vec<String> = body
            .subject()
            .iter()
            .filter(|attribute| attribute.oid == COMMON_NAME)
            .map(|attribute| String::from_utf8_lossy(attribute.value.value()).into_owned())
            .collect();
        if !common.iter().any(|name| is_name(name)) {
            let common = if common.is_empty() { "none".to_owned() } else { common.join(", ") };
            return Err(format!(
                "its common name is {}, and boards ask for {BOARDS_ASK_FOR}",
                crate::shell::clean(&common)
            ));
        }
        let named = match body.get_extension::<SubjectAltName>() {
            Ok(None) => true,
            Ok(Some((_, names))) => names
                .0
                .iter()
                .any(|name| matches!(name, GeneralName::DnsName(dns) if is_name(dns.as_str()))),
            Err(_) => false,
        };
        if named {
            return Ok(());
        }
        Err(format!(
            "it has a subjectAltName without DNS:{BOARDS_ASK_FOR}, and where there is one boards look at nothing else"
        ))
    }

    /// Whether one of the certificates may sign others.
    pub fn has_ca(&self) -> bool {
        self.leaf_is_ca() || self.others.iter().any(is_ca)
    }

    /// Whether the certificate itself may sign others.
    pub fn leaf_is_ca(&self) -> bool {
        is_ca(&self.leaf)
    }

    pub fn is_rsa(&self) -> bool {
        self.leaf.tbs_certificate().subject_public_key_info().algorithm.oid == RSA
    }

    /// Until when the certificate is good.
    pub fn expires(&self) -> Timestamp {
        let seconds = self.leaf.tbs_certificate().validity().not_after.to_unix_duration().as_secs();
        let seconds = i64::try_from(seconds).ok();
        seconds.and_then(|s| Timestamp::from_second(s).ok()).unwrap_or(Timestamp::MAX)
    }

    /// Whether a board that pins `pinned` takes this: it is that certificate, or signed by it. Dates do not count.
    pub fn chains_to(&self, pinned: &Pair) -> bool {
        let (Some(leaf), Some(anchor)) = (self.chain.first(), pinned.chain.first()) else {
            return false;
        };
        if leaf == anchor {
            return true;
        }
        let mut roots = RootCertStore::empty();
        let from = self.leaf.tbs_certificate().validity().not_before.to_unix_duration();
        let Ok(parsed) = ParsedCertificate::try_from(leaf) else { return false };
        roots.add(anchor.clone()).is_ok()
            && rustls::client::verify_server_cert_signed_by_trust_anchor(
                &parsed,
                &roots,
                self.chain.get(1..).unwrap_or_default(),
                UnixTime::since_unix_epoch(from),
                ring::default_provider().signature_verification_algorithms.all,
            )
            .is_ok()
    }

    /// Whether both chains have a certificate in common.
    pub fn has_one_of(&self, other: &Pair) -> bool {
        self.chain.iter().any(|certificate| other.chain.contains(certificate))
    }

    /// The certificate without those it chains to.
    pub fn leaf(&self) -> &Certificate {
        &self.leaf
    }

    /// What those it signs call its key.
    pub fn key_identifier(&self) -> Option<Vec<u8>> {
        let body = self.leaf.tbs_certificate();
        let (_, identifier) = body.get_extension::<SubjectKeyIdentifier>().ok()??;
        Some(identifier.0.as_bytes().to_vec())
    }

    pub fn leaf_pem(&self) -> Result<String, String> {
        self.chain.first().map_or_else(|| Ok(String::new()), |der| pem("CERTIFICATE", der))
    }

    /// All certificates as PEM, and nothing that stood between them.
    pub fn chain_pem(&self) -> Result<String, String> {
        self.chain.iter().map(|der| pem("CERTIFICATE", der)).collect()
    }

    /// The private key as PEM. For the Secret alone.
    pub fn key_pem(&self) -> Result<String, String> {
        let label = match &self.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        pem(label, self.key.secret_der())
    }

    pub fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// The certificate's serial number, as openssl prints it.
    #[cfg(test)]
    pub fn serial(&self) -> Vec<u8> {
        self.leaf.tbs_certificate().serial_number().as_bytes().to_vec()
    }
}

fn pem(label: &str, der: &[u8]) -> Result<String, String> {
    encode_string(label, LineEnding::LF, der).map_err(|_| format!("cannot write a {label} as PEM"))
}

/// Boards look at both: that it is a CA, and where it says what its key is for, that this is among it.
fn is_ca(certificate: &Certificate) -> bool {
    let body = certificate.tbs_certificate();
    let signs = match body.get_extension::<KeyUsage>() {
        Ok(usage) => usage.is_none_or(|(_, usage)| usage.key_cert_sign()),
        Err(_) => false,
    };
    signs && matches!(body.get_extension::<BasicConstraints>(), Ok(Some((_, c))) if c.ca)
}

/// The same judgement as the flasher's, which shows this certificate.
fn fits(chain: &[CertificateDer<'static>], key: &PrivateKeyDer<'static>) -> Result<(), String> {
    let provider = ring::default_provider();
    let judged = CertifiedKey::from_der(chain.to_vec(), key.clone_key(), &provider);
    match judged.and_then(|pair| pair.keys_match()) {
        Ok(()) => Ok(()),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(
            "the key does not fit the certificate. In a chain, the certificate of the key comes first".into(),
        ),
        Err(Error::InvalidCertificate(_)) => {
            Err("the flasher cannot use this certificate; it must be X.509 version 3".into())
        }
        Err(_) => Err("the flasher cannot use this key; it takes RSA from 2048 bits, P-256, P-384 and Ed25519".into()),
    }
}

fn no_key(text: &[u8]) -> String {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    if has(b"ENCRYPTED") {
        return "the key is encrypted, and the flasher knows no password: `openssl pkey -in KEY -out OPEN` opens it"
            .into();
    }
    "there is no private key in it that can be read; it must be PEM".into()
}
