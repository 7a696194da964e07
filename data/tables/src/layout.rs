//! The layout of entries, computed once from the declaration.

use weir_expr::table::{DataKind, DataType, Declaration, KeyType, Stored};

/// Offsets of the words that every entry has, before its key.
pub(crate) mod header {
    /// Distinguishes successive entries in the same slot. 0 while the slot is free.
    pub(crate) const GENERATION: usize = 0;
    /// When the entry expires: the low 32 bits of the time in milliseconds.
    pub(crate) const EXPIRES: usize = 1;
    /// The number of references that track it.
    pub(crate) const TRACKERS: usize = 2;
    /// The next entry in the bucket's chain, or the next free slot: slot plus 1, 0 for none.
    pub(crate) const NEXT: usize = 3;
    /// The hash of the next entry in the bucket's chain.
    pub(crate) const NEXT_HASH: usize = 4;
    /// The next less recently used entry: slot plus 1, 0 for none. 0 while the entry is tracked.
    pub(crate) const OLDER: usize = 5;
    /// The next more recently used entry.
    pub(crate) const NEWER: usize = 6;
    /// Number of header words.
    pub(crate) const WORDS: usize = 7;
}

/// Offsets of the words of an entry.
#[derive(Debug, Clone)]
pub struct EntryLayout {
    /// Number of words of the key.
    pub(crate) key_words: usize,
    /// Number of words of a whole entry.
    pub(crate) stride: usize,
    /// Number of further shares after the own counts and rates. 0 unless the table is aggregated.
    pub(crate) shares: usize,
    /// Number of words of a share: all counts and rates.
    pub(crate) share_words: usize,
    /// Byte rates count blocks of this many bytes.
    pub(crate) bytes_rate_factor: u32,
    /// One bit for each declared type.
    declared: u32,
    /// The position of each type. A type that is not declared may be stored in an array.
    slots: [FieldSlot; DataType::ALL.len()],
}

// `declared` has a bit for each type.
const _: () = assert!(DataType::ALL.len() <= u32::BITS as usize);

/// The position of one data type.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FieldSlot {
    /// The offset of the first word. 0 if not stored.
    pub at: u32,
    pub elements: u16,
    /// The period of a rate, in milliseconds.
    pub period_ms: u32,
}

/// The number of words of one element.
pub(crate) const fn words_of(kind: DataKind) -> usize {
    match kind {
        DataKind::Plain | DataKind::Count | DataKind::Name => 1,
        DataKind::LongCount => 2,
        DataKind::Rate => 3,
    }
}

/// The number of words of a key in an entry. A string has one more word for its length.
pub(crate) fn words_of_key(kind: KeyType) -> usize {
    match kind {
        KeyType::Ipv4 | KeyType::Integer => 1,
        KeyType::Ipv6 => 4,
        KeyType::Text(length) => 1 + (length.min(KeyType::MAX_STORED) as usize).div_ceil(4),
        KeyType::Binary(length) => (length as usize).div_ceil(4),
    }
}

impl EntryLayout {
    /// The layout of a declared table.
    pub fn of(declaration: &Declaration) -> EntryLayout {
        EntryLayout::with_shares(declaration, 0)
    }

    /// The layout with room for `shares` further shares. Counts and rates come last, so a share is one run of words.
    pub(crate) fn with_shares(declaration: &Declaration, shares: usize) -> EntryLayout {
        let key_words = words_of_key(declaration.key);
        let mut slots = [FieldSlot::default(); DataType::ALL.len()];
        let mut declared = 0;
        let mut end = header::WORDS + key_words;
        let mut sums_at = end;
        for of_sums in [false, true] {
            sums_at = end;
            for Stored { data, elements, period_ms } in &declaration.stored {
                let slot = &mut slots[*data as usize];
                if slot.at == 0 && data.is_sum() == of_sums {
                    *slot = FieldSlot { at: end as u32, elements: *elements, period_ms: *period_ms };
                    declared |= 1 << *data as u32;
                    end += words_of(data.kind()) * usize::from(*elements);
                }
            }
        }
        // An array replaces the older single types.
        for data in DataType::ALL.into_iter().filter(|data| declared & 1 << *data as u32 == 0) {
            if let Some((array, element)) = data.in_array()
                && let FieldSlot { at, elements, period_ms } = slots[array as usize]
                && element < elements
            {
                let at = at + words_of(array.kind()) as u32 * u32::from(element);
                slots[data as usize] = FieldSlot { at, elements: 1, period_ms };
            }
        }
        let share_words = end - sums_at;
        let bytes_rate_factor = declaration.bytes_rate_factor.max(1);
        EntryLayout {
            key_words,
            stride: end + shares * share_words,
            shares,
            share_words,
            bytes_rate_factor,
            declared,
            slots,
        }
    }

    /// Whether the table is aggregated: counts and rates are sums over the shares of all instances.
    pub fn is_aggregate(&self) -> bool {
        self.shares > 0
    }

    /// The word range of a share. Share 0 is the own one.
    pub(crate) fn share(&self, number: usize) -> std::ops::Range<usize> {
        let from = self.stride - (self.shares + 1 - number) * self.share_words;
        from..from + self.share_words
    }

    /// Whether entries store the type.
    #[inline]
    pub fn stores(&self, data: DataType) -> bool {
        self.declared & 1 << data as u32 != 0
    }

    /// Whether entries store the type, as itself or in the array that replaces it.
    pub fn has_place(&self, data: DataType) -> bool {
        self.slot(data, 0).is_some()
    }

    /// How many elements of the type entries store. 0 for none.
    pub fn elements(&self, data: DataType) -> u16 {
        if self.stores(data) { self.slots[data as usize].elements } else { 0 }
    }

    /// The period of a rate, in milliseconds. 0 if the rate is not stored.
    pub fn period_ms(&self, data: DataType) -> u32 {
        if self.stores(data) { self.slots[data as usize].period_ms } else { 0 }
    }

    /// The types that entries store, in display order.
    pub fn stored(&self) -> impl Iterator<Item = DataType> + '_ {
        DataType::ALL.into_iter().filter(|data| self.stores(*data))
    }

    /// The word offset of one element and the period of a rate. `None` if it is not stored. An array replaces the older
    /// single types.
    #[inline]
    pub(crate) fn slot(&self, data: DataType, element: u16) -> Option<(usize, u32)> {
        let slot = &self.slots[data as usize];
        let at = slot.at as usize + words_of(data.kind()) * usize::from(element);
        (element < slot.elements).then_some((at, slot.period_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_table_entry_stores_exactly_the_declared_data() {
        let mut declaration = fixture::declaration(10, 0);
        let layout = EntryLayout::of(&declaration);
        assert_eq!(layout.stride, header::WORDS + 1 + 1 + 3);
        assert_eq!(layout.slot(DataType::Gpc0, 0), Some((header::WORDS + 1, 0)));
        assert_eq!(layout.slot(DataType::RequestRate, 0), Some((header::WORDS + 2, 10_000)));
        assert_eq!(layout.slot(DataType::Gpc0, 1), None);
        assert_eq!(layout.slot(DataType::Gpc1, 0), None);
        declaration.key = KeyType::Text(5);
        declaration.stored.push(Stored { data: DataType::GpcRate, elements: 3, period_ms: 5 });
        let layout = EntryLayout::of(&declaration);
        assert_eq!(layout.stride, header::WORDS + 3 + 1 + 3 + 9);
        assert_eq!(layout.slot(DataType::GpcRate, 2), Some((layout.stride - 3, 5)));
        assert_eq!(layout.slot(DataType::Gpc0Rate, 0), layout.slot(DataType::GpcRate, 0), "it stands in");
        assert_eq!(layout.slot(DataType::Gpc1Rate, 0), layout.slot(DataType::GpcRate, 1));
        assert_eq!(layout.slot(DataType::Gpc1Rate, 1), None);
        assert!(
            layout.stores(DataType::GpcRate) && !layout.stores(DataType::Gpc1Rate),
            "it is not shown twice"
        );
        assert_eq!((layout.elements(DataType::GpcRate), layout.elements(DataType::Gpc1Rate)), (3, 0));
        assert_eq!((layout.period_ms(DataType::GpcRate), layout.period_ms(DataType::Gpc1Rate)), (5, 0));
        assert_eq!(layout.slot(DataType::Gpc0, 0), Some((header::WORDS + 3, 0)), "declared by itself");
        declaration.stored[2].elements = 1;
        assert_eq!(EntryLayout::of(&declaration).slot(DataType::Gpc1Rate, 0), None, "the array is too short");
    }

    #[test]
    fn an_ipv4_entry_with_one_rate_takes_44_bytes() {
        let mut declaration = fixture::declaration(10, 0);
        declaration.stored.remove(0);
        assert_eq!(EntryLayout::of(&declaration).stride * size_of::<u32>(), 44);
    }
}
