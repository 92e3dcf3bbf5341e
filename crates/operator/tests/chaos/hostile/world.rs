//! What a seed decides: which boards are faulty, which job has which, and when what happens.

use std::time::Duration;

use flashjob_sim::SeededRng;
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::site::NAMESPACE;
use flashjob_sim::flashjob::{Fault, Site, Times};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ELSEWHERE;

/// From so many boards on, the run is long enough to say something about time.
const FULL: usize = 100;

/// What a board is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Healthy,
    /// Akri finds it, and it does not take updates: it says nothing, or says yes and never calls.
    Silent,
    /// It loses its power every few seconds, long enough for Akri to miss it.
    Flapping,
}

/// A FlashJob.
#[derive(Debug, Clone)]
pub struct Job {
    pub namespace: &'static str,
    pub name: &'static str,
    /// By number, in the order of the job.
    pub boards: Vec<usize>,
    /// Another job has some of its boards: whichever comes second finds the version there, and leaves it alone.
    pub shares: bool,
}

/// Something that is wrong for a while.
#[derive(Debug, Clone, Copy)]
pub struct Outage {
    /// It begins when so many healthy boards run the new version.
    pub at: usize,
    pub lasts: Duration,
    /// So long after its beginning the operator is killed.
    pub kill_after: Duration,
}

/// One world.
#[derive(Debug, Clone)]
pub struct World {
    pub boards: Vec<Kind>,
    pub jobs: Vec<Job>,
    /// The operator is killed when so many healthy boards run the new version.
    pub kills: Vec<usize>,
    pub registry: Option<Outage>,
    pub quota: Option<Outage>,
    /// For what goes on in the background.
    seed: u64,
}

impl World {
    pub fn new(seed: u64, count: usize) -> Self {
        let mut rng = SeededRng::new(seed);
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        let (silent, flapping) = (count.div_ceil(10), count.div_ceil(20));
        let mut boards = vec![Kind::Healthy; count];
        for (place, number) in order.iter().take(silent + flapping).enumerate() {
            boards[*number] = if place < silent { Kind::Silent } else { Kind::Flapping };
        }
        let healthy = count.saturating_sub(silent + flapping);

        rng.shuffle(&mut order);
        let (north, south) = order.split_at(count * 6 / 10);
        let mut west = south[..south.len() / 4].to_vec();
        rng.shuffle(&mut west);
        let jobs = vec![
            Job { namespace: NAMESPACE, name: "north", boards: north.to_vec(), shares: false },
            Job { namespace: ELSEWHERE, name: "south", boards: south.to_vec(), shares: true },
            Job { namespace: ELSEWHERE, name: "west", boards: west, shares: true },
        ];

        let long = count >= FULL;
        let mut outage = |earliest: usize, latest: usize, seconds: u64| {
            let lasts = Duration::from_secs(seconds);
            let within = rng.below(lasts.as_millis() as usize * 8 / 10) as u64;
            Outage {
                at: earliest + rng.below(latest - earliest + 1),
                lasts,
                kill_after: Duration::from_millis(500 + within),
            }
        };
        // Early, so that most of the work is still to be done when it is back.
        let registry = outage(healthy / 50, healthy / 10, if long { 30 } else { 5 });
        let quota = outage(healthy / 4, healthy / 2, if long { 10 } else { 3 });
        // Two more kills are in the outages. Two at one place follow each other at once.
        let kills = (count / 25).max(3) - 2;
        let mut kills: Vec<usize> = (0..kills).map(|_| rng.below(healthy.max(1))).collect();
        kills.sort_unstable();
        let (registry, quota) = (Some(registry), Some(quota));
        Self { boards, jobs, kills, registry, quota, seed: rng.next() }
    }

    /// The same fleet and the same jobs, and nothing goes wrong.
    pub fn friendly(&self) -> Self {
        Self {
            boards: vec![Kind::Healthy; self.boards.len()],
            kills: Vec::new(),
            registry: None,
            quota: None,
            ..self.clone()
        }
    }

    pub fn full(&self) -> bool {
        self.boards.len() >= FULL
    }

    /// How much faster than in the field everybody lives.
    pub fn speed(&self) -> f64 {
        40.0
    }

    pub fn patience(&self) -> Duration {
        Duration::from_secs(if self.full() { 1800 } else { 300 })
    }

    /// The numbers of the boards of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = usize> {
        self.boards.iter().enumerate().filter(move |(_, other)| **other == kind).map(|(n, _)| n)
    }

    pub fn healthy(&self) -> impl Iterator<Item = usize> {
        self.of(Kind::Healthy)
    }

    pub fn summary(&self) -> String {
        let count = |kind| self.of(kind).count();
        let seconds = |outage: Option<Outage>| outage.map_or(0, |outage| outage.lasts.as_secs());
        format!(
            "{} boards, {} silent and {} flapping; registry down for {} s, no Pods for {} s, {} kills",
            self.boards.len(),
            count(Kind::Silent),
            count(Kind::Flapping),
            seconds(self.registry),
            seconds(self.quota),
            self.kills.len()
                + usize::from(self.registry.is_some())
                + usize::from(self.quota.is_some()),
        )
    }

    /// Makes boards silent, and lets others flap until what is returned is dropped.
    pub fn make_faulty(&self, site: &Site<Field>) -> JoinSet<()> {
        let mut rng = SeededRng::new(self.seed);
        for number in self.of(Kind::Silent) {
            let fault = if rng.chance(1, 2) { Fault::NoAnswer } else { Fault::NeverCallsBack };
            site.field.boards[number].inject(fault, Times::Always);
        }
        let mut flapping = JoinSet::new();
        for number in self.of(Kind::Flapping) {
            let mut rng = SeededRng::new(rng.next());
            let switch = site.field.boards[number].switch();
            flapping.spawn(async move {
                loop {
                    sleep(Duration::from_millis(2500 + rng.below(5000) as u64)).await;
                    let dark = Duration::from_millis(1200 + rng.below(1500) as u64);
                    switch.off(dark).await;
                    sleep(dark).await;
                }
            });
        }
        flapping
    }
}
