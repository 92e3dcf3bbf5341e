//! What the `openssl` program makes and says: certificates as Flotta and people have made them, and what a client that is not
//! ours makes of the server.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use flashjob_pki::{CertifiedKey, Chain};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

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

    /// Arguments of openssl for a client that has it.
    fn files(&self, folder: &Path) -> Result<[String; 4]> {
        let [crt, key] = ["crt", "key"].map(|name| folder.join(name));
        fs::write(&crt, &self.certificate)?;
        fs::write(&key, &self.key)?;
        let [crt, key] = [crt, key].map(|path| path.display().to_string());
        Ok(["-cert".to_owned(), crt, "-key".to_owned(), key])
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
pub fn connect(server: SocketAddr, name: &str, cas: &str, own: &Pem) -> Result<Chain> {
    let named =
        if name.parse::<std::net::IpAddr>().is_ok() { "-verify_ip" } else { "-verify_hostname" };
    let judging = ["-verify_return_error", "-no-CApath", "-no-CAstore", named, name];
    let (said, chain) = client(server, &judging, Some(cas), own)?;
    ensure!(said.contains("Verification: OK"), "{said}");
    Ok(chain)
}

/// The chain that a server shows, whoever has signed it.
pub fn shown(server: SocketAddr, own: &Pem) -> Result<Chain> {
    Ok(client(server, &[], None, own)?.1)
}

fn client(
    server: SocketAddr,
    judging: &[&str],
    cas: Option<&str>,
    own: &Pem,
) -> Result<(String, Chain)> {
    let folder = tempfile::tempdir()?;
    let (server, files) = (server.to_string(), own.files(folder.path())?);
    let mut args = vec!["s_client", "-connect", &server, "-tls1_3", "-showcerts"];
    args.extend(files.iter().map(String::as_str));
    args.extend(judging);
    let path = folder.path().join("cas").display().to_string();
    if let Some(cas) = cas {
        fs::write(&path, cas)?;
        args.extend(["-CAfile", &path]);
    }
    let said = openssl(&args, "")?;
    // It says the leaf once more after the chain.
    let chain = said.split("Server certificate").next().unwrap_or_default();
    let chain = Chain::from_pem(chain.as_bytes())?;
    Ok((said, chain))
}

/// A connection over HTTP/1.1 on which a test writes what it likes, byte by byte.
pub struct Line {
    client: Child,
    write: ChildStdin,
    read: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl Line {
    pub fn open(server: SocketAddr, own: &Pem) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-tls1_3", "-alpn", "http/1.1"])
            .args(["-connect", &server.to_string()])
            .args(own.files(folder.path())?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let write = client.stdin.take().context("no standard input")?;
        let read = BufReader::new(client.stdout.take().context("no standard output")?);
        Ok(Self { client, write, read, _folder: folder })
    }

    pub fn write(&mut self, text: &str) -> Result<()> {
        self.write.write_all(text.as_bytes())?;
        Ok(self.write.flush()?)
    }

    /// The next line of the answer; empty at its end.
    pub fn read(&mut self) -> Result<String> {
        let mut line = String::new();
        self.read.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
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
