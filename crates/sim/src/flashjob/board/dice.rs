//! Who a board is: its DICE certificates, derived from its MAC address as the firmware does it (open-dice, P-256).
//!
//! The root certificate is what an owner enrols with the attestation service; the attestation certificate is what the
//! board shows on `/onboard` and in an update. Both are the same bytes at every boot, since even the signatures are
//! deterministic. Only boards without secure boot are played: their code and configuration hashes are zero. That
//! anyone who knows the MAC address can make these certificates is so in the original too.

mod der;
mod keys;

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result};
use serde::Serialize;
use sha2::{Digest, Sha512};

use self::der::{bits, extension, integer, oid, sequence, tag, tlv};
use self::keys::{KEY_SALT, KeyPair, kdf};
use crate::text::{hex, pem};

/// A board's MAC address, from which all else follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The `n`th board of a fleet, with a prefix Espressif sells under.
    pub fn nth(n: u16) -> Self {
        let [high, low] = n.to_be_bytes();
        Self([0x24, 0x0a, 0xc4, 0x00, high, low])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes: Option<Vec<u8>> =
            text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        bytes.map(Self).with_context(|| format!("{text:?} is no MAC address"))
    }
}

impl Serialize for MacAddress {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// What a layer was measured as. All zero without secure boot.
const NO_HASH: [u8; 64] = [0; 64];
/// The mode of a root certificate: nothing was measured.
const NOT_CONFIGURED: u8 = 0;
/// The mode of an attestation certificate.
const NORMAL: u8 = 1;

const EC_PUBLIC_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const PRIME256V1: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ECDSA_WITH_SHA512: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04];
const SERIAL_NUMBER: [u8; 3] = [0x55, 0x04, 0x05];
const AUTHORITY_KEY_ID: [u8; 3] = [0x55, 0x1d, 0x23];
const SUBJECT_KEY_ID: [u8; 3] = [0x55, 0x1d, 0x0e];
const KEY_USAGE: [u8; 3] = [0x55, 0x1d, 0x0f];
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 0x13];
/// 1.3.6.1.4.1.11129.2.1.24
const DICE_INPUTS: [u8; 10] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0xd6, 0x79, 0x02, 0x01, 0x18];
/// The profile's name in open-dice, an example that stayed.
const PROFILE: &str = "openssl.example.p256";

/// A board's certificates.
#[derive(Debug, Clone)]
pub struct Identity {
    root: Vec<u8>,
    attestation: Vec<u8>,
    root_id: [u8; 20],
    attestation_id: [u8; 20],
}

impl Identity {
    /// Derives the certificates of the board with this MAC address.
    pub fn of(mac: MacAddress) -> Result<Self> {
        let device_secret: [u8; 32] = kdf(&mac.0, &KEY_SALT, "UDS hkdf");
        let root_key = KeyPair::of(&device_secret);
        let inputs = [&NO_HASH[..], &NO_HASH, &NO_HASH, &[NORMAL], &NO_HASH].concat();
        let attestation_secret = kdf(&device_secret, &Sha512::digest(inputs), "CDI_Attest");
        let attestation_key = KeyPair::of(&attestation_secret);
        Ok(Self {
            root: certificate(&root_key, &root_key, NOT_CONFIGURED)?,
            attestation: certificate(&attestation_key, &root_key, NORMAL)?,
            root_id: root_key.id(),
            attestation_id: attestation_key.id(),
        })
    }

    /// The attestation certificate, as DER: what the board sends.
    pub fn attestation_der(&self) -> &[u8] {
        &self.attestation
    }

    /// The attestation certificate, as PEM: what the attestation service is asked with.
    pub fn attestation_pem(&self) -> String {
        pem("CERTIFICATE", &self.attestation)
    }

    /// The root certificate, as DER.
    pub fn root_der(&self) -> &[u8] {
        &self.root
    }

    /// The root certificate, as PEM: what is enrolled.
    pub fn root_pem(&self) -> String {
        pem("CERTIFICATE", &self.root)
    }

    /// The id of the root key: the issuer of the attestation certificate, and so what identifies the board.
    pub fn root_id(&self) -> String {
        hex(&self.root_id)
    }

    /// The id of the attestation key: the subject of the attestation certificate.
    pub fn attestation_id(&self) -> String {
        hex(&self.attestation_id)
    }
}

/// A certificate in the order and encoding mbedTLS writes it.
fn certificate(subject: &KeyPair, issuer: &KeyPair, mode: u8) -> Result<Vec<u8>> {
    let (subject_id, issuer_id) = (subject.id(), issuer.id());
    let algorithm = sequence(&[oid(&ECDSA_WITH_SHA512)]);
    let validity = sequence(&[
        tlv(tag::UTC_TIME, b"180322235959Z"),
        tlv(tag::GENERALIZED_TIME, b"99991231235959Z"),
    ]);
    let key =
        sequence(&[sequence(&[oid(&EC_PUBLIC_KEY), oid(&PRIME256V1)]), bits(&subject.public())]);
    let extensions = sequence(&[
        extension(&AUTHORITY_KEY_ID, false, &sequence(&[tlv(tag::implicit(0), &issuer_id)])),
        extension(&SUBJECT_KEY_ID, false, &tlv(tag::OCTET_STRING, &subject_id)),
        // keyCertSign: bit 5, so two bits of the byte are not used.
        extension(&KEY_USAGE, true, &tlv(tag::BIT_STRING, &[0x02, 0x04])),
        extension(&BASIC_CONSTRAINTS, false, &sequence(&[tlv(tag::BOOLEAN, &[0xff])])),
        extension(&DICE_INPUTS, true, &dice_inputs(mode)),
    ]);
    let body = sequence(&[
        tlv(tag::explicit(0), &integer(&[2])),
        integer(&subject_id),
        algorithm.clone(),
        name(&issuer_id),
        validity,
        name(&subject_id),
        key,
        tlv(tag::explicit(3), &extensions),
    ]);
    let signature = issuer.sign(&body)?;
    Ok(sequence(&[body, algorithm, bits(&signature)]))
}

fn dice_inputs(mode: u8) -> Vec<u8> {
    let hash = tlv(tag::OCTET_STRING, &NO_HASH);
    sequence(&[
        tlv(tag::explicit(0), &hash),
        tlv(tag::explicit(3), &hash),
        tlv(tag::explicit(4), &hash),
        tlv(tag::explicit(6), &tlv(tag::ENUMERATED, &[mode])),
        tlv(tag::explicit(7), &tlv(tag::UTF8_STRING, PROFILE.as_bytes())),
    ])
}

fn name(id: &[u8; 20]) -> Vec<u8> {
    let value = tlv(tag::PRINTABLE_STRING, hex(id).as_bytes());
    let attribute = sequence(&[oid(&SERIAL_NUMBER), value]);
    sequence(&[tlv(tag::SET, &attribute)])
}
