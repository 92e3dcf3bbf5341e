//! The device API as curl and openssl see it: nothing of ours is on the other side.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flashjob_sim::edge::site::EdgeSite;
use serde_json::{Value, json};
use tempfile::TempDir;

const BASE: &str = "/api/flotta-management/v1";

/// What came back.
struct Got {
    code: u16,
    head: String,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// A box with these two programs, and a folder for keys and certificates.
struct LinuxBox {
    folder: TempDir,
    port: u16,
    http: &'static str,
}

impl LinuxBox {
    async fn new(site: &EdgeSite, http: &'static str) -> Result<Self> {
        let (bundle, folder) = (site.bundle().await?, tempfile::tempdir()?);
        let ca: String = bundle.ca().iter().map(|ca| ca.pem()).collect();
        let new = Self { folder, port: site.address().port(), http };
        std::fs::write(new.file("ca.pem"), ca)?;
        std::fs::write(new.file("register.pem"), bundle.key().chain().pem())?;
        std::fs::write(new.file("register.key"), bundle.key().key().pem())?;
        Ok(new)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program in the folder, with what it has written.
    fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let output = Command::new(program)
            .args(args)
            .current_dir(self.folder.path())
            .stdin(std::process::Stdio::null())
            .output()
            .with_context(|| {
                format!("cannot run {program}; Debian has it in a package of that name")
            })?;
        let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
        ensure!(output.status.success(), "{program} {args:?}: {out}{err}");
        Ok(out.into_owned())
    }

    fn openssl(&self, args: &str) -> Result<String> {
        self.run("openssl", &args.split_whitespace().collect::<Vec<_>>())
    }

    /// With the certificate `<who>.pem`.
    fn curl(&self, who: &str, path: &str, more: &[&str]) -> Result<Got> {
        let host = "project-flotta.io";
        let (url, resolve) = (
            format!("https://{host}:{}{BASE}{path}", self.port),
            format!("{host}:{}:127.0.0.1", self.port),
        );
        let (cert, key) = (format!("{who}.pem"), format!("{who}.key"));
        let mut args = vec![
            "--silent",
            "--show-error",
            "--max-time",
            "20",
            self.http,
            "--resolve",
            &resolve,
            "--cacert",
            "ca.pem",
            "--cert",
            &cert,
            "--key",
            &key,
            "--dump-header",
            "head",
            "--output",
            "body",
            "--write-out",
            "%{http_code}",
        ];
        std::fs::write(self.file("body"), "")?;
        args.extend(more);
        args.push(&url);
        let code = self.run("curl", &args)?.parse()?;
        let read = |name: &str| std::fs::read_to_string(self.file(name));
        Ok(Got { code, head: read("head")?.to_lowercase(), body: read("body")? })
    }

    fn post(&self, who: &str, path: &str, body: &Value) -> Result<Got> {
        std::fs::write(self.file("sent"), body.to_string())?;
        self.curl(who, path, &["--header", "content-type: application/json", "--data", "@sent"])
    }

    fn say(&self, who: &str, id: &str, directive: &str, content: &Value) -> Result<Got> {
        let message = json!({
            "type": "data", "message_id": "m1", "version": 1, "sent": "2026-11-18T12:00:00Z",
            "directive": directive, "content": content,
        });
        self.post(who, &format!("/data/{id}/out"), &message)
    }

    /// A certificate request for a new key of this kind, as `openssl req -newkey` has it.
    fn request(&self, key: &str, name: &str) -> Result<String> {
        let key = format!(
            "req -new -nodes -newkey {key} -keyout {name}.key -subj /CN=anything -out {name}.csr"
        );
        self.openssl(&key)?;
        Ok(std::fs::read_to_string(self.file(&format!("{name}.csr")))?)
    }

    /// Asks for a certificate, and keeps it as `<name>.pem`.
    fn register(&self, who: &str, id: &str, name: &str, request: &str) -> Result<Got> {
        let got = self.say(who, id, "registration", &json!({ "certificate_request": request }))?;
        if let Some(certificate) = got.json()["content"]["certificate"].as_str() {
            std::fs::write(self.file(&format!("{name}.pem")), certificate)?;
        }
        Ok(got)
    }
}

const P256: &str = "ec -pkeyopt ec_paramgen_curve:P-256";

#[tokio::test(flavor = "multi_thread")]
async fn a_box_with_curl_and_openssl_registers_lives_and_renews() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    for (http, id) in [("--http1.1", "by-h1"), ("--http2", "BY-H2")] {
        let it = LinuxBox::new(&site, http).await?;
        let wanted = json!({ "target_namespace": site.namespace, "features": {} });
        assert_eq!(it.say("register", id, "enrolment", &wanted)?.code, 208);
        let request = it.request(P256, "own")?;
        let got = it.register("register", id, "own", &request)?;
        assert_eq!(got.code, 200, "{}", got.body);
        assert_eq!(
            (&got.json()["directive"], &got.json()["message_id"]),
            (&json!("registration"), &json!("m1"))
        );
        it.openssl("verify -CAfile ca.pem -purpose sslclient own.pem")?;
        let said = it.openssl("x509 -in own.pem -noout -subject -nameopt RFC2253")?;
        let name = id.to_lowercase();
        assert!(
            said.contains(&format!("CN={name}"))
                && said.contains(&format!("OU={}", site.namespace)),
            "{said}"
        );

        let got = it.curl("own", &format!("/data/{id}/in"), &[])?;
        assert_eq!((got.code, &got.json()["directive"]), (200, &json!("device")));
        let content = &got.json()["content"];
        assert_eq!(content["device_id"], name);
        assert_eq!(content["configuration"]["heartbeat"]["period_seconds"], 60);
        let etag =
            got.head.lines().find_map(|line| line.strip_prefix("etag: ")).context("an etag")?;
        assert_eq!(etag.trim(), format!("\"{}\"", content["version"].as_str().unwrap()));
        let known = format!("if-none-match: {}", etag.trim());
        let again = it.curl("own", &format!("/data/{id}/in"), &["--header", &known])?;
        assert_eq!((again.code, again.body.as_str()), (304, ""));
        let wait = ["--header", &known, "--header", "Prefer: wait=1"];
        let again = it.curl("own", &format!("/data/{id}/in"), &wait)?;
        assert_eq!((again.code, again.body.as_str()), (304, ""));
        assert!(again.head.contains("preference-applied: wait=1"), "{}", again.head);

        let got = it.curl("own", &format!("/control/{id}/in"), &[])?;
        assert_eq!((got.code, got.body.as_str()), (200, ""));
        let status = json!({ "type": "connection-status", "content": { "state": "online" } });
        assert_eq!(it.post("own", &format!("/control/{id}/out"), &status)?.code, 200);
        let beat = json!({ "status": "up", "version": content["version"], "workloads": null });
        assert_eq!(it.say("own", id, "heartbeat", &beat)?.code, 200);

        let request = it.request(P256, "next")?;
        assert_eq!(it.register("own", id, "next", &request)?.code, 200);
        assert_eq!(it.say("next", id, "heartbeat", &beat)?.code, 200);
        let replaced = it.say("own", id, "heartbeat", &beat)?;
        assert_eq!((replaced.code, &replaced.json()["code"]), (401, &json!(401)));
        let replaced = it.curl("own", &format!("/data/{id}/in"), &[])?;
        assert_eq!((replaced.code, replaced.body.as_str()), (401, ""));
        assert!(
            replaced.head.contains("x-flashjob-reason: another key is in use"),
            "{}",
            replaced.head
        );
    }
    Ok(())
}

/// The key is the device's, whatever of these it is. All else in a request counts for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn certificate_requests_of_every_kind() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let it = LinuxBox::new(&site, "--http2").await?;
    let kinds = [
        ("p256", P256),
        ("p384", "ec -pkeyopt ec_paramgen_curve:P-384"),
        ("rsa2048", "rsa:2048"),
        ("rsa4096", "rsa:4096"),
    ];
    for (name, kind) in kinds {
        let request = it.request(kind, name)?;
        let got = it.register("register", name, name, &request)?;
        assert_eq!(got.code, 200, "{name}: {}", got.body);
        assert_eq!(it.say(name, name, "heartbeat", &json!({}))?.code, 200, "{name}");
    }
    let good = it.request(P256, "good")?;
    let p521 = it.request("ec -pkeyopt ec_paramgen_curve:P-521", "p521")?;
    let weak = it.request("rsa:1024", "weak")?;
    // Another letter somewhere in the signature, near the end.
    let place = good.len() - 50;
    let letter = if good.as_bytes()[place] == b'A' { "B" } else { "A" };
    let mut forged = good.clone();
    forged.replace_range(place..=place, letter);
    let long = "-----BEGIN CERTIFICATE REQUEST-----\n".to_owned() + &"A".repeat(500_000);
    for (what, request) in [
        ("P-521", p521.as_str()),
        ("RSA of 1024 bits", &weak),
        ("a signature that is wrong", &forged),
        ("nothing", ""),
        ("nonsense", "nonsense"),
        ("a long one", &long),
        ("a certificate", &std::fs::read_to_string(it.file("ca.pem"))?),
    ] {
        let id = format!("bad-{}", what.len());
        let got = it.register("register", &id, "bad", request)?;
        assert_eq!(got.code, 400, "{what}: {}", got.body);
        let message = got.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("certificate request"), "{what}: {message}");
        assert_eq!(site.devices().get_opt(&id).await?, None, "{what}: nothing is made for it");
    }
    for (content, code) in
        [(json!([]), 400), (json!({ "certificate_request": 7 }), 400), (Value::Null, 400)]
    {
        assert_eq!(it.say("register", "bad", "registration", &content)?.code, code, "{content}");
    }
    assert_eq!(it.say("p256", "p256", "ansible", &json!({}))?.code, 400);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_tls_1_3_with_a_certificate() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let it = LinuxBox::new(&site, "--http2").await?;
    let dial = format!(
        "s_client -connect 127.0.0.1:{} -CAfile ca.pem -verify_return_error -verify_hostname project-flotta.io -brief",
        it.port
    );
    let with = " -cert register.pem -key register.key";
    it.openssl(&format!("{dial} -tls1_3 -alpn h2{with}"))?;
    assert!(it.openssl(&format!("{dial} -tls1_2{with}")).is_err());
    assert!(it.openssl(&format!("{dial} -verify_hostname other.example{with}")).is_err());
    let got = it.curl("register", "/swagger.json", &[])?;
    assert_eq!((got.code, &got.json()["swagger"]), (200, &json!("2.0")));
    Ok(())
}
