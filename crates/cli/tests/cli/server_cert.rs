//! `server-cert` against a real API server; what it makes is judged by the openssl program.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::server_cert::openssl;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-flashjob");
const SECRET: &str = "flashjob-server-tls";

/// A namespace and a folder of one's own.
struct OwnNamespace {
    namespace: String,
    kubeconfig: PathBuf,
    secrets: Api<Secret>,
    dir: TempDir,
}

/// How the program ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    fn of(output: Output) -> Ended {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl OwnNamespace {
    async fn new() -> Result<OwnNamespace> {
        let cluster = Cluster::shared().await?;
        let namespace = cluster.namespace("cert").await?;
        let kubeconfig = cluster.admin_kubeconfig(&namespace)?;
        let secrets = Api::namespaced(cluster.client("admin")?, &namespace);
        Ok(OwnNamespace { namespace, kubeconfig, secrets, dir: TempDir::new()? })
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    async fn server_cert(&self, args: &[&str]) -> Result<Ended> {
        let mut command = tokio::process::Command::new(PROGRAM);
        command.arg("server-cert").args(args).arg("--kubeconfig").arg(&self.kubeconfig);
        let ended = Ended::of(command.output().await?);
        // Of a key neither stream may ever say anything.
        ensure!(!ended.out.contains("PRIVATE") && !ended.err.contains("PRIVATE"), "a key is shown");
        Ok(ended)
    }

    async fn done(&self, args: &[&str]) -> Result<Ended> {
        let ended = self.server_cert(args).await?;
        ensure!(ended.code == Some(0), "{args:?}: {}", ended.err);
        Ok(ended)
    }

    async fn refused(&self, args: &[&str]) -> Result<String> {
        let ended = self.server_cert(args).await?;
        ensure!(ended.code == Some(1), "{args:?} ended with {:?}: {}", ended.code, ended.err);
        ensure!(ended.out.is_empty(), "{}", ended.out);
        Ok(ended.err)
    }

    /// What is in the Secret, also written to files for openssl.
    async fn stored(&self) -> Result<(String, String)> {
        let secret = self.secrets.get(SECRET).await?;
        ensure!(secret.type_.as_deref() == Some("kubernetes.io/tls"), "its type");
        let data = secret.data.unwrap_or_default();
        let text = |name: &str| -> Result<String> {
            let bytes = data.get(name).with_context(|| format!("no {name}"))?;
            Ok(String::from_utf8(bytes.0.clone())?)
        };
        let (crt, key) = (text("tls.crt")?, text("tls.key")?);
        std::fs::write(self.path("tls.crt"), &crt)?;
        std::fs::write(self.path("tls.key"), &key)?;
        Ok((crt, key))
    }

    /// The stored chain verifies by the pinned certificate, and the stored key is that of its leaf.
    fn verify(&self, pinned: &Path) -> Result<String> {
        let (crt, key) = (self.path("tls.crt"), self.path("tls.key"));
        let anchor = pinned.display().to_string();
        openssl(&["verify", "-x509_strict", "-CAfile", &anchor, &crt], "")?;
        let of_crt = openssl(&["x509", "-in", &crt, "-noout", "-pubkey"], "")?;
        let of_key = openssl(&["pkey", "-in", &key, "-pubout"], "")?;
        ensure!(of_crt == of_key, "the key is another's");
        openssl(&["x509", "-in", &crt, "-noout", "-text"], "")
    }

    /// A self-signed pair made by openssl.
    fn pair(&self, name: &str, kind: &[&str], more: &[&str]) -> Result<(String, String)> {
        let (crt, key) = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        let base = ["req", "-x509", "-nodes", "-days", "9", "-keyout", &key, "-out", &crt];
        openssl(&[base.as_slice(), kind, more].concat(), "")?;
        Ok((crt, key))
    }
}

const RSA: &[&str] = &["-newkey", "rsa:2048"];
const EC: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
const OURS: &[&str] = &["-subj", "/CN=ota-agent"];

/// As docs/certificates.md has it, with a longer name.
const AS_DOCUMENTED: &[&str] = &[
    "-subj",
    "/C=GR/O=NUBIS PC/CN=ota-agent",
    "-addext",
    "basicConstraints=critical,CA:TRUE",
    "-addext",
    "keyUsage=critical,keyCertSign,digitalSignature,keyEncipherment",
];

fn mode(path: &str) -> u32 {
    std::fs::metadata(path).map_or(0, |found| found.permissions().mode() & 0o777)
}

#[tokio::test]
async fn create_makes_a_chain_that_verifies_and_does_so_once() -> Result<()> {
    let own = OwnNamespace::new().await?;
    let dir = own.path("safe/pinned");
    let (crt, key) = (format!("{dir}/pinned.crt"), format!("{dir}/pinned.key"));
    let ended = own.done(&["create", "--dir", &dir, "--days", "30"]).await?;
    assert_eq!(ended.out, "secret/flashjob-server-tls created\n");
    assert_eq!((mode(&dir), mode(&key), mode(&crt)), (0o700, 0o600, 0o600));
    let (chain, _) = own.stored().await?;
    assert_eq!(chain.matches("BEGIN CERTIFICATE").count(), 2);
    let leaf = own.verify(Path::new(&crt))?;
    for wanted in ["Subject: CN = ota-agent", "CA:FALSE", "Digital Signature", "prime256v1"] {
        assert!(leaf.contains(wanted), "{wanted}: {leaf}");
    }
    let pinned = openssl(&["x509", "-in", &crt, "-noout", "-text"], "")?;
    for wanted in ["Subject: CN = ota-agent", "CA:TRUE", "Digital Signature, Certificate Sign"] {
        assert!(pinned.contains(wanted), "{wanted}: {pinned}");
    }
    let (later, soon) = ((20 * 365 - 1) * 86_400, 31 * 86_400);
    openssl(&["x509", "-in", &crt, "-noout", "-checkend", &later.to_string()], "")?;
    assert!(
        openssl(&["x509", "-in", &own.path("tls.crt"), "-checkend", &soon.to_string()], "")
            .is_err()
    );

    // Boards may pin it by now.
    let other = own.path("other");
    let words = own.refused(&["create", "--dir", &other]).await?;
    assert!(
        words.contains("server-cert renew --dir") && words.contains("kubectl delete secret"),
        "{words}"
    );
    assert!(!Path::new(&other).exists(), "refused before anything is written");
    assert_eq!(own.stored().await?.0, chain);

    // Nor are files written over when the Secret is gone.
    let before = std::fs::read(&key)?;
    own.secrets.delete(SECRET, &DeleteParams::default()).await?;
    let words = own.refused(&["create", "--dir", &dir]).await?;
    assert!(words.contains("is there already"), "{words}");
    assert_eq!(std::fs::read(&key)?, before);
    assert!(own.secrets.get_opt(SECRET).await?.is_none());
    own.done(&["renew", "--dir", &dir]).await?;
    own.stored().await?;
    own.verify(Path::new(&crt)).map(drop)
}

#[tokio::test]
async fn renew_changes_the_leaf_and_nothing_that_boards_pin() -> Result<()> {
    let own = OwnNamespace::new().await?;
    let dir = own.path("pinned");
    let crt = PathBuf::from(format!("{dir}/pinned.crt"));
    own.done(&["create", "--dir", &dir]).await?;
    let labels =
        json!({ "metadata": { "labels": { "kept": "yes" }, "annotations": { "kept": "too" } } });
    own.secrets.patch(SECRET, &PatchParams::default(), &Patch::Merge(labels)).await?;
    let before = own.stored().await?;
    let pinned = std::fs::read_to_string(&crt)?;
    own.done(&["renew", "--dir", &dir]).await?;
    let after = own.stored().await?;
    own.verify(&crt)?;
    assert_ne!(before.0, after.0);
    assert_ne!(before.1, after.1);
    let plain = pinned.replace('\r', "");
    assert!(
        before.0.ends_with(plain.trim_end()) || before.0.trim_end().ends_with(plain.trim_end())
    );
    assert!(after.0.trim_end().ends_with(plain.trim_end()));
    assert_eq!(std::fs::read_to_string(&crt)?, pinned);
    let secret = own.secrets.get(SECRET).await?;
    assert_eq!(secret.metadata.labels.unwrap_or_default()["kept"], "yes");
    assert_eq!(secret.metadata.annotations.unwrap_or_default()["kept"], "too");
    Ok(())
}

#[tokio::test]
async fn renew_with_another_pinned_certificate_is_refused() -> Result<()> {
    let own = OwnNamespace::new().await?;
    own.done(&["create", "--dir", &own.path("ours")]).await?;
    let before = own.stored().await?;
    // Of the same name, so that only the signature tells.
    let theirs = own.path("theirs");
    std::fs::create_dir(&theirs)?;
    own.pair("theirs/pinned", EC, OURS)?;
    let words = own.refused(&["renew", "--dir", &theirs]).await?;
    assert!(words.contains("is not signed by") && words.contains("import"), "{words}");
    assert_eq!(own.stored().await?, before);
    // One that is no CA can sign nothing at all.
    let leaf = own.path("leaf");
    std::fs::create_dir(&leaf)?;
    let no_ca = [OURS, &["-addext", "basicConstraints=critical,CA:FALSE"]].concat();
    own.pair("leaf/pinned", EC, &no_ca)?;
    let words = own.refused(&["renew", "--dir", &leaf]).await?;
    assert!(words.contains("CA:TRUE"), "{words}");
    assert_eq!(own.stored().await?, before);
    Ok(())
}

#[tokio::test]
async fn an_rsa_pair_of_openssl_is_imported_and_renewed() -> Result<()> {
    let own = OwnNamespace::new().await?;
    let (crt, key) = own.pair("pinned", RSA, AS_DOCUMENTED)?;
    let ended = own.done(&["import", "--cert", &crt, "--key", &key]).await?;
    assert!(!ended.err.contains("note:"), "{}", ended.err);
    own.stored().await?;
    own.verify(Path::new(&crt))?;
    // The old form of the same key; the Secret is there now and is replaced.
    let old = own.path("old.key");
    openssl(&["rsa", "-traditional", "-in", &key, "-out", &old], "")?;
    let ended = own.done(&["import", "--cert", &crt, "--key", &old]).await?;
    assert_eq!(ended.out, "secret/flashjob-server-tls replaced\n");
    assert!(own.stored().await?.1.contains("BEGIN RSA PRIVATE KEY"));
    own.verify(Path::new(&crt))?;
    // What is pinned can sign: it is its own CA, as the original's is.
    let ended = own.done(&["renew", "--dir", &own.dir.path().display().to_string()]).await?;
    assert!(ended.err.contains("ECDSA"), "{}", ended.err);
    own.stored().await?;
    let leaf = own.verify(Path::new(&crt))?;
    assert!(leaf.contains("CA:FALSE"), "{leaf}");
    Ok(())
}

#[tokio::test]
async fn what_boards_or_flasher_would_not_take_is_not_imported() -> Result<()> {
    let own = OwnNamespace::new().await?;
    let (crt, key) = own.pair("good", EC, OURS)?;
    let (_, other) = own.pair("other", EC, OURS)?;
    let (wrong, its_key) = own.pair("wrong", RSA, &["-subj", "/CN=flasher.example"])?;
    let missing = own.path("missing");
    let cases = [
        (&crt, &other, "does not fit"),
        (&wrong, &its_key, "boards ask for ota-agent"),
        (&key, &key, "no certificate"),
        (&crt, &crt, "no private key"),
        (&crt, &missing, "cannot read"),
    ];
    for (crt, key, wanted) in cases {
        let words = own.refused(&["import", "--cert", crt, "--key", key]).await?;
        assert!(words.contains(wanted), "{wanted}: {words}");
        assert!(own.secrets.get_opt(SECRET).await?.is_none(), "{wanted}");
    }
    Ok(())
}

#[tokio::test]
async fn a_certificate_that_cannot_be_renewed_is_imported_with_a_word() -> Result<()> {
    let own = OwnNamespace::new().await?;
    let no_ca = [OURS, &["-addext", "basicConstraints=critical,CA:FALSE"]].concat();
    let (crt, key) = own.pair("leaf", EC, &no_ca)?;
    let ended = own.done(&["import", "--cert", &crt, "--key", &key]).await?;
    assert!(ended.err.contains("cannot be renewed"), "{}", ended.err);
    // Others in its place are imported too, and that is said: it is how boards are moved on purpose.
    let (crt, key) = own.pair("next", EC, OURS)?;
    let ended = own.done(&["import", "--cert", &crt, "--key", &key]).await?;
    assert!(ended.err.contains("no certificate in common"), "{}", ended.err);
    own.stored().await?;
    own.verify(Path::new(&crt)).map(drop)
}

#[tokio::test]
async fn who_may_not_touch_secrets_is_told_what_to_ask_for() -> Result<()> {
    let mut own = OwnNamespace::new().await?;
    let cluster = Cluster::shared().await?;
    let token = cluster.token("nobody").context("no token")?;
    own.kubeconfig = cluster.kubeconfig(token, &own.namespace, None)?;
    let dir = own.path("pinned");
    let words = own.refused(&["create", "--dir", &dir]).await?;
    assert!(words.contains("forbidden") && words.contains("on secrets"), "{words}");
    assert!(!Path::new(&dir).exists());
    Ok(())
}
