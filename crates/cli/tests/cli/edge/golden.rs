//! What each command prints, whole, under the roles that are shipped: files beside this one hold it as it is on a terminal, `!`
//! before what goes to standard error. `UPDATE_GOLDEN=1` writes them anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flashjob_sim::edge::Manner;
use flashjob_sim::{PATIENCE, eventually};
use serde_json::{Value, json};

use super::roles::account;
use super::workloads::{apply, is_told, label, manifest, web};
use super::{EdgeCli, becomes, code};

/// What people type, and what it says to them.
struct Transcript<'a> {
    site: &'a EdgeCli,
    kubeconfig: &'a Path,
    /// What is another thing on each run, and what stands for it.
    masks: Vec<(String, &'static str)>,
    text: String,
}

impl<'a> Transcript<'a> {
    fn new(site: &'a EdgeCli, kubeconfig: &'a Path, folder: &Path) -> Self {
        let masks = vec![
            // The one may begin like the other.
            (site.home.clone(), "flotta"),
            (site.namespace.clone(), "plant"),
            (folder.display().to_string(), "."),
        ];
        Self { site, kubeconfig, masks, text: String::new() }
    }

    /// At the place of `HOME` is the operator's namespace.
    async fn run(&mut self, line: &str) {
        let line = line.replace("HOME", &format!("--operator-namespace={}", self.site.home));
        let args: Vec<&str> = line.split_whitespace().collect();
        let ended = self.site.run_as(self.kubeconfig, &args).await;
        let errors: String = ended.err.lines().map(|line| format!("! {line}\n")).collect();
        let said = format!("$ kubectl flashjob edge {line}\n{}{errors}", ended.out);
        self.text += &self.masked(&said);
        // Writing to a text cannot fail.
        let _ = writeln!(self.text, "exit code {}\n", ended.code);
    }

    fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (found, stands) in &self.masks {
            text = text.replace(found.as_str(), stands);
        }
        text.lines().map(|line| columns(&words(line)) + "\n").collect()
    }

    /// Compares it with the file of this name.
    #[expect(clippy::disallowed_methods)] // a test has no arguments
    fn is(&self, name: &str) -> Result<()> {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/cli/edge/golden")
            .join(format!("{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            return Ok(std::fs::write(&file, &self.text)?);
        }
        let wanted = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let both = wanted.lines().zip(self.text.lines()).enumerate();
        let other = both.into_iter().find(|(_, (wanted, found))| wanted != found);
        let at = other.map(|(at, (wanted, found))| format!("line {}:\n{wanted}\n{found}", at + 1));
        ensure!(
            wanted == self.text,
            "{} {}\nall of it:\n{}",
            file.display(),
            at.unwrap_or_default(),
            self.text
        );
        Ok(())
    }
}

/// A line with `<…>` for hashes, ages, times and names that are drawn by lot.
fn words(line: &str) -> String {
    let (mut masked, mut rest) = (String::new(), line);
    while !rest.is_empty() {
        let is_part = |c: char| c.is_ascii_alphanumeric();
        let (word, stands) = if let Some(time) = fitting(rest, "0000-00-00T00:00:00Z") {
            (time, "<time>")
        } else if let Some(day) = fitting(rest, "0000-00-00") {
            (day, "<day>")
        } else {
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            (word, mask(word, &masked).unwrap_or(word))
        };
        masked += stands;
        rest = &rest[word.len()..];
        let next = rest.find(is_part).unwrap_or(rest.len());
        masked += &rest[..next];
        rest = &rest[next..];
    }
    masked
}

/// What the text begins with, if that is so: 0 is any digit.
fn fitting<'a>(text: &'a str, pattern: &str) -> Option<&'a str> {
    let part = text.get(..pattern.len())?;
    let fits = |(found, wanted): (u8, u8)| match wanted {
        b'0' => found.is_ascii_digit(),
        wanted => found == wanted,
    };
    part.bytes().zip(pattern.bytes()).all(fits).then_some(part)
}

fn mask(word: &str, before: &str) -> Option<&'static str> {
    let has_digit = word.bytes().any(|b| b.is_ascii_digit());
    let is_hash = word.len() >= 12 && word.bytes().all(|b| b.is_ascii_hexdigit()) && has_digit;
    let number = word.strip_suffix(['s', 'm', 'h']).unwrap_or_default();
    let is_age = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    match () {
        () if before.ends_with("reg-client-ca-") => Some("<name>"),
        () if is_hash => Some("<hash>"),
        () if is_age => Some("<age>"),
        () => None,
    }
}

/// Columns are as wide as what is in them, which is another thing on each run.
fn columns(line: &str) -> String {
    let cells = line.split("   ").map(|cell| cell.trim_start_matches(' '));
    let indent = line.len() - line.trim_start_matches(' ').len();
    if indent > 0 {
        return line.to_owned();
    }
    cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("   ")
}

/// What everybody may do who may look.
const LOOKS: &[&str] = &[
    "devices HOME",
    "devices HOME -o wide",
    "devices HOME -o json",
    "devices HOME -o yaml",
    "devices HOME -o name",
    "requests",
    "requests -o wide",
    "requests -o json",
    "requests -o yaml",
    "workloads",
    "workloads -o wide",
    "workloads -o json",
    "workloads -o yaml",
    "status web",
    "status probe",
    "status web --wait",
    "status probe --wait --timeout 60s",
    "plan -f FILE",
    "plan -f FILE -o json",
    "plan -f FILE -o yaml",
    "render edge1 HOME",
    "render edge1 HOME -o json",
    "explain edge1 HOME",
    "explain edge2 HOME",
    "explain edge3 HOME",
    "explain workload/web HOME",
    "explain workload/probe HOME",
];

/// What takes more than that.
const ACTS: &[&str] = &[
    "approve edge2",
    "approve edge2",
    "approve nobody",
    "approve --all",
    "approve --all --yes",
    "decline edge2",
    "decline --all --yes",
    "reset edge1",
    "reset edge1 --forget-key",
    "reset nobody",
    "remove edge1",
    "remove nobody --yes",
    "remove edge1 --decline --request-namespace=NAMESPACE --yes HOME",
    "ca status HOME",
    "ca rotate HOME",
    "ca retire HOME",
    "ca retire --yes HOME",
    "bundle --server=edge.example:8043 --out=FOLDER/bundle HOME",
];

/// Whoever may read the Secrets of the operator.
const CERTIFICATES: &[&str] = &[
    "ca status HOME",
    "ca status HOME -o json",
    "ca status HOME -o yaml",
    "ca retire HOME",
    "ca retire --yes HOME",
    "bundle --server=127.0.0.1:8043 --out=FOLDER/bundle HOME",
    "bundle --server=127.0.0.1:8043 --out=FOLDER/bundle HOME",
    "bundle --server=edge.example:8043 --out=FOLDER/bundle --force HOME",
    "bundle --server=edge --out=FOLDER/bundle HOME",
    "ca rotate HOME",
    "ca rotate HOME",
    "ca retire --yes HOME",
    "check HOME",
];

fn in_folder(line: &str, folder: &Path, namespace: &str) -> String {
    let line = line.replace("FILE", "FOLDER/file.yaml").replace("NAMESPACE", namespace);
    line.replace("FOLDER", &folder.display().to_string())
}

/// Waits until what is listed does not change any more by itself.
async fn is_settled(site: &EdgeCli) -> Result<()> {
    eventually("all of it to be on record", PATIENCE, async || {
        let listed = |what: &'static str| async move {
            let text = site.run_at_home(&["devices", "-o", "json"]).await.well();
            serde_json::from_str::<Value>(&text).map(|list| list[what].clone())
        };
        let device = listed("devices").await?[0].clone();
        let workloads: Value =
            serde_json::from_str(&site.run(&["workloads", "-o", "json"]).await.well())?;
        let holds = |condition: &Value| condition["status"] == "True";
        let is_on_record = holds(&device["ready"])
            && holds(&device["synced"])
            && device["lastSeen"].is_string()
            && device["workloads"] == "1/1"
            && holds(&workloads["workloads"][1]["complete"]);
        Ok(is_on_record.then_some(()))
    })
    .await
}

#[tokio::test]
async fn what_is_printed_is_what_was_printed_before() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator_with(&["--edge-auto-approval=false"], None).await?;
    let viewer = account(&site, "flotta-edge-viewer-role").await?;
    let editor = account(&site, "flotta-edge-editor-role").await?;
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let line = |line: &&str| in_folder(line, folder, &site.namespace);
    for id in ["edge1", "edge2", "edge3"] {
        let device = site.new_box(id).await?;
        assert_eq!(code(async || device.enrol().await).await?, 200);
    }
    site.run(&["approve", "edge1"]).await.well();
    site.run(&["decline", "edge3"]).await.well();
    let device = site.new_box("edge1").await?;
    becomes("edge1 to be let in", 208, async || device.enrol().await).await?;
    let device = site.registered("edge1", Manner::Ours).await?;
    apply(&site, &web("EdgeWorkload", "web", json!({}))).await?;
    apply(&site, &web("EdgeDeployment", "probe", json!({ "livenessProbe": {} }))).await?;
    label(&site, "edge1", json!({ "app": "web" })).await?;
    is_told(&device, &["web"]).await?;
    device.heartbeat().await?;
    is_settled(&site).await?;

    let port = json!({ "ports": [{ "containerPort": 80, "hostPort": 8080 }] });
    let lacks = json!({ "envFrom": [{ "secretRef": { "name": "nowhere" } }] });
    let file = [
        web("EdgeWorkload", "web", port.clone()),
        web("EdgeDeployment", "web", json!({})),
        web("EdgeWorkload", "new", port),
        web("EdgeWorkload", "lacks", lacks),
        manifest("EdgeDeviceSet", "floor", &json!({ "heartbeat": { "periodSeconds": 5 } })),
    ];
    let file = file.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    std::fs::write(folder.join("file.yaml"), file)?;
    for who in [&viewer, &editor] {
        let mut looks = Transcript::new(&site, who, folder);
        for wanted in LOOKS.iter().map(line) {
            looks.run(&wanted).await;
        }
        looks.is("look")?;
    }
    let roles = [("viewer", &viewer), ("editor", &editor)];
    for (role, who) in roles {
        let mut check = Transcript::new(&site, who, folder);
        check.run("check HOME").await;
        check.is(&format!("check-{role}"))?;
    }
    let admin = site.kubeconfig.clone();
    let mut certificates = Transcript::new(&site, &admin, folder);
    for wanted in CERTIFICATES.iter().map(line) {
        certificates.run(&wanted).await;
    }
    certificates.is("certificates")?;
    for (role, who) in roles {
        let mut acts = Transcript::new(&site, who, folder);
        for wanted in ACTS.iter().map(line) {
            acts.run(&wanted).await;
        }
        acts.is(role)?;
    }
    Ok(())
}

#[test]
fn what_differs_from_run_to_run_is_masked_and_nothing_else() {
    for (line, wanted) in [
        ("created: 2026-11-19T22:06:02Z", "created: <time>"),
        (
            "key: e6194ec88b84… in use since 2026-11-19, 364 days",
            "key: <hash>… in use since <day>, 364 days",
        ),
        ("Ready: True for 18s, 5m ago, 364d", "Ready: True for <age>, <age> ago, 364d"),
        ("reg-client-ca-0b3kddkf0z   edge1", "reg-client-ca-<name>   edge1"),
        ("deadbeefcafe web1 h2", "deadbeefcafe web1 h2"),
    ] {
        assert_eq!(words(line), wanted);
    }
    assert_eq!(columns("NAME      AGE   X"), "NAME   AGE   X");
    assert_eq!(columns("    period_seconds: 60"), "    period_seconds: 60");
}
