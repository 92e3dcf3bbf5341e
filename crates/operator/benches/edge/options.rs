//! What is measured: by hand, because a few flags need no parser.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Requests of one device in one round. Two devices may share a place in the operator's table of rates, where 60 at once are
/// let through.
const MOST_OF_ONE: usize = 25;

/// What is to be measured.
#[derive(Debug, PartialEq)]
pub struct Options {
    /// Devices that register, and then poll; 0: neither is measured.
    pub registrations: usize,
    /// How many of them have something under way at a time.
    pub parallel: usize,
    /// Requests of each kind in one round.
    pub requests: usize,
    /// Each kind of request is measured so often, and the floor before each time; 0 measures registrations alone.
    pub rounds: usize,
    /// Devices of the fleet that is at rest; 0: none of that is measured.
    pub devices: usize,
    /// How long that fleet is measured in each way.
    pub during: Duration,
}

impl Options {
    /// Reads the arguments; what is not given is as the figures ask for it.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options {
            registrations: 800,
            parallel: 64,
            requests: 20_000,
            rounds: 5,
            devices: 10_000,
            during: Duration::from_secs(60),
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                // What cargo says to every benchmark.
                "--bench" => {}
                "--quick" => {
                    options = Options {
                        registrations: 200,
                        parallel: 32,
                        requests: 5000,
                        rounds: 1,
                        devices: 500,
                        during: Duration::from_secs(20),
                    };
                }
                "--registrations" => options.registrations = number(args.next())?,
                "--parallel" => options.parallel = number(args.next())?,
                "--requests" => options.requests = number(args.next())?,
                "--rounds" => options.rounds = number(args.next())?,
                "--devices" => options.devices = number(args.next())?,
                "--seconds" => {
                    options.during = Duration::from_secs(number(args.next())?.try_into()?);
                }
                other => bail!(
                    "{other}? There is --registrations 800 (0: none), --parallel 64, --requests 20000, --rounds 5 (0: none), \
                     --devices 10000 (0: no fleet), --seconds 60 (of each measurement of the fleet), and --quick"
                ),
            }
        }
        let Options { registrations, parallel, requests, rounds, during, .. } = options;
        ensure!(parallel > 0, "without anything under way there is nothing to measure");
        ensure!(during.as_secs() >= 10, "a fleet is measured for 10 seconds at least");
        let most = registrations * MOST_OF_ONE;
        ensure!(
            rounds == 0 || registrations == 0 || (registrations..=most).contains(&requests),
            "{registrations} devices can send from {registrations} to {most} requests in a round: one each, and no more than \
             they may"
        );
        Ok(options)
    }
}

fn number(text: Option<String>) -> Result<usize> {
    let text = text.context("a number is missing")?;
    text.trim().parse().with_context(|| format!("{text:?} is no number"))
}
