//! `flashjob-sim boards`, the program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use flashjob_sim::flashjob::board::{Identity, MacAddress};
use serde_json::Value;
use tempfile::TempDir;

use crate::requests::{get, post};

/// The program, which ends with the test.
struct Program(std::process::Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn boards_run_with_their_ledger_and_their_attestation_service() -> Result<()> {
    let folder = TempDir::new()?;
    let mut program = Command::new(env!("CARGO_BIN_EXE_flashjob-sim"))
        .args(["boards", "--count", "3", "--speed", "50", "--port", "0"])
        .args(["--control", "127.0.0.1:0", "--attestation", "127.0.0.1:0", "--folder"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let out = program.stdout.take().context("no output")?;
    let _program = Program(program);
    // Three boards, a line above and four below.
    let lines: Vec<_> = BufReader::new(out).lines().take(8).collect::<Result<_, _>>()?;
    let words: Vec<Vec<_>> = lines.iter().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["ADDRESS", "MAC", "DEVICE", "VERSION"]);
    assert_eq!(words[3][1..], ["24:0a:c4:00:00:03", "esp32s2", "0.1.0"]);
    assert!(words[3][0].starts_with("127.0.1.3:"), "{lines:?}");

    let board: SocketAddr = words[3][0].parse()?;
    assert_eq!(get(board, "/info").await?.status, 200);
    assert_eq!(post(board, "/update", "ip: 127.0.0.1").await?.status, 200);
    let url = |line: usize| words[line].last().and_then(|url| url.strip_prefix("http://"));
    let control = url(6).and_then(|url| url.strip_suffix("/ledger")).context("no ledger")?;
    let ledger: Value = serde_json::from_slice(&get(control.parse()?, "/ledger").await?.body)?;
    let boards = ledger["boards"].as_array().context("no boards")?;
    assert_eq!(boards.len(), 3);
    assert_eq!(boards[2]["address"], words[3][0]);
    assert_eq!((&boards[2]["posts"], &boards[1]["posts"]), (&1.into(), &0.into()));
    assert_eq!(boards[2]["updates"][0]["server"], "127.0.0.1");

    let third = Identity::of(MacAddress::nth(3))?;
    assert!(fs::read_to_string(folder.path().join("roots.pem"))?.contains(&third.root_pem()));
    let attestation: SocketAddr = url(7).context("no attestation service")?.parse()?;
    assert_eq!(post(attestation, "/", &third.attestation_pem()).await?.status, 200);
    Ok(())
}
