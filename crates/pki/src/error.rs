//! What can be wrong with a key, a certificate or a CSR.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the certificate is not PEM that can be read")]
    CertificateNotPem,
    #[error("there is no certificate in it; it must be PEM")]
    NoCertificate,
    /// Which one, from 1.
    #[error("certificate {0} of the chain cannot be read")]
    UnreadableCertificate(usize),
    #[error("the certificate cannot be used; it must be X.509 version 3")]
    UnsupportedCertificate,
    #[error("there is no private key in it that can be read; it must be PEM")]
    NoKey,
    #[error("the key is encrypted")]
    EncryptedKey,
    #[error("the key cannot be used; it must be RSA from 2048 bits, P-256, P-384 or Ed25519")]
    UnsupportedKey,
    #[error(
        "the key does not fit the certificate. In a chain, the certificate of the key comes first"
    )]
    KeyMismatch,
    #[error("the certificate signing request cannot be read; it must be PKCS#10 in PEM")]
    UnreadableCsr,
    /// Also if the key is too small or the hash too weak to tell.
    #[error(
        "the certificate signing request is not signed with its own key in a way that is taken: RSA from 2048 bits, P-256, \
         P-384 or Ed25519, and SHA-2"
    )]
    CsrSignature,
    #[error("the certificate is no CA")]
    NotCa,
    /// rcgen knows each kind of attribute once, and UTF8String, PrintableString and IA5String.
    #[error(
        "nothing can be signed by a CA of this name: its subject has an attribute twice, or text of a type that is out of use"
    )]
    IssuerName,
    #[error("the chain does not lead to a certificate that is trusted: {0}")]
    Untrusted(rustls::Error),
    #[error("a certificate cannot begin or end before 1970")]
    Before1970,
    #[error("there are no random numbers")]
    NoRandom,
    #[error("it cannot be made: {0}")]
    NotMade(rcgen::Error),
}
