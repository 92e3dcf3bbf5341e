//! What commands that follow something have in common: a bar, a picture that is drawn anew in place, and when it is enough.

use std::time::Duration;

use anyhow::Result;

use crate::exit::Exit;
use crate::shell::Shell;

/// The width of a bar.
const BAR: usize = 20;
/// The lines of a picture that nobody scrolls.
pub const ALL_LINES: usize = 400;

/// Such as `all       [#####x..............]  5 of 20, 1 failed`.
pub fn bar(title: &str, of: usize, well: usize, badly: usize) -> String {
    let part = |count: usize| (count * BAR / of.max(1)).min(BAR);
    // A failure is seen, be it one of a thousand.
    let bad = part(badly).max(usize::from(badly > 0));
    let good = part(well).min(BAR - bad);
    let failed = if badly > 0 { format!(", {badly} failed") } else { String::new() };
    let rest = ".".repeat(BAR - good - bad);
    let (good, bad) = ("#".repeat(good), "x".repeat(bad));
    format!("{title:<9} [{good}{bad}{rest}]  {well} of {of}{failed}")
}

/// Where a picture is drawn.
#[derive(Default)]
pub struct Canvas {
    drawn: usize,
}

impl Canvas {
    /// Back to the first line of the last picture, and everything below it goes.
    pub fn draw(&mut self, lines: &[String], shell: &Shell) {
        let (width, _) = shell.size();
        let mut text = String::new();
        if self.drawn > 0 {
            text += &format!("\x1b[{}A\x1b[J", self.drawn);
        }
        for line in lines {
            text.extend(line.chars().take(width.max(20) - 1));
            text.push('\n');
        }
        self.drawn = lines.len();
        shell.tell(&text);
    }

    /// Something else was written below the last picture, which stays.
    pub fn leave(&mut self) {
        self.drawn = 0;
    }
}

/// Follows something to its end, or until the user or the time says that is enough. What is followed depends on none of that:
/// `goes_on` says so, and how to look again.
pub async fn until_enough(
    end: impl Future<Output = Result<Exit>>,
    timeout: Option<Duration>,
    goes_on: &str,
    shell: &Shell,
) -> Result<Exit> {
    let time_is_up = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        end = end => end,
        () = time_is_up => {
            shell.say(&format!("Not done in time. {goes_on}"));
            Ok(Exit::TimedOut)
        }
        _ = tokio::signal::ctrl_c() => {
            shell.say(&format!("\nInterrupted. {goes_on}"));
            Ok(Exit::Interrupted)
        }
    }
}
