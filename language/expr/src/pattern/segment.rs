//! An immutable index over some consecutive entries of a set, for one match method.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher as _;

use super::MatchMethod;
use super::cache::{self, ListId};
use super::delimited;
use super::duplicates::Duplicates;
use super::entry::PatternEntry;
use super::net::{Bits as _, NetIndex};
use super::parsed::{ComparablePattern, parse_net};
use super::prefix::{KeyEnd, PrefixIndex};
use super::regex::{Regex, limit};
use super::regexes::RequiredTexts;
use crate::location::Location;
use crate::sample::Value;
use crate::sample::cast::embedded_ipv4;

/// With fewer patterns, a scan is as fast as any index.
const SMALL: usize = 4;

#[derive(Debug)]
pub(super) struct Segment {
    method: MatchMethod,
    ignore_case: bool,
    entries: Vec<Arc<PatternEntry>>,
    /// The comparable forms of entries. Empty if all are compared as text, or are in the index.
    parsed: Vec<ComparablePattern>,
    index: SegmentIndex,
}

#[derive(Debug, Clone)]
pub(super) struct SegmentItem {
    pub entry: Arc<PatternEntry>,
    pub parsed: ComparablePattern,
}

#[derive(Debug)]
enum SegmentIndex {
    /// Compare entries one by one.
    Scan,
    /// The first entry for each key.
    Exact(Box<(DefaultHashBuilder, HashTable<u32>, Duplicates)>),
    Prefixes(PrefixIndex),
    Substrings(AhoCorasick),
    Regexes(ListId, Option<Box<RequiredTexts>>),
    /// The first entry for each number.
    Numbers(Box<(hashbrown::HashMap<i64, u32>, Duplicates)>),
    Nets(Box<Nets>),
}

/// Networks of both families.
#[derive(Debug)]
struct Nets {
    v4: NetIndex<u32>,
    v6: NetIndex<u128>,
    /// Networks with gaps in their masks.
    odd: Vec<(Ipv4Addr, Ipv4Addr, u32)>,
}

/// A match in a segment.
pub(super) struct Hit<'s> {
    pub entry: &'s PatternEntry,
    pub regex: Option<&'s Regex>,
    /// Length of the matching prefix or netmask. Used only by methods with longest match.
    pub fineness: usize,
}

impl SegmentItem {
    /// Parses an entry for the rule at `place`.
    pub(super) fn parse(
        method: MatchMethod,
        ignore_case: bool,
        entry: Arc<PatternEntry>,
        at: &Location,
    ) -> Result<SegmentItem, String> {
        let parsed = ComparablePattern::parse(method, ignore_case, entry.pattern(), at)?;
        Ok(SegmentItem { entry, parsed })
    }

    /// An entry for lookups by its exact text.
    pub(super) fn of_text(entry: Arc<PatternEntry>) -> SegmentItem {
        SegmentItem { entry, parsed: ComparablePattern::Text }
    }
}

impl Segment {
    pub(super) fn new(method: MatchMethod, ignore_case: bool, items: Vec<SegmentItem>) -> Segment {
        let mut segment = Segment {
            method,
            ignore_case,
            entries: Vec::new(),
            parsed: Vec::new(),
            index: SegmentIndex::Scan,
        };
        if method == MatchMethod::Ip && items.len() > SMALL {
            segment.index = SegmentIndex::Nets(Box::new(Nets::new(&items)));
            segment.entries = items.into_iter().map(|item| item.entry).collect();
            return segment;
        }
        if items.iter().all(|item| matches!(item.parsed, ComparablePattern::Text)) {
            segment.entries = items.into_iter().map(|item| item.entry).collect();
        } else {
            (segment.entries, segment.parsed) =
                items.into_iter().map(|item| (item.entry, item.parsed)).unzip();
        }
        segment.entries.shrink_to_fit();
        segment.parsed.shrink_to_fit();
        segment.index = SegmentIndex::new(&segment);
        segment
    }

    /// The number of entries, including deleted ones.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries, including deleted ones, in their order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<PatternEntry>> {
        self.entries.iter()
    }

    /// The entries that are not deleted, for another segment.
    pub(super) fn alive_items(&self) -> impl Iterator<Item = SegmentItem> + '_ {
        let alive = self.entries.iter().enumerate().filter(|(_, entry)| entry.is_alive());
        alive.map(|(index, entry)| {
            let parsed = match self.parsed.get(index) {
                Some(parsed) => parsed.clone(),
                // The entry was parsed before, so it is valid.
                None if self.method == MatchMethod::Ip => {
                    parse_net(entry.pattern()).unwrap_or(ComparablePattern::Text)
                }
                None => ComparablePattern::Text,
            };
            SegmentItem { entry: entry.clone(), parsed }
        })
    }

    /// Splits an unused segment into its parts.
    pub(super) fn into_parts(self) -> (Vec<Arc<PatternEntry>>, Vec<ComparablePattern>) {
        (self.entries, self.parsed)
    }

    /// The bytes that an entry is compared with.
    fn key(&self, index: u32) -> &[u8] {
        match self.parsed.get(index as usize) {
            Some(ComparablePattern::Bytes(bytes)) => bytes,
            _ => self.entries[index as usize].pattern(),
        }
    }

    fn regex(&self, index: u32) -> Option<&Regex> {
        match self.parsed.get(index as usize) {
            Some(ComparablePattern::Regex(regex)) => Some(regex),
            _ => None,
        }
    }

    fn is_alive(&self, index: u32) -> bool {
        self.entries[index as usize].is_alive()
    }

    /// Finds the entry that matches a value. The value has the input type of the method, and is in lower case if case is ignored.
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

    /// The entries with exactly this key, in a segment for equal strings.
    pub(super) fn equal(&self, key: &[u8], found: &mut Vec<Arc<PatternEntry>>) {
        let mut take = |index: u32| {
            if self.is_alive(index) {
                found.push(self.entries[index as usize].clone());
            }
        };
        match &self.index {
            SegmentIndex::Exact(exact) => {
                let (hasher, table, duplicates) = &**exact;
                if let Some(first) = table.find(hasher.hash_one(key), |index| self.key(*index) == key) {
                    duplicates.from(*first).for_each(take);
                }
            }
            _ => self.all().filter(|index| self.key(*index) == key).for_each(&mut take),
        }
    }

    fn all(&self) -> std::ops::Range<u32> {
        0..self.entries.len() as u32
    }

    fn find_bytes(&self, subject: &[u8]) -> Option<Hit<'_>> {
        match &self.index {
            SegmentIndex::Exact(exact) => {
                let (hasher, table, duplicates) = &**exact;
                let same = |index: &u32| self.key(*index) == subject;
                let first = *table.find(hasher.hash_one(subject), same)?;
                self.alive(duplicates.from(first).map(|index| (0, index)))
            }
            SegmentIndex::Prefixes(index) if self.method == MatchMethod::Beg => {
                self.alive(index.prefixes(subject, |index| self.key(index)))
            }
            SegmentIndex::Prefixes(index) => {
                let found = index.prefixes(subject, |index| self.key(index)).map(|(_, entry)| entry);
                found.filter(|entry| self.is_alive(*entry)).min().map(|index| self.hit(0, index))
            }
            SegmentIndex::Substrings(automaton) => {
                let mut best = None::<u32>;
                for found in automaton.find_overlapping_iter(subject) {
                    let index = found.pattern().as_u32();
                    let better = best.is_none_or(|best| index < best);
                    if better
                        && self.is_alive(index)
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
            SegmentIndex::Regexes(list, texts) => {
                self.find_regex(*list, texts.as_deref(), subject).map(|index| self.hit(0, index))
            }
            _ => self.scan(|index| self.compare(index, subject)),
        }
    }

    fn find_regex(&self, list: ListId, texts: Option<&RequiredTexts>, subject: &[u8]) -> Option<u32> {
        let is_excluded = |index| self.regex(index).is_some_and(|regex| !regex.admits(subject));
        if self.len() == 1 && is_excluded(0) {
            // A scan is faster than the cache.
            return None;
        }
        let matches = |index: u32| {
            self.is_alive(index) && self.regex(index).is_some_and(|regex| regex.is_match(subject))
        };
        let search = || match texts {
            Some(texts) => texts.find(subject, matches),
            None => self.all().find(|index| matches(*index)),
        };
        let Some(subject) = cache::subject(subject) else { return search() };
        match cache::recall(list, subject) {
            Some(None) => return None,
            Some(Some(entry)) if self.is_alive(entry) => return Some(entry),
            _ => {}
        }
        let limits = limit::met_here();
        let found = search();
        if limit::met_here() == limits {
            cache::remember(list, subject, found);
        }
        found
    }

    fn compare(&self, index: u32, subject: &[u8]) -> Option<usize> {
        let key = self.key(index);
        let matches = match self.method {
            MatchMethod::Str | MatchMethod::Bin => subject == key,
            MatchMethod::Beg => return subject.starts_with(key).then_some(key.len()),
            MatchMethod::End => subject.ends_with(key),
            MatchMethod::Sub => memchr::memmem::find(subject, key).is_some(),
            MatchMethod::Dir | MatchMethod::Dom => delimited::contains(self.method, subject, key),
            MatchMethod::Found
            | MatchMethod::Bool
            | MatchMethod::Reg
            | MatchMethod::Int
            | MatchMethod::Ip
            | MatchMethod::Len => false,
        };
        matches.then_some(0)
    }

    fn find_number(&self, value: i64) -> Option<Hit<'_>> {
        match &self.index {
            SegmentIndex::Numbers(numbers) => {
                let (table, duplicates) = &**numbers;
                self.alive(duplicates.from(*table.get(&value)?).map(|index| (0, index)))
            }
            _ => self.scan(|index| match self.parsed.get(index as usize) {
                Some(ComparablePattern::Range(low, high)) => (*low <= value && value <= *high).then_some(0),
                _ => None,
            }),
        }
    }

    /// Searches the networks of the same family. If the address has a form in the other family, searches those next.
    fn find_address(&self, address: IpAddr) -> Option<Hit<'_>> {
        let (as_v4, as_v6) = match address {
            IpAddr::V4(address) => (Some(address), Some(address.to_ipv6_mapped())),
            IpAddr::V6(address) => (embedded_ipv4(address), Some(address)),
        };
        let in_v4 = || as_v4.and_then(|address| self.find_v4(address));
        let in_v6 = || as_v6.and_then(|address| self.find_v6(address));
        if address.is_ipv4() { in_v4().or_else(in_v6) } else { in_v6().or_else(in_v4) }
    }

    /// Networks with gaps in their masks come last.
    fn find_v4(&self, address: Ipv4Addr) -> Option<Hit<'_>> {
        let SegmentIndex::Nets(nets) = &self.index else {
            let holds = |net: Ipv4Addr, mask: Ipv4Addr| address & mask == net;
            let regular = self.scan_nets(|parsed| match parsed {
                ComparablePattern::Net4(net, mask) if holds(*net, *mask) => prefix_length(*mask),
                _ => None,
            });
            return regular.or_else(|| {
                self.scan_nets(|parsed| match parsed {
                    ComparablePattern::Net4(net, mask) if holds(*net, *mask) => Some(0),
                    _ => None,
                })
            });
        };
        let found = self.alive(nets.v4.holding(u32::from(address)));
        found.or_else(|| {
            let holding = nets.odd.iter().filter(|(net, mask, _)| address & *mask == *net);
            self.alive(holding.map(|odd| (0, odd.2)))
        })
    }

    fn find_v6(&self, address: Ipv6Addr) -> Option<Hit<'_>> {
        match &self.index {
            SegmentIndex::Nets(nets) if nets.v6.is_empty() => None,
            SegmentIndex::Nets(nets) => self.alive(nets.v6.holding(u128::from(address))),
            _ => self.scan_nets(|parsed| match parsed {
                ComparablePattern::Net6(net, length) => {
                    u128::from(address).same_start(u128::from(*net), *length).then_some(usize::from(*length))
                }
                _ => None,
            }),
        }
    }

    fn scan_nets(&self, matches: impl Fn(&ComparablePattern) -> Option<usize>) -> Option<Hit<'_>> {
        self.scan(|index| self.parsed.get(index as usize).and_then(&matches))
    }

    fn scan(&self, matches: impl Fn(u32) -> Option<usize>) -> Option<Hit<'_>> {
        let mut best = None::<Hit<'_>>;
        for index in self.all().filter(|index| self.is_alive(*index)) {
            if let Some(fineness) = matches(index) {
                if !self.method.prefers_finest() {
                    return Some(self.hit(fineness, index));
                }
                if best.as_ref().is_none_or(|best| fineness > best.fineness) {
                    best = Some(self.hit(fineness, index));
                }
            }
        }
        best
    }

    /// The first entry of the list that is not deleted.
    fn alive(&self, mut candidates: impl Iterator<Item = (usize, u32)>) -> Option<Hit<'_>> {
        candidates.find(|(_, index)| self.is_alive(*index)).map(|(fineness, index)| self.hit(fineness, index))
    }

    fn hit(&self, fineness: usize, index: u32) -> Hit<'_> {
        Hit { entry: &self.entries[index as usize], regex: self.regex(index), fineness }
    }
}

impl SegmentIndex {
    fn new(segment: &Segment) -> SegmentIndex {
        let (method, count) = (segment.method, segment.entries.len());
        if method == MatchMethod::Reg {
            let regexes = segment.all().filter_map(|index| Some((index, segment.regex(index)?)));
            let texts = RequiredTexts::new(segment.ignore_case, regexes);
            return SegmentIndex::Regexes(ListId::new(), texts.map(Box::new));
        }
        if count <= SMALL {
            return SegmentIndex::Scan;
        }
        match method {
            MatchMethod::Str | MatchMethod::Bin => {
                let hasher = DefaultHashBuilder::default();
                let (mut table, mut duplicates) =
                    (HashTable::<u32>::with_capacity(count), Duplicates::default());
                // In reverse, so that the first of several equal keys is in the table.
                for index in segment.all().rev() {
                    let key = segment.key(index);
                    let hash = hasher.hash_one(key);
                    match table.find_mut(hash, |other| segment.key(*other) == key) {
                        Some(first) => {
                            duplicates.link(index, *first, count);
                            *first = index;
                        }
                        None => {
                            table.insert_unique(hash, index, |other| hasher.hash_one(segment.key(*other)));
                        }
                    }
                }
                SegmentIndex::Exact(Box::new((hasher, table, duplicates)))
            }
            MatchMethod::Beg => {
                SegmentIndex::Prefixes(PrefixIndex::new(KeyEnd::Front, count, |index| segment.key(index)))
            }
            MatchMethod::End => {
                SegmentIndex::Prefixes(PrefixIndex::new(KeyEnd::Back, count, |index| segment.key(index)))
            }
            MatchMethod::Sub | MatchMethod::Dir | MatchMethod::Dom => {
                // Too large for the limits of the automaton: entries are compared one by one.
                let automaton = AhoCorasick::builder()
                    .ascii_case_insensitive(segment.ignore_case)
                    .build(segment.all().map(|index| segment.key(index)));
                automaton.map_or(SegmentIndex::Scan, SegmentIndex::Substrings)
            }
            MatchMethod::Int | MatchMethod::Len => {
                let (mut table, mut duplicates) =
                    (hashbrown::HashMap::<i64, u32>::new(), Duplicates::default());
                for index in segment.all().rev() {
                    match segment.parsed.get(index as usize) {
                        Some(ComparablePattern::Range(low, high)) if low == high => {
                            if let Some(first) = table.insert(*low, index) {
                                duplicates.link(index, first, count);
                            }
                        }
                        _ => return SegmentIndex::Scan,
                    }
                }
                SegmentIndex::Numbers(Box::new((table, duplicates)))
            }
            MatchMethod::Found | MatchMethod::Bool | MatchMethod::Ip | MatchMethod::Reg => SegmentIndex::Scan,
        }
    }
}

impl Nets {
    fn new(items: &[SegmentItem]) -> Nets {
        let (mut v4, mut v6, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            let index = index as u32;
            match &item.parsed {
                ComparablePattern::Net4(net, mask) => match prefix_length(*mask) {
                    Some(length) => v4.push((u32::from(*net), length as u8, index)),
                    None => odd.push((*net, *mask, index)),
                },
                ComparablePattern::Net6(net, length) => v6.push((u128::from(*net), *length, index)),
                _ => {}
            }
        }
        Nets { v4: NetIndex::new(v4, items.len()), v6: NetIndex::new(v6, items.len()), odd }
    }
}

/// The length of a mask without gaps.
fn prefix_length(mask: Ipv4Addr) -> Option<usize> {
    let bits = u32::from(mask);
    (bits.leading_ones() + bits.trailing_zeros() >= 32).then_some(bits.leading_ones() as usize)
}
