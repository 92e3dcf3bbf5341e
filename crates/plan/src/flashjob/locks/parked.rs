//! What parked jobs have flashed: the one thing about them that other jobs need to know, in 16 bytes a board.
//!
//! A board is known by a hash of its address. The hash has a key of its own in every process, so nobody can choose an
//! address that is taken for another's.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use jiff::Timestamp;

use crate::flashjob::endpoint::BoardKey;
use crate::flashjob::ids::JobUid;

/// The flashes of all parked jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Parked {
    key: RandomState,
    /// By the time of the last one and the job: most questions are about what came later than all of them.
    jobs: BTreeMap<(i64, JobUid), Box<[Flash]>>,
}

/// A board's hash, and when it was flashed.
type Flash = (u64, i64);

impl Parked {
    /// Keeps what a job has flashed.
    pub fn keep<'a>(
        &mut self,
        job: &JobUid,
        boards: impl Iterator<Item = (BoardKey<'a>, Timestamp)>,
    ) {
        self.forget(job);
        let flash = |(board, at): (BoardKey<'a>, Timestamp)| (self.hash(&board), nanoseconds(at));
        let mut flashes: Vec<Flash> = boards.map(flash).collect();
        flashes.sort_unstable();
        // Of one board the last one counts.
        flashes.reverse();
        flashes.dedup_by_key(|(board, _)| *board);
        flashes.reverse();
        if let Some(last) = flashes.iter().map(|(_, at)| *at).max() {
            self.jobs.insert((last, job.clone()), flashes.into_boxed_slice());
        }
    }

    /// The job is not parked any more, or gone.
    pub fn forget(&mut self, job: &JobUid) {
        self.jobs.retain(|(_, other), _| other != job);
    }

    /// A job that has flashed this board since then, of those that `count`.
    pub fn flashed_since(
        &self,
        board: &BoardKey<'_>,
        since: Timestamp,
        counts: impl Fn(&JobUid) -> bool,
    ) -> Option<&JobUid> {
        let since = nanoseconds(since);
        let mut later = self.jobs.range((since.saturating_add(1), JobUid::default())..).peekable();
        later.peek()?;
        let board = self.hash(board);
        let flashed = |flashes: &[Flash]| {
            let found = flashes.binary_search_by_key(&board, |(other, _)| *other);
            found.ok().and_then(|place| flashes.get(place)).is_some_and(|(_, at)| *at > since)
        };
        let found = later.find(|((_, job), flashes)| flashed(flashes) && counts(job));
        found.map(|((_, job), _)| job)
    }

    fn hash(&self, board: &BoardKey<'_>) -> u64 {
        self.key.hash_one(board)
    }

    /// Whether nothing is kept.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

fn nanoseconds(at: Timestamp) -> i64 {
    // The year 2262 is the end of time here.
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}
