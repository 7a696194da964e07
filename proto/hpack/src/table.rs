//! The dynamic table (RFC 7541, 2.3.2 and 4): the most recent fields, within its size limit.

use std::collections::VecDeque;

use weir_http::KnownName;

use crate::token::{Defect, Token};

/// The size of an entry besides its bytes (RFC 7541, 4.1).
pub(crate) const OVERHEAD: usize = 32;

/// Fields, the newest first. Its buffer is at most twice its size limit, and an empty table holds no memory.
#[derive(Debug, Default)]
pub(crate) struct DynamicTable {
    entries: VecDeque<DynamicEntry>,
    /// Concatenated names and values, the oldest first. Evicted ones may still be at the front.
    bytes: Vec<u8>,
    /// Number of bytes removed from the front of `bytes` so far.
    dropped: usize,
    /// The size of all entries (RFC 7541, 4.1).
    size: usize,
    /// Limit of `size`.
    limit: usize,
}

/// One field.
#[derive(Clone, Copy, Debug)]
struct DynamicEntry {
    token: Token,
    defect: Option<Defect>,
    /// Its offset, counted from the first byte that was ever in the table.
    start: usize,
    name: u32,
    value: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TableField<'t> {
    pub token: Token,
    pub defect: Option<Defect>,
    pub name: &'t [u8],
    pub value: &'t [u8],
}

/// The name of a field that is added to the table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EntryName<'n> {
    Text(&'n [u8]),
    /// The name of the entry at this position.
    Of(usize),
}

impl DynamicTable {
    pub(crate) fn new(limit: usize) -> DynamicTable {
        DynamicTable { limit, ..DynamicTable::default() }
    }

    /// The largest size of its entries.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The size of its entries.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Sets the size limit; evicts the oldest entries until they fit.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.evict(0);
    }

    /// The field at a position, 0 for the newest.
    #[inline]
    pub(crate) fn get(&self, position: usize) -> Option<TableField<'_>> {
        let entry = self.entries.get(position)?;
        let start = entry.start - self.dropped;
        let (name, value) = (entry.name as usize, entry.value as usize);
        let bytes = self.bytes.get(start..start + name + value)?;
        let (name, value) = bytes.split_at(name);
        Some(TableField { token: entry.token, defect: entry.defect, name, value })
    }

    /// The position of a field with this name and value, and of one with the name.
    pub(crate) fn find(&self, token: Token, name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
        let mut named = None;
        // The token of a known name identifies it.
        let is_unknown = token == Token::Field(KnownName::Other) || token == Token::UnknownPseudo;
        for (position, entry) in self.entries.iter().enumerate() {
            if entry.token != token || (is_unknown && self.text(entry, 0, entry.name) != name) {
                continue;
            }
            if entry.value as usize == value.len() && self.text(entry, entry.name, entry.value) == value {
                return (Some(position), Some(position));
            }
            named = named.or(Some(position));
        }
        (None, named)
    }

    /// `length` bytes of an entry, from `offset` on.
    #[inline]
    fn text(&self, entry: &DynamicEntry, offset: u32, length: u32) -> &[u8] {
        let start = entry.start - self.dropped + offset as usize;
        self.bytes.get(start..start + length as usize).unwrap_or_default()
    }

    /// Puts a field in front. One that is larger than the whole table leaves it empty (RFC 7541, 4.4).
    pub(crate) fn insert(&mut self, token: Token, name: EntryName<'_>, value: &[u8], defect: Option<Defect>) {
        let known = match name {
            EntryName::Text(text) => Some((0, text.len())),
            EntryName::Of(position) => {
                self.entries.get(position).map(|entry| (entry.start - self.dropped, entry.name as usize))
            }
        };
        let Some((from, length)) = known else { return };
        let size = length + value.len() + OVERHEAD;
        if size > self.limit {
            self.evict(size);
            return;
        }
        let start = self.dropped + self.bytes.len();
        match name {
            EntryName::Text(text) => self.bytes.extend_from_slice(text),
            // This insertion may evict the entry, so its bytes are copied first.
            EntryName::Of(_) => self.bytes.extend_from_within(from..from + length),
        }
        self.bytes.extend_from_slice(value);
        self.evict(size);
        self.size += size;
        let entry = DynamicEntry { token, defect, start, name: length as u32, value: value.len() as u32 };
        self.entries.push_front(entry);
        self.sweep();
    }

    /// Makes room for a field of size `more`.
    fn evict(&mut self, more: usize) {
        while self.size + more > self.limit
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.name as usize + oldest.value as usize + OVERHEAD;
        }
        if self.entries.is_empty() && more == 0 {
            self.dropped += self.bytes.len();
            self.bytes = Vec::new();
        }
    }

    /// Drops the bytes of evicted entries, once they reach the size limit.
    fn sweep(&mut self) {
        let Some(oldest) = self.entries.back() else { return };
        let dead = oldest.start - self.dropped;
        if dead > self.limit {
            self.bytes.drain(..dead);
            self.dropped += dead;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(table: &mut DynamicTable, name: &[u8], value: &[u8]) {
        table.insert(Token::of(name), EntryName::Text(name), value, None);
    }

    #[track_caller]
    fn check(table: &DynamicTable, want: &[(&[u8], &[u8])]) {
        let found: Vec<_> =
            (0..).map_while(|at| table.get(at)).map(|known| (known.name, known.value)).collect();
        assert_eq!(found, want);
        let size: usize = want.iter().map(|(name, value)| name.len() + value.len() + OVERHEAD).sum();
        assert_eq!(table.size(), size);
        assert!(size <= table.limit());
    }

    #[test]
    fn an_insertion_evicts_the_oldest_entries_rfc_7541_4_4() {
        let mut table = DynamicTable::new(2 * (OVERHEAD + 4));
        insert(&mut table, b"aa", b"11");
        insert(&mut table, b"bb", b"22");
        check(&table, &[(b"bb", b"22"), (b"aa", b"11")]);
        insert(&mut table, b"cc", b"3");
        check(&table, &[(b"cc", b"3"), (b"bb", b"22")]);
        table.set_limit(OVERHEAD + 3);
        check(&table, &[(b"cc", b"3")]);
        insert(&mut table, b"cc", b"larger than the table");
        check(&table, &[]);
    }

    #[test]
    fn an_insertion_may_use_the_name_of_an_entry_it_evicts() {
        let mut table = DynamicTable::new(OVERHEAD + 8);
        insert(&mut table, b"name", b"1234");
        table.insert(Token::of(b"name"), EntryName::Of(0), b"5678", None);
        check(&table, &[(b"name", b"5678")]);
        table.insert(Token::of(b"name"), EntryName::Of(7), b"no such entry", None);
        check(&table, &[(b"name", b"5678")]);
    }

    #[test]
    fn evicted_entries_use_at_most_the_table_limit_of_memory() {
        let mut table = DynamicTable::new(256);
        for turn in 0..10_000u32 {
            insert(&mut table, b"x-turn", turn.to_string().as_bytes());
            assert!(table.bytes.len() <= 2 * 256 + 16, "{}", table.bytes.len());
        }
        assert_eq!(table.get(0).map(|known| known.value), Some(&b"9999"[..]));
        assert_eq!(table.find(Token::of(b"x-turn"), b"x-turn", b"9998"), (Some(1), Some(1)));
        assert_eq!(table.find(Token::of(b"x-turn"), b"x-turn", b"1"), (None, Some(0)));
        assert_eq!(table.find(Token::of(b"x-other"), b"x-other", b"9999"), (None, None));
        table.set_limit(0);
        check(&table, &[]);
        assert_eq!(table.bytes.capacity(), 0);
    }
}
