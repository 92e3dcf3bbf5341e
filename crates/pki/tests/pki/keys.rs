use flashjob_pki::{Error, PrivateKey};

use super::{EC, P256, P384, P521, openssl};

const RSA: [&str; 5] = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];

fn ec(curve: &str) -> String {
    openssl(&[&EC[..], &["-pkeyopt", curve]].concat(), "")
}

#[test]
fn every_form_of_openssl_is_read_written_again_and_turned_into_pkcs8() {
    let [p256, p384, rsa] = [ec(P256), ec(P384), openssl(&RSA, "")];
    let ed25519 = openssl(&["genpkey", "-algorithm", "ED25519"], "");
    let [old256, old384] = [&p256, &p384].map(|key| openssl(&["ec"], key));
    let old_rsa = openssl(&["rsa", "-traditional"], &rsa);
    for (pem, label) in [
        (&p256, "-----BEGIN PRIVATE KEY-----"),
        (&p384, "-----BEGIN PRIVATE KEY-----"),
        (&rsa, "-----BEGIN PRIVATE KEY-----"),
        (&ed25519, "-----BEGIN PRIVATE KEY-----"),
        (&old256, "-----BEGIN EC PRIVATE KEY-----"),
        (&old384, "-----BEGIN EC PRIVATE KEY-----"),
        (&old_rsa, "-----BEGIN RSA PRIVATE KEY-----"),
    ] {
        assert!(pem.starts_with(label), "openssl wrote another form than {label}");
        let key = PrivateKey::from_pem(pem.as_bytes()).unwrap_or_else(|e| panic!("{label}: {e}"));
        assert_eq!(&key.pem(), pem, "{label}");
        assert_eq!(key.public().pem(), openssl(&["pkey", "-pubout"], pem), "{label}");

        let pkcs8 = key.pkcs8_pem();
        assert!(pkcs8.starts_with("-----BEGIN PRIVATE KEY-----"), "{label}");
        assert_eq!(openssl(&["pkey", "-pubout"], &pkcs8), key.public().pem(), "{label}");
        let again = PrivateKey::from_pem(pkcs8.as_bytes()).unwrap();
        assert_eq!(again.public(), key.public(), "{label}");
    }
}

/// `openssl ecparam -genkey` writes two blocks.
#[test]
fn a_key_is_found_behind_other_blocks() {
    let pem = openssl(&["ecparam", "-genkey", "-name", "prime256v1"], "");
    assert!(pem.starts_with("-----BEGIN EC PARAMETERS-----"));
    assert!(PrivateKey::from_pem(pem.as_bytes()).is_ok());
}

#[test]
fn a_new_key_is_p256_and_another_each_time() {
    let [one, other] = [(); 2].map(|()| PrivateKey::generate().unwrap());
    assert_ne!(one.public(), other.public());
    assert!(openssl(&["pkey", "-noout", "-text"], &one.pem()).contains("prime256v1"));
    assert_eq!(one.pem(), one.pkcs8_pem());
}

#[test]
fn what_cannot_be_used_is_refused_without_a_word_of_it() {
    let good = PrivateKey::generate().unwrap().pem();
    let p521 = ec(P521);
    let old521 = openssl(&["ec"], &p521);
    let small = openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"], "");
    let locked = openssl(&["pkcs8", "-topk8", "-passout", "pass:x"], &good);
    let cut = good.replace("-----END PRIVATE KEY-----", "");
    let public = openssl(&["pkey", "-pubout"], &good);
    for (pem, wanted) in [
        (&p521, Error::UnsupportedKey),
        (&old521, Error::UnsupportedKey),
        (&small, Error::UnsupportedKey),
        (&locked, Error::EncryptedKey),
        (&cut, Error::NoKey),
        (&public, Error::NoKey),
        (&String::new(), Error::NoKey),
    ] {
        let error = PrivateKey::from_pem(pem.as_bytes()).unwrap_err();
        assert_eq!(format!("{error:?}"), format!("{wanted:?}"));
        let secret = pem.lines().nth(1).unwrap_or("-");
        assert!(!error.to_string().contains(secret), "{error}");
    }
}

#[test]
fn a_key_is_not_printed() {
    let key = PrivateKey::generate().unwrap();
    assert_eq!(format!("{key:?}"), "PrivateKey");
}
