//! The server's certificate. It is pinned in every board, so it is the user's own, from a Secret; we ship none.

use std::path::Path;
use std::sync::Arc;

use flashjob_api::flashjob::Reason;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::failure::Failure;

/// Reads certificate and key. A chain is fine: boards also take a leaf that the pinned certificate has signed.
pub fn server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let missing = |path: &Path, error: &dyn std::fmt::Display| {
        let message = format!(
            "{}: {error}. The flash server needs the certificate that is pinned in the boards: kubectl create secret \
             tls flashjob-server-tls --cert=server.crt --key=server.key, in the FlashJob's namespace",
            path.display()
        );
        Failure::new(Reason::ServerCertMissing, message)
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| missing(certificate, &error))?;
    if chain.is_empty() {
        return Err(missing(certificate, &"there is no certificate in it"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| missing(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        // Boards speak 1.2 alone; whoever speaks 1.3 may.
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| missing(certificate, &error))?;
    Ok(Arc::new(config))
}
