//! Random numbers that can be had again: every choice of a run comes from its seed, so a run that went wrong is run once more.

/// SplitMix64: small, and good enough to choose boards and moments.
#[derive(Debug, Clone)]
pub struct SeededRng(u64);

impl SeededRng {
    /// The same seed gives the same choices.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    // An endless iterator would be no better: nobody wants to collect them.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..n`; 0 when there is none.
    pub fn below(&mut self, n: usize) -> usize {
        // The slant towards small numbers is 1 in 2^64 / n: nothing, for what is chosen here.
        (self.next() % n.max(1) as u64) as usize
    }

    /// Whether something comes to pass that does so `times` times `in_all`.
    pub fn chance(&mut self, times: usize, in_all: usize) -> bool {
        self.below(in_all) < times
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let place = self.below(from.len());
        from.get(place)
    }

    /// Puts them into any order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = self.below(last + 1);
            all.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_choices_on_every_machine() {
        let mut rng = SeededRng::new(1_234_567);
        // The figures of the algorithm's reference implementation.
        let wanted = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([rng.next(), rng.next()], wanted);
    }

    #[test]
    fn a_shuffle_loses_nothing_and_a_chance_is_as_likely_as_it_says() {
        let mut rng = SeededRng::new(7);
        let mut all: Vec<usize> = (0..100).collect();
        rng.shuffle(&mut all);
        assert_ne!(all, (0..100).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        let often = (0..10_000).filter(|_| rng.chance(1, 10)).count();
        assert!((800..1200).contains(&often), "{often}");
        assert_eq!(rng.pick::<u8>(&[]), None);
    }
}
