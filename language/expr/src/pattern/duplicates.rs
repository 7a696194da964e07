//! Entries with the same key: an index contains the first, and this list links to the others.

/// For each entry of a segment, the next one with the same key.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// Empty while all keys are unique, which is usual.
    next: Vec<u32>,
}

impl Duplicates {
    /// Records that `next` follows `entry`, in a segment of `entries` entries.
    pub(super) fn link(&mut self, entry: u32, next: u32, entries: usize) {
        if self.next.is_empty() {
            self.next = vec![NONE; entries];
        }
        self.next[entry as usize] = next;
    }

    /// An entry and the entries linked after it.
    pub(super) fn from(&self, entry: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |entry: &u32| self.next.get(*entry as usize).copied().filter(|next| *next != NONE);
        std::iter::successors(Some(entry), next)
    }
}

const NONE: u32 = u32::MAX;
