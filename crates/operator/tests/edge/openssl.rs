//! What the `openssl` program makes and says: certificates as Flotta and people have made them, and what a client that is not
//! ours makes of the server.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flashjob_pki::{CertifiedKey, Chain};
use jiff::{SignedDuration, Timestamp};

/// A certificate and its key, both in PEM.
#[derive(Clone, Debug)]
pub struct Pem {
    pub certificate: String,
    pub key: String,
}

impl Pem {
    pub fn read(&self) -> Result<CertifiedKey> {
        Ok(CertifiedKey::from_pem(self.certificate.as_bytes(), self.key.as_bytes())?)
    }

    /// What a device or a Secret has, for openssl.
    pub fn of(pair: &CertifiedKey) -> Self {
        Self { certificate: pair.chain().pem(), key: pair.key().pem() }
    }
}

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `EC PRIVATE KEY`, as Flotta writes its own.
    Sec1,
    /// `RSA PRIVATE KEY`, as an administrator may have given Flotta.
    Pkcs1,
}

impl Form {
    fn key(self) -> Result<String> {
        match self {
            Form::Sec1 => openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout"], ""),
            Form::Pkcs1 => openssl(&["genrsa", "-traditional", "2048"], ""),
        }
    }
}

/// A CA as Flotta has it: no common name, good for both sides.
pub fn flotta_ca(form: Form) -> Result<Pem> {
    let folder = tempfile::tempdir()?;
    let (key, path) = (form.key()?, folder.path().join("key"));
    fs::write(&path, &key)?;
    let path = path.to_str().context("a path")?;
    let certificate = openssl(
        &[
            &["req", "-x509", "-new", "-key", path, "-subj", "/O=flotta-operator"][..],
            &["-days", "3650", "-addext", "keyUsage=critical,digitalSignature,keyCertSign"],
            &["-addext", "extendedKeyUsage=clientAuth,serverAuth"],
        ]
        .concat(),
        "",
    )?;
    Ok(Pem { certificate, key })
}

/// A certificate of Flotta's for one of its devices: made a day back, for so many days from now.
pub fn flotta_device(
    ca: &Pem,
    form: Form,
    device: &str,
    namespace: &str,
    days: i32,
) -> Result<Pem> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (at, key) = (folder.path().display(), form.key()?);
    let config = format!(
        "[ca]\ndefault_ca = d\n[d]\nnew_certs_dir = {at}\ndatabase = {at}/index\nrand_serial = yes\n\
         default_md = sha256\nunique_subject = no\npolicy = p\n[p]\norganizationName = supplied\n\
         organizationalUnitName = supplied\ncommonName = supplied\n[e]\nkeyUsage = digitalSignature\n\
         extendedKeyUsage = clientAuth, serverAuth\n"
    );
    let parts = [("config", config.as_str()), ("index", ""), ("key", &key)];
    for (name, text) in [&parts[..], &[("ca", &ca.certificate), ("ca.key", &ca.key)]].concat() {
        fs::write(path(name), text)?;
    }
    let subject = format!("/O=flotta-operator/OU={namespace}/CN={device}");
    let request = openssl(&["req", "-new", "-key", &path("key"), "-subj", &subject], "")?;
    fs::write(path("request"), request)?;
    let day = SignedDuration::from_hours(24);
    let time = |time: Timestamp| time.strftime("%Y%m%d%H%M%SZ").to_string();
    let now = flashjob_sim::clock::now();
    let (from, to) = (time(now - day), time(now + day * days));
    let (config, ca, ca_key) = (path("config"), path("ca"), path("ca.key"));
    let certificate = openssl(
        &[
            &["ca", "-batch", "-notext", "-config", &config, "-extensions", "e"][..],
            &["-cert", &ca, "-keyfile", &ca_key, "-startdate", &from, "-enddate", &to],
            &["-in", &path("request")],
        ]
        .concat(),
        "",
    )?;
    Ok(Pem { certificate, key })
}

/// Connects with that certificate to a server that has to have this name and to be of one of these CAs. The chain that it
/// shows.
pub fn connect(server: SocketAddr, name: &str, cas: &str, shown: &Pem) -> Result<Chain> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (name, text) in [("cas", cas), ("crt", &shown.certificate), ("key", &shown.key)] {
        fs::write(path(name), text)?;
    }
    let (server, cas, crt, key) = (server.to_string(), path("cas"), path("crt"), path("key"));
    let named =
        if name.parse::<std::net::IpAddr>().is_ok() { "-verify_ip" } else { "-verify_hostname" };
    let said = openssl(
        &[
            &["s_client", "-connect", &server, "-tls1_3", "-showcerts", "-verify_return_error"][..],
            &["-CAfile", &cas, "-no-CApath", "-no-CAstore", named, name],
            &["-cert", &crt, "-key", &key],
        ]
        .concat(),
        "",
    )?;
    ensure!(said.contains("Verification: OK"), "{said}");
    // It says the leaf once more after the chain.
    let chain = said.split("Server certificate").next().unwrap_or_default();
    Ok(Chain::from_pem(chain.as_bytes())?)
}

fn openssl(args: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new("openssl")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run openssl; Debian has it in the package openssl")?;
    // It may end without reading all of it, and then says why.
    let _ = child.stdin.take().context("no standard input")?.write_all(input.as_bytes());
    let output = child.wait_with_output()?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "openssl {}: {out}{err}", args[0]);
    Ok(out.into_owned())
}
