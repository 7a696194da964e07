//! Slots with stable addresses, so that a shared reference to one stays valid when others are added.
//!
//! The scheduler holds a reference to the running task while that task spawns others. Chunks double in size, for few
//! allocations. An access by index takes two loads and a shift.

use std::cell::{Cell, OnceCell};

/// An append-only list of slots with stable addresses, indexed by `u32`.
pub struct Arena<T> {
    chunks: [OnceCell<Box<[T]>>; CHUNKS],
    length: Cell<u32>,
}

impl<T: Default> Arena<T> {
    /// An arena without slots; nothing is allocated yet.
    pub const fn new() -> Self {
        Self { chunks: [const { OnceCell::new() }; CHUNKS], length: Cell::new(0) }
    }

    /// Adds a default slot and returns its index. `None` at [`Arena::LIMIT`] slots.
    pub fn push_default(&self) -> Option<u32> {
        let index = self.length.get();
        if index >= Self::LIMIT {
            return None;
        }
        let (chunk, _) = locate(index);
        self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| T::default()).collect());
        self.length.set(index + 1);
        Some(index)
    }
}

impl<T> Arena<T> {
    /// Maximum number of slots.
    pub const LIMIT: u32 = (FIRST << CHUNKS as u32) - FIRST;

    /// The slot at `index`. `None` if it was not added.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = locate(index);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// Number of slots.
    pub fn len(&self) -> u32 {
        self.length.get()
    }

    /// Whether the arena is empty.
    pub fn is_empty(&self) -> bool {
        self.length.get() == 0
    }

    /// All slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.length.get()).filter_map(|index| self.get(index))
    }
}

impl<T: Default> Default for Arena<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Chunk `n` holds `FIRST << n` slots, so it starts at index `FIRST * (2^n - 1)`.
#[inline]
fn locate(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + u64::from(FIRST);
    let chunk = 63 - shifted.leading_zeros() - FIRST.trailing_zeros();
    let offset = shifted - (u64::from(FIRST) << chunk);
    (chunk as usize, offset as usize)
}

/// Size of the first chunk. Small enough for unit tests, large enough for rare growth.
const FIRST: u32 = 64;
/// Maximum number of chunks. With [`FIRST`], it limits an arena to about four million slots, the range of a task key.
const CHUNKS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arena_index_has_its_own_slot() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(locate(index), expected, "index {index}");
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn references_into_an_arena_survive_its_growth() {
        let arena: Arena<Cell<u32>> = Arena::new();
        let first = arena.push_default().expect("below the limit");
        let kept = arena.get(first).expect("just added");
        for value in 1..1_000 {
            let index = arena.push_default().expect("below the limit");
            arena.get(index).expect("just added").set(value);
        }
        kept.set(7);
        assert_eq!(arena.get(first).map(Cell::get), Some(7));
        assert_eq!(arena.iter().map(Cell::get).skip(1).collect::<Vec<_>>(), (1..1_000).collect::<Vec<_>>());
    }
}
