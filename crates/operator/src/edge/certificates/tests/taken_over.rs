//! Secrets that Flotta or a person has made.

use super::*;
use crate::process::clock;

/// A CA of openssl's, in the form in which Go writes keys: its certificate and key.
fn old_ca(algorithm: &[&str], form: &[&str], subject: &str) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let key = openssl(&[&["genpkey"], algorithm].concat(), "");
    let key = openssl(form, &key);
    let path = dir.path().join("key");
    std::fs::write(&path, &key).unwrap();
    let usage = ["-addext", "keyUsage=critical,digitalSignature,keyCertSign"];
    let more = ["-addext", "extendedKeyUsage=clientAuth,serverAuth", "-days", "36500"];
    let args = ["req", "-x509", "-key", path.to_str().unwrap(), "-subj", subject];
    (openssl(&[&args[..], &usage, &more].concat(), ""), key)
}

/// A leaf that openssl signs.
fn signed(ca: &(String, String), subject: &str, names: Option<&str>) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let key = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", P256], "");
    let key = openssl(&["ec"], &key);
    let names = names.map(|names| format!("subjectAltName={names}\n")).unwrap_or_default();
    let extensions =
        format!("extendedKeyUsage=clientAuth,serverAuth\nkeyUsage=digitalSignature\n{names}");
    for (name, text) in [("ca", &ca.0), ("ca.key", &ca.1), ("key", &key), ("ext", &extensions)] {
        std::fs::write(path(name), text).unwrap();
    }
    let request = openssl(&["req", "-new", "-key", &path("key"), "-subj", subject], "");
    let (ca, ca_key, extensions) = (path("ca"), path("ca.key"), path("ext"));
    let args = ["x509", "-req", "-CA", &ca, "-CAkey", &ca_key, "-extfile", &extensions];
    (openssl(&[&args[..], &["-days", "365"]].concat(), &request), key)
}

const P256: &str = "ec_paramgen_curve:prime256v1";
const P384: &str = "ec_paramgen_curve:secp384r1";
const FLOTTA: &str = "/O=flotta-operator";

/// What openssl signs begins now, so these stories do.
fn now() -> Timestamp {
    clock::now() + SignedDuration::from_mins(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn flottas_secrets_are_taken_over_in_every_form_of_key() {
    let ec = |curve: &'static str| vec!["-algorithm", "EC", "-pkeyopt", curve];
    let rsa = vec!["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
    for (algorithm, form, subject) in [
        (ec(P256), &["ec"][..], FLOTTA),
        (ec(P384), &["ec"], FLOTTA),
        (rsa.clone(), &["rsa", "-traditional"], FLOTTA),
        (rsa, &["pkey"], "/O=flotta-operator/CN=ours"),
        (ec(P256), &["pkey"], FLOTTA),
    ] {
        let place = Place::new().await;
        let ca = old_ca(&algorithm, form, subject);
        place.put("flotta-ca", &[("ca.crt", &ca.0), ("ca.key", &ca.1)]).await;
        let names = "DNS:project-flotta.io,IP:127.0.0.1,IP:::1";
        let server = signed(&ca, "/O=flotta-operator/CN=*", Some(names));
        let parts = [("server.crt", server.0.as_str()), ("server.key", &server.1)];
        place.put("flotta-host-certificate", &parts).await;
        let register = signed(&ca, "/O=flotta-operator/CN=register", None);
        let parts = [("client.crt", register.0.as_str()), ("client.key", &register.1)];
        place.put("reg-client-ca-abcdefghij", &parts).await;
        let device = signed(&ca, "/O=flotta-operator/OU=default/CN=device-1", None);

        let mut process = place.start();
        process.keeper.look(|| process.devices.clone(), now()).await.unwrap();
        let taken = process.now();
        assert_eq!(taken.problems, Vec::<String>::new(), "{algorithm:?} {form:?}");
        assert_eq!(taken.registration.as_deref(), Some("reg-client-ca-abcdefghij"));
        assert_eq!(place.text("flotta-ca", "ca.key").await.as_ref(), Some(&ca.1));
        // It has the name localhost now, and devices that trust the CA take it.
        for name in ["localhost", "project-flotta.io", "127.0.0.1"] {
            assert!(takes(&ca.0, &taken, name, now()), "{algorithm:?} {form:?} {name}");
        }
        let chain = Chain::from_pem(device.0.as_bytes()).unwrap();
        assert!(taken.trust.as_ref().unwrap().issuer(chain.leaf()).is_some(), "{algorithm:?}");
        let key = PrivateKey::generate().unwrap().public();
        let issued = given(&taken, &key, "default", now()).unwrap();
        assert!(issuer(&taken, &issued).is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_certificate_of_somebody_else_is_used_as_it_is() {
    let place = Place::new().await;
    place.start().look(0).await;
    place.delete("flotta-host-certificate").await;
    let public = old_ca(&["-algorithm", "EC", "-pkeyopt", P256], &["pkey"], "/CN=public");
    let server = signed(&public, "/CN=edge", Some("DNS:edge.example"));
    let parts = [("server.crt", server.0.as_str()), ("server.key", &server.1)];
    place.put("flotta-host-certificate", &parts).await;
    let versions = place.versions().await;
    let certificates = place.start().look(0).await;
    assert_eq!(place.versions().await, versions);
    said(&certificates, &["flotta-host-certificate was not signed", "used as it is"]);
    assert!(takes(&public.0, &certificates, "edge.example", now()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_that_cannot_sign_is_named_and_left() {
    let attributes = old_ca(&["-algorithm", "EC", "-pkeyopt", P256], &["pkey"], "/OU=a/OU=b");
    let good = old_ca(&["-algorithm", "EC", "-pkeyopt", P256], &["pkey"], FLOTTA);
    let leaf = signed(&good, "/CN=x", None);
    for (crt, key, word) in [
        (&attributes.0, &attributes.1, "an attribute twice"),
        (&leaf.0, &leaf.1, "no CA"),
        (&good.0, &leaf.1, "does not fit"),
    ] {
        let place = Place::new().await;
        place.put("flotta-ca", &[("ca.crt", crt), ("ca.key", key)]).await;
        let certificates = place.start().look(0).await;
        said(&certificates, &["Secret flotta-ca cannot be used", word]);
        assert_eq!(place.versions().await.len(), 1, "something was made");
        assert!(!certificates.problems.join("").contains("PRIVATE"));
    }
}
