//! The key of a task: worker, slot and generation in one word.

/// Identifies one task of the process. A key is one word, and becomes invalid when its task ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TaskKey(u64);

impl TaskKey {
    /// No task.
    pub const NONE: Self = Self(0);

    pub(crate) fn new(worker: u16, slot: u32, generation: u32) -> Self {
        debug_assert!(u32::from(worker) < 1 << WORKER_BITS && slot < 1 << SLOT_BITS && generation != 0);
        let worker = u64::from(worker) << (SLOT_BITS + 32);
        Self(worker | u64::from(slot) << 32 | u64::from(generation))
    }

    /// Whether this is [`TaskKey::NONE`].
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The key as one word.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The reverse of [`TaskKey::to_bits`]. Other bits make an invalid key, or the key of some task, which may get a spurious wake.
    #[inline]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The worker's number in the process, unique across runtimes.
    #[inline]
    pub(crate) fn worker(self) -> u16 {
        (self.0 >> (SLOT_BITS + 32)) as u16
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        (self.0 >> 32) as u32 & ((1 << SLOT_BITS) - 1)
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl std::fmt::Debug for TaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {}/{}/{}", self.worker(), self.slot(), self.generation())
    }
}

/// Bits of a key for the worker's number: up to 1,024 workers.
pub(crate) const WORKER_BITS: u32 = 10;
/// Bits of a key for the slot in a worker: up to four million tasks.
const SLOT_BITS: u32 = 22;

const _: () = assert!(weir_containers::Arena::<()>::LIMIT <= 1 << SLOT_BITS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_task_key_survive_a_round_trip() {
        let key = TaskKey::new(1023, (1 << SLOT_BITS) - 1, u32::MAX);
        assert_eq!((key.worker(), key.slot(), key.generation()), (1023, (1 << SLOT_BITS) - 1, u32::MAX));
        assert_eq!(TaskKey::from_bits(key.to_bits()), key);
        assert!(TaskKey::default().is_none() && !key.is_none());
    }
}
