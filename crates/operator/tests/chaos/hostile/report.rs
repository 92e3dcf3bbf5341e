//! What a run came to, for people.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use flashjob_sim::flashjob::Site;
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::{Flash, flashes};
use jiff::Timestamp;

use super::world::World;
use super::{ADDRESSES, History};

/// How much longer than in a friendly world healthy boards may take.
const MOST: f64 = 1.2;

/// What both worlds came to.
pub struct Report {
    pub seed: u64,
    pub world: String,
    /// The friendly world, unless the run is too short to be compared.
    pub clean: Option<History>,
    pub hostile: History,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "hostile world, seed {}: {}", self.seed, self.world)?;
        if let Some(clean) = &self.clean {
            writeln!(f, "friendly world: all boards done after {:.1} s", clean.seconds)?;
            clean.words.iter().try_for_each(|words| writeln!(f, "  {words}"))?;
        }
        let History { seconds, after_registry, all_seconds, words } = &self.hostile;
        writeln!(
            f,
            "hostile world: all healthy boards done after {seconds:.1} s, jobs finished after {all_seconds:.1} s"
        )?;
        words.iter().try_for_each(|words| writeln!(f, "  {words}"))?;
        if let (Some(clean), Some(after)) = (&self.clean, after_registry) {
            let ratio = after / clean.seconds;
            let reached = if ratio <= MOST { "reached" } else { "not reached" };
            writeln!(
                f,
                "healthy boards done {after:.1} s after the registry was back: {ratio:.2} x the friendly world's time, \
                 wanted are {MOST}: {reached}"
            )?;
        }
        Ok(())
    }
}

/// Who had the addresses from the creation of the jobs until the last healthy board was done.
pub fn occupation(site: &Site<Field>, world: &World, from: Timestamp, to: Timestamp) -> String {
    let span = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64().max(0.0);
    let all = span(from, to) * ADDRESSES as f64;
    let mut shares: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    let places: HashMap<String, usize> = site
        .field
        .boards
        .iter()
        .enumerate()
        .map(|(place, board)| (board.endpoint(), place))
        .collect();
    for start in flashes(&site.kubelet).iter().filter(|start| start.at < to) {
        let kind = places.get(start.endpoint()).map(|place| world.boards[*place]);
        let share = shares.entry(format!("{kind:?}")).or_default();
        share.0 += 1;
        share.1 += span(start.at, start.ended_at.unwrap_or(to).min(to));
    }
    let mut words = format!("until then, of the time of {ADDRESSES} addresses:");
    let mut rest = all;
    for (kind, (count, seconds)) in shares {
        rest -= seconds;
        let (share, mean) = (100.0 * seconds / all, seconds / count as f64);
        let kind = kind.trim_start_matches("Some(").trim_end_matches(')').to_lowercase();
        words += &format!(" {share:.0} % {count} Pods of {kind} boards ({mean:.2} s each),");
    }
    words + &format!(" {:.0} % without a Pod", 100.0 * rest / all)
}
