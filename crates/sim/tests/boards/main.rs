//! Boards, driven as the original's agent drives them. No cluster is needed here.

mod agent;
mod attestation;
mod binary;
mod dice;
mod faults;
mod http;
mod image;
mod requests;
mod server;
mod update;

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::flashjob::{Board, BoardOptions, ServerCert};

use crate::agent::Agent;

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// How much faster than real ones these boards are: four seconds are 80 ms.
const SPEED: f64 = 50.0;

/// A board that calls this agent and pins this certificate.
fn options(agent: &Agent, pinned: &ServerCert) -> Result<BoardOptions> {
    Ok(BoardOptions {
        ota_port: agent.port(),
        speed: SPEED,
        // The agent lives in real time, and 60 ms would be over too soon on a busy machine.
        bears_silence: LIMIT.mul_f64(SPEED),
        ..BoardOptions::new(&pinned.chain)?
    })
}

/// Tells a board to fetch its firmware from this machine.
async fn ask(board: &Board) -> Result<()> {
    let answer = requests::post(board.address().into(), "/update", "ip: 127.0.0.1").await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    Ok(())
}
