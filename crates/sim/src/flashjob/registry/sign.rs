//! Cosign's signatures, as `cosign sign --key` writes them.

use anyhow::{Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashjob_pki::PrivateKey;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};

use super::Registry;
use super::image::{Image, Layer};

/// The media type of a signed payload.
pub const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with the signature.
pub const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// A key that signs images.
#[derive(Debug)]
pub struct Signer {
    key: SigningKey,
    public_pem: String,
}

impl Signer {
    /// A new key.
    pub fn generate() -> Result<Self> {
        let made = PrivateKey::generate()?;
        let key = p256::pkcs8::DecodePrivateKey::from_pkcs8_der(made.pkcs8_der())
            .map_err(|error| anyhow!("not a P-256 key: {error}"))?;
        Ok(Self { key, public_pem: made.public().pem() })
    }

    /// The public half, in PEM.
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// A payload with its signature. `payload` is usually [`payload`].
    pub fn sign(&self, payload: &Value) -> Result<Layer> {
        let bytes = serde_json::to_vec(payload)?;
        let signature: Signature = self.key.sign(&bytes);
        let mut layer = Layer::new(bytes, PAYLOAD);
        let text = STANDARD.encode(signature.to_der());
        layer.annotations.insert(SIGNATURE.to_owned(), text);
        Ok(layer)
    }
}

/// What cosign signs for an image.
pub fn payload(digest: &str) -> Value {
    json!({
        "critical": {
            "identity": {"docker-reference": ""},
            "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        },
        "optional": null,
    })
}

impl Registry {
    /// Signs a digest: pushes the signature to the tag where cosign looks for it.
    pub async fn sign(&self, repository: &str, digest: &str, signer: &Signer) -> Result<()> {
        let layer = signer.sign(&payload(digest))?;
        self.push_signatures(repository, digest, vec![layer]).await
    }

    /// Pushes these layers as the signatures of a digest.
    pub async fn push_signatures(
        &self,
        repository: &str,
        digest: &str,
        layers: Vec<Layer>,
    ) -> Result<()> {
        let tag = format!("{}.sig", digest.replace(':', "-"));
        self.push(repository, &tag, &Image::new(layers)).await.map(drop)
    }
}
