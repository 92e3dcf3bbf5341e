//! What a run came to, for people.

use std::fmt;

use flashjob_sim::stage::Stage;
use jiff::Timestamp;

use super::History;

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

/// How busy the addresses were from the creation of the jobs until the last healthy board was done.
pub fn occupation(stage: &Stage, from: Timestamp, to: Timestamp) -> String {
    let starts = stage.node.starts();
    let span = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64().max(0.0);
    let within = starts.iter().filter_map(|start| {
        let ended = start.ended_at?.min(to);
        (start.at < to).then(|| span(start.at, ended))
    });
    let within: Vec<f64> = within.collect();
    let sum: f64 = within.iter().sum();
    format!(
        "until then {} flash Pods of {:.2} s on average, {:.2} of them at once; {} addresses were in use at most",
        within.len(),
        sum / within.len().max(1) as f64,
        sum / span(from, to),
        stage.balancer.peak(),
    )
}
