//! Keys, certificates, CSRs and chains, for whoever in this workspace makes or judges them.
//!
//! ```text
//!   PEM ──▶ PrivateKey ─┬─▶ CertifiedKey ──sign(PublicKey, Profile)──▶ Certificate ──▶ Chain ──verify──▶ anchors
//!   PEM ──▶ Chain ──────┘         CSR ──csr::read──▶ PublicKey
//! ```
//!
//! A [`Profile`] has all that a certificate says but for its key, so an issuer takes nothing from those who ask. The time is
//! always an argument. No error repeats anything of what was read: a key is easily taken for a certificate, and would be
//! shown.

#![warn(clippy::too_many_lines)]

mod certificate;
mod certified_key;
mod chain;
pub mod csr;
mod error;
mod private_key;
mod profile;
mod public_key;

pub use certificate::Certificate;
pub use certified_key::CertifiedKey;
pub use chain::Chain;
pub use error::Error;
pub use private_key::PrivateKey;
pub use profile::{KeyPurpose, Profile};
pub use public_key::PublicKey;

use sha2::{Digest, Sha256};

fn fingerprint(spki: &[u8]) -> String {
    Sha256::digest(spki).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// PEM with the line ends that openssl and kubectl write.
fn to_pem(label: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), config)
}
