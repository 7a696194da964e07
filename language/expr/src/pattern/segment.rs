//! An immutable index over some consecutive entries of a set, for one way of matching.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher as _;

use super::MatchMethod;
use super::delimited;
use super::net::NetIndex;
use super::parsed::Parsed;
use super::prefix::PrefixIndex;
use super::regex::Regex;
use super::set::Entry;
use crate::sample::Value;
use crate::sample::cast::embedded_ipv4;

/// Below this many patterns comparing one by one is as fast as any index.
const SMALL: usize = 4;

#[derive(Debug)]
pub(super) struct Segment {
    method: MatchMethod,
    ignore_case: bool,
    items: Vec<Item>,
    index: Index,
}

#[derive(Debug, Clone)]
pub(super) struct Item {
    pub entry: Arc<Entry>,
    pub parsed: Parsed,
}

#[derive(Debug)]
enum Index {
    /// Compare one by one.
    Scan,
    Exact(DefaultHashBuilder, HashTable<Vec<u32>>),
    Prefixes(PrefixIndex),
    /// Prefixes of the reversed strings.
    Suffixes(PrefixIndex),
    Substrings(AhoCorasick),
    Numbers(hashbrown::HashMap<i64, Vec<u32>>),
    Nets {
        v4: NetIndex,
        v6: NetIndex,
        odd: Vec<u32>,
    },
}

/// What was found in a segment.
pub(super) struct Hit<'s> {
    pub item: &'s Item,
    /// How long the matching prefix or netmask is; only for methods where the finest match wins.
    pub fineness: usize,
}

impl Item {
    pub(super) fn parse(method: MatchMethod, ignore_case: bool, entry: Arc<Entry>) -> Result<Item, String> {
        let parsed = Parsed::parse(method, ignore_case, entry.pattern())?;
        Ok(Item { entry, parsed })
    }

    /// An entry to be found by its text as it is.
    pub(super) fn of_text(entry: Arc<Entry>) -> Item {
        Item { entry, parsed: Parsed::Text }
    }

    /// The bytes to compare with.
    fn key(&self) -> &[u8] {
        match &self.parsed {
            Parsed::Bytes(bytes) => bytes,
            _ => self.entry.pattern(),
        }
    }

    pub(super) fn regex(&self) -> Option<&Regex> {
        match &self.parsed {
            Parsed::Regex(regex) => Some(regex),
            _ => None,
        }
    }
}

impl Segment {
    pub(super) fn new(method: MatchMethod, ignore_case: bool, items: Vec<Item>) -> Segment {
        let index = Index::new(method, ignore_case, &items);
        Segment { method, ignore_case, items, index }
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Finds the entry that matches a value already cast to the input type of the method, and, if case is
    /// ignored, already in lower case.
    pub(super) fn find(&self, value: &Value<'_>) -> Option<Hit<'_>> {
        match value {
            Value::Int(value) => self.find_number(*value),
            Value::Ipv4(address) => self.find_address(IpAddr::V4(*address)),
            Value::Ipv6(address) => self.find_address(IpAddr::V6(*address)),
            Value::Str(bytes) | Value::Bin(bytes) | Value::Method(bytes) => match self.method {
                MatchMethod::Len => self.find_number(bytes.len() as i64),
                _ => self.find_bytes(bytes),
            },
            Value::Bool(_) => None,
        }
    }

    /// The entries with exactly this key, of a segment for equal strings.
    pub(super) fn equal(&self, key: &[u8], found: &mut Vec<Arc<Entry>>) {
        let alive = |item: &&Item| item.entry.is_alive();
        match &self.index {
            Index::Exact(hasher, table) => {
                let same = |group: &Vec<u32>| self.items[group[0] as usize].key() == key;
                let group = table.find(hasher.hash_one(key), same).map_or(&[][..], |group| group);
                let items = group.iter().map(|index| &self.items[*index as usize]);
                found.extend(items.filter(alive).map(|item| item.entry.clone()));
            }
            _ => found.extend(
                self.items
                    .iter()
                    .filter(|item| item.key() == key)
                    .filter(alive)
                    .map(|item| item.entry.clone()),
            ),
        }
    }

    fn find_bytes(&self, subject: &[u8]) -> Option<Hit<'_>> {
        match &self.index {
            Index::Exact(hasher, table) => {
                let same = |group: &Vec<u32>| self.items[group[0] as usize].key() == subject;
                self.alive(table.find(hasher.hash_one(subject), same)?.iter().map(|index| (0, *index)))
            }
            Index::Prefixes(index) => self.alive(index.prefixes(subject)),
            Index::Suffixes(index) => {
                let mut reversed = crate::scratch::take();
                reversed.extend(subject.iter().rev());
                let first = index
                    .prefixes(&reversed)
                    .map(|(_, entry)| entry)
                    .filter(|entry| self.items[*entry as usize].entry.is_alive())
                    .min();
                crate::scratch::give(reversed);
                first.map(|index| self.hit(0, index))
            }
            Index::Substrings(automaton) => {
                let mut best = None::<u32>;
                for found in automaton.find_overlapping_iter(subject) {
                    let index = found.pattern().as_u32();
                    let better = best.is_none_or(|best| index < best);
                    if better
                        && self.items[index as usize].entry.is_alive()
                        && (self.method == MatchMethod::Sub
                            || (!found.is_empty()
                                && delimited::stands_alone(self.method, subject, found.start(), found.end())))
                    {
                        best = Some(index);
                        if index == 0 {
                            break;
                        }
                    }
                }
                best.map(|index| self.hit(0, index))
            }
            _ => self.scan(|item| self.compare(item, subject)),
        }
    }

    fn compare(&self, item: &Item, subject: &[u8]) -> Option<usize> {
        let key = item.key();
        let matches = match self.method {
            MatchMethod::Str | MatchMethod::Bin => subject == key,
            MatchMethod::Beg => return subject.starts_with(key).then_some(key.len()),
            MatchMethod::End => subject.ends_with(key),
            MatchMethod::Sub => memchr::memmem::find(subject, key).is_some(),
            MatchMethod::Dir | MatchMethod::Dom => delimited::contains(self.method, subject, key),
            MatchMethod::Reg => item.regex().is_some_and(|regex| regex.is_match(subject)),
            MatchMethod::Found
            | MatchMethod::Bool
            | MatchMethod::Int
            | MatchMethod::Ip
            | MatchMethod::Len => false,
        };
        matches.then_some(0)
    }

    fn find_number(&self, value: i64) -> Option<Hit<'_>> {
        match &self.index {
            Index::Numbers(table) => self.alive(table.get(&value)?.iter().map(|index| (0, *index))),
            _ => self.scan(|item| match item.parsed {
                Parsed::Range(low, high) => (low <= value && value <= high).then_some(0),
                _ => None,
            }),
        }
    }

    /// Looks among the networks of the same family, then of the other one where the address has a form in it.
    fn find_address(&self, address: IpAddr) -> Option<Hit<'_>> {
        let Index::Nets { v4, v6, odd } = &self.index else { return None };
        let (as_v4, as_v6) = match address {
            IpAddr::V4(address) => (Some(address), Some(address.to_ipv6_mapped())),
            IpAddr::V6(address) => (embedded_ipv4(address), Some(address)),
        };
        let in_v4 = || as_v4.and_then(|address| self.find_v4(v4, odd, address));
        let in_v6 = || {
            let bits = u128::from(as_v6.filter(|_| !v6.is_empty())?);
            self.alive(v6.holding(bits))
        };
        if address.is_ipv4() { in_v4().or_else(in_v6) } else { in_v6().or_else(in_v4) }
    }

    fn find_v4(&self, nets: &NetIndex, odd: &[u32], address: Ipv4Addr) -> Option<Hit<'_>> {
        let bits = u32::from(address);
        let found = self.alive(nets.holding(u128::from(bits) << 96));
        found.or_else(|| {
            self.alive(odd.iter().filter_map(|index| match self.items[*index as usize].parsed {
                Parsed::Net4(net, mask) => (address & mask == net).then_some((0, *index)),
                _ => None,
            }))
        })
    }

    fn scan(&self, matches: impl Fn(&Item) -> Option<usize>) -> Option<Hit<'_>> {
        let mut best = None::<Hit<'_>>;
        for item in self.items.iter().filter(|item| item.entry.is_alive()) {
            if let Some(fineness) = matches(item) {
                if !self.method.prefers_finest() {
                    return Some(Hit { item, fineness });
                }
                if best.as_ref().is_none_or(|best| fineness > best.fineness) {
                    best = Some(Hit { item, fineness });
                }
            }
        }
        best
    }

    /// The first entry of the list that was not deleted.
    fn alive(&self, mut candidates: impl Iterator<Item = (usize, u32)>) -> Option<Hit<'_>> {
        candidates
            .find(|(_, index)| self.items[*index as usize].entry.is_alive())
            .map(|(fineness, index)| self.hit(fineness, index))
    }

    fn hit(&self, fineness: usize, index: u32) -> Hit<'_> {
        Hit { item: &self.items[index as usize], fineness }
    }

    /// True if subjects are to be given in lower case.
    pub(super) fn wants_lower_case(&self) -> bool {
        self.ignore_case && !matches!(self.method, MatchMethod::Reg | MatchMethod::Bin | MatchMethod::Len)
    }
}

impl Index {
    fn new(method: MatchMethod, ignore_case: bool, items: &[Item]) -> Index {
        if method == MatchMethod::Ip {
            return Index::nets(items);
        }
        if items.len() <= SMALL {
            return Index::Scan;
        }
        let numbered = || items.iter().enumerate().map(|(index, item)| (item, index as u32));
        match method {
            MatchMethod::Str | MatchMethod::Bin => {
                let hasher = DefaultHashBuilder::default();
                let mut table: HashTable<Vec<u32>> = HashTable::with_capacity(items.len());
                let hash = |group: &Vec<u32>| hasher.hash_one(items[group[0] as usize].key());
                for (item, index) in numbered() {
                    let same = |group: &Vec<u32>| items[group[0] as usize].key() == item.key();
                    match table.find_mut(hasher.hash_one(item.key()), same) {
                        Some(group) => group.push(index),
                        None => {
                            table.insert_unique(hasher.hash_one(item.key()), vec![index], hash);
                        }
                    }
                }
                Index::Exact(hasher, table)
            }
            MatchMethod::Beg => Index::Prefixes(PrefixIndex::new(
                numbered().map(|(item, index)| (item.key().to_vec(), index)),
            )),
            MatchMethod::End => Index::Suffixes(PrefixIndex::new(
                numbered().map(|(item, index)| (item.key().iter().rev().copied().collect(), index)),
            )),
            MatchMethod::Sub | MatchMethod::Dir | MatchMethod::Dom => {
                // Too large for an automaton (it has limits of its own): compared one by one.
                let automaton = AhoCorasick::builder()
                    .ascii_case_insensitive(ignore_case)
                    .build(items.iter().map(Item::key));
                automaton.map_or(Index::Scan, Index::Substrings)
            }
            MatchMethod::Int | MatchMethod::Len => {
                let mut table = hashbrown::HashMap::<i64, Vec<u32>>::new();
                for (item, index) in numbered() {
                    match item.parsed {
                        Parsed::Range(low, high) if low == high => table.entry(low).or_default().push(index),
                        _ => return Index::Scan,
                    }
                }
                Index::Numbers(table)
            }
            MatchMethod::Found | MatchMethod::Bool | MatchMethod::Ip | MatchMethod::Reg => Index::Scan,
        }
    }

    fn nets(items: &[Item]) -> Index {
        let (mut v4, mut v6, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            let index = index as u32;
            match &item.parsed {
                Parsed::Net4(net, mask) => {
                    let mask = u32::from(*mask);
                    if mask.leading_ones() + mask.trailing_zeros() >= 32 {
                        v4.push((u128::from(u32::from(*net)) << 96, mask.leading_ones() as u8, index));
                    } else {
                        odd.push(index);
                    }
                }
                Parsed::Net6(net, length) => v6.push((u128::from(*net), *length, index)),
                _ => {}
            }
        }
        Index::Nets { v4: NetIndex::new(v4.into_iter()), v6: NetIndex::new(v6.into_iter()), odd }
    }
}
