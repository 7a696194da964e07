//! Pseudo-random numbers that depend on a seed alone.

/// A SplitMix64 generator.
#[derive(Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True once in `chances` calls on average; never for 0.
    pub fn once_in(&mut self, chances: u32) -> bool {
        chances > 0 && self.below(u64::from(chances)) == 0
    }
}
