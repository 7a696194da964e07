//! A list of entries, and the changes that the runtime API makes to it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_fingerprint::{Canonical, FormEncoder};

use super::MatchMethod;
use super::discarded::{SMALL, discard_entries, discard_published};
use super::entries::EntryList;
use super::entry::{PatternEntry, encode_entries};
use super::file::FileEntry;
use super::index::PatternIndex;
use super::segment::{Segment, SegmentItem};
use super::uses::{SetUses, User, push_first};
use super::watcher::{PatternEvent, PatternWatcher, WatcherCell};
use crate::location::Location;
use crate::sample::Value;

/// The entries that a command selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector<'s> {
    /// All entries with this pattern.
    Pattern(&'s [u8]),
    /// The entry with this identifier.
    Id(u64),
}

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetError {
    /// No entry is selected.
    NotFound,
    /// The version is not in preparation.
    NoSuchVersion,
    /// The set is not a map, or a value is missing in a map.
    Value,
    /// The pattern or the value does not parse.
    Pattern(String),
    /// The set is full.
    Full,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::NotFound => f.write_str("Key not found."),
            SetError::NoSuchVersion => f.write_str("Version number out of range."),
            SetError::Value => f.write_str("A map needs a value, an ACL takes none."),
            SetError::Pattern(message) => f.write_str(message),
            SetError::Full => f.write_str("Too many entries."),
        }
    }
}

impl std::error::Error for SetError {}

/// The result of a lookup by the runtime API, for one match method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupReport {
    pub method: MatchMethod,
    /// Whether case was ignored.
    pub ignore_case: bool,
    /// Whether HAProxy stores such entries in a tree instead of a list. The output shows it.
    pub in_tree: bool,
    /// The entry, its pattern and its value.
    pub found: Option<(u64, Vec<u8>, Option<Vec<u8>>)>,
}

/// A check that every value of a map must pass.
pub type ValueCheck = fn(&[u8]) -> Result<(), String>;

/// The limit of entries in one set.
const MAX_ENTRIES: usize = 1 << 28;

/// The number of entries, including deleted ones, that are visited under the lock: some tens of microseconds. A part of a runtime API
/// response has fewer.
pub(super) const VISITED_AT_ONCE: usize = 1_024;

/// The limit of versions in preparation.
const MAX_PREPARED: usize = 64;

/// A list of entries with its indexes.
#[derive(Debug)]
pub struct PatternSet {
    number: u32,
    name: SetName,
    has_values: bool,
    state: Mutex<SetState>,
    watcher: WatcherCell,
}

#[derive(Clone, Debug, Canonical)]
pub(super) enum SetName {
    /// The name of a file, including its prefix.
    File(Arc<str>),
    /// The words of an ACL line with an explicit number (`-u`).
    Number(u32),
    /// The words of any other ACL line, with a free number.
    Words,
}

/// The name and the entries.
impl Canonical for PatternSet {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let PatternSet { number: _, name, has_values, state, watcher: _ } = self;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        (name, *has_values).encode(out);
        encode_entries(state.entries.iter(), false, out);
    }
}

#[derive(Debug, Default)]
struct SetState {
    uses: SetUses,
    entries: EntryList,
    dead: usize,
    /// The number of times that all entries were replaced.
    generation: u64,
    /// Deferred work for [`PatternSet::tidy`].
    wants: Wants,
    version: u32,
    next_version: u32,
    prepared: BTreeMap<u32, PendingVersion>,
    indexes: Vec<Arc<PatternIndex>>,
    /// Finds entries by their text, for changes. Built on demand.
    by_pattern: Option<Arc<PatternIndex>>,
    /// The checks for every value.
    outputs: Vec<ValueCheck>,
}

/// Deferred work, too long for the caller that caused it.
#[derive(Debug, Default)]
struct Wants {
    sweep: bool,
    by_pattern: bool,
}

/// A version in preparation, not yet used for lookups.
#[derive(Debug, Default)]
struct PendingVersion {
    entries: EntryList,
    /// The number of deleted entries in the list.
    dead: usize,
    /// The list to publish for each index of the set, in the same order.
    segments: Vec<Vec<Arc<Segment>>>,
}

impl PatternSet {
    /// Watches the changes of the current version. Only the first call has an effect.
    pub fn watch(&self, watcher: impl FnOnce() -> PatternWatcher) {
        self.watcher.set(watcher);
    }

    /// Passes a change to the watcher. The set is not locked.
    fn notify(&self, event: PatternEvent) {
        self.watcher.notify(self.number, event);
    }

    pub(super) fn new<'e>(
        number: u32,
        name: SetName,
        has_values: bool,
        entries: impl Iterator<Item = FileEntry<'e>>,
    ) -> PatternSet {
        let entries = entries
            .map(|entry| PatternEntry::new(entry.line, entry.pattern, entry.value))
            .collect::<EntryList>();
        PatternSet {
            number,
            name,
            has_values,
            state: Mutex::new(SetState { entries, ..SetState::default() }),
            watcher: WatcherCell::default(),
        }
    }

    /// The number of the set in the runtime API.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The name of the file, including its prefix. `None` for the words of an ACL line.
    pub fn name(&self) -> Option<&str> {
        match &self.name {
            SetName::File(name) => Some(name),
            SetName::Number(_) | SetName::Words => None,
        }
    }

    /// Whether entries have values: a map.
    pub fn has_values(&self) -> bool {
        self.has_values
    }

    /// Records a use of the set in an ACL test: its words or its file.
    pub(crate) fn used_by_acl(&self, keyword: &str, at: &Location) {
        let by = match (self.name(), self.has_values) {
            (None, _) => User::Words(keyword.into()),
            (Some(_), true) => User::Map,
            (Some(_), false) => User::AclOfFile,
        };
        self.lock().uses.add_acl(by, at);
    }

    /// Records a use of the set in a map converter.
    pub fn used_by_map(&self, at: &Location) {
        self.lock().uses.add(User::Map, at);
    }

    /// Whether an ACL uses the set, so that `show acl` lists it.
    pub fn is_used_by_acls(&self) -> bool {
        self.lock().uses.has_acls()
    }

    /// The origin of the set and its uses, for `show acl` and `show map`.
    pub fn description(&self) -> String {
        let uses = self.lock().uses.to_string();
        match self.name() {
            Some(name) => format!("pattern loaded from file '{name}' used {uses}"),
            None => uses,
        }
    }

    /// The line of `show acl` and `show map`: number, file, uses, versions and size.
    pub fn listing(&self) -> String {
        let (version, next_version) = self.versions();
        format!(
            "{} ({}) {}. curr_ver={version} next_ver={next_version} entry_cnt={}",
            self.number,
            self.name().unwrap_or(""),
            self.description(),
            self.len(),
        )
    }

    /// The current version, and the last one that [`PatternSet::prepare`] returned.
    pub fn versions(&self) -> (u32, u32) {
        let state = self.lock();
        (state.version, state.next_version)
    }

    /// The number of entries in all versions.
    pub fn len(&self) -> usize {
        let state = self.lock();
        state.entries.len() - state.dead
            + state.prepared.values().map(|prepared| prepared.entries.len() - prepared.dead).sum::<usize>()
    }

    /// True without any entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an entry has exactly this pattern.
    pub fn contains(&self, pattern: &[u8]) -> bool {
        !self.lock().select(Selector::Pattern(pattern)).is_empty()
    }

    /// The entries, of the current version or of one in preparation.
    pub fn entries(&self, version: Option<u32>) -> Result<Vec<Arc<PatternEntry>>, SetError> {
        let state = self.lock();
        let list = match version.filter(|version| *version != state.version) {
            None => &state.entries,
            Some(version) => &state.prepared.get(&version).ok_or(SetError::NoSuchVersion)?.entries,
        };
        Ok(list.iter().filter(|entry| entry.is_alive()).cloned().collect())
    }

    /// Passes entries of a version to `each` in order, starting after the identifier `after` (0 for the first entry), until it returns false or
    /// a bounded number was visited. The set is locked during the call. Entries may change between two calls. Returns the identifier of the
    /// last visited entry. None after the last entry.
    pub fn visit(
        &self,
        version: u32,
        after: u64,
        mut each: impl FnMut(&PatternEntry) -> bool,
    ) -> Option<u64> {
        let state = self.lock();
        let list =
            if version == state.version { &state.entries } else { &state.prepared.get(&version)?.entries };
        let mut last = None;
        for entry in list.after(after).take(VISITED_AT_ONCE) {
            last = Some(entry.id());
            if entry.is_alive() && !each(entry) {
                break;
            }
        }
        last
    }

    /// The index for a match method, created if necessary, for the rule at `at`. The error names an entry that does not parse.
    pub fn index(
        &self,
        method: MatchMethod,
        ignore_case: bool,
        at: &Location,
    ) -> Result<Arc<PatternIndex>, String> {
        let mut state = self.lock();
        let same =
            |index: &&Arc<PatternIndex>| index.method() == method && index.ignore_case() == ignore_case;
        if let Some(index) = state.indexes.iter().find(same) {
            return Ok(index.clone());
        }
        let items = state
            .entries
            .iter()
            .map(|entry| {
                let item = SegmentItem::parse(method, ignore_case, entry.clone(), at);
                item.map_err(|message| entry.located(message))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let index = Arc::new(PatternIndex::new(self.name.clone(), method, ignore_case, items, at.clone()));
        push_first(&mut state.indexes, index.clone());
        Ok(index)
    }

    /// Requires that all values pass `check`, now and in the future.
    pub fn check_values(&self, check: ValueCheck) -> Result<(), String> {
        let mut state = self.lock();
        for entry in state.entries.iter() {
            entry.with_value(check).unwrap_or(Ok(())).map_err(|message| entry.located(message))?;
        }
        if !state.outputs.iter().any(|known| std::ptr::fn_addr_eq(*known, check)) {
            state.outputs.push(check);
        }
        Ok(())
    }

    /// Appends an entry to the current version or to one in preparation.
    pub fn add(&self, version: Option<u32>, pattern: &[u8], value: Option<&[u8]>) -> Result<(), SetError> {
        if value.is_some() != self.has_values {
            return Err(SetError::Value);
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.entries.len() >= MAX_ENTRIES {
            return Err(SetError::Full);
        }
        let entry = PatternEntry::new(0, pattern, value);
        if let Some(value) = value {
            state.outputs.iter().try_for_each(|check| check(value)).map_err(SetError::Pattern)?;
        }
        let items = state
            .indexes
            .iter()
            .map(|index| index.parse(&entry))
            .collect::<Result<Vec<_>, _>>()
            .map_err(SetError::Pattern)?;
        match version.filter(|version| *version != state.version) {
            Some(version) => {
                let prepared = state.prepared.get_mut(&version).ok_or(SetError::NoSuchVersion)?;
                if prepared.entries.len() >= MAX_ENTRIES {
                    return Err(SetError::Full);
                }
                prepared.segments.resize_with(state.indexes.len(), Vec::new);
                for ((index, item), segments) in state.indexes.iter().zip(items).zip(&mut prepared.segments) {
                    index.append(segments, item);
                }
                prepared.entries.push(entry);
            }
            None => {
                for (index, item) in state.indexes.iter().zip(items) {
                    index.push(item);
                }
                if let Some(index) = &state.by_pattern {
                    index.push(SegmentItem::of_text(entry.clone()));
                }
                state.entries.push(entry);
                drop(guard);
                self.notify(PatternEvent::Added);
            }
        }
        Ok(())
    }

    /// Sets the value of entries of the current version. Returns their number.
    pub fn set(&self, selector: Selector<'_>, value: &[u8]) -> Result<usize, SetError> {
        self.set_in(None, selector, value)
    }

    /// Sets the value of entries of the current version or of one in preparation. Returns their number.
    pub fn set_in(
        &self,
        version: Option<u32>,
        selector: Selector<'_>,
        value: &[u8],
    ) -> Result<usize, SetError> {
        if !self.has_values {
            return Err(SetError::Value);
        }
        let mut state = self.lock();
        state.outputs.iter().try_for_each(|check| check(value)).map_err(SetError::Pattern)?;
        let selected = state.select_in(version, selector)?;
        for entry in &selected {
            entry.set_value(value);
        }
        let is_current = version.is_none_or(|version| version == state.version);
        drop(state);
        if selected.is_empty() {
            return Err(SetError::NotFound);
        }
        if is_current {
            self.notify(PatternEvent::Changed);
        }
        Ok(selected.len())
    }

    /// Sets the value of the entries with a pattern, or adds one.
    pub fn set_or_add(&self, version: Option<u32>, pattern: &[u8], value: &[u8]) -> Result<(), SetError> {
        match self.set_in(version, Selector::Pattern(pattern), value) {
            Err(SetError::NotFound) => self.add(version, pattern, Some(value)),
            other => other.map(drop),
        }
    }

    /// The first entry with a pattern, of the current version or of one in preparation.
    pub fn find_in(&self, version: Option<u32>, pattern: &[u8]) -> Option<Arc<PatternEntry>> {
        self.lock().select_in(version, Selector::Pattern(pattern)).ok()?.into_iter().next()
    }

    /// Deletes entries of the current version. Returns their number.
    pub fn delete(&self, selector: Selector<'_>) -> Result<usize, SetError> {
        self.delete_in(None, selector)
    }

    /// Deletes entries of the current version or of one in preparation. Returns their number.
    pub fn delete_in(&self, version: Option<u32>, selector: Selector<'_>) -> Result<usize, SetError> {
        let mut state = self.lock();
        let selected = state.select_in(version, selector)?;
        if selected.is_empty() {
            return Err(SetError::NotFound);
        }
        selected.iter().for_each(|entry| entry.delete());
        if let Some(prepared) = state.prepared_mut(version)? {
            prepared.dead += selected.len();
            return Ok(selected.len());
        }
        state.dead += selected.len();
        // Sweeping takes time proportional to the list, so wait until a fourth of the entries is deleted.
        if state.dead * 4 > state.entries.len() {
            match state.entries.len() <= SMALL {
                true => state.sweep(),
                false => state.defer(|wants| &mut wants.sweep),
            }
        }
        drop(state);
        self.notify(PatternEvent::Deleted);
        Ok(selected.len())
    }

    /// Does the deferred work of changes to a large set: removes deleted entries from its indexes, and builds the index by text. That takes
    /// tenths of a second for a million entries, so call it on a thread without traffic. Other threads may read and change the set
    /// during the call.
    pub fn tidy(&self) {
        let wants = std::mem::take(&mut self.lock().wants);
        if wants.sweep {
            let mut at = 0;
            while let Some((_, stays)) = self.lock().sweep_chunk(at) {
                at += usize::from(stays);
            }
            let indexes = self.lock().all_indexes();
            for index in indexes {
                for segment in index.segments().iter() {
                    if let Some(swept) = index.swept(segment) {
                        let _writers_wait = self.lock();
                        index.exchange(segment, swept);
                    }
                }
            }
        }
        if wants.by_pattern {
            self.index_by_pattern();
        }
    }

    fn index_by_pattern(&self) {
        let generation = self.lock().generation;
        let (mut items, mut last) = (Vec::new(), 0);
        loop {
            let state = self.lock();
            let before = items.len();
            items.extend(state.entries.after(last).take(SMALL).cloned().map(SegmentItem::of_text));
            last = items.last().map_or(0, |item: &SegmentItem| item.entry.id());
            if state.generation != generation || items.len() == before {
                break;
            }
        }
        let index = PatternIndex::by_text(items);
        let mut state = self.lock();
        if state.generation == generation {
            // Entries that were added during the build.
            state.entries.after(last).for_each(|entry| index.push(SegmentItem::of_text(entry.clone())));
            state.by_pattern = Some(Arc::new(index));
        }
    }

    /// Deletes every entry of a version.
    pub fn clear(&self, version: Option<u32>) -> Result<(), SetError> {
        let mut state = self.lock();
        match version.filter(|version| *version != state.version) {
            Some(version) => {
                let prepared = state.prepared.get_mut(&version).ok_or(SetError::NoSuchVersion)?;
                std::mem::take(prepared).discard();
            }
            None => {
                state.put(PendingVersion::default());
                drop(state);
                self.notify(PatternEvent::Cleared);
            }
        }
        Ok(())
    }

    /// Begins a new version: an empty list for [`PatternSet::add`]. [`PatternSet::commit`] replaces the current list by it. At the limit, the
    /// oldest preparation is dropped.
    pub fn prepare(&self) -> u32 {
        let mut state = self.lock();
        state.next_version = state.next_version.wrapping_add(1).max(1);
        let version = state.next_version;
        state.prepared.insert(version, PendingVersion::default());
        if state.prepared.len() > MAX_PREPARED
            && let Some((_, oldest)) = state.prepared.pop_first()
        {
            oldest.discard();
        }
        version
    }

    /// Drops a version in preparation. Nothing happens if it is not there.
    pub fn abandon(&self, version: u32) {
        if let Some(prepared) = self.lock().prepared.remove(&version) {
            prepared.discard();
        }
    }

    /// Makes a prepared version current for all users of the set at once. Drops older preparations.
    pub fn commit(&self, version: u32) -> Result<(), SetError> {
        let mut state = self.lock();
        // Every entry was parsed for every use when it was added, so this only replaces the lists.
        let prepared = state.prepared.remove(&version).ok_or(SetError::NoSuchVersion)?;
        let newer = state.prepared.split_off(&version);
        for (_, older) in std::mem::replace(&mut state.prepared, newer) {
            older.discard();
        }
        state.put(prepared);
        state.version = version;
        drop(state);
        self.notify(PatternEvent::Committed);
        Ok(())
    }

    /// Looks up a string as each use of the set would.
    pub fn lookup(&self, text: &[u8]) -> Vec<LookupReport> {
        let indexes = self.lock().indexes.clone();
        // A lookup by an operator has a separate budget.
        super::regex::budget::begin_request();
        let value = Value::str(text);
        indexes
            .iter()
            .map(|index| LookupReport {
                method: index.method(),
                ignore_case: index.ignore_case(),
                in_tree: !index.ignore_case()
                    && matches!(index.method(), MatchMethod::Str | MatchMethod::Beg | MatchMethod::Ip),
                found: index.find(&value, |found| {
                    (found.entry.id(), found.entry.pattern().to_vec(), found.entry.value())
                }),
            })
            .collect()
    }

    #[cfg(test)]
    pub(super) fn has_index_by_pattern(&self) -> bool {
        self.lock().by_pattern.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, SetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingVersion {
    fn discard(self) {
        self.segments.into_iter().for_each(|segments| discard_published(Arc::new(segments)));
        discard_entries(self.entries);
    }
}

impl SetState {
    /// Replaces the current entries.
    fn put(&mut self, other: PendingVersion) {
        let PendingVersion { entries, dead, mut segments } = other;
        segments.resize_with(self.indexes.len(), Vec::new);
        for (index, segments) in self.indexes.iter().zip(segments) {
            index.replace(segments);
        }
        discard_entries(std::mem::replace(&mut self.entries, entries));
        self.dead = dead;
        self.generation += 1;
        if let Some(index) = self.by_pattern.take() {
            discard_published(index.segments());
        }
    }

    /// Defers work to [`PatternSet::tidy`].
    fn defer(&mut self, what: impl FnOnce(&mut Wants) -> &mut bool) {
        *what(&mut self.wants) = true;
        UNTIDY.store(true, Ordering::Release);
    }

    /// Removes deleted entries now.
    fn sweep(&mut self) {
        let mut at = 0;
        while let Some((_, stays)) = self.sweep_chunk(at) {
            at += usize::from(stays);
        }
        self.all_indexes().iter().for_each(|index| index.sweep());
    }

    fn sweep_chunk(&mut self, at: usize) -> Option<(usize, bool)> {
        let swept = self.entries.sweep(at)?;
        self.dead -= swept.0;
        Some(swept)
    }

    fn all_indexes(&self) -> Vec<Arc<PatternIndex>> {
        self.indexes.iter().chain(&self.by_pattern).cloned().collect()
    }

    /// With fewer entries, a scan is as fast as an index.
    const FEW: usize = 64;

    /// The version in preparation. `None` for the current one.
    fn prepared_mut(&mut self, version: Option<u32>) -> Result<Option<&mut PendingVersion>, SetError> {
        match version.filter(|version| *version != self.version) {
            None => Ok(None),
            Some(version) => self.prepared.get_mut(&version).map(Some).ok_or(SetError::NoSuchVersion),
        }
    }

    /// The entries that are selected in a version. A version in preparation is scanned.
    fn select_in(
        &mut self,
        version: Option<u32>,
        selector: Selector<'_>,
    ) -> Result<Vec<Arc<PatternEntry>>, SetError> {
        let Some(prepared) = self.prepared_mut(version)? else { return Ok(self.select(selector)) };
        let is_selected = |entry: &&Arc<PatternEntry>| match selector {
            Selector::Pattern(pattern) => entry.pattern() == pattern && entry.is_alive(),
            Selector::Id(id) => entry.id() == id && entry.is_alive(),
        };
        Ok(prepared.entries.iter().filter(is_selected).cloned().collect())
    }

    fn select(&mut self, selector: Selector<'_>) -> Vec<Arc<PatternEntry>> {
        let pattern = match selector {
            Selector::Id(id) => {
                return self.entries.find(id).filter(|entry| entry.is_alive()).cloned().into_iter().collect();
            }
            Selector::Pattern(pattern) => pattern,
        };
        let as_written =
            |index: &&Arc<PatternIndex>| index.method() == MatchMethod::Str && !index.ignore_case();
        let index = self.indexes.iter().find(as_written).or(self.by_pattern.as_ref());
        match (index, self.entries.len()) {
            (Some(index), Self::FEW..) => return index.equal(pattern),
            (None, Self::FEW..=SMALL) => {
                let items = self.entries.iter().cloned().map(SegmentItem::of_text).collect();
                let index = PatternIndex::by_text(items);
                let found = index.equal(pattern);
                self.by_pattern = Some(Arc::new(index));
                return found;
            }
            // Building an index takes ten times as long as one scan.
            (None, Self::FEW..) => self.defer(|wants| &mut wants.by_pattern),
            _ => {}
        }
        let same = |entry: &&Arc<PatternEntry>| entry.pattern() == pattern && entry.is_alive();
        self.entries.iter().filter(same).cloned().collect()
    }
}

/// Whether changes deferred work to [`PatternSet::tidy`] since the last call.
pub fn take_untidy() -> bool {
    UNTIDY.load(Ordering::Relaxed) && UNTIDY.swap(false, Ordering::Acquire)
}

static UNTIDY: AtomicBool = AtomicBool::new(false);
