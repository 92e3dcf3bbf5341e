use flashjob_pki::{CertifiedKey, Chain, Error, KeyPurpose, PrivateKey, Profile};
use jiff::Timestamp;

use super::{ca, days, file, leaf, now, openssl, openssl_verify};

fn text(pem: &str) -> String {
    openssl(&["x509", "-noout", "-text"], pem)
}

#[test]
fn openssl_takes_what_a_ca_signs_and_reads_what_the_profile_says() {
    let ca = ca("a CA");
    let profile = Profile {
        organization: Some("site".to_owned()),
        organizational_unit: Some("a".to_owned()),
        names: ["host.example", "192.0.2.1"].map(str::to_owned).to_vec(),
        purposes: vec![KeyPurpose::ServerAuth],
        ..leaf("host")
    };
    let key = PrivateKey::generate().unwrap();
    let made = ca.sign(&key.public(), &profile).unwrap();
    openssl_verify(&ca.leaf().pem(), "", &made.pem(), "sslserver").unwrap();
    openssl_verify(&ca.leaf().pem(), "", &made.pem(), "sslclient").unwrap_err();
    let said = text(&made.pem());
    for wanted in [
        "Version: 3",
        "Issuer: CN = a CA",
        "Subject: O = site, OU = a, CN = host",
        "Not Before: Nov 15 12:00:00 2026 GMT",
        "Not After : Dec 15 12:00:00 2026 GMT",
        "DNS:host.example, IP Address:192.0.2.1",
        "CA:FALSE",
        "TLS Web Server Authentication",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let anchor = text(&ca.leaf().pem());
    assert!(anchor.contains("CA:TRUE") && anchor.contains("Certificate Sign"), "{anchor}");

    // And so does this crate.
    assert_eq!((made.not_before(), made.not_after()), (now(), days(30)));
    assert_eq!(made.common_names(), ["host"]);
    assert_eq!(made.dns_names().unwrap(), ["host.example"]);
    assert_eq!(ca.leaf().dns_names(), None);
    assert_eq!(made.names(), ["host.example", "192.0.2.1"]);
    assert_eq!(ca.leaf().names(), Vec::<String>::new());
    assert_eq!(made.organizational_units(), ["a"]);
    assert!(!made.is_ca() && ca.leaf().is_ca() && !made.is_rsa());
    let both = CertifiedKey::new(Chain::new(made, [ca.leaf().clone()]), key).unwrap();
    let pem = both.chain().pem();
    let again = CertifiedKey::from_pem(pem.as_bytes(), both.key().pem().as_bytes()).unwrap();
    assert_eq!(again.chain(), both.chain());
}

#[test]
fn every_certificate_has_a_serial_number_of_its_own_also_for_the_same_key() {
    let (ca, key) = (ca("a CA"), PrivateKey::generate().unwrap().public());
    let serials = [(); 64].map(|()| ca.sign(&key, &leaf("x")).unwrap().serial_number().to_vec());
    for (at, serial) in serials.iter().enumerate() {
        assert!(serial.len() == 16 && serial[0] < 0x80, "{serial:?}");
        assert!(!serials[..at].contains(serial));
    }
}

#[test]
fn a_chain_is_good_for_its_purpose_in_its_time_and_with_its_own_ca() {
    use KeyPurpose::{ClientAuth, ServerAuth};
    let (own, other) = (ca("one name"), ca("one name"));
    let key = PrivateKey::generate().unwrap().public();
    let chain = |purposes: &[KeyPurpose]| {
        let profile = Profile { purposes: purposes.to_vec(), ..leaf("x") };
        Chain::new(own.sign(&key, &profile).unwrap(), [])
    };
    let anchors = [own.leaf().clone()];
    for (purposes, server, client) in [
        (&[ServerAuth][..], true, false),
        (&[ClientAuth], false, true),
        (&[ServerAuth, ClientAuth], true, true),
        (&[], true, true),
    ] {
        let good = |purpose| chain(purposes).verify(&anchors, purpose, now()).is_ok();
        assert_eq!((good(ServerAuth), good(ClientAuth)), (server, client), "{purposes:?}");
    }
    for purpose in [ServerAuth, ClientAuth] {
        let at = |at| chain(&[purpose]).verify(&anchors, purpose, at).is_ok();
        assert!(at(now()) && at(days(30)), "{purpose:?}");
        assert!(!at(days(-1)) && !at(days(31)) && !at(Timestamp::MIN), "{purpose:?}");
        let stranger = [other.leaf().clone()];
        let refused = chain(&[purpose]).verify(&stranger, purpose, now());
        assert!(matches!(refused, Err(Error::Untrusted(_))), "{refused:?}");
        assert!(chain(&[purpose]).verify(&[], purpose, now()).is_err());
    }
}

#[test]
fn only_a_ca_signs() {
    let ca = ca("a CA");
    let key = PrivateKey::generate().unwrap();
    let made = ca.sign(&key.public(), &leaf("x")).unwrap();
    let no_ca = CertifiedKey::new(Chain::new(made, []), key).unwrap();
    let refused = no_ca.sign(&ca.key().public(), &leaf("y"));
    assert!(matches!(refused, Err(Error::NotCa)), "{refused:?}");
}

/// RSA and P-384, in the forms that older programs have written.
#[test]
fn cas_of_openssl_sign() {
    for (kind, option) in [("rsa:2048", "-sha256"), ("ec:secp384r1", "-sha384")] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (key, crt) = (path("ca.key"), path("ca.crt"));
        let (algorithm, curve) = kind.split_once(':').unwrap();
        let curve = format!("ec_paramgen_curve:{curve}");
        let new = if algorithm == "ec" { ["ec", "-pkeyopt", &curve].to_vec() } else { vec![kind] };
        // A country is a PrintableString, an e-mail address an IA5String.
        let subject = "/C=GR/O=R&D/CN=Τ/emailAddress=a@b.example";
        let usage = ["-addext", "keyUsage=critical,keyCertSign"];
        let more = ["-nodes", option, "-utf8", "-keyout", &key, "-out", &crt, "-subj", subject];
        openssl(
            &[&["req", "-x509", "-days", "36500", "-newkey"], &new[..], &more, &usage].concat(),
            "",
        );
        let old = if algorithm == "ec" { &["ec"][..] } else { &["rsa", "-traditional"] };
        let key = openssl(old, &std::fs::read_to_string(&key).unwrap());
        let crt = std::fs::read_to_string(&crt).unwrap();

        let ca = CertifiedKey::from_pem(crt.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(ca.leaf().is_rsa(), algorithm == "rsa");
        let key = PrivateKey::generate().unwrap().public();
        let profile = Profile::leaf("x", Timestamp::UNIX_EPOCH, days(365_000));
        let made = ca.sign(&key, &profile).unwrap();
        let crt = file(&crt);
        let args = ["verify", "-x509_strict", "-CAfile", crt.path().to_str().unwrap()];
        openssl(&args, &made.pem());
    }
}

#[test]
fn a_name_that_cannot_be_repeated_is_refused_and_not_signed_wrongly() {
    let key = PrivateKey::generate().unwrap();
    let path = file(&key.pem());
    let path = path.path().to_str().unwrap();
    let crt = openssl(&["req", "-x509", "-key", path, "-subj", "/OU=a/OU=b/CN=x"], "");
    let ca = CertifiedKey::from_pem(crt.as_bytes(), key.pem().as_bytes()).unwrap();
    let refused = ca.sign(&key.public(), &leaf("x"));
    assert!(matches!(refused, Err(Error::IssuerName)), "{refused:?}");
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let (one, other) = (ca("x"), ca("x"));
    let read = |chain: &str, key: &str| {
        let error = CertifiedKey::from_pem(chain.as_bytes(), key.as_bytes()).unwrap_err();
        format!("{error:?}")
    };
    let (crt, key) = (one.chain().pem(), one.key().pem());
    assert_eq!(read(&crt, &other.key().pem()), "KeyMismatch");
    assert_eq!(read(&key, &key), "NoCertificate");
    assert_eq!(read(&crt, &crt), "NoKey");
    let spoilt = crt.replacen("-----\nM", "-----\nA", 1);
    assert_eq!(read(&format!("{crt}{spoilt}"), &key), "UnreadableCertificate(2)");
    assert_eq!(read(&key.replacen("KEY-----", "KEY----", 1), &key), "CertificateNotPem");
    // In one file with its key, as some programs want it.
    let both = format!("{key}{crt}");
    let pair = CertifiedKey::from_pem(both.as_bytes(), both.as_bytes()).unwrap();
    assert_eq!(pair.chain().pem(), crt);
}

#[test]
fn no_time_before_1970_is_written_wrongly() {
    let profile = Profile::ca("x", Timestamp::from_second(-1).unwrap(), now());
    let refused = CertifiedKey::self_signed(PrivateKey::generate().unwrap(), &profile);
    assert!(matches!(refused, Err(Error::Before1970)), "{refused:?}");
    let profile = Profile::ca("x", now(), Timestamp::MAX);
    let made = CertifiedKey::self_signed(PrivateKey::generate().unwrap(), &profile).unwrap();
    assert_eq!(made.leaf().not_after().as_second(), Timestamp::MAX.as_second());
}

#[test]
fn a_ca_without_a_common_name_signs_as_flottas_does() {
    let organization = Some("flotta-operator".to_owned());
    let profile = Profile { common_name: None, organization, ..Profile::ca("", now(), days(3650)) };
    let ca = CertifiedKey::self_signed(PrivateKey::generate().unwrap(), &profile).unwrap();
    assert!(text(&ca.leaf().pem()).contains("Subject: O = flotta-operator\n"));
    let purposes = vec![KeyPurpose::ClientAuth, KeyPurpose::ServerAuth];
    let profile = Profile { purposes, ..leaf("device") };
    let made = ca.sign(&PrivateKey::generate().unwrap().public(), &profile).unwrap();
    for purpose in ["sslserver", "sslclient"] {
        openssl_verify(&ca.leaf().pem(), "", &made.pem(), purpose).unwrap();
    }
}

/// What expires can be told from what is foreign by asking for a time of its own.
#[test]
fn an_expired_leaf_is_good_inside_its_own_time() {
    let (own, other) = (ca("x"), ca("x"));
    let key = PrivateKey::generate().unwrap().public();
    let made = own.sign(&key, &Profile::leaf("x", days(-60), days(-30))).unwrap();
    let at = made.not_before();
    let alone = Chain::new(made, []);
    let asked =
        |ca: &CertifiedKey, at| alone.verify(&[ca.leaf().clone()], KeyPurpose::ClientAuth, at);
    assert!(asked(&own, now()).is_err() && asked(&own, at).is_ok() && asked(&other, at).is_err());
}

#[test]
fn fingerprints_are_those_of_openssl() {
    let (ca, dir) = (ca("x"), tempfile::tempdir().unwrap());
    let (public, der) = (ca.key().public(), dir.path().join("key.der"));
    let path = der.to_str().unwrap();
    openssl(&["pkey", "-pubin", "-outform", "DER", "-out", path], &public.pem());
    let said = openssl(&["dgst", "-sha256", "-r", path], "");
    assert_eq!(said.split(' ').next(), Some(public.fingerprint().as_str()));
    assert_eq!(ca.leaf().key_fingerprint(), public.fingerprint());
}

#[test]
fn organizational_units_are_read_in_their_order() {
    let key = file(&PrivateKey::generate().unwrap().pem());
    let path = key.path().to_str().unwrap();
    let crt = openssl(&["req", "-x509", "-key", path, "-subj", "/OU=a/OU=b/CN=x"], "");
    let chain = Chain::from_pem(crt.as_bytes()).unwrap();
    assert_eq!(chain.leaf().organizational_units(), ["a", "b"]);
}
