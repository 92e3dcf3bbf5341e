//! `kubectl flashjob check`: is everything there that a flash needs?
//!
//! First everything is read, each thing by itself, so that one that cannot be read hides no other. Then it is judged, by
//! functions that see nothing but what was read.

mod cluster;
mod flasher;
mod observe;
mod rights;
#[cfg(test)]
mod tests;
mod writers;

use std::io::IsTerminal;

use anyhow::Result;
use jiff::Timestamp;

use crate::args::Connection;
use crate::clock;
use crate::exit::Exit;
use crate::shell::{Shell, Style, clean};

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Ok,
    Fail,
    /// It cannot be told, or it is not as it should be and hinders nothing.
    Unsure,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    mark: Mark,
    what: &'static str,
    finding: String,
    fix: Option<String>,
}

impl Check {
    fn ok(what: &'static str, finding: impl Into<String>) -> Check {
        Check { mark: Mark::Ok, what, finding: finding.into(), fix: None }
    }

    fn fail(what: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { mark: Mark::Fail, what, finding: finding.into(), fix: Some(fix.into()) }
    }

    fn unsure(what: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { mark: Mark::Unsure, what, finding: finding.into(), fix: Some(fix.into()) }
    }
}

/// Why a thing could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReadError {
    /// The user may not.
    Forbidden,
    /// With the server's message, or the network's.
    Failed(String),
}

impl ReadError {
    /// What is said of a thing that could not be read.
    fn unsure(&self, what: &'static str, whom: &str) -> Check {
        match self {
            ReadError::Forbidden => {
                Check::unsure(what, "you may not look", format!("somebody who may: {whom}"))
            }
            ReadError::Failed(message) => {
                let fix = "see what is said of the API server, then again: kubectl flashjob check";
                Check::unsure(what, format!("cannot be read: {message}"), fix)
            }
        }
    }
}

/// What was read of a thing, or why not.
type Observed<T> = Result<T, ReadError>;

pub async fn run(to: &Connection, shell: &Shell) -> Result<Exit> {
    let to = to.open().await?;
    let now = clock::now();
    let observed = observe::everything(&to).await;
    let checks = judge(&observed, &to.namespace, now);
    let terminal = std::io::stdout().is_terminal();
    let mut text = String::new();
    for check in &checks {
        // Colours are decided by standard error; this goes to standard output, which may be a file.
        let paint = |style, word: &str| {
            if terminal { shell.paint(style, word) } else { word.to_owned() }
        };
        text.push_str(&draw(check, paint));
    }
    shell.out(&text)?;
    if checks.iter().any(|check| check.mark == Mark::Fail) {
        return Ok(Exit::NotAllDone);
    }
    Ok(Exit::Done)
}

/// Everything there is to say.
fn judge(observed: &observe::Observations, namespace: &str, now: Timestamp) -> Vec<Check> {
    let mut checks = vec![
        cluster::api_server(&observed.version),
        cluster::flashjobs(&observed.crd),
        cluster::operator(&observed.deployment, &observed.lease, now),
        cluster::akri(&observed.devices),
        cluster::load_balancer(&observed.services, now),
        flasher::certificate(&observed.secret, namespace, now),
        flasher::attestation(&observed.settings, &observed.dice_service, namespace),
    ];
    checks.extend(rights::judge(&observed.rights, namespace));
    checks.push(writers::judge(&observed.rbac, namespace));
    checks
}

fn draw(check: &Check, paint: impl Fn(Style, &str) -> String) -> String {
    let mark = match check.mark {
        Mark::Ok => paint(Style::Good, "ok  "),
        Mark::Fail => paint(Style::Bad, "FAIL"),
        Mark::Unsure => paint(Style::Bold, "?   "),
    };
    let mut text = format!("{mark}  {}: {}\n", check.what, clean(&check.finding));
    if let Some(fix) = &check.fix {
        text.push_str(&format!("      fix: {}\n", clean(fix)));
    }
    text
}
