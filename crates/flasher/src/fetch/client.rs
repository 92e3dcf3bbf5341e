//! The HTTP client under a pull: whom it trusts, and how long it waits.

use std::time::Duration;

use reqwest::{Certificate, Client};

use crate::Failure;

const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(30);

/// A client that trusts the machine's CAs and the one given. Without `plain_http` it speaks HTTPS alone, also when a
/// redirect or a token service says otherwise.
pub(super) fn build(ca: Option<&str>, plain_http: bool) -> Result<Client, Failure> {
    let own = match ca {
        Some(pem) => {
            Certificate::from_pem_bundle(pem.as_bytes()).ok().filter(|all| !all.is_empty())
        }
        None => Some(Vec::new()),
    };
    let Some(own) = own else {
        return Err(Failure::pull("REGISTRY_CA holds no certificate in PEM"));
    };
    let builder = || {
        Client::builder()
            .https_only(!plain_http)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .user_agent(concat!("flashjob-flasher/", env!("CARGO_PKG_VERSION")))
    };
    match builder().tls_certs_merge(own).build() {
        Ok(client) => Ok(client),
        // An image without a base has no CAs, and plain HTTP needs none.
        Err(_) if plain_http && ca.is_none() => {
            let empty = builder().tls_certs_only([]).build();
            empty.map_err(|error| Failure::pull(format!("cannot make an HTTP client: {error}")))
        }
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            let cause = cause.unwrap_or_default();
            Err(Failure::pull(format!("cannot make an HTTPS client: {error}{cause}")))
        }
    }
}
