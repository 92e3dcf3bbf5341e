//! What boards and the flasher ask of a certificate, and what people are told of it.

use std::slice::from_ref;

use flashjob_pki::{Certificate, CertifiedKey, Error, KeyPurpose};

/// The name boards ask for, whatever the address is.
pub const BOARDS_ASK_FOR: &str = "ota-agent";

/// What boards ask of the name: the subjectAltName where there is one, else the common name.
pub fn is_for_boards(pair: &CertifiedKey) -> Result<(), String> {
    let is_name = |name: &String| name.eq_ignore_ascii_case(BOARDS_ASK_FOR);
    let common = pair.leaf().common_names();
    if !common.iter().any(is_name) {
        let common = if common.is_empty() { "none".to_owned() } else { common.join(", ") };
        return Err(format!(
            "its common name is {}, and boards ask for {BOARDS_ASK_FOR}",
            crate::shell::clean(&common)
        ));
    }
    if pair.leaf().dns_names().is_none_or(|names| names.iter().any(is_name)) {
        return Ok(());
    }
    Err(format!(
        "it has a subjectAltName without DNS:{BOARDS_ASK_FOR}, and where there is one boards look at nothing else"
    ))
}

/// Whether a board that pins `pinned` takes this: it is that certificate, or signed by it. Dates do not count.
pub fn chains_to(pair: &CertifiedKey, pinned: &CertifiedKey) -> bool {
    let (leaf, anchor) = (pair.leaf(), pinned.leaf());
    let signed =
        || pair.chain().verify(from_ref(anchor), KeyPurpose::ServerAuth, leaf.not_before()).is_ok();
    leaf == anchor || signed()
}

/// Whether one of the certificates may sign others.
pub fn has_ca(pair: &CertifiedKey) -> bool {
    pair.chain().iter().any(Certificate::is_ca)
}

/// Whether both chains have a certificate in common.
pub fn have_one_in_common(one: &CertifiedKey, other: &CertifiedKey) -> bool {
    one.chain().iter().any(|certificate| other.chain().iter().any(|c| c == certificate))
}

/// Reads a chain, the leaf first, and the leaf's key.
pub fn read(certificates: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    CertifiedKey::from_pem(certificates, key).map_err(|error| message(&error))
}

/// An error for people. It has nothing of the key in it.
pub fn message(error: &Error) -> String {
    match error {
        Error::EncryptedKey => {
            "the key is encrypted, and the flasher knows no password: `openssl pkey -in KEY -out OPEN` opens it".into()
        }
        Error::UnsupportedKey => {
            "the flasher cannot use this key; it takes RSA from 2048 bits, P-256, P-384 and Ed25519".into()
        }
        Error::UnsupportedCertificate => {
            "the flasher cannot use this certificate; it must be X.509 version 3".into()
        }
        Error::IssuerName => {
            "the pinned certificate has a name that cannot be written here\nsign with openssl, as docs/certificates.md shows, \
             and say `kubectl flashjob server-cert import`"
                .into()
        }
        Error::Before1970 => "the clock is before 1970".into(),
        other => other.to_string(),
    }
}
