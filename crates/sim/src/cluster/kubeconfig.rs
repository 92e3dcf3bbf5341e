//! Kubeconfig files, for programs that are started beside the tests.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

/// Writes a kubeconfig with one context. A plain-HTTP server gets no CA.
pub(super) fn write(
    path: &Path,
    server: &str,
    ca: &Path,
    token: &str,
    namespace: &str,
) -> Result<()> {
    let mut cluster = json!({ "server": server });
    if server.starts_with("https:") {
        cluster["certificate-authority"] = json!(ca);
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "sim", "cluster": cluster }],
        "users": [{ "name": "sim", "user": { "token": token } }],
        "contexts": [{
            "name": "sim",
            "context": { "cluster": "sim", "user": "sim", "namespace": namespace },
        }],
        "current-context": "sim",
    });
    let text = serde_saphyr::to_string(&config).context("cannot write a kubeconfig")?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
