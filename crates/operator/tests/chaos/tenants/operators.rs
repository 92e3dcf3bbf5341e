//! The operator's lives in one run: killed when the plot says so, and watched for what it does by itself.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::Usage;
use tokio::time::sleep;

use super::judge::{Kind, Problem};
use crate::arena::{Arena, Life};

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often it is started again when it ends by itself.
const MOST_ENDS: usize = 5;

pub struct Operators<'a> {
    arena: &'a Arena,
    flags: Vec<String>,
    lives: RefCell<Vec<Life>>,
    problems: RefCell<Vec<Problem>>,
    /// The most memory any of them had.
    pub peak: Cell<f64>,
}

impl<'a> Operators<'a> {
    pub fn start(arena: &'a Arena, flags: Vec<String>) -> Result<Self> {
        let lives = RefCell::new(vec![arena.operator(&flags, None)?]);
        Ok(Self { arena, flags, lives, problems: RefCell::default(), peak: Cell::new(0.0) })
    }

    /// Kills it, and starts the next as a kubelet would: at once.
    pub fn restart(&self) -> Result<()> {
        let mut lives = self.lives.borrow_mut();
        if let Some(life) = lives.last_mut() {
            life.running.stop();
        }
        lives.push(self.arena.operator(&self.flags, None)?);
        Ok(())
    }

    /// Starts it again whenever it has ended by itself, which it must not. Returns when that goes on and on.
    pub async fn mind(&self) -> Result<()> {
        loop {
            sleep(LOOK).await;
            if let Ok(usage) = self.usage() {
                self.peak.set(self.peak.get().max(usage.peak_mi_b));
            }
            let ended = self
                .lives
                .borrow_mut()
                .last_mut()
                .and_then(|life| life.running.has_ended().then(|| tail(&life.log(), 600)));
            let Some(words) = ended else { continue };
            self.problems.borrow_mut().push(Problem::new(Kind::OperatorEnded, words));
            if self.problems.borrow().len() > MOST_ENDS {
                return Ok(());
            }
            self.restart()?;
        }
    }

    /// What the one that runs has used.
    pub fn usage(&self) -> Result<Usage> {
        let lives = self.lives.borrow();
        let life = lives.last().context("no operator runs")?;
        Usage::of(life.running.pid().unsigned_abs())
    }

    pub fn restarts(&self) -> usize {
        self.lives.borrow().len() - 1
    }

    /// What they did by themselves, and whether any has panicked.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.problems.borrow().clone();
        for life in self.lives.borrow().iter() {
            let log = life.log();
            let panics = log.lines().filter(|line| line.contains("panicked"));
            problems.extend(panics.map(|line| Problem::new(Kind::OperatorEnded, line)));
        }
        problems
    }

    /// The end of what each has said.
    pub fn logs(&self) -> String {
        let lives = self.lives.borrow();
        let logs: Vec<String> = lives.iter().map(|life| tail(&life.log(), 200_000)).collect();
        logs.join("\n--- the next life\n")
    }
}

/// The last so many bytes of a text, from the beginning of a line.
fn tail(text: &str, bytes: usize) -> String {
    let from = text.len().saturating_sub(bytes);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let cut = &text[from..];
    match from {
        0 => cut.to_owned(),
        _ => cut.split_once('\n').map_or(cut, |(_, rest)| rest).to_owned(),
    }
}
