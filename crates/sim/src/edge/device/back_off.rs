//! How long our agent stays away after it was refused: longer each time, and by chance, so that a fleet does not come back
//! all at once.

use std::time::Duration;

use crate::SeededRng;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// The chance is in thousandths.
const PARTS: usize = 1000;

pub(super) struct BackOff {
    dice: SeededRng,
    refused: u32,
}

impl BackOff {
    pub fn new(seed: u64) -> Self {
        Self { dice: SeededRng::new(seed), refused: 0 }
    }

    /// In the field. What the server asks for comes first, and the chance on top of it.
    pub fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let most = FIRST.saturating_mul(1 << self.refused.min(16)).min(LONGEST);
        self.refused += 1;
        let chance = most.mul_f64(self.dice.below(PARTS + 1) as f64 / PARTS as f64);
        retry_after.unwrap_or_default() + chance
    }

    /// All is well again.
    pub fn reset(&mut self) {
        self.refused = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest of many first waits, second waits and so on.
    fn longest(tries: usize, retry_after: Option<Duration>) -> Vec<Duration> {
        let mut longest = vec![Duration::ZERO; tries];
        for seed in 0..2000 {
            let mut back_off = BackOff::new(seed);
            for most in &mut longest {
                *most = (*most).max(back_off.next(retry_after));
            }
        }
        longest
    }

    #[test]
    fn it_doubles_to_five_minutes_and_may_be_anything_below() {
        for (most, wanted) in longest(12, None).into_iter().zip([1, 2, 4, 8, 16, 32, 64, 128, 256])
        {
            let wanted = Duration::from_secs(wanted);
            assert!(most <= wanted && most > wanted.mul_f64(0.95), "{most:?} {wanted:?}");
        }
        assert!(longest(40, None).iter().skip(9).all(|most| *most <= LONGEST));
        let mut shortest = BackOff::new(0);
        let below = (0..2000).map(|_| shortest.next(None)).filter(|wait| *wait < LONGEST / 4);
        assert!((350..650).contains(&below.count()));
    }

    #[test]
    fn the_server_is_obeyed_and_success_forgets() {
        let asked = Duration::from_secs(30);
        let mut back_off = BackOff::new(1);
        for _ in 0..100 {
            let wait = back_off.next(Some(asked));
            assert!(wait >= asked && wait <= asked + LONGEST, "{wait:?}");
        }
        back_off.reset();
        assert!(back_off.next(None) <= FIRST);
    }
}
