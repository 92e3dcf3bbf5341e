use flashjob_sim::flashjob::server_cert::openssl;
use flashjob_sim::flashjob::{KeyKind, ServerCert};

use super::boards::{chains_to, has_ca, have_one_in_common};
use super::*;

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn own() -> CertifiedKey {
    make::pinned(now()).unwrap()
}

fn of(made: &ServerCert) -> Result<CertifiedKey, String> {
    boards::read(made.chain.as_bytes(), made.key.as_bytes())
}

/// What is said against it.
fn refused(certificate: &str, key: &str) -> String {
    boards::read(certificate.as_bytes(), key.as_bytes()).unwrap_err()
}

#[test]
fn a_leaf_is_signed_by_the_pinned_one_and_by_no_other() {
    let (pinned, other) = (own(), own());
    let leaf = make::leaf(&pinned, 30, now()).unwrap();
    assert!(chains_to(&leaf, &pinned));
    assert!(!chains_to(&leaf, &other), "both have the same name, and only one has signed");
    assert!(chains_to(&pinned, &pinned));
    assert!(!leaf.leaf().is_ca() && has_ca(&leaf) && pinned.leaf().is_ca());
    assert_eq!(day(leaf.leaf().not_after()), "2026-12-15");
    assert_eq!(day(pinned.leaf().not_after()), "2046-11-10");
}

#[test]
fn each_leaf_has_a_key_and_a_number_of_its_own() {
    let pinned = own();
    let [first, second] = [1, 1].map(|days| make::leaf(&pinned, days, now()).unwrap());
    assert_ne!(first.key().pem(), second.key().pem());
    assert_ne!(first.leaf().serial_number(), second.leaf().serial_number());
    assert_ne!(first.key().pem(), pinned.key().pem());
    assert!(have_one_in_common(&first, &second), "the pinned one");
}

#[test]
fn a_pinned_certificate_with_a_long_name_can_sign() {
    let dir = tempfile::tempdir().unwrap();
    let (key, crt) = (dir.path().join("pinned.key"), dir.path().join("pinned.crt"));
    // As the original's, whose country is a PrintableString.
    let subject =
        "/C=GR/ST=Evoia/L=Chalkida/O=NUBIS PC/OU=R&D/CN=ota-agent/emailAddress=a@b.example";
    let args = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", "9"];
    let (key, crt) = (key.to_str().unwrap(), crt.to_str().unwrap());
    let more = ["-keyout", key, "-out", crt, "-subj", subject];
    openssl(&[args.as_slice(), more.as_slice()].concat(), "").unwrap();
    let pinned = read(Path::new(crt), Path::new(key)).unwrap();
    assert!(pinned.leaf().is_rsa());
    assert!(chains_to(&make::leaf(&pinned, 30, now()).unwrap(), &pinned));
}

#[test]
fn a_name_that_cannot_be_repeated_is_refused_and_not_signed_wrongly() {
    let dir = tempfile::tempdir().unwrap();
    let (key, crt) = (dir.path().join("pinned.key"), dir.path().join("pinned.crt"));
    let (key, crt) = (key.to_str().unwrap(), crt.to_str().unwrap());
    let args = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let more = ["-nodes", "-keyout", key, "-out", crt, "-subj", "/OU=a/OU=b/CN=ota-agent"];
    openssl(&[args.as_slice(), more.as_slice()].concat(), "").unwrap();
    let pinned = read(Path::new(crt), Path::new(key)).unwrap();
    let error = make::leaf(&pinned, 30, now()).err().unwrap().to_string();
    assert!(error.contains("import"), "{error}");
}

#[test]
fn keys_of_every_form_are_read_written_again_as_they_are_and_sign() {
    let rsa = ServerCert::self_signed(KeyKind::Rsa2048).unwrap();
    let ec = ServerCert::self_signed(KeyKind::P256).unwrap();
    let old_rsa = openssl(&["rsa", "-traditional"], &rsa.key).unwrap();
    let old_ec = openssl(&["ec"], &ec.key).unwrap();
    let forms = [(&rsa, &rsa.key), (&rsa, &old_rsa), (&ec, &ec.key), (&ec, &old_ec)];
    for (made, key) in forms {
        let label = key.lines().next().unwrap();
        let pair = boards::read(made.chain.as_bytes(), key.as_bytes())
            .unwrap_or_else(|why| panic!("{label}: {why}"));
        assert_eq!(pair.key().pem().trim(), key.trim(), "{label}");
        assert_eq!(pair.chain().pem().trim(), made.chain.replace('\r', "").trim());
        assert_eq!(is_for_boards(&pair), Ok(()));
        assert!(chains_to(&make::leaf(&pair, 30, now()).unwrap(), &pair), "{label}");
    }
}

#[test]
fn a_private_key_beside_the_certificate_does_not_get_into_the_chain() {
    let made = ServerCert::self_signed(KeyKind::P256).unwrap();
    let both = format!("{}{}", made.key, made.chain);
    let pair = boards::read(both.as_bytes(), both.as_bytes()).unwrap();
    assert!(!pair.chain().pem().contains("PRIVATE"));
}

#[test]
fn what_is_refused_is_refused_without_a_word_of_the_key() {
    let made = ServerCert::self_signed(KeyKind::P256).unwrap();
    let other = ServerCert::self_signed(KeyKind::P256).unwrap();
    let secret = |key: &str| key.lines().nth(1).unwrap().to_owned();
    let cut = made.key.replace("-----END PRIVATE KEY-----", "");
    let broken = made.key.replace("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY----");
    let locked = made.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let spoilt =
        made.chain.replacen("-----\nM", "-----\nA", 1).replacen("-----\r\nM", "-----\r\nA", 1);
    let cases = [
        (&made.chain, &other.key, "does not fit"),
        (&made.key, &made.key, "no certificate"),
        (&made.chain, &made.chain, "no private key"),
        (&made.chain, &cut, "no private key"),
        (&made.chain, &broken, "no private key"),
        (&made.chain, &locked, "encrypted"),
        (&spoilt, &made.key, "certificate 1 of the chain"),
        (&broken, &made.key, "not PEM"),
    ];
    for (certificate, key, wanted) in cases {
        let why = refused(certificate, key);
        assert!(why.contains(wanted), "{wanted}: {why}");
        assert!(!why.contains(&secret(&made.key)) && !why.contains(&secret(&other.key)), "{why}");
    }
}

#[test]
fn boards_ask_for_one_name() {
    let pinned = ServerCert::self_signed(KeyKind::P256).unwrap();
    let wrong = of(&pinned.signs("other.example", KeyKind::P256).unwrap()).unwrap();
    let why = is_for_boards(&wrong).unwrap_err();
    assert!(why.contains("other.example") && why.contains("ota-agent"), "{why}");

    let key = KeyPairPem::new();
    let with = |names: &str| {
        let names = format!("subjectAltName={names}");
        let args =
            ["req", "-x509", "-key", key.path(), "-subj", "/CN=ota-agent", "-addext", &names];
        let chain = openssl(&args, "").unwrap();
        is_for_boards(&boards::read(chain.as_bytes(), key.pem.as_bytes()).unwrap())
    };
    assert_eq!(with("DNS:x.example,DNS:ota-agent"), Ok(()));
    assert!(with("DNS:x.example").unwrap_err().contains("subjectAltName"));
}

#[test]
fn only_what_boards_take_for_a_ca_can_sign() {
    let key = KeyPairPem::new();
    let with = |more: &[&str]| {
        let mut args = vec!["req", "-x509", "-key", key.path(), "-subj", "/CN=ota-agent"];
        more.iter().for_each(|text| args.extend(["-addext", text]));
        let chain = openssl(&args, "").unwrap();
        boards::read(chain.as_bytes(), key.pem.as_bytes()).unwrap().leaf().is_ca()
    };
    assert!(with(&["basicConstraints=critical,CA:TRUE"]));
    assert!(with(&["basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign,digitalSignature"]));
    assert!(!with(&["basicConstraints=critical,CA:TRUE", "keyUsage=digitalSignature"]));
    assert!(!with(&["basicConstraints=critical,CA:FALSE"]));
}

/// A key in a file, for openssl.
struct KeyPairPem {
    pem: String,
    path: String,
    _dir: tempfile::TempDir,
}

impl KeyPairPem {
    fn new() -> KeyPairPem {
        let dir = tempfile::tempdir().unwrap();
        let pem = own().key().pem();
        let path = dir.path().join("key").to_str().unwrap().to_owned();
        std::fs::write(&path, &pem).unwrap();
        KeyPairPem { pem, path, _dir: dir }
    }

    fn path(&self) -> &str {
        &self.path
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let pinned = own();
    let (certificate, key) = (pinned.chain().pem(), pinned.key().pem());
    for bytes in
        [&b""[..], b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"]
    {
        assert!(boards::read(bytes, key.as_bytes()).is_err());
        assert!(boards::read(certificate.as_bytes(), bytes).is_err());
    }
    for end in 0..certificate.len() {
        let _ = boards::read(&certificate.as_bytes()[..end], key.as_bytes());
    }
}

#[test]
fn files_are_never_written_over_and_written_both_or_none() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("a/b");
    files::make_folder(&folder).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let (first, second) = (folder.join("first"), folder.join("second"));
    std::fs::write(&second, "mine").unwrap();
    assert!(files::write_new(&[(first.clone(), b"1"), (second.clone(), b"2")]).is_err());
    assert_eq!(std::fs::read(&second).unwrap(), b"mine");
    assert!(!files::is_there(&first));
    std::fs::remove_file(&second).unwrap();
    files::write_new(&[(first.clone(), b"1"), (second.clone(), b"2")]).unwrap();
    assert_eq!(mode(&first), 0o600);
}

#[test]
fn a_file_that_is_too_large_is_not_read_to_its_end() {
    let error = files::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("larger"), "{error}");
}
