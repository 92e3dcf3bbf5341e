//! Questions on a terminal, answered line by line.

use std::io::BufRead;

use anyhow::Result;

use crate::exit::UsageError;
use crate::shell::Shell;

/// The longest answer that is read.
const LONGEST: u64 = 64 * 1024;

/// Somebody who answers line by line.
pub struct Prompt<R, W> {
    input: R,
    pub tell: W,
}

impl<R: BufRead, W: FnMut(&str)> Prompt<R, W> {
    pub fn new(input: R, tell: W) -> Self {
        Self { input, tell }
    }

    /// Asks once. `None`: there are no more answers.
    pub fn line(&mut self, question: &str) -> Option<String> {
        (self.tell)(question);
        let mut answer = Vec::new();
        let mut input = std::io::Read::take(&mut self.input, LONGEST);
        match input.read_until(b'\n', &mut answer) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(String::from_utf8_lossy(&answer).trim().to_owned()),
        }
    }

    /// Asks until the answer makes sense.
    pub fn until<T>(
        &mut self,
        question: &str,
        mut read: impl FnMut(&str) -> Result<T, String>,
    ) -> Option<T> {
        loop {
            match read(&self.line(question)?) {
                Ok(answer) => return Some(answer),
                Err(why) => {
                    let mut letters = why.chars();
                    let first = letters.next().map(|c| c.to_ascii_uppercase());
                    let why: String = first.into_iter().chain(letters).collect();
                    (self.tell)(&format!("{why}\n"));
                }
            }
        }
    }
}

pub fn yes_or_no(answer: &str) -> Result<bool, String> {
    match answer.to_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("Answer y or n.".to_owned()),
    }
}

/// Where nobody can be asked, a command that wants to be confirmed needs its flag for that. Said before anything is done.
pub fn needs_yes(yes: bool, why: &str, shell: &Shell) -> Result<(), UsageError> {
    if yes || shell.can_ask() {
        return Ok(());
    }
    Err(UsageError(format!("{why}: add --yes if you mean it")))
}

/// Whether the user means it. Broken off is no.
pub fn is_meant(yes: bool, question: &str, shell: &Shell) -> bool {
    if yes {
        return true;
    }
    let mut prompt = Prompt::new(std::io::stdin().lock(), |text: &str| shell.tell(text));
    let answer = prompt.until(&format!("{question} (y/n): "), yes_or_no);
    answer.unwrap_or_default()
}
