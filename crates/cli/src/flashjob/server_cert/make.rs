//! Makes certificates: the one that boards pin, and those that it signs.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use rcgen::string::{Ia5String, PrintableString};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::PrivateKeyDer;
use x509_cert::der::{Tag, Tagged};

use super::pair::{BOARDS_ASK_FOR, Pair};
use super::wrong_own;

/// As long as boards live. They do not look.
const PINNED_DAYS: u32 = 7300;
/// How much a clock that reads the certificate may be behind ours.
const BEFORE: Duration = Duration::from_secs(3600);
const DAY: u64 = 86_400;

/// A certificate and its key, as PEM.
pub struct Made {
    pub certificate: String,
    pub key: String,
}

/// A certificate for boards to pin: its own CA, so that it can sign others later.
pub fn pinned(now: Timestamp) -> Result<Made> {
    let key = KeyPair::generate().context("cannot make a key")?;
    let mut params = params(PINNED_DAYS, now)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key).context("cannot make a certificate")?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A certificate that `pinned` has signed, with `pinned` after it.
pub fn leaf(pinned: &Pair, days: u32, now: Timestamp) -> Result<Pair> {
    let key = KeyPair::generate().context("cannot make a key")?;
    let mut params = params(days, now)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // It has the name of its issuer; without this openssl takes it for one that has signed itself.
    params.use_authority_key_identifier_extension = true;
    let made = params.signed_by(&key, &issuer(pinned)?).context("cannot sign a certificate")?;
    let chain = made.pem() + &pinned.leaf_pem().map_err(wrong_own)?;
    let pair = Pair::read(chain.as_bytes(), key.serialize_pem().as_bytes()).map_err(wrong_own)?;
    pair.is_for_boards().map_err(wrong_own)?;
    // A name that could not be written again as it is.
    if !pair.chains_to(pinned) {
        bail!(
            "the pinned certificate has a name that cannot be written here\nsign with openssl, as docs/certificates.md shows, \
             and say `kubectl flashjob server-cert import`"
        );
    }
    Ok(pair)
}

fn params(days: u32, now: Timestamp) -> Result<CertificateParams> {
    let now = u64::try_from(now.as_second()).map_err(|_| anyhow!("the clock is before 1970"))?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, BOARDS_ASK_FOR);
    params.not_before = epoch + Duration::from_secs(now).saturating_sub(BEFORE);
    params.not_after = epoch + Duration::from_secs(now + u64::from(days) * DAY);
    Ok(params)
}

/// The pinned certificate as one that signs. Its name has to be repeated as it is, byte by byte.
fn issuer(pinned: &Pair) -> Result<Issuer<'static, KeyPair>> {
    let PrivateKeyDer::Pkcs8(key) = pinned.key() else {
        bail!(
            "the pinned key is not in PKCS#8 (\"BEGIN PRIVATE KEY\"), which signing needs\nto rewrite it: openssl pkcs8 \
             -topk8 -nodes -in pinned.key -out pinned.key.new && mv pinned.key.new pinned.key"
        );
    };
    // The error has no words of its own worth repeating, and nothing of a key may be.
    let key =
        KeyPair::try_from(key).map_err(|_| anyhow!("the pinned key cannot be used to sign"))?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    for attribute in pinned.leaf().tbs_certificate().subject().iter() {
        let oid = attribute.oid.arcs().map(u64::from).collect();
        if let Some(value) = value(attribute.value.tag(), attribute.value.value()) {
            params.distinguished_name.push(DnType::CustomDnType(oid), value);
        }
    }
    if let Some(identifier) = pinned.key_identifier() {
        params.key_identifier_method = KeyIdMethod::PreSpecified(identifier);
    }
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(Issuer::new(params, key))
}

fn value(tag: Tag, bytes: &[u8]) -> Option<DnValue> {
    let text = std::str::from_utf8(bytes).ok()?;
    match tag {
        Tag::Utf8String => Some(DnValue::Utf8String(text.to_owned())),
        Tag::PrintableString => PrintableString::try_from(text).ok().map(DnValue::PrintableString),
        Tag::Ia5String => Ia5String::try_from(text).ok().map(DnValue::Ia5String),
        _ => None,
    }
}
