//! Certificate signing requests: a key, and the proof that who asks has its private half.
//!
//! Nothing else of a CSR is read. What a certificate says is the issuer's to decide, and rcgen's own reader would take the
//! curve of a key from the hash it was signed with, so that a certificate could be for another key than was asked for.

use rcgen::{CertificateParams, DistinguishedName, DnType};
use rustls::crypto::ring;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::der::asn1::BitStringRef;
use x509_cert::der::{self, Decode, Reader, SliceReader, Tag};

use crate::{Error, PrivateKey, PublicKey, to_pem};

/// A CSR for `key`, as PEM.
pub fn create(key: &PrivateKey, common_name: &str) -> Result<String, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let request = params.serialize_request(key.pair()).map_err(Error::NotMade)?;
    Ok(to_pem("CERTIFICATE REQUEST", request.der()))
}

/// The key that a CSR asks a certificate for, if it is signed with it.
pub fn read(text: &[u8]) -> Result<PublicKey, Error> {
    let pem = CertificateSigningRequestDer::from_pem_slice(text);
    let der = pem.map_err(|_| Error::UnreadableCsr)?;
    let parts = CsrParts::from_der(&der).map_err(|_| Error::UnreadableCsr)?;
    let key = PublicKey::from_spki(parts.spki, parts.key)?;
    parts.verify()?;
    Ok(key)
}

/// What of a CSR is used, as it stands there: a signature is over bytes.
struct CsrParts<'a> {
    info: &'a [u8],
    spki: &'a [u8],
    key_algorithm: &'a [u8],
    key: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> CsrParts<'a> {
    fn from_der(der: &'a [u8]) -> der::Result<Self> {
        let mut outer = open(der)?;
        let info = outer.tlv_bytes()?;
        let (algorithm, signature) = (contents(&mut outer)?, bits(&mut outer)?);
        outer.finish()?;
        let mut inner = open(info)?;
        let [_version, _subject] = [inner.tlv_bytes()?, inner.tlv_bytes()?];
        let spki = inner.tlv_bytes()?;
        let mut public = open(spki)?;
        let (key_algorithm, key) = (contents(&mut public)?, bits(&mut public)?);
        Ok(Self { info, spki, key_algorithm, key, algorithm, signature })
    }

    fn verify(&self) -> Result<(), Error> {
        let provider = ring::default_provider();
        let algorithms = provider.signature_verification_algorithms.all;
        let verified = algorithms
            .iter()
            .filter(|algorithm| *algorithm.public_key_alg_id() == *self.key_algorithm)
            .filter(|algorithm| *algorithm.signature_alg_id() == *self.algorithm)
            .any(|a| a.verify_signature(self.key, self.info, self.signature).is_ok());
        if verified { Ok(()) } else { Err(Error::CsrSignature) }
    }
}

/// Goes into a sequence that is all there is.
fn open(der: &[u8]) -> der::Result<SliceReader<'_>> {
    let mut reader = SliceReader::new(der)?;
    let inside = contents(&mut reader)?;
    reader.finish()?;
    SliceReader::new(inside)
}

/// What is in a sequence. rustls knows algorithms by that.
fn contents<'a>(reader: &mut SliceReader<'a>) -> der::Result<&'a [u8]> {
    reader.sequence(|inner| inner.read_slice(inner.remaining_len()))
}

/// A string of whole bytes.
fn bits<'a>(reader: &mut SliceReader<'a>) -> der::Result<&'a [u8]> {
    let string = BitStringRef::decode(reader)?;
    string.as_bytes().ok_or_else(|| Tag::BitString.value_error().into())
}
