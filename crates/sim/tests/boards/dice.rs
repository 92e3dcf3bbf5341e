//! Certificates against vectors of an independent derivation, and against openssl.

use std::fs;

use anyhow::Result;
use flashjob_sim::flashjob::board::{Identity, MacAddress};
use flashjob_sim::flashjob::server_cert::openssl;
use tempfile::TempDir;

/// MAC address, id of the root, id of the attestation key, lengths, and both certificates as PEM. The last two have ids
/// that begin with a zero byte, which is shorter as a serial number.
const VECTORS: [(&str, &str, &str, usize, usize, &str); 4] = [
    (
        "00:11:22:33:44:55",
        "47407dff07c4c6eb0befc7ba103cf72cb1ef573e",
        "6669b3fe9d96133ee70b30f3cea3ebc95dfdf3fb",
        722,
        724,
        include_str!("vectors/001122334455.pem"),
    ),
    (
        "ff:ff:ff:ff:ff:ff",
        "2153c77bd8ad53d36f046e7fa7bce8e7545ddeb8",
        "30e1c452eb5865a5e9b2390c4c5a593ed88349bc",
        723,
        723,
        include_str!("vectors/ffffffffffff.pem"),
    ),
    (
        "24:0a:c4:00:00:00",
        "7ca2bbc419808577b75604fbb29b42bbf8b463de",
        "006d453aa03b53651739f544e965cedc52b38c43",
        723,
        721,
        include_str!("vectors/240ac4000000.pem"),
    ),
    (
        "24:0a:c4:00:00:06",
        "00981a68a2585d57e184fc84313e09755cbd07a7",
        "0b66ae45a484bf6a7c4bd05e15b5bfe58efda5c5",
        724,
        723,
        include_str!("vectors/240ac4000006.pem"),
    ),
];

fn identities() -> Result<Vec<Identity>> {
    VECTORS.iter().map(|(mac, ..)| Identity::of(mac.parse()?)).collect()
}

#[test]
fn certificates_are_the_vectors_byte_for_byte() -> Result<()> {
    for (identity, vector) in identities()?.iter().zip(VECTORS) {
        let (mac, root_id, attestation_id, root_length, attestation_length, pem) = vector;
        assert_eq!(identity.root_id(), root_id, "{mac}");
        assert_eq!(identity.attestation_id(), attestation_id, "{mac}");
        assert_eq!(identity.root_der().len(), root_length, "{mac}");
        assert_eq!(identity.attestation_der().len(), attestation_length, "{mac}");
        assert_eq!(identity.root_pem() + &identity.attestation_pem(), pem, "{mac}");
    }
    Ok(())
}

/// Whether openssl finds the certificate signed by the root.
fn verifies(root: &str, certificate: &str) -> Result<bool> {
    let folder = TempDir::new()?;
    let file = folder.path().join("root.pem");
    fs::write(&file, root)?;
    let file = file.to_string_lossy();
    // Without this, openssl would stop at the DICE extension, which is critical.
    let verified = openssl(&["verify", "-ignore_critical", "-CAfile", &file], certificate);
    if let Err(error) = &verified {
        let text = error.to_string();
        assert!(text.contains("error"), "openssl did not even look: {text}");
    }
    Ok(verified.is_ok())
}

#[test]
fn openssl_verifies_each_under_its_own_root_only() -> Result<()> {
    let all = identities()?;
    for (i, identity) in all.iter().enumerate() {
        assert!(verifies(&identity.root_pem(), &identity.root_pem())?);
        for (j, other) in all.iter().enumerate() {
            assert_eq!(
                verifies(&other.root_pem(), &identity.attestation_pem())?,
                i == j,
                "{i} {j}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_mac_address_is_read_as_it_is_written() -> Result<()> {
    let mac: MacAddress = "24:0A:c4:00:00:06".parse()?;
    assert_eq!(mac, MacAddress::nth(6));
    assert_eq!(mac.to_string(), "24:0a:c4:00:00:06");
    for wrong in ["", "24:0a:c4:00:00", "24:0a:c4:00:00:06:07", "24:0a:c4:00:00:xx"] {
        assert!(wrong.parse::<MacAddress>().is_err(), "{wrong}");
    }
    Ok(())
}
