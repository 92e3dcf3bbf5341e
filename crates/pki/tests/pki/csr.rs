use flashjob_pki::{Chain, Error, KeyPurpose, PrivateKey, Profile, csr};

use super::{EC, P256, P384, P521, ca, days, file, leaf, openssl, openssl_verify};

/// A key of openssl and a CSR for it, of a subject that nobody should get.
fn asked(key: &[&str], more: &[&str]) -> (String, String) {
    let key = openssl(key, "");
    let path = file(&key);
    let path = path.path().to_str().unwrap();
    let args = ["req", "-new", "-subj", "/O=mine/CN=somebody else", "-key", path];
    (openssl(&[&args, more].concat(), ""), openssl(&["pkey", "-pubout"], &key))
}

fn ec(curve: &'static str) -> [&'static str; 5] {
    [EC[0], EC[1], EC[2], "-pkeyopt", curve]
}

const RSA: [&str; 5] = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];

#[test]
fn of_a_csr_its_key_is_taken_and_nothing_else() {
    let ca = ca("a CA");
    let requested =
        ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "tlsfeature=status_request"];
    let ed25519 = ["genpkey", "-algorithm", "ED25519"];
    for (key, more) in [
        (&ec(P256)[..], &[][..]),
        (&ec(P256), &["-sha384"]),
        (&ec(P384), &["-sha384"]),
        // The hash does not tell the curve.
        (&ec(P384), &["-sha256"]),
        (&RSA, &["-sha256"]),
        (&RSA, &["-sha512"]),
        (&ed25519, &[]),
        (&ec(P256), &requested),
    ] {
        let (request, public) = asked(key, more);
        let read =
            csr::read(request.as_bytes()).unwrap_or_else(|e| panic!("{key:?} {more:?}: {e}"));
        assert_eq!(read.pem(), public, "{key:?} {more:?}");
        let profile = Profile {
            organizational_unit: Some("default".to_owned()),
            purposes: vec![KeyPurpose::ClientAuth],
            ..leaf("device-1")
        };
        let made = ca.sign(&read, &profile).unwrap();
        assert_eq!(
            openssl(&["x509", "-noout", "-pubkey"], &made.pem()),
            public,
            "{key:?} {more:?}"
        );
        openssl_verify(&ca.leaf().pem(), "", &made.pem(), "sslclient").unwrap();
        let said = openssl(&["x509", "-noout", "-text"], &made.pem());
        assert!(said.contains("Subject: OU = default, CN = device-1\n"), "{said}");
        assert!(said.contains("CA:FALSE") && !said.contains("status_request"), "{said}");
        let chain = Chain::new(made, []);
        chain.verify(&[ca.leaf().clone()], KeyPurpose::ClientAuth, days(1)).unwrap();
    }
}

#[test]
fn openssl_takes_our_csr_and_so_do_we() {
    let key = PrivateKey::generate().unwrap();
    let request = csr::create(&key, "device-1").unwrap();
    let said = openssl(&["req", "-noout", "-verify", "-subject"], &request);
    assert!(said.contains("CN = device-1"), "{said}");
    assert_eq!(csr::read(request.as_bytes()).unwrap(), key.public());
}

/// The bytes of a PEM block, changed.
fn changed(pem: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut block = pem::parse(pem).unwrap().into_contents();
    change(&mut block);
    pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", block))
}

#[test]
fn a_csr_that_its_key_has_not_signed_is_refused() {
    let key = PrivateKey::generate().unwrap();
    let own = csr::create(&key, "device-1").unwrap();
    let refused = |request: &str| format!("{:?}", csr::read(request.as_bytes()).unwrap_err());
    // Somebody else's key, under a signature that was good for another.
    let other = PrivateKey::generate().unwrap().public().spki_der();
    let mine = key.public().spki_der();
    let stolen = changed(&own, |der| {
        let at = der.windows(mine.len()).position(|part| part == mine).unwrap();
        der[at..at + mine.len()].copy_from_slice(&other);
    });
    assert_eq!(refused(&stolen), "CsrSignature");
    // Another name.
    let renamed = changed(&own, |der| {
        let at = der.windows(8).position(|part| part == b"device-1").unwrap();
        der[at + 7] = b'2';
    });
    assert_eq!(refused(&renamed), "CsrSignature");
    // A hash that is not to be trusted any more.
    let (weak, _) = asked(&ec(P256), &["-sha1"]);
    assert_eq!(refused(&weak), "CsrSignature");
}

#[test]
fn what_is_no_csr_for_a_key_we_can_use_is_refused() {
    let refused = |text: &str| format!("{:?}", csr::read(text.as_bytes()).unwrap_err());
    assert_eq!(refused(&asked(&ec(P521), &[]).0), "UnsupportedKey");
    let small = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"];
    assert_eq!(refused(&asked(&small, &[]).0), "CsrSignature");
    for text in ["", "nothing", &ca("x").leaf().pem(), &PrivateKey::generate().unwrap().pem()] {
        assert_eq!(refused(text), "UnreadableCsr");
    }
    let good = csr::create(&PrivateKey::generate().unwrap(), "x").unwrap();
    assert_eq!(refused(&changed(&good, |der| der.push(0))), "UnreadableCsr");
}

/// What a device sends may be anything. Each byte of a CSR is part of what was signed, or of the signature.
#[test]
fn no_byte_can_be_changed_or_missing() {
    let good = csr::create(&PrivateKey::generate().unwrap(), "device-1").unwrap();
    let length = pem::parse(&good).unwrap().contents().len();
    for at in 0..length {
        for change in [1, 0x80, 0xff] {
            let text = changed(&good, |der| der[at] ^= change);
            let read = csr::read(text.as_bytes());
            assert!(
                matches!(
                    read,
                    Err(Error::UnreadableCsr | Error::CsrSignature | Error::UnsupportedKey)
                ),
                "{at}: {read:?}"
            );
        }
        assert!(csr::read(changed(&good, |der| der.truncate(at)).as_bytes()).is_err(), "{at}");
    }
}
