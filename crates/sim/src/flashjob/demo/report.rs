//! What came of the rollout, for people.

use std::time::Duration;

use crate::flashjob::field::OLD_VERSION;
use crate::flashjob::site::{Account, Outcome};

/// One line for each device.
pub fn table(account: &Account) -> String {
    let width = account.entries.iter().map(|entry| entry.device.len()).max().unwrap_or_default();
    let mut text =
        format!("\n{:<width$}  TYPE      FROM    TO      ATTEMPTS     TIME  REASON\n", "DEVICE");
    for entry in &account.entries {
        let reason = match &entry.outcome {
            Outcome::Succeeded => "",
            Outcome::Failed(reason) => reason.as_str(),
            Outcome::Open => "no result",
        };
        let line = format!(
            "{:<width$}  {:<8}  {OLD_VERSION:<6}  {:<6}  {:>8}  {:>5.1} s  {reason}",
            entry.device, entry.kind, entry.runs, entry.attempts, entry.seconds
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The verdict.
pub fn sentence(account: &Account, version: &str, took: Duration) -> String {
    let all = account.entries.len();
    let runs = account.entries.iter().filter(|entry| entry.runs == version).count();
    let disagreements = account.disagreements();
    let verdict = match disagreements.as_slice() {
        [] => "The boards' own ledgers say the same as the FlashJob, device by device.".to_owned(),
        some => format!("The boards' own ledgers DISAGREE with the FlashJob: {}.", some.join("; ")),
    };
    let seconds = took.as_secs_f64();
    format!("\n{runs} of {all} boards run {version} after {seconds:.0} s. {verdict}\n")
}
