//! What a seed decides: the victim's rollout, what the attacker does, and when the operator is killed.

use std::time::Duration;

use flashjob_sim::SeededRng;

/// One thing the attacker does, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Campaign {
    /// ConfigMaps with the labels and the owner of the victim's ledger, twenty a second.
    ForgedLedgers,
    /// Jobs of its own whose ledgers it fills with nonsense.
    BrokenLedgers,
    /// Jobs that ask for addresses nobody has, and wait a day for them.
    Unserved,
    /// Many jobs in a namespace that may have no ConfigMaps, so that no ledger can be made.
    RefusedLedgers,
    /// Jobs for the victim's boards, by address in every spelling: with an image that exits with 0, one that never ends, and
    /// one that flashes.
    Usurpers,
    /// Pods with the labels and the owner of the victim's attempts that end with exit code 0.
    ForgedPods,
    /// Services with the labels and the owner of the victim's.
    ForgedServices,
    /// Pods that never end and say that they are at the victim's boards: of jobs of its own, of such that are gone, and of
    /// such that never were.
    Squatters,
    /// More than a hundred jobs at once.
    Flood,
    /// Jobs that name ten thousand devices, or a few with very long names, and selectors.
    LargeJobs,
    /// Jobs with any spec that the API server takes, sensible or not, and edits of them.
    AnySpec,
    /// Jobs made, edited, deleted, robbed of finalizer, ledger and Pods, with the victim's name and annotations.
    Churn,
    /// Connections to the operator's port for health that say nothing.
    IdleConnections,
}

impl Campaign {
    /// How many milliseconds it takes to have an effect.
    fn prelude(self) -> usize {
        match self {
            // A Service that waits holds up others after five seconds.
            Campaign::Unserved => 6500,
            // A kubelet takes three probes of a second to lose its patience.
            Campaign::IdleConnections => 5000,
            _ => 200,
        }
    }
}

/// In the order of the first seeds: each has its own, and half of the others come with more.
pub const CAMPAIGNS: [Campaign; 13] = [
    Campaign::ForgedLedgers,
    Campaign::BrokenLedgers,
    Campaign::Unserved,
    Campaign::RefusedLedgers,
    Campaign::Usurpers,
    Campaign::ForgedPods,
    Campaign::ForgedServices,
    Campaign::Squatters,
    Campaign::Flood,
    Campaign::LargeJobs,
    Campaign::AnySpec,
    Campaign::Churn,
    Campaign::IdleConnections,
];

/// So many seeds have one campaign each.
const FIRST_ROUND: u64 = CAMPAIGNS.len() as u64;

/// The short form: the first round, and the other setting of `--device-namespaces` for the two to which it makes the
/// greatest difference.
pub const SHORT: [u64; 15] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 96];

/// How the victim's job names its boards.
#[derive(Clone, Copy, Debug)]
pub enum Written {
    Path,
    Name,
    Uid,
}

#[derive(Clone, Debug)]
pub struct Plot {
    pub boards: usize,
    pub batch: usize,
    pub written: Written,
    /// How long a flash takes.
    pub flash: Duration,
    /// `--device-namespaces=own`, or `*`.
    pub own: bool,
    /// Whether the attacker's objects come before the victim's in a list.
    pub sorts_first: bool,
    /// The operator is killed when so many flashes of the victim have begun.
    pub restarts: Vec<usize>,
    /// The real garbage collector runs.
    pub collector: bool,
    pub campaigns: Vec<Campaign>,
    /// How long the attack goes on before the victim's job is created.
    pub prelude: Duration,
    /// For what the campaigns choose.
    pub rng: SeededRng,
}

impl Plot {
    pub fn new(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let nth = usize::try_from(seed.wrapping_sub(1) % FIRST_ROUND).unwrap_or_default();
        let mut campaigns = vec![CAMPAIGNS[nth]];
        while seed > FIRST_ROUND && campaigns.len() < 3 && rng.chance(1, 2) {
            campaigns.extend(rng.pick(&CAMPAIGNS));
        }
        campaigns.sort();
        campaigns.dedup();
        if campaigns.contains(&Campaign::RefusedLedgers) {
            // No ConfigMaps, no forgeries of them.
            let needs_none =
                |c: &Campaign| !matches!(c, Campaign::ForgedLedgers | Campaign::BrokenLedgers);
            campaigns.retain(needs_none);
        }
        let boards = 6 + rng.below(5);
        let restarts = (0..rng.below(3)).map(|_| 1 + rng.below(boards - 1));
        let mut restarts: Vec<usize> = restarts.collect();
        restarts.sort_unstable();
        restarts.dedup();
        let written = [Written::Path, Written::Name, Written::Uid];
        let least = campaigns.iter().map(|campaign| campaign.prelude()).max().unwrap_or_default();
        Self {
            boards,
            batch: 2 + rng.below(3),
            written: rng.pick(&written).copied().unwrap_or(Written::Path),
            flash: Duration::from_millis(300 + rng.below(400) as u64),
            own: rng.chance(2, 3),
            sorts_first: rng.chance(1, 2),
            restarts,
            collector: rng.chance(1, 4),
            campaigns,
            prelude: Duration::from_millis((least + rng.below(1500)) as u64),
            rng: SeededRng::new(rng.next()),
        }
    }

    /// Where the operator lets jobs find devices.
    pub fn device_namespaces(&self) -> &'static str {
        if self.own { "--device-namespaces=own" } else { "--device-namespaces=*" }
    }

    pub fn has(&self, campaign: Campaign) -> bool {
        self.campaigns.contains(&campaign)
    }

    pub fn summary(&self) -> String {
        let campaigns: Vec<String> = self.campaigns.iter().map(|c| format!("{c:?}")).collect();
        let collector = if self.collector { ", garbage collector" } else { "" };
        format!(
            "{} with {}, {} boards, {} restarts{collector}",
            campaigns.join(" and "),
            self.device_namespaces(),
            self.boards,
            self.restarts.len() + 1,
        )
    }
}
