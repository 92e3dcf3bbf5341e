//! Keys as open-dice makes them with mbedTLS: HKDF for secrets and names, HMAC_DRBG for P-256 keys, all over SHA-512.

use anyhow::{Context, Result};
use hmac::{Hmac, KeyInit, Mac};
use p256::elliptic_curve::PrimeField;
use p256::elliptic_curve::ops::{Invert, Reduce};
use p256::elliptic_curve::point::AffineCoordinates;
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{AffinePoint, FieldBytes, NonZeroScalar, ProjectivePoint, PublicKey, Scalar};
use sha2::{Digest, Sha512};

/// open-dice's salt for keys. Every device has the same.
pub(super) const KEY_SALT: [u8; 64] = [
    0x63, 0xB6, 0xA0, 0x4D, 0x2C, 0x07, 0x7F, 0xC1, 0x0F, 0x63, 0x9F, 0x21, 0xDA, 0x79, 0x38, 0x44,
    0x35, 0x6C, 0xC2, 0xB0, 0xB4, 0x41, 0xB3, 0xA7, 0x71, 0x24, 0x03, 0x5C, 0x03, 0xF8, 0xE1, 0xBE,
    0x60, 0x35, 0xD3, 0x1F, 0x28, 0x28, 0x21, 0xA7, 0x45, 0x0A, 0x02, 0x22, 0x2A, 0xB1, 0xB3, 0xCF,
    0xF1, 0x67, 0x9B, 0x05, 0xAB, 0x1C, 0xA5, 0xD1, 0xAF, 0xFB, 0x78, 0x9C, 0xCD, 0x2B, 0x0B, 0x3B,
];

/// open-dice's salt for the names of keys.
const ID_SALT: [u8; 64] = [
    0xDB, 0xDB, 0xAE, 0xBC, 0x80, 0x20, 0xDA, 0x9F, 0xF0, 0xDD, 0x5A, 0x24, 0xC8, 0x3A, 0xA5, 0xA5,
    0x42, 0x86, 0xDF, 0xC2, 0x63, 0x03, 0x1E, 0x32, 0x9B, 0x4D, 0xA1, 0x48, 0x43, 0x06, 0x59, 0xFE,
    0x62, 0xCD, 0xB5, 0xB7, 0xE1, 0xE0, 0x0F, 0xC6, 0x80, 0x30, 0x67, 0x11, 0xEB, 0x44, 0x4A, 0xF7,
    0x72, 0x09, 0x35, 0x94, 0x96, 0xFC, 0xFF, 0x1D, 0xB9, 0x52, 0x0B, 0xA5, 0x1C, 0x7B, 0x29, 0xEA,
];

/// HKDF. All that is asked for here fits into one block of SHA-512.
pub(super) fn kdf<const N: usize>(secret: &[u8], salt: &[u8], info: &str) -> [u8; N] {
    const { assert!(N <= 64) }
    let key = hmac(salt, &[secret]);
    let block = hmac(&key, &[info.as_bytes(), &[1]]);
    let mut out = [0; N];
    out.copy_from_slice(&block[..N]);
    out
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 64] {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("an HMAC key may have any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// HMAC_DRBG. The keys are its first draw from a seed; RFC 6979 is the same with another seed, and gives the nonces.
struct Drbg {
    key: [u8; 64],
    value: [u8; 64],
}

impl Drbg {
    fn new(seed: &[u8]) -> Self {
        let mut drbg = Self { key: [0; 64], value: [1; 64] };
        drbg.mix(0, seed);
        drbg.mix(1, seed);
        drbg
    }

    fn mix(&mut self, round: u8, data: &[u8]) {
        self.key = hmac(&self.key, &[&self.value, &[round], data]);
        self.value = hmac(&self.key, &[&self.value]);
    }

    fn draw(&mut self) -> [u8; 32] {
        self.value = hmac(&self.key, &[&self.value]);
        let mut out = [0; 32];
        out.copy_from_slice(&self.value[..32]);
        self.mix(0, &[]);
        out
    }
}

/// The first draw that is a number between 1 and the order of the curve.
fn first_scalar(seed: &[u8]) -> NonZeroScalar {
    let mut drbg = Drbg::new(seed);
    loop {
        if let Some(scalar) = NonZeroScalar::from_repr(drbg.draw().into()).into_option() {
            return scalar;
        }
    }
}

/// A P-256 key pair.
pub(super) struct KeyPair {
    secret: NonZeroScalar,
    public: PublicKey,
}

impl KeyPair {
    /// The pair that belongs to a secret.
    pub(super) fn of(secret: &[u8; 32]) -> Self {
        let seed: [u8; 32] = kdf(secret, &KEY_SALT, "Key Pair");
        let secret = first_scalar(&seed);
        Self { secret, public: PublicKey::from_secret_scalar(&secret) }
    }

    /// The public point, uncompressed.
    pub(super) fn public(&self) -> Vec<u8> {
        self.public.to_sec1_point(false).as_bytes().to_vec()
    }

    /// The name of the public key: what stands as serial number, issuer and subject.
    pub(super) fn id(&self) -> [u8; 20] {
        let point = self.public.to_sec1_point(true);
        let mut id: [u8; 20] = kdf(point.as_bytes(), &ID_SALT, "ID");
        // A serial number must not be negative.
        id[0] &= 0x7f;
        id
    }

    /// ECDSA over SHA-512, as DER. The nonce comes from SHA-512 too, which p256 by itself would not do; so the same
    /// message has the same signature here and on the device.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let hash = Sha512::digest(message);
        let mut left = FieldBytes::default();
        left.copy_from_slice(&hash[..32]);
        let z = Scalar::reduce(&left);
        let seed = [self.secret.to_repr().as_slice(), z.to_repr().as_slice()].concat();
        let nonce = first_scalar(&seed);
        let point: AffinePoint = (ProjectivePoint::GENERATOR * *nonce).to_affine();
        let r = Scalar::reduce(&point.x());
        let s = *nonce.invert() * (z + r * *self.secret);
        let signature = p256::ecdsa::Signature::from_scalars(r, s)
            .context("a nonce gave no signature, which happens once in 2^256 times")?;
        Ok(signature.to_der().as_bytes().to_vec())
    }
}
