//! Whether a device still reports: it does until three of its periods have passed without a heartbeat.
//!
//! Sixteen bytes for each device, because there may be a hundred thousand. The period is the one the device was last given;
//! while it may still go by a longer one, that counts.
//!
//! A process that has just started has heard nobody, which says nothing about the devices. So for three periods from its
//! start it goes by what was known before: the [roll], and what the status says.

use jiff::Timestamp;

use super::roll;
use crate::time::after;

/// Heartbeats that may be missed.
const MISSED: i64 = 3;
/// Longer periods are taken for this one: a year.
const LONGEST_PERIOD: u32 = 366 * 24 * 3600;
const NO_SHARD: u16 = u16::MAX;

/// What is known of when a device was heard of last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Seconds since 1970; 0 is never.
    last_seen: u32,
    /// Seconds between two heartbeats, as the device has it since its last one.
    period: u32,
    /// What it was given since.
    given: u32,
    shard: u16,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// It has not been heard of.
    Nobody,
    /// This process has heard it.
    Heard,
    /// From the roll; when that was written, the device reported.
    RollReporting,
    /// The same, and it was missing already.
    RollMissing,
}

/// How a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    Reporting,
    /// It has missed three heartbeats.
    Missing {
        /// Its last one.
        since: Timestamp,
    },
    /// This process has not run for long enough to say. What the status says stays.
    Grace {
        /// Its last heartbeat, from the roll.
        seen: Option<Timestamp>,
    },
    /// Nobody knows of a heartbeat.
    Never,
}

impl Liveness {
    /// A device that has not been heard of yet, with the period that its configuration has.
    pub fn new(period_seconds: i64) -> Self {
        let period = period(period_seconds);
        Self { last_seen: 0, period, given: period, shard: NO_SHARD, source: Source::Nobody }
    }

    /// From the roll, by a process that started at that time. A time that is yet to come is none.
    pub fn remembered(entry: &roll::Entry, written_at: Timestamp, started: Timestamp) -> Self {
        let mut liveness = Self::new(entry.period_seconds.into());
        liveness.last_seen = seconds(entry.last_seen.min(started));
        let missing = written_at >= after(entry.last_seen, liveness.patience());
        liveness.source = if missing { Source::RollMissing } else { Source::RollReporting };
        liveness
    }

    /// A heartbeat. Also where the clock has gone back since the last one.
    pub fn beat(&mut self, now: Timestamp) {
        (self.last_seen, self.source) = (seconds(now), Source::Heard);
    }

    /// Whether the device has been given another period than the one it goes by, for all that is known.
    pub fn changes_period(&self) -> bool {
        self.period != self.given
    }

    /// It goes by the period that it was given.
    pub fn take_period(&mut self) {
        self.period = self.given;
    }

    /// The device was given a configuration with this period.
    pub fn give(&mut self, period_seconds: i64) {
        self.given = period(period_seconds);
        self.period = self.period.max(self.given);
    }

    pub fn last_seen(&self) -> Option<Timestamp> {
        let seen = Timestamp::from_second(self.last_seen.into()).ok();
        seen.filter(|_| self.last_seen != 0)
    }

    pub fn period_seconds(&self) -> u32 {
        self.period
    }

    /// Where it is in the roll.
    pub fn shard(&self) -> Option<u16> {
        (self.shard != NO_SHARD).then_some(self.shard)
    }

    pub fn put_into(&mut self, shard: u16) {
        self.shard = shard;
    }

    /// How the device is, for a process that started at that time.
    pub fn state(&self, now: Timestamp, started: Timestamp) -> Live {
        let in_time = self.deadline(started).is_some_and(|deadline| now < deadline);
        match (self.source, self.last_seen()) {
            (Source::Heard, _) if in_time => Live::Reporting,
            (_, seen) if in_time => Live::Grace { seen },
            (_, Some(since)) => Live::Missing { since },
            (_, None) => Live::Never,
        }
    }

    /// Heartbeats that should have come since the last one: as many as a device may miss at most, and none where nobody knows.
    pub fn missed(&self, now: Timestamp) -> u32 {
        if self.source != Source::Heard {
            return 0;
        }
        let (seen, period) = (i64::from(self.last_seen), i64::from(self.period));
        let periods = now.as_second().saturating_sub(seen).saturating_add(period / 2) / period;
        u32::try_from(periods.clamp(1, MISSED + 1) - 1).unwrap_or_default()
    }

    fn deadline(&self, started: Timestamp) -> Option<Timestamp> {
        match self.source {
            Source::Heard => self.last_seen().map(|seen| after(seen, self.patience())),
            Source::Nobody | Source::RollReporting => Some(after(started, self.patience())),
            Source::RollMissing => None,
        }
    }

    fn patience(&self) -> i64 {
        MISSED * i64::from(self.period)
    }
}

fn period(seconds: i64) -> u32 {
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX).min(LONGEST_PERIOD)
}

fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.as_second().max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(START + second).unwrap()
    }

    /// In a process that started long before.
    fn state(liveness: &Liveness, second: i64) -> Live {
        liveness.state(at(second), at(-1_000_000))
    }

    fn heard(second: i64) -> Liveness {
        let mut liveness = Liveness::new(60);
        liveness.beat(at(second));
        liveness
    }

    fn remembered(seen: i64, written: i64) -> Liveness {
        let entry = roll::Entry { device: "a/b".into(), last_seen: at(seen), period_seconds: 60 };
        Liveness::remembered(&entry, at(written), at(0))
    }

    #[test]
    fn a_hundred_thousand_devices_take_less_than_two_mebibytes() {
        assert!(size_of::<Liveness>() <= 16);
    }

    #[test]
    fn a_device_is_missing_after_three_periods_and_back_with_its_next_heartbeat() {
        let mut device = heard(0);
        assert_eq!(state(&device, 179), Live::Reporting);
        assert_eq!(state(&device, 180), Live::Missing { since: at(0) });
        device.beat(at(500));
        assert_eq!(state(&device, 501), Live::Reporting);
    }

    #[test]
    fn a_new_device_has_never_reported() {
        assert_eq!(state(&Liveness::new(60), 0), Live::Never);
        assert_eq!(Liveness::new(60).last_seen(), None);
    }

    #[test]
    fn a_longer_period_counts_at_once_and_a_shorter_one_once_the_device_has_it() {
        let mut device = heard(0);
        device.give(3600);
        assert_eq!(state(&device, 3 * 3600 - 1), Live::Reporting);
        device.beat(at(3600));
        device.take_period();
        device.give(5);
        assert_eq!(state(&device, 2 * 3600), Live::Reporting);
        device.beat(at(2 * 3600));
        assert_eq!((device.changes_period(), device.period_seconds()), (true, 3600));
        device.take_period();
        assert_eq!((device.changes_period(), device.period_seconds()), (false, 5));
        assert_eq!(state(&device, 2 * 3600 + 15), Live::Missing { since: at(2 * 3600) });
    }

    #[test]
    fn heartbeats_that_did_not_come_are_three_at_most() {
        let device = heard(0);
        let missed = [1, 60, 89, 90, 149, 150, 209, 210, 9_000_000].map(|s| device.missed(at(s)));
        assert_eq!(missed, [0, 0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(device.missed(at(-500)), 0, "the clock went back");
        assert_eq!(Liveness::new(60).missed(at(0)), 0);
        assert_eq!(remembered(-500, -400).missed(at(0)), 0, "somebody else may have heard it");
    }

    #[test]
    fn nonsense_for_a_period_is_a_period_all_the_same() {
        let of = |seconds| Liveness::new(seconds).period_seconds();
        assert_eq!([0, -5, i64::MIN, 7].map(of), [1, 1, 1, 7]);
        assert_eq!(of(i64::MAX), LONGEST_PERIOD);
    }

    #[test]
    fn after_a_start_nobody_is_missing_who_was_not_before() {
        let grace = |device: &Liveness, second| device.state(at(second), at(0));
        let reporting = remembered(-200, -100);
        assert_eq!(grace(&reporting, 179), Live::Grace { seen: Some(at(-200)) });
        assert_eq!(grace(&reporting, 180), Live::Missing { since: at(-200) });
        let missing = remembered(-400, -100);
        assert_eq!(grace(&missing, 0), Live::Missing { since: at(-400) });
        let unknown = Liveness::new(60);
        assert_eq!(grace(&unknown, 179), Live::Grace { seen: None });
        assert_eq!(grace(&unknown, 180), Live::Never);
        for mut device in [reporting, missing, unknown] {
            device.beat(at(10));
            assert_eq!(grace(&device, 11), Live::Reporting);
        }
    }

    #[test]
    fn a_clock_that_jumps_back_makes_nobody_missing() {
        let mut device = heard(0);
        for second in [-1, -3600, -400_000] {
            assert_eq!(state(&device, second), Live::Reporting, "{second}");
        }
        device.beat(at(-3600));
        assert_eq!(state(&device, -3600 + 179), Live::Reporting);
        assert_eq!(state(&device, -3600 + 180), Live::Missing { since: at(-3600) });
        assert_eq!(
            remembered(-60, -10).state(at(-9000), at(0)),
            Live::Grace { seen: Some(at(-60)) }
        );
    }

    #[test]
    fn a_roll_from_the_future_keeps_nobody_alive() {
        let device = remembered(900_000, 900_010);
        assert_eq!(device.last_seen(), Some(at(0)));
        assert_eq!(device.state(at(180), at(0)), Live::Missing { since: at(0) });
    }
}
