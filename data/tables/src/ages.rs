//! Entries by age: a list from the one that was not used for the longest time to the one that was used last.
//!
//! All entries of a table live equally long after their last use, so this is also the order in which they expire. Entries that
//! are tracked are not in it.

use crate::layout::header::{NEWER, OLDER};
use crate::slots::Slots;

/// Both ends of the list: slots plus 1, 0 for none.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    oldest: u32,
    newest: u32,
}

impl Ages {
    /// The entry that was not used for the longest time.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.oldest.checked_sub(1)
    }

    /// Adds an entry that is used now.
    #[inline]
    pub(crate) fn append(&mut self, slots: &mut Slots, stride: usize, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot + 1);
        let words = slots.get_mut(slot, stride);
        (words[OLDER], words[NEWER]) = (older, 0);
        match older.checked_sub(1) {
            Some(older) => slots.get_mut(older, stride)[NEWER] = slot + 1,
            None => self.oldest = slot + 1,
        }
    }

    /// Takes an entry out.
    #[inline]
    pub(crate) fn remove(&mut self, slots: &mut Slots, stride: usize, slot: u32) {
        let words = slots.get_mut(slot, stride);
        let (older, newer) = (words[OLDER], words[NEWER]);
        match older.checked_sub(1) {
            Some(older) => slots.get_mut(older, stride)[NEWER] = newer,
            None => self.oldest = newer,
        }
        match newer.checked_sub(1) {
            Some(newer) => slots.get_mut(newer, stride)[OLDER] = older,
            None => self.newest = older,
        }
    }
}
