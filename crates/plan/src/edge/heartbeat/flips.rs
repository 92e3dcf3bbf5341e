//! How fast the condition Ready may turn, over all devices.
//!
//! When the network of a site goes, thousands of devices are missing in the same minute, and each is one write. So they take
//! turns. When more than half of all devices are missing at once it is us and not they, and most of those writes would be
//! taken back soon: then they turn at a tenth of the pace, and one sentence about it takes the place of thousands.

use std::time::Duration;

/// Between two that turn: 50 in a second.
const PACE: Duration = Duration::from_millis(20);
/// So many may turn at a time when none has for a second.
pub const AT_ONCE: usize = 50;
/// The same while most are missing: 5 in a second.
const SLOW: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
/// Fewer that are missing are no mass, also of a small fleet.
const LEAST: usize = 10;

/// Most devices are missing, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mass {
    Began,
    Ended,
}

/// Whose turn it is. Times are of a clock that never goes back.
#[derive(Debug, Default)]
pub struct Flips {
    next: Duration,
    mass: bool,
}

impl Flips {
    /// So many of all devices are missing, whatever their status says by now. Says when that has become a mass, or ceased to
    /// be one, which takes two fifths: a share that goes up and down a little is one event.
    pub fn count(&mut self, missing: usize, all: usize) -> Option<Mass> {
        let (missing_twice, is_few) = (missing.saturating_mul(2), missing < LEAST);
        if !self.mass && missing_twice > all && !is_few {
            self.mass = true;
            return Some(Mass::Began);
        }
        if self.mass && (missing.saturating_mul(5) < all.saturating_mul(2) || is_few) {
            self.mass = false;
            return Some(Mass::Ended);
        }
        None
    }

    /// Whether Ready of one device may turn now. Who asks once a second has the turns of that second.
    pub fn take(&mut self, now: Duration) -> bool {
        let pace = if self.mass { SLOW } else { PACE };
        let earliest = now.saturating_add(pace).saturating_sub(SECOND);
        let next = self.next.max(earliest);
        let may = next <= now;
        if may {
            self.next = next.saturating_add(pace);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many turn in ten seconds, if all want to and ask so often.
    fn in_ten_seconds(flips: &mut Flips, every_ms: usize) -> usize {
        let times = (1_000..11_000).step_by(every_ms);
        let turned = times.map(|ms| {
            let now = Duration::from_millis(u64::try_from(ms).unwrap());
            (0..10 * AT_ONCE).filter(|_| flips.take(now)).count()
        });
        turned.sum()
    }

    #[test]
    fn fifty_a_second_turn_and_five_while_most_are_missing_however_often_it_is_asked() {
        for every_ms in [1, 7, 100, 500, 1000] {
            let mut flips = Flips::default();
            assert_eq!(flips.count(5_000, 10_000), None);
            let turned = in_ten_seconds(&mut flips, every_ms);
            assert!((500..=550).contains(&turned), "{every_ms}: {turned}");
            let mut flips = Flips::default();
            assert_eq!(flips.count(5_001, 10_000), Some(Mass::Began));
            let turned = in_ten_seconds(&mut flips, every_ms);
            assert!((50..=55).contains(&turned), "{every_ms}: {turned}");
        }
    }

    #[test]
    fn after_a_long_rest_no_more_turn_at_once_than_in_a_second() {
        let mut flips = Flips::default();
        let now = Duration::from_secs(1_000_000);
        assert_eq!((0..1000).filter(|_| flips.take(now)).count(), AT_ONCE);
        assert!(!flips.take(now + PACE / 2) && flips.take(now + PACE));
    }

    #[test]
    fn a_fleet_that_goes_and_comes_back_is_two_events() {
        let mut flips = Flips::default();
        let up = (0..=1000).chain((450..1000).rev()).chain(450..1000);
        let told: Vec<_> = up.filter_map(|missing| flips.count(missing, 1000)).collect();
        assert_eq!(told, [Mass::Began]);
        let told: Vec<_> =
            (0..1000).rev().filter_map(|missing| flips.count(missing, 1000)).collect();
        assert_eq!(told, [Mass::Ended]);
    }

    #[test]
    fn a_few_devices_are_no_mass_and_an_empty_fleet_is_none() {
        let mut flips = Flips::default();
        assert_eq!(flips.count(9, 9), None);
        assert_eq!(flips.count(10, 10), Some(Mass::Began));
        assert_eq!(flips.count(0, 0), Some(Mass::Ended));
    }
}
