//! Randomness from the kernel.

use crate::{Errno, Result};
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `space` with unpredictable bytes.
pub fn fill(mut space: &mut [u8]) -> Result<()> {
    while !space.is_empty() {
        match getrandom(&mut *space, GetRandomFlags::empty()) {
            Ok(count) => space = &mut space[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// An unpredictable number.
pub fn number() -> Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_random_numbers_differ() {
        assert_ne!(number(), number());
    }
}
