//! DICE certificates: who a board is, and whether a root vouches for it.
//!
//! They are P-256 over SHA-512 and carry a critical extension of their own, neither of which TLS libraries take. Only the
//! signature and the names are checked: a board has no clock, and its certificates are valid until the year 9999.

use flashjob_api::flashjob::Reason;
use p256::ecdsa::signature::hazmat::PrehashVerifier;
use p256::ecdsa::{DerSignature, VerifyingKey};
use p256::pkcs8::DecodePublicKey;
use sha2::{Digest, Sha512};
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::pem::{self, LineEnding};
use x509_cert::der::{Decode, Encode};

use crate::failure::Failure;

const ECDSA_WITH_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");
const SERIAL_NUMBER: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.5");

/// A board's certificate, or the root that vouches for it.
#[derive(Clone, Debug)]
pub struct DiceCertificate {
    certificate: Certificate,
    /// As it came.
    pub der: Vec<u8>,
    /// The id of the key that signed it: one for each board, whatever firmware it runs.
    pub issuer: String,
    subject: String,
}

impl PartialEq for DiceCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl DiceCertificate {
    /// Reads DER, or says what is wrong with it.
    pub fn from_der(der: &[u8]) -> Result<DiceCertificate, String> {
        let certificate = Certificate::from_der(der).map_err(|e| format!("no certificate: {e}"))?;
        let tbs = certificate.tbs_certificate();
        let id = |name: &x509_cert::name::Name| {
            let mut parts = name.iter_rdn().flat_map(|rdn| rdn.iter());
            let part = parts.find(|part| part.oid == SERIAL_NUMBER);
            let text = part.and_then(|part| std::str::from_utf8(part.value.value()).ok());
            text.map(str::to_ascii_lowercase)
                .ok_or("no DICE certificate: a name has no serialNumber")
        };
        let (issuer, subject) = (id(tbs.issuer())?, id(tbs.subject())?);
        Ok(DiceCertificate { der: der.to_owned(), issuer, subject, certificate })
    }

    /// The same in PEM, as the attestation service takes it.
    pub fn to_pem(&self) -> String {
        // Of any bytes PEM can be made. These are as they came: that is what is to be judged.
        pem::encode_string("CERTIFICATE", LineEnding::LF, &self.der).unwrap_or_default()
    }

    /// Whether this root vouches for the certificate.
    pub fn is_issued_by(&self, root: &DiceCertificate) -> Result<(), String> {
        if self.issuer != root.subject {
            return Err(format!("it was issued by {}, not by {}", self.issuer, root.subject));
        }
        let (inside, outside) = (
            self.certificate.tbs_certificate().signature(),
            self.certificate.signature_algorithm(),
        );
        if outside.oid != ECDSA_WITH_SHA512 || inside != outside {
            return Err("it is not signed with ECDSA over SHA-512".into());
        }
        let spki = root.certificate.tbs_certificate().subject_public_key_info().to_der();
        let key = spki.ok().and_then(|spki| VerifyingKey::from_public_key_der(&spki).ok());
        let key = key.ok_or("the root's key is not a P-256 key")?;
        let bytes = self.certificate.signature().as_bytes();
        let signature = bytes.and_then(|bytes| DerSignature::from_bytes(bytes).ok());
        let signature = signature.ok_or("its signature cannot be read")?;
        let signed = signed_part(&self.der).ok_or("it cannot be read")?;
        key.verify_prehash(&Sha512::digest(signed), &signature)
            .map_err(|_| "its signature does not verify".into())
    }
}

/// The bytes of a certificate that its signature is over, as they came: written anew they could be others.
fn signed_part(der: &[u8]) -> Option<&[u8]> {
    let inside = match der {
        [0x30, length, rest @ ..] if *length < 0x80 => rest,
        [0x30, 0x81, _, rest @ ..] | [0x30, 0x82, _, _, rest @ ..] => rest,
        _ => return None,
    };
    inside.get(..der_length(inside).ok()??)
}

/// Reads the roots of a PEM file.
pub fn roots(text: &str) -> Result<Vec<DiceCertificate>, Failure> {
    let wrong = |error: String| {
        Failure::new(Reason::AttestationUnavailable, format!("ATTESTATION_ROOTS: {error}"))
    };
    let chain = Certificate::load_pem_chain(text.as_bytes()).map_err(|e| wrong(e.to_string()))?;
    let read = |certificate: Certificate| {
        let der = certificate.to_der().map_err(|error| error.to_string())?;
        DiceCertificate::from_der(&der)
    };
    let roots: Vec<_> =
        chain.into_iter().map(read).collect::<Result<_, String>>().map_err(wrong)?;
    if roots.is_empty() {
        return Err(wrong("there is no certificate in it".into()));
    }
    Ok(roots)
}

/// How many bytes the DER value has that begins with these, as soon as that can be told. `Err` if it is none.
pub fn der_length(bytes: &[u8]) -> Result<Option<usize>, String> {
    match bytes {
        [] | [0x30] => Ok(None),
        [0x30, length, ..] if *length < 0x80 => Ok(Some(2 + usize::from(*length))),
        [0x30, 0x81, length, ..] => Ok(Some(3 + usize::from(*length))),
        [0x30, 0x82, high, low, ..] => Ok(Some(4 + usize::from(u16::from_be_bytes([*high, *low])))),
        [0x30, 0x81 | 0x82, ..] => Ok(None),
        [b'-', ..] => Err("it sent PEM; boards send DER, Linux devices PEM".into()),
        _ => Err("what it sent is no certificate".into()),
    }
}
