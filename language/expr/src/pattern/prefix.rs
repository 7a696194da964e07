//! Sorted keys that find every key that is a prefix, or a suffix, of a subject.
//!
//! In sort order, all strings between a prefix of the subject and the subject begin with that prefix. So the last key not after the
//! subject has all prefixes of the subject among its own prefixes, and one link from each key to its longest proper prefix is enough.
//! Suffixes are prefixes read backwards.
//!
//! The keys stay in their entries. The index needs eight bytes for each.

use std::cmp::Ordering;

use super::duplicates::Duplicates;

/// The end from which keys are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyEnd {
    Front,
    Back,
}

/// The keys, each with a link to its longest proper prefix.
#[derive(Debug)]
pub(super) struct PrefixIndex {
    end: KeyEnd,
    keys: Vec<PrefixKey>,
    duplicates: Duplicates,
}

#[derive(Debug)]
struct PrefixKey {
    /// The first entry with this key.
    entry: u32,
    /// Index of the longest proper prefix, or `NO_PARENT`.
    parent: u32,
}

const NO_PARENT: u32 = u32::MAX;

impl PrefixKey {
    fn parent(&self) -> Option<usize> {
        (self.parent != NO_PARENT).then_some(self.parent as usize)
    }
}

impl PrefixIndex {
    /// Builds the index of `entries` entries. `key` returns the key of an entry.
    pub(super) fn new<'k>(end: KeyEnd, entries: usize, key: impl Fn(u32) -> &'k [u8]) -> Self {
        let mut sorted: Vec<u32> = (0..entries as u32).collect();
        sorted.sort_unstable_by(|a, b| end.compare(key(*a), key(*b)).then(a.cmp(b)));
        let (mut keys, mut duplicates) = (Vec::<PrefixKey>::with_capacity(entries), Duplicates::default());
        let mut before = None;
        for entry in sorted {
            if let Some(before) = before.replace(entry).filter(|before| key(*before) == key(entry)) {
                duplicates.link(before, entry, entries);
                continue;
            }
            let mut parent = keys.len().checked_sub(1);
            while let Some(index) = parent.filter(|index| !end.begins(key(entry), key(keys[*index].entry))) {
                parent = keys[index].parent();
            }
            keys.push(PrefixKey { entry, parent: parent.map_or(NO_PARENT, |index| index as u32) });
        }
        keys.shrink_to_fit();
        PrefixIndex { end, keys, duplicates }
    }

    /// The entries with a key that is a prefix of the subject, with its length. Longest keys first, equal keys in entry order.
    pub(super) fn prefixes<'i, 'k: 'i>(
        &'i self,
        subject: &[u8],
        key: impl Fn(u32) -> &'k [u8] + 'i,
    ) -> impl Iterator<Item = (usize, u32)> + 'i {
        let not_after = |at: &PrefixKey| self.end.compare(key(at.entry), subject) != Ordering::Greater;
        let mut index = self.keys.partition_point(not_after).checked_sub(1);
        while let Some(at) = index.filter(|at| !self.end.begins(subject, key(self.keys[*at].entry))) {
            index = self.keys[at].parent();
        }
        std::iter::successors(index.map(|index| &self.keys[index]), |key| {
            key.parent().map(|parent| &self.keys[parent])
        })
        .flat_map(move |at| {
            let length = key(at.entry).len();
            self.duplicates.from(at.entry).map(move |entry| (length, entry))
        })
    }
}

impl KeyEnd {
    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyEnd::Front => a.cmp(b),
            KeyEnd::Back => a.iter().rev().cmp(b.iter().rev()),
        }
    }

    fn begins(self, subject: &[u8], key: &[u8]) -> bool {
        match self {
            KeyEnd::Front => subject.starts_with(key),
            KeyEnd::Back => subject.ends_with(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_prefix_index_finds_the_same_keys_as_a_scan(
            keys in proptest::collection::vec("[ab/]{0,5}", 0..40),
            subject in "[ab/]{0,8}",
            backwards: bool,
        ) {
            let end = if backwards { KeyEnd::Back } else { KeyEnd::Front };
            let key = |entry: u32| keys[entry as usize].as_bytes();
            let index = PrefixIndex::new(end, keys.len(), key);
            let mut expected: Vec<_> = keys
                .iter()
                .enumerate()
                .filter(|(_, key)| if backwards { subject.ends_with(*key) } else { subject.starts_with(*key) })
                .map(|(i, key)| (key.len(), i as u32))
                .collect();
            expected.sort_by_key(|(length, entry)| (std::cmp::Reverse(*length), *entry));
            prop_assert_eq!(index.prefixes(subject.as_bytes(), key).collect::<Vec<_>>(), expected);
        }
    }
}
