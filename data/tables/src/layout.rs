//! Where an entry has what: computed once from the declaration.

use weir_expr::table::{DataKind, DataType, Declaration, KeyType, Stored};

/// Words of an entry that every entry has, before its key.
pub(crate) mod header {
    /// Which use of the slot this is; 0 while it is free.
    pub const GENERATION: usize = 0;
    /// When the entry expires: the low 32 bits of milliseconds.
    pub const EXPIRES: usize = 1;
    /// How many track it.
    pub const TRACKERS: usize = 2;
    /// The next entry of its bucket, or the next free slot; 0 for none, else the slot plus 1.
    pub const NEXT: usize = 3;
    /// The entry that was used before it; none while it is tracked.
    pub const OLDER: usize = 4;
    /// The entry that was used after it.
    pub const NEWER: usize = 5;
    /// How many there are.
    pub const WORDS: usize = 6;
}

/// Where the words of an entry are.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Words of the key.
    pub(crate) key_words: usize,
    /// Words of a whole entry.
    pub(crate) stride: usize,
    /// Rates of bytes count blocks of so many bytes.
    pub(crate) bytes_rate_factor: u32,
    places: [Place; DataType::ALL.len()],
}

/// Where the data of one type is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// The first word; 0 if the type is not stored.
    pub at: u32,
    /// How many of it.
    pub elements: u16,
    /// The period of a rate, in milliseconds.
    pub period_ms: u32,
}

/// Words of one element.
pub(crate) const fn words_of(kind: DataKind) -> usize {
    match kind {
        DataKind::Plain | DataKind::Count | DataKind::Name => 1,
        DataKind::LongCount => 2,
        DataKind::Rate => 3,
    }
}

/// How many words a key takes in an entry: of a string, one for its length.
pub(crate) const fn words_of_key(kind: KeyType) -> usize {
    match kind {
        KeyType::Ipv4 | KeyType::Integer => 1,
        KeyType::Ipv6 => 4,
        KeyType::Text(length) => 1 + (length as usize).div_ceil(4),
        KeyType::Binary(length) => (length as usize).div_ceil(4),
    }
}

impl Layout {
    /// The layout of a declared table.
    pub fn of(declaration: &Declaration) -> Layout {
        let key_words = words_of_key(declaration.key);
        let mut places = [Place::default(); DataType::ALL.len()];
        let mut end = header::WORDS + key_words;
        for Stored { data, elements, period_ms } in &declaration.stored {
            let place = &mut places[*data as usize];
            if place.at == 0 {
                *place = Place { at: end as u32, elements: *elements, period_ms: *period_ms };
                end += words_of(data.kind()) * usize::from(*elements);
            }
        }
        Layout { key_words, stride: end, bytes_rate_factor: declaration.bytes_rate_factor.max(1), places }
    }

    /// Whether entries store the type.
    pub fn stores(&self, data: DataType) -> bool {
        self.places[data as usize].at != 0
    }

    /// Whether entries store the type, its rate or an array that stands in for it.
    pub(crate) fn holds(&self, data: DataType) -> bool {
        let has = |data| self.place(data, 0).is_some();
        has(data) || data.rate().is_some_and(has)
    }

    /// How many elements of the type entries store; 0 for none.
    pub fn elements(&self, data: DataType) -> u16 {
        self.places[data as usize].elements
    }

    /// The period of a rate, in milliseconds.
    pub fn period_ms(&self, data: DataType) -> u32 {
        self.places[data as usize].period_ms
    }

    /// The types that entries store, in the order in which they are shown.
    pub fn stored(&self) -> impl Iterator<Item = DataType> + '_ {
        DataType::ALL.into_iter().filter(|data| self.stores(*data))
    }

    /// Where one element is, and the period of a rate; none if it is not stored. An array stands in for the older single ones.
    #[inline]
    pub(crate) fn place(&self, data: DataType, element: u16) -> Option<(usize, u32)> {
        let place = &self.places[data as usize];
        if place.at == 0 {
            let (array, element) = data.in_array()?;
            return self.place(array, element);
        }
        let at = place.at as usize + words_of(data.kind()) * usize::from(element);
        (element < place.elements).then_some((at, place.period_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn an_entry_has_what_is_declared_and_nothing_else() {
        let mut declaration = fixture::declaration(10, 0);
        let layout = Layout::of(&declaration);
        assert_eq!(layout.stride, header::WORDS + 1 + 1 + 3);
        assert_eq!(layout.place(DataType::Gpc0, 0), Some((header::WORDS + 1, 0)));
        assert_eq!(layout.place(DataType::RequestRate, 0), Some((header::WORDS + 2, 10_000)));
        assert_eq!(layout.place(DataType::Gpc0, 1), None);
        assert_eq!(layout.place(DataType::Gpc1, 0), None);
        declaration.key = KeyType::Text(5);
        declaration.stored.push(Stored { data: DataType::GpcRate, elements: 3, period_ms: 5 });
        let layout = Layout::of(&declaration);
        assert_eq!(layout.stride, header::WORDS + 3 + 1 + 3 + 9);
        assert_eq!(layout.place(DataType::GpcRate, 2), Some((layout.stride - 3, 5)));
        assert_eq!(layout.place(DataType::Gpc0Rate, 0), layout.place(DataType::GpcRate, 0), "it stands in");
        assert_eq!(layout.period_ms(DataType::GpcRate), 5);
    }

    #[test]
    fn an_address_with_one_rate_takes_forty_bytes() {
        let mut declaration = fixture::declaration(10, 0);
        declaration.stored.remove(0);
        assert_eq!(Layout::of(&declaration).stride * size_of::<u32>(), 40);
    }
}
