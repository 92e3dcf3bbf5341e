//! The operator's lives in one run: killed when the plot says so, and watched for what it does by itself.

use std::cell::{Cell, RefCell};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flashjob_sim::flashjob::site::Block;
use flashjob_sim::{Launcher, Operator, PATIENCE, Usage, eventually};
use tokio::time::sleep;

use super::judge::{Kind, Problem};
use super::plot::Plot;
use super::probe::{self, LIVENESS, READINESS};
use crate::arena::Arena;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often it is started again when it ends by itself.
const MOST_ENDS: usize = 5;

pub struct Operators {
    launcher: Launcher,
    lives: RefCell<Vec<Operator>>,
    began: Cell<Instant>,
    problems: RefCell<Vec<Problem>>,
    /// The most memory any of them had.
    pub peak: Cell<f64>,
    /// Where it says whether it is well: for the kubelet, and for whoever else reaches it.
    pub health: SocketAddrV4,
    _address: Block,
}

impl Operators {
    pub fn start(arena: &Arena, plot: &Plot) -> Result<Self> {
        let address = Block::claim()?;
        let health = address.board(0, 8081);
        let launcher = arena.operators.clone().with(plot.device_namespaces());
        let launcher = launcher.with(format!("--health-probe-bind-address={health}"));
        let lives = RefCell::new(vec![launcher.start(&[], None)?]);
        Ok(Self {
            launcher,
            lives,
            began: Cell::new(Instant::now()),
            problems: RefCell::default(),
            peak: Cell::new(0.0),
            health,
            _address: address,
        })
    }

    /// Until the first of them can be expected to work.
    pub async fn ready(&self) -> Result<()> {
        eventually("the operator to be ready", PATIENCE, async || {
            Ok(probe::ask(self.health, READINESS).await.ok())
        })
        .await
    }

    /// Kills it, and starts the next as a kubelet would: at once.
    pub fn restart(&self) -> Result<()> {
        let mut lives = self.lives.borrow_mut();
        if let Some(life) = lives.last_mut() {
            life.kill();
        }
        lives.push(self.launcher.start(&[], None)?);
        self.began.set(Instant::now());
        Ok(())
    }

    /// Looks after it as a kubelet would: it is started again when it has ended by itself, and ended when it does not say
    /// that it is well. It must come to neither. Returns when that goes on and on.
    pub async fn mind(&self) -> Result<()> {
        tokio::select! {
            ended = self.mind_its_end() => ended,
            ended = self.mind_its_health() => ended,
        }
    }

    async fn mind_its_end(&self) -> Result<()> {
        loop {
            sleep(LOOK).await;
            if let Ok(usage) = self.usage() {
                self.peak.set(self.peak.get().max(usage.peak_mi_b));
            }
            let ended = self
                .lives
                .borrow_mut()
                .last_mut()
                .and_then(|life| life.has_ended().then(|| life.log_end(600)));
            let Some(words) = ended else { continue };
            if self.go_on_after(Problem::new(Kind::OperatorEnded, words))? {
                return Ok(());
            }
        }
    }

    async fn mind_its_health(&self) -> Result<()> {
        let mut missed = 0;
        loop {
            sleep(probe::PERIOD).await;
            let asked = self.began.get();
            if asked.elapsed() < probe::FIRST {
                missed = 0;
                continue;
            }
            let answer = probe::ask(self.health, LIVENESS).await;
            match answer {
                // Of the life that was asked nothing is known any more.
                _ if asked != self.began.get() => missed = 0,
                Ok(()) => missed = 0,
                Err(_) if missed + 1 < probe::MOST_MISSED => missed += 1,
                Err(error) => {
                    missed = 0;
                    let words = format!("the kubelet ends it after several probes: {error:#}");
                    if self.go_on_after(Problem::new(Kind::Unhealthy, words))? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Notes what became of one life and begins the next, unless there were too many.
    fn go_on_after(&self, problem: Problem) -> Result<bool> {
        self.problems.borrow_mut().push(problem);
        let too_many = self.problems.borrow().len() > MOST_ENDS;
        if !too_many {
            self.restart()?;
        }
        Ok(too_many)
    }

    /// What the one that runs has used.
    pub fn usage(&self) -> Result<Usage> {
        let lives = self.lives.borrow();
        lives.last().context("no operator runs")?.usage()
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
        let logs: Vec<String> = lives.iter().map(|life| life.log_end(200_000)).collect();
        logs.join("\n--- the next life\n")
    }
}
