//! Where text goes: data to standard output, everything for people to standard error.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use rustix::termios::tcgetwinsize;

use crate::args::TerminalEnv;

/// Standard output and standard error, and what they are connected to.
pub struct Shell {
    colour: bool,
    live: bool,
    asks: bool,
}

/// How a word looks.
#[derive(Clone, Copy)]
pub enum Style {
    Good,
    Bad,
    Bold,
}

impl Shell {
    pub fn new() -> Shell {
        let terminal = std::io::stderr().is_terminal();
        let TerminalEnv { plain, dumb } = TerminalEnv::read();
        Shell {
            colour: terminal && !plain && !dumb,
            live: terminal && !dumb,
            asks: terminal && std::io::stdin().is_terminal(),
        }
    }

    /// Whether a picture can be drawn anew in place.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether somebody is there to be asked.
    pub fn can_ask(&self) -> bool {
        self.asks
    }

    /// Columns and lines of the terminal.
    pub fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(std::io::stderr()).ok().filter(|size| size.ws_col > 0);
        size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
    }

    /// Data: what the command is about.
    pub fn out(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// A line for people. That nobody reads it any more is no reason to stop.
    pub fn say(&self, line: &str) {
        self.tell(&format!("{line}\n"));
    }

    /// Text for people, as it is.
    pub fn tell(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Something that is not as it could be.
    pub fn note(&self, text: &str) {
        self.say(&format!("{} {text}", self.paint(Style::Bold, "note:")));
    }

    pub fn error(&self, error: &anyhow::Error) {
        let mut messages: Vec<String> = Vec::new();
        for cause in error.chain().map(ToString::to_string) {
            // Some errors repeat their cause's message.
            if !messages.iter().any(|said| said.contains(&cause)) {
                messages.push(cause);
            }
        }
        self.say(&format!("{} {}", self.paint(Style::Bad, "error:"), messages.join(": ")));
    }

    /// Text in a style, where there are colours.
    pub fn paint(&self, style: Style, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match style {
            Style::Good => 32,
            Style::Bad => 31,
            Style::Bold => 1,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// What others wrote, safe to show: a message from a board must not move the cursor.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
