//! Sorted keys that find every prefix of a subject.
//!
//! Between a key that is a prefix of the subject and the subject itself, in order, everything begins with that
//! key. So the last key not after the subject has all the prefixes of the subject among its own prefixes, and a
//! link from each key to its longest proper prefix is all that is needed.

/// The keys, with the longest proper prefix of each among them.
#[derive(Debug, Default)]
pub(super) struct PrefixIndex {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    bytes: Box<[u8]>,
    parent: Option<u32>,
    /// Entries with this key, in their order.
    entries: Vec<u32>,
}

impl PrefixIndex {
    /// From keys and the entries they belong to.
    pub(super) fn new(entries: impl Iterator<Item = (Vec<u8>, u32)>) -> Self {
        let mut sorted: Vec<_> = entries.collect();
        sorted.sort();
        let mut keys: Vec<Key> = Vec::new();
        for (bytes, entry) in sorted {
            if let Some(last) = keys.last_mut().filter(|last| *last.bytes == *bytes) {
                last.entries.push(entry);
                continue;
            }
            let mut parent = keys.len().checked_sub(1);
            while let Some(index) = parent {
                if bytes.starts_with(&keys[index].bytes) {
                    break;
                }
                parent = keys[index].parent.map(|parent| parent as usize);
            }
            keys.push(Key {
                bytes: bytes.into(),
                parent: parent.map(|index| index as u32),
                entries: vec![entry],
            });
        }
        PrefixIndex { keys }
    }

    /// The entries whose key is a prefix of the subject: longest keys first, equal keys in their order.
    pub(super) fn prefixes<'i>(&'i self, subject: &[u8]) -> impl Iterator<Item = (usize, u32)> + 'i {
        let mut index = self.keys.partition_point(|key| *key.bytes <= *subject).checked_sub(1);
        while let Some(at) = index.filter(|at| !subject.starts_with(&self.keys[*at].bytes)) {
            index = self.keys[at].parent.map(|parent| parent as usize);
        }
        std::iter::successors(index.map(|index| &self.keys[index]), |key| {
            key.parent.map(|parent| &self.keys[parent as usize])
        })
        .flat_map(|key| key.entries.iter().map(|entry| (key.bytes.len(), *entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_scan_finds(
            keys in proptest::collection::vec("[ab/]{0,5}", 0..40),
            subject in "[ab/]{0,8}",
        ) {
            let index = PrefixIndex::new(keys.iter().enumerate().map(|(i, key)| (key.clone().into_bytes(), i as u32)));
            let mut expected: Vec<_> = keys
                .iter()
                .enumerate()
                .filter(|(_, key)| subject.starts_with(key.as_str()))
                .map(|(i, key)| (key.len(), i as u32))
                .collect();
            expected.sort_by_key(|(length, entry)| (std::cmp::Reverse(*length), *entry));
            prop_assert_eq!(index.prefixes(subject.as_bytes()).collect::<Vec<_>>(), expected);
        }
    }
}
