//! What is measured: by hand, because a few flags need no parser.

use anyhow::{Context, Result, bail, ensure};

/// Requests of one device in one round. Two devices may share a place in the operator's table of rates, where 60 at once are
/// let through.
const MOST_OF_ONE: usize = 25;

/// What is to be measured.
#[derive(Debug, PartialEq)]
pub struct Options {
    /// Devices that register, and then poll.
    pub devices: usize,
    /// How many of them have something under way at a time.
    pub parallel: usize,
    /// Requests of each kind in one round.
    pub requests: usize,
    /// Each kind of request is measured so often, and the floor before each time; 0 measures registrations alone.
    pub rounds: usize,
}

impl Options {
    /// Reads the arguments; what is not given is as the figures ask for it.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options { devices: 800, parallel: 64, requests: 20_000, rounds: 5 };
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                // What cargo says to every benchmark.
                "--bench" => {}
                "--quick" => {
                    options = Options { devices: 200, parallel: 32, requests: 5000, rounds: 1 };
                }
                "--devices" => options.devices = number(args.next())?,
                "--parallel" => options.parallel = number(args.next())?,
                "--requests" => options.requests = number(args.next())?,
                "--rounds" => options.rounds = number(args.next())?,
                other => bail!(
                    "{other}? There is --devices 800, --parallel 64, --requests 20000, --rounds 5 (0: registrations alone), \
                     and --quick"
                ),
            }
        }
        let Options { devices, parallel, requests, rounds } = options;
        ensure!(devices > 0 && parallel > 0, "without devices there is nothing to measure");
        let most = devices * MOST_OF_ONE;
        ensure!(
            rounds == 0 || (devices..=most).contains(&requests),
            "{devices} devices can send from {devices} to {most} requests in a round: one each, and no more than they may"
        );
        Ok(options)
    }
}

fn number(text: Option<String>) -> Result<usize> {
    let text = text.context("a number is missing")?;
    text.trim().parse().with_context(|| format!("{text:?} is no number"))
}
