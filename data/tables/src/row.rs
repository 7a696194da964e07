//! One entry, while its shard is locked.

use std::sync::Arc;

use weir_expr::Value;
use weir_expr::table::{DataKind, DataType, KeyType};

use crate::key::value_of;
use crate::layout::{EntryLayout, header};
use crate::names::NumberedNames;
use crate::rate::{RateParts, StoredRate};

/// An entry of a table, while its data is read and changed.
#[derive(Debug)]
pub struct LockedEntry<'s> {
    pub(crate) words: &'s mut [u32],
    pub(crate) layout: &'s EntryLayout,
    pub(crate) names: &'s NumberedNames,
    pub(crate) key: KeyType,
    /// The low 32 bits of the current time in milliseconds.
    pub(crate) now: u32,
    /// Lifetime of entries after their last use, in milliseconds. 0 if entries do not expire.
    pub(crate) expire_ms: u32,
    /// Whether anything was set or counted.
    pub(crate) is_changed: bool,
}

impl LockedEntry<'_> {
    /// The entry's key, as a value.
    pub fn key(&self) -> Value<'static> {
        value_of(&self.words[header::WORDS..header::WORDS + self.layout.key_words], self.key)
    }

    /// The number of references that track the entry.
    pub fn trackers(&self) -> u32 {
        self.words[header::TRACKERS]
    }

    /// Milliseconds until the entry expires. 0 if it has expired or does not expire.
    pub fn expires_in_ms(&self) -> u32 {
        if self.expire_ms == 0 {
            return 0;
        }
        let left = self.words[header::EXPIRES].wrapping_sub(self.now);
        if left as i32 > 0 { left } else { 0 }
    }

    /// The current value: a count, a tag, or the events in the period that ends now. `None` if the data is not stored.
    pub fn get(&self, data: DataType, element: u16) -> Option<u64> {
        let (at, period_ms) = self.layout.slot(data, element)?;
        let value = self.read(data, at, period_ms);
        let is_in_blocks = data.is_rate_of_bytes();
        Some(if is_in_blocks { value * u64::from(self.layout.bytes_rate_factor) } else { value })
    }

    /// The current value at a word offset. Byte rates are in blocks.
    #[inline]
    fn read(&self, data: DataType, at: usize, period_ms: u32) -> u64 {
        if self.is_sum(data) {
            return self.sum(data, at, period_ms);
        }
        let words = &self.words[at..];
        match data.kind() {
            DataKind::Plain | DataKind::Count | DataKind::Name => words[0].into(),
            DataKind::LongCount => u64::from(words[0]) | u64::from(words[1]) << 32,
            DataKind::Rate => StoredRate::load(words).read(period_ms, self.now).into(),
        }
    }

    /// Whether the data is a sum over the shares of all instances.
    #[inline]
    fn is_sum(&self, data: DataType) -> bool {
        self.layout.is_aggregate() && data.is_sum()
    }

    /// Sets a value. False if the data is not stored. Values that are too large are clamped.
    pub fn set(&mut self, data: DataType, element: u16, value: u64) -> bool {
        let Some((at, period_ms)) = self.layout.slot(data, element) else { return false };
        let now = self.now;
        self.is_changed = true;
        if self.is_sum(data) {
            self.set_sum(data, at, period_ms, value, 0);
            return true;
        }
        let words = &mut self.words[at..];
        match data.kind() {
            DataKind::Plain | DataKind::Count | DataKind::Name => words[0] = value as u32,
            DataKind::LongCount => (words[0], words[1]) = (value as u32, (value >> 32) as u32),
            DataKind::Rate => StoredRate::of(now, value as u32).store(words),
        }
        true
    }

    /// Adds to a count or a rate and returns the new value. `None` if the data is not stored.
    pub fn add(&mut self, data: DataType, element: u16, amount: u64) -> Option<u64> {
        let (at, period_ms) = self.layout.slot(data, element)?;
        self.add_at(data, at, period_ms, amount);
        Some(self.read(data, at, period_ms))
    }

    /// Adds to the value at a word offset.
    fn add_at(&mut self, data: DataType, at: usize, period_ms: u32, amount: u64) {
        self.is_changed = true;
        if self.is_sum(data) && data.kind() != DataKind::Rate {
            return self.add_to_own(data, at, amount);
        }
        let words = &mut self.words[at..];
        match data.kind() {
            DataKind::Plain | DataKind::Count | DataKind::Name => {
                words[0] = words[0].wrapping_add(amount as u32);
            }
            DataKind::LongCount => {
                let sum = (u64::from(words[0]) | u64::from(words[1]) << 32).wrapping_add(amount);
                (words[0], words[1]) = (sum as u32, (sum >> 32) as u32);
            }
            DataKind::Rate => {
                let blocks = match data.is_rate_of_bytes() {
                    true => amount.div_ceil(u64::from(self.layout.bytes_rate_factor)),
                    false => amount,
                };
                let events = u32::try_from(blocks).unwrap_or(u32::MAX);
                StoredRate::load(words).add(period_ms, self.now, events).store(words);
            }
        }
    }

    /// The parts of a rate. `None` if it is not stored. In an aggregated table the parts combine all shares.
    pub fn rate(&self, data: DataType, element: u16) -> Option<RateParts> {
        let (at, period_ms) = self.layout.slot(data, element)?;
        if self.is_sum(data) {
            return Some(self.merged_rate(at, period_ms, None).parts(self.now));
        }
        Some(StoredRate::load(&self.words[at..]).parts(self.now))
    }

    /// Sets a rate to these parts, if it is stored.
    pub fn set_rate(&mut self, data: DataType, element: u16, parts: RateParts) {
        if let Some((at, _)) = self.layout.slot(data, element) {
            self.is_changed = true;
            StoredRate::from_parts(parts, self.now).store(&mut self.words[at..]);
        }
    }

    /// Subtracts one from a count above 0.
    pub fn subtract_one(&mut self, data: DataType) {
        if let Some((at, _)) = self.layout.slot(data, 0) {
            self.is_changed = true;
            self.words[at] = self.words[at].saturating_sub(1);
        }
    }

    /// Adds to a count and to its rate, if stored.
    #[inline]
    pub fn count(&mut self, count: DataType, rate: DataType, amount: u64) {
        for data in [count, rate] {
            if let Some((at, period_ms)) = self.layout.slot(data, 0) {
                self.add_at(data, at, period_ms, amount);
            }
        }
    }

    /// Marks the entry as changed, to send it to other instances although its data did not change.
    pub fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// Zeroes all data.
    pub fn clear(&mut self) {
        let from = header::WORDS + self.layout.key_words;
        self.is_changed = true;
        self.words[from..].fill(0);
    }

    /// The name of the server that the key was assigned to.
    pub fn server_key(&self) -> Option<Arc<str>> {
        self.names.name(self.get(DataType::ServerKey, 0)? as u32)
    }

    /// Assigns the key to a server with this name.
    pub fn set_server_key(&mut self, name: &str) {
        if self.layout.stores(DataType::ServerKey) {
            let number = self.names.number(name);
            self.set(DataType::ServerKey, 0, number.into());
        }
    }
}
