//! `kubectl flashjob check`: is everything there that a flash needs?
//!
//! First everything is looked at, each thing by itself, so that one that cannot be seen hides no other. Then it is judged,
//! by functions that see nothing but what was found.

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
use crate::exit::End;
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
struct Line {
    mark: Mark,
    what: &'static str,
    finding: String,
    fix: Option<String>,
}

impl Line {
    fn ok(what: &'static str, finding: impl Into<String>) -> Line {
        Line { mark: Mark::Ok, what, finding: finding.into(), fix: None }
    }

    fn fail(what: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Line {
        Line { mark: Mark::Fail, what, finding: finding.into(), fix: Some(fix.into()) }
    }

    fn unsure(what: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Line {
        Line { mark: Mark::Unsure, what, finding: finding.into(), fix: Some(fix.into()) }
    }
}

/// Why a thing could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unseen {
    /// The user may not.
    Forbidden,
    /// In the server's or the network's words.
    Failed(String),
}

impl Unseen {
    /// A line that says so.
    fn line(&self, what: &'static str, whom: &str) -> Line {
        match self {
            Unseen::Forbidden => {
                Line::unsure(what, "you may not look", format!("somebody who may: {whom}"))
            }
            Unseen::Failed(words) => {
                let fix = "see what is said of the API server, then again: kubectl flashjob check";
                Line::unsure(what, format!("cannot be read: {words}"), fix)
            }
        }
    }
}

/// What was seen of a thing, or why not.
type Seen<T> = Result<T, Unseen>;

pub async fn run(to: &Connection, shell: &Shell) -> Result<End> {
    let to = to.open().await?;
    let now = clock::now();
    let seen = observe::everything(&to).await;
    let lines = judge(&seen, &to.namespace, now);
    let terminal = std::io::stdout().is_terminal();
    let mut text = String::new();
    for line in &lines {
        // Colours are decided by standard error; this goes to standard output, which may be a file.
        let paint = |style, word: &str| {
            if terminal { shell.paint(style, word) } else { word.to_owned() }
        };
        text.push_str(&draw(line, paint));
    }
    shell.out(&text)?;
    if lines.iter().any(|line| line.mark == Mark::Fail) {
        return Ok(End::NotAllDone);
    }
    Ok(End::Done)
}

/// Everything there is to say.
fn judge(seen: &observe::Observations, namespace: &str, now: Timestamp) -> Vec<Line> {
    let mut lines = vec![
        cluster::api_server(&seen.version),
        cluster::flashjobs(&seen.crd),
        cluster::operator(&seen.deployment, &seen.lease, now),
        cluster::akri(&seen.devices),
        cluster::load_balancer(&seen.services, now),
        flasher::certificate(&seen.secret, namespace, now),
        flasher::attestation(&seen.settings, &seen.dice_service, namespace),
    ];
    lines.extend(rights::judge(&seen.rights, namespace));
    lines.push(writers::judge(&seen.rbac, namespace));
    lines
}

fn draw(line: &Line, paint: impl Fn(Style, &str) -> String) -> String {
    let mark = match line.mark {
        Mark::Ok => paint(Style::Good, "ok  "),
        Mark::Fail => paint(Style::Bad, "FAIL"),
        Mark::Unsure => paint(Style::Bold, "?   "),
    };
    let mut text = format!("{mark}  {}: {}\n", line.what, clean(&line.finding));
    if let Some(fix) = &line.fix {
        text.push_str(&format!("      fix: {}\n", clean(fix)));
    }
    text
}
