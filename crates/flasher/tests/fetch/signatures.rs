//! Signed firmware: what the key's owner signed is sent, everything else is refused by name.

use anyhow::Result;
use flashjob_api::flashjob::Reason::SignatureInvalid;
use flashjob_flasher::fetch::Source;
use flashjob_pki::PrivateKey;
use flashjob_sim::flashjob::Registry;
use flashjob_sim::flashjob::registry::image::{Image, Layer, Words};
use flashjob_sim::flashjob::registry::sign::{PAYLOAD, SIGNATURE, Signer, payload};
use flashjob_sim::flashjob::server_cert::openssl;
use serde_json::json;

use crate::{pull, refused, source};

fn signed(registry: &Registry, image: &str, signer: &Signer) -> Source {
    let mut source = source(registry, image);
    source.public_key = Some(signer.public_pem().to_owned());
    source
}

#[tokio::test]
async fn a_signature_of_the_index_of_the_platform_or_of_a_single_image_will_do() -> Result<()> {
    let registry = Registry::start().await?;
    let signer = Signer::generate()?;
    let image = Image::of_firmware(b"signed")?;
    let single = registry.push("single", "1", &image).await?;
    refused(&signed(&registry, "single:1", &signer), SignatureInvalid, "there is no tag").await;
    registry.sign("single", &single, &signer).await?;
    let (bytes, got) = pull(&signed(&registry, "single:1", &signer)).await?;
    assert_eq!((bytes.as_slice(), &got.digest), (&b"signed"[..], &single));

    for (repository, which) in [("index", 0), ("platform", 1)] {
        let other = Image::of_firmware(b"for another board")?;
        let images = [("custom/esp32s3", &image), ("custom/esp32c6", &other)];
        let digests = registry.push_index(repository, "1", Words::Oci, &images).await?;
        // A signature of the sibling's manifest says nothing about ours.
        registry.sign(repository, &digests[2], &signer).await?;
        let source = signed(&registry, &format!("{repository}:1"), &signer);
        refused(&source, SignatureInvalid, "there is no tag").await;
        registry.sign(repository, &digests[which], &signer).await?;
        assert_eq!(pull(&source).await?.0, b"signed", "{repository}");
    }
    Ok(())
}

#[tokio::test]
async fn bad_signatures_are_refused_and_nothing_of_the_image_is_read() -> Result<()> {
    let registry = Registry::start().await?;
    let (signer, stranger) = (Signer::generate()?, Signer::generate()?);
    let image = Image::of_firmware(b"signed")?;
    let other = registry.push("fw", "other", &Image::of_firmware(b"other")?).await?;
    let digest = registry.push("fw", "1", &image).await?;
    let good = || signer.sign(&payload(&digest));
    let with = |mut layer: Layer, signature: &str| {
        layer.annotations.insert(SIGNATURE.into(), signature.into());
        layer
    };
    let unsigned = Layer::new(serde_json::to_vec(&payload(&digest))?, PAYLOAD);
    let mut rekor = unsigned.clone();
    rekor.annotations.insert("dev.sigstore.cosign/bundle".into(), "{}".into());
    let mut dsse = good()?;
    dsse.media_type = "application/vnd.dsse.envelope.v1+json".into();
    // The signature of one payload under another.
    let swapped = with(good()?, &signer.sign(&payload(&other))?.annotations[SIGNATURE]);
    let attestation = json!({"critical": {"image": {"docker-manifest-digest": digest}, "type": "atomic container signature"}});
    for (layers, words) in [
        (vec![stranger.sign(&payload(&digest))?], "another key"),
        (vec![signer.sign(&payload(&other))?], "another image"),
        (vec![swapped], "another key"),
        (vec![signer.sign(&json!({"critical": 1}))?], "something else"),
        (vec![signer.sign(&attestation)?], "atomic container signature"),
        (vec![with(good()?, "bm90IGEgc2lnbmF0dXJl")], "not ECDSA"),
        (vec![unsigned], "without a signature"),
        (vec![rekor], "Rekor"),
        (vec![dsse], "dsse.envelope"),
        (vec![], "holds no signature"),
    ] {
        registry.push_signatures("fw", &digest, layers).await?;
        refused(&signed(&registry, "fw:1", &signer), SignatureInvalid, words).await;
    }
    let layer = flashjob_sim::flashjob::registry::image::digest(&image.layers[0].bytes);
    let requests = registry.requests()?;
    assert!(!requests.iter().any(|request| request.contains(&layer)), "{requests:?}");

    // One good signature among others is enough: keys are rotated by signing twice.
    let both = vec![stranger.sign(&payload(&digest))?, good()?];
    registry.push_signatures("fw", &digest, both).await?;
    assert_eq!(pull(&signed(&registry, "fw:1", &signer)).await?.0, b"signed");
    Ok(())
}

#[tokio::test]
async fn a_signature_among_the_referrers_is_refused_by_its_name() -> Result<()> {
    let registry = Registry::start().await?;
    let signer = Signer::generate()?;
    let digest = registry.push("fw", "1", &Image::of_firmware(b"signed")?).await?;
    let artifact = registry.push("fw", "", &Image::of_firmware(b"a bundle")?).await?;
    let bundle = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let media_type = "application/vnd.oci.image.index.v1+json";
    let size = std::fs::metadata(registry.blob_file(&artifact))?.len();
    let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": artifact, "size": size,
        "artifactType": bundle,
    }]});
    registry.push_manifest("fw", &digest.replace(':', "-"), media_type, &index).await?;
    refused(&signed(&registry, "fw:1", &signer), SignatureInvalid, bundle).await;
    Ok(())
}

#[tokio::test]
async fn keys_of_other_kinds_are_refused_by_name_before_anything_is_asked() -> Result<()> {
    let registry = Registry::start().await?;
    let rsa = "-----BEGIN PUBLIC KEY-----\n\
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEApPDYYcUntOjPTBpVSkAT\n\
        g8uqZ538XWMXYSgJFPRmVNSwlTU7uNqG5Qj9X8PHRir3Hsj4phZRy9qCs7RQVYxm\n\
        T7vDiYuqSFGelf31Hy27YmvfCrqEcQpd7sm3SswNLBcfkK9D+aXLgbm/WE0yjBUi\n\
        iPNZHrOywZTa00kAiqcdjghncMuymWxnvYmLbqAW1OPyG1AQa7Q925N2kEheW5Gc\n\
        C5WlRPIeI34NdWYequuwnfqqHUr90oCe7yCEn0Ic8hu0vZ2DbtcZklw4MPcsXfoa\n\
        c02/4uFEt82S0ENeAhnkLBFeLQ7ALni4VbmCU+MW4xsiyhZnLRuT+ce9hD7kkBjg\n\
        hQIDAQAB\n\
        -----END PUBLIC KEY-----";
    let public = |args: &[&str]| openssl(&["pkey", "-pubout"], &openssl(args, "")?);
    let p384 = public(&["ecparam", "-genkey", "-noout", "-name", "secp384r1"])?;
    let ed25519 = public(&["genpkey", "-algorithm", "ED25519"])?;
    let private = PrivateKey::generate()?.pem();
    for (pem, words) in [
        (p384.as_str(), "another curve"),
        (&ed25519, "Ed25519"),
        (&private, "a private key"),
        (rsa, "an RSA key"),
        ("", "not a public key"),
    ] {
        let mut source = source(&registry, "fw:1");
        source.public_key = Some(pem.to_owned());
        refused(&source, SignatureInvalid, words).await;
    }
    assert!(registry.requests()?.is_empty());
    Ok(())
}
