//! Networks of one family, finest first: the same idea as for prefixes of strings, on bits.

/// Networks as left-aligned 128-bit numbers with a prefix length.
#[derive(Debug, Default)]
pub(super) struct NetIndex {
    nets: Vec<Net>,
}

#[derive(Debug)]
struct Net {
    address: u128,
    length: u8,
    parent: Option<u32>,
    entries: Vec<u32>,
}

fn covers(address: u128, length: u8, other: u128) -> bool {
    length == 0 || (address ^ other) >> (128 - u32::from(length)) == 0
}

impl NetIndex {
    pub(super) fn new(entries: impl Iterator<Item = (u128, u8, u32)>) -> Self {
        let mut sorted: Vec<_> = entries.collect();
        sorted.sort_unstable();
        let mut nets: Vec<Net> = Vec::new();
        for (address, length, entry) in sorted {
            if let Some(last) =
                nets.last_mut().filter(|last| last.address == address && last.length == length)
            {
                last.entries.push(entry);
                continue;
            }
            let mut parent = nets.len().checked_sub(1);
            while let Some(index) =
                parent.filter(|index| !covers(nets[*index].address, nets[*index].length, address))
            {
                parent = nets[index].parent.map(|parent| parent as usize);
            }
            nets.push(Net {
                address,
                length,
                parent: parent.map(|index| index as u32),
                entries: vec![entry],
            });
        }
        NetIndex { nets }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }

    /// The entries whose network holds the address: finest first, equal ones in their order.
    pub(super) fn holding(&self, address: u128) -> impl Iterator<Item = (usize, u32)> + '_ {
        let mut index = self.nets.partition_point(|net| net.address <= address).checked_sub(1);
        while let Some(at) =
            index.filter(|at| !covers(self.nets[*at].address, self.nets[*at].length, address))
        {
            index = self.nets[at].parent.map(|parent| parent as usize);
        }
        std::iter::successors(index.map(|index| &self.nets[index]), |net| {
            net.parent.map(|parent| &self.nets[parent as usize])
        })
        .flat_map(|net| net.entries.iter().map(|entry| (usize::from(net.length), *entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_scan_finds(
            nets in proptest::collection::vec((0u8..8, 0u8..=4), 0..30),
            subject in 0u8..16,
        ) {
            let align = |bits: u8| u128::from(bits) << 124;
            let mask = |length: u8| u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            let nets: Vec<_> = nets.into_iter().map(|(bits, length)| (align(bits) & mask(length), length)).collect();
            let index = NetIndex::new(nets.iter().enumerate().map(|(i, (net, length))| (*net, *length, i as u32)));
            let mut expected: Vec<_> = nets
                .iter()
                .enumerate()
                .filter(|(_, (net, length))| align(subject) & mask(*length) == *net)
                .map(|(i, (_, length))| (usize::from(*length), i as u32))
                .collect();
            expected.sort_by_key(|(length, entry)| (std::cmp::Reverse(*length), *entry));
            prop_assert_eq!(index.holding(align(subject)).collect::<Vec<_>>(), expected);
        }
    }
}
