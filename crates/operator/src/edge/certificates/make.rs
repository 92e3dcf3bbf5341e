//! Keys and certificates, made: what goes into a Secret.

use std::collections::BTreeMap;

use flashjob_pki::{Certificate, CertifiedKey, Error, KeyPurpose, PrivateKey, Profile, PublicKey};
use flashjob_plan::edge::certificates::{Life, ORGANIZATION, REGISTER};
use k8s_openapi::ByteString;
use rustls::crypto::ring;

use super::secret::Authority;

pub type Data = BTreeMap<String, ByteString>;

/// A new CA.
pub fn authority(life: Life) -> Result<Data, Error> {
    let pair = new_ca(life)?;
    Ok(data([("ca.crt", pair.chain().pem()), ("ca.key", pair.key().pem())]))
}

/// How many CAs back a device may be that knows its first one only, and still takes the server.
const MOST_CROSSES: usize = 4;

/// A new CA in the place of `old`. The two have different names, so that nobody takes one for the other.
pub fn successor(old: &Authority, life: Life, cross: Life) -> Result<Data, Error> {
    let new = new_ca(life)?;
    let cross = old.pair.sign(&new.key().public(), &ca_profile(&new.key().public(), cross))?;
    let crosses = std::iter::once(&cross).chain(&old.cross).take(MOST_CROSSES);
    Ok(data([
        ("ca.crt", new.chain().pem()),
        ("ca.key", new.key().pem()),
        ("previous.crt", old.pair.leaf().pem()),
        ("cross.crt", crosses.map(Certificate::pem).collect()),
    ]))
}

fn new_ca(life: Life) -> Result<CertifiedKey, Error> {
    let key = PrivateKey::generate()?;
    let profile = ca_profile(&key.public(), life);
    CertifiedKey::self_signed(key, &profile)
}

fn ca_profile(key: &PublicKey, life: Life) -> Profile {
    let name = format!("flotta-ca {}", &key.fingerprint()[..16]);
    Profile {
        organization: Some(ORGANIZATION.to_owned()),
        ..Profile::ca(&name, life.not_before, life.not_after)
    }
}

/// Flotta's agents ask for both purposes, whichever side a certificate is on.
fn leaf(common_name: &str, life: Life) -> Profile {
    Profile {
        organization: Some(ORGANIZATION.to_owned()),
        purposes: vec![KeyPurpose::ClientAuth, KeyPurpose::ServerAuth],
        ..Profile::leaf(common_name, life.not_before, life.not_after)
    }
}

pub fn server(authority: &Authority, life: Life, names: &[String]) -> Result<Data, Error> {
    let key = PrivateKey::generate()?;
    let profile = Profile { names: names.to_vec(), ..leaf("*", life) };
    let made = authority.pair.sign(&key.public(), &profile)?;
    Ok(data([("server.crt", made.pem()), ("server.key", key.pem())]))
}

pub fn registration(authority: &Authority, life: Life) -> Result<Data, Error> {
    let key = PrivateKey::generate()?;
    let made = authority.pair.sign(&key.public(), &leaf(REGISTER, life))?;
    Ok(data([("client.crt", made.pem()), ("client.key", key.pem())]))
}

/// A device's certificate. All but its key is ours.
pub fn device(
    authority: &Authority,
    key: &PublicKey,
    name: &str,
    namespace: &str,
    life: Life,
) -> Result<Certificate, Error> {
    let unit = Some(namespace.to_owned());
    authority.pair.sign(key, &Profile { organizational_unit: unit, ..leaf(name, life) })
}

/// Ten letters and digits.
pub fn random_name() -> Result<String, Error> {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut bytes = [0; 10];
    ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| Error::NoRandom)?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect())
}

fn data<const N: usize>(parts: [(&str, String); N]) -> Data {
    parts.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).into()
}
