//! Entries by age: a list from the least recently to the most recently used entry.
//!
//! All entries of a table live equally long after their last use, so this is also the order in which they expire. The list
//! excludes tracked entries.

use crate::layout::header::{NEWER, OLDER};
use crate::slots::Slots;

/// Both ends of the list, as slot plus 1. 0 for none.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    oldest: u32,
    newest: u32,
}

impl Ages {
    /// The least recently used entry.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.oldest.checked_sub(1)
    }

    /// Adds an entry as the most recently used one.
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

    /// Removes an entry from the list.
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
