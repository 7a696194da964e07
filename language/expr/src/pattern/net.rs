//! Networks of one family, longest prefix first. Works like the index for string prefixes, but on bits.

use super::duplicates::Duplicates;

/// The bits of an address.
pub(super) trait Bits: Copy + Ord {
    /// Whether the first `length` bits are equal.
    fn same_start(self, other: Self, length: u8) -> bool;
}

impl Bits for u32 {
    fn same_start(self, other: Self, length: u8) -> bool {
        length == 0 || (self ^ other) >> (32 - u32::from(length)) == 0
    }
}

impl Bits for u128 {
    fn same_start(self, other: Self, length: u8) -> bool {
        length == 0 || (self ^ other) >> (128 - u32::from(length)) == 0
    }
}

/// Networks as addresses with a prefix length.
#[derive(Debug)]
pub(super) struct NetIndex<A> {
    nets: Vec<Net<A>>,
    duplicates: Duplicates,
}

#[derive(Debug)]
struct Net<A> {
    address: A,
    /// Index of the smallest larger network that contains this one, or `NO_PARENT`.
    parent: u32,
    /// The first entry for this network.
    entry: u32,
    length: u8,
}

const NO_PARENT: u32 = u32::MAX;

impl<A> Net<A> {
    fn parent(&self) -> Option<usize> {
        (self.parent != NO_PARENT).then_some(self.parent as usize)
    }
}

impl<A: Bits> NetIndex<A> {
    /// Builds the index from some of a segment's `entries` entries.
    pub(super) fn new(mut sorted: Vec<(A, u8, u32)>, entries: usize) -> Self {
        sorted.sort_unstable();
        let (mut nets, mut duplicates) = (Vec::<Net<A>>::with_capacity(sorted.len()), Duplicates::default());
        let mut before = 0;
        for (address, length, entry) in sorted {
            if nets.last().is_some_and(|last| last.address == address && last.length == length) {
                duplicates.link(before, entry, entries);
                before = entry;
                continue;
            }
            before = entry;
            let mut parent = nets.len().checked_sub(1);
            while let Some(index) =
                parent.filter(|index| !nets[*index].address.same_start(address, nets[*index].length))
            {
                parent = nets[index].parent();
            }
            let parent = parent.map_or(NO_PARENT, |index| index as u32);
            nets.push(Net { address, parent, entry, length });
        }
        nets.shrink_to_fit();
        NetIndex { nets, duplicates }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }

    /// The entries with a network that contains the address, with the prefix length. Longest prefix first, equal prefixes in entry order.
    pub(super) fn holding(&self, address: A) -> impl Iterator<Item = (usize, u32)> + '_ {
        let mut index = self.nets.partition_point(|net| net.address <= address).checked_sub(1);
        while let Some(at) =
            index.filter(|at| !self.nets[*at].address.same_start(address, self.nets[*at].length))
        {
            index = self.nets[at].parent();
        }
        std::iter::successors(index.map(|index| &self.nets[index]), |net| {
            net.parent().map(|parent| &self.nets[parent])
        })
        .flat_map(|net| self.duplicates.from(net.entry).map(|entry| (usize::from(net.length), entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_network_index_finds_the_same_networks_as_a_scan(
            nets in proptest::collection::vec((0u8..8, 0u8..=4), 0..30),
            subject in 0u8..16,
        ) {
            let align = |bits: u8| u128::from(bits) << 124;
            let mask = |length: u8| u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            let nets: Vec<_> = nets.into_iter().map(|(bits, length)| (align(bits) & mask(length), length)).collect();
            let numbered = nets.iter().enumerate().map(|(i, (net, length))| (*net, *length, i as u32));
            let index = NetIndex::new(numbered.clone().collect(), nets.len());
            let narrow = numbered.map(|(net, length, i)| ((net >> 96) as u32, length, i)).collect();
            let index_v4 = NetIndex::new(narrow, nets.len());
            let mut expected: Vec<_> = nets
                .iter()
                .enumerate()
                .filter(|(_, (net, length))| align(subject) & mask(*length) == *net)
                .map(|(i, (_, length))| (usize::from(*length), i as u32))
                .collect();
            expected.sort_by_key(|(length, entry)| (std::cmp::Reverse(*length), *entry));
            prop_assert_eq!(&index.holding(align(subject)).collect::<Vec<_>>(), &expected);
            prop_assert_eq!(index_v4.holding((align(subject) >> 96) as u32).collect::<Vec<_>>(), expected);
        }
    }
}
