//! Cosign signatures: the firmware is sent only when the key's owner has signed exactly this image.
//!
//! One form is accepted, the one `cosign sign --key` has written since its beginning: an image at the tag
//! `sha256-<hex>.sig` whose layers are the signed payloads. Every other form is refused by its name, because a
//! signature that is there and not looked at would be worse than none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashjob_api::flashjob::Reason;
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::DecodePublicKey;
use serde::Deserialize;
use x509_cert::der::DecodePem;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::manifest::{Descriptor, Manifest};
use super::registry::Registry;
use crate::Failure;

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const REKOR: &str = "dev.sigstore.cosign/bundle";
const PAYLOAD_LIMIT: u64 = 64 << 10;
const REFERRERS_LIMIT: u64 = 4 << 20;
/// Signatures of one image that are looked at.
const SIGNATURES: usize = 64;

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    #[serde(rename = "type")]
    kind: String,
    image: Image,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Reason::SignatureInvalid, message)
}

/// Reads the public key. What is none that we can use is named.
pub(super) fn key(pem: &str) -> Result<VerifyingKey, Failure> {
    let pem = pem.trim();
    if let Ok(key) = VerifyingKey::from_public_key_pem(pem) {
        return Ok(key);
    }
    let what = match SubjectPublicKeyInfoOwned::from_pem(pem) {
        Ok(info) => match info.algorithm.oid.to_string().as_str() {
            "1.2.840.113549.1.1.1" => "an RSA key",
            "1.3.101.112" => "an Ed25519 key",
            "1.2.840.10045.2.1" => "an ECDSA key on another curve",
            _ => "a key of another kind",
        },
        Err(_) if pem.contains("PRIVATE KEY") => "a private key",
        Err(_) if pem.contains("BEGIN CERTIFICATE") => "a certificate",
        Err(_) => "not a public key in PEM",
    };
    Err(invalid(format!(
        "signatures are checked with an ECDSA P-256 public key, and this is {what}"
    )))
}

/// Checks that one of these digests is signed: first that of the index, then that of the platform's manifest.
pub(super) async fn check(
    registry: &Registry,
    key: &VerifyingKey,
    digests: &[&str],
) -> Result<(), Failure> {
    let mut why = Vec::new();
    for digest in digests {
        match signed(registry, key, digest).await? {
            Ok(()) => return Ok(()),
            Err(text) => why.push(format!("{digest}: {text}")),
        }
    }
    Err(invalid(format!("the image is not signed with the given key; {}", why.join("; "))))
}

/// The inner error says why the digest does not count as signed.
async fn signed(
    registry: &Registry,
    key: &VerifyingKey,
    digest: &str,
) -> Result<Result<(), String>, Failure> {
    let tag = digest.replace(':', "-");
    let Some((bytes, _)) = registry.manifest(&format!("{tag}.sig")).await? else {
        return Ok(Err(other_form(registry, &tag, digest).await?));
    };
    let layers = match Manifest::parse(&bytes) {
        Ok(Manifest::Image { layers, .. }) => layers,
        Ok(Manifest::Index(_)) => return Ok(Err(format!("the tag {tag}.sig is an index"))),
        Err(why) => return Ok(Err(format!("the tag {tag}.sig: {why}"))),
    };
    let mut why = format!("the tag {tag}.sig holds no signature");
    for layer in layers.iter().take(SIGNATURES) {
        match judge(registry, key, digest, layer).await? {
            Ok(()) => return Ok(Ok(())),
            Err(text) => why = text,
        }
    }
    Ok(Err(why))
}

async fn judge(
    registry: &Registry,
    key: &VerifyingKey,
    digest: &str,
    layer: &Descriptor,
) -> Result<Result<(), String>, Failure> {
    let refused = |text: &str| Ok(Err(text.to_owned()));
    if layer.media_type != SIMPLE_SIGNING {
        let media_type = &layer.media_type;
        return Ok(Err(format!("a signature of the form {media_type:?} is not supported")));
    }
    let Some(signature) = layer.annotations.get(SIGNATURE).filter(|text| !text.is_empty()) else {
        return if layer.annotations.contains_key(REKOR) {
            refused("a signature that is only in a Rekor bundle is not supported")
        } else {
            refused("a payload without a signature")
        };
    };
    let signature = STANDARD.decode(signature.trim()).ok();
    let Some(signature) = signature.and_then(|der| Signature::from_der(&der).ok()) else {
        return refused("a signature that is not ECDSA in base64");
    };
    let payload = registry.small(layer, PAYLOAD_LIMIT).await?;
    Ok(verify(key, digest, &payload, &signature))
}

/// The payload must be signed, and must name this image: a signature of another image is worth nothing here.
fn verify(
    key: &VerifyingKey,
    digest: &str,
    payload: &[u8],
    signature: &Signature,
) -> Result<(), String> {
    key.verify(payload, signature).map_err(|_| "a signature of another key".to_owned())?;
    let payload: Payload =
        serde_json::from_slice(payload).map_err(|_| "a signature of something else".to_owned())?;
    if payload.critical.kind != "cosign container image signature" {
        return Err(format!("a signature of a {:?}", payload.critical.kind));
    }
    match payload.critical.image.digest {
        named if named == digest => Ok(()),
        named => Err(format!("a signature of another image, {named}")),
    }
}

/// No signature at the tag: one in another form is named, so that people know what to do.
async fn other_form(registry: &Registry, tag: &str, digest: &str) -> Result<String, Failure> {
    // A registry that does not know the API of referrers may refuse the path in its own way; then there are none.
    let path = format!("referrers/{digest}");
    let mut documents = vec![registry.unchecked(&path, REFERRERS_LIMIT).await.ok().flatten()];
    documents.push(registry.manifest(tag).await?.map(|(bytes, _)| bytes));
    for document in documents.into_iter().flatten() {
        if let Ok(Manifest::Index(entries)) = Manifest::parse(&document)
            && let Some(entry) =
                entries.iter().find(|entry| entry.artifact_type.contains("sigstore"))
        {
            return Ok(format!(
                "its signature is a {:?} among the image's referrers, which is not supported; \
                 sign with cosign sign --new-bundle-format=false --use-signing-config=false --key",
                entry.artifact_type
            ));
        }
    }
    Ok(format!("there is no tag {tag}.sig"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `openssl ecparam -name prime256v1 -genkey` and `openssl dgst -sha256 -sign`.
    const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFAOOMKjbiDvzmKG/s2JXb4dQWCjF\n\
        9jLmxTsBPUaZlSOOsAsJjrWNVf7QV5AsuDxAOO8r/u2WLSde09JHUnTXkg==\n\
        -----END PUBLIC KEY-----";
    const DER: &str = "MEUCICwrxQPWqLhJ0I5JgEY9bsGKcXj6rWimkMYPISU7Nq0V\
        AiEAr9r0B2aX9fQ66yHiQ1e45PotwrDyrq5M+IaVtpWy4rQ=";
    const DIGEST: &str = "sha256:07f7ab476bc3a83fad639d34a012cb4a5f859441f0d24c11627ca96696839012";

    fn payload(digest: &str) -> String {
        format!(
            "{{\"critical\":{{\"identity\":{{\"docker-reference\":\"harbor.example/fw\"}},\
             \"image\":{{\"docker-manifest-digest\":\"{digest}\"}},\
             \"type\":\"cosign container image signature\"}},\"optional\":null}}"
        )
    }

    #[test]
    fn what_openssl_signed_verifies_and_one_other_letter_does_not() {
        let key = key(KEY).unwrap();
        let signature = Signature::from_der(&STANDARD.decode(DER).unwrap()).unwrap();
        let good = payload(DIGEST);
        verify(&key, DIGEST, good.as_bytes(), &signature).unwrap();
        let other = payload(&DIGEST.replace('a', "b"));
        verify(&key, DIGEST, other.as_bytes(), &signature).unwrap_err();
        verify(&key, &DIGEST.replace('a', "b"), good.as_bytes(), &signature).unwrap_err();
    }
}
