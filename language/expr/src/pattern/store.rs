//! All pattern sets, by name and by number.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::{HashMap, HashSet};
use weir_syntax::{Files, MAX_NAMED_FILE, error_text};

use super::file::{FileEntry, acl_entries, map_entries};
use super::set::{PatternSet, SetName};

/// The sets of one configuration. All users of a file share its set.
#[derive(Debug, Default)]
pub struct PatternStore {
    state: Mutex<StoreState>,
}

#[derive(Debug, Default)]
struct StoreState {
    by_name: HashMap<String, Arc<PatternSet>>,
    by_number: BTreeMap<u32, Arc<PatternSet>>,
    next_number: u32,
    /// Files that did not exist when an action named them. Only actions may use them.
    missing: HashSet<String>,
}

/// The source of the entries of a named set.
enum EntrySource<'n> {
    /// A file that must exist.
    File(&'n str),
    /// A file that may be missing: the set is then empty.
    Optional(&'n str),
    /// No file: the set begins empty, and the runtime API fills it.
    Virtual,
}

impl PatternStore {
    /// No set yet.
    pub fn new() -> PatternStore {
        PatternStore::default()
    }

    /// The set of a file, loaded at its first use.
    ///
    /// Names may begin with `file@`, `opt@` (the file may be missing) or `virt@` (without a file). `has_values` selects the format of the lines:
    /// a file cannot be both a map and a plain list.
    pub fn named(&self, name: &str, has_values: bool, files: &dyn Files) -> Result<Arc<PatternSet>, String> {
        let path = name.strip_prefix("file@").unwrap_or(name);
        if self.lock().missing.contains(path) {
            return Err(failed_to_open(path, &io::Error::from_raw_os_error(NO_SUCH_FILE)));
        }
        self.load(name, has_values, files)
    }

    /// The set that an action changes. A missing file counts as empty, since the action looks up nothing in it.
    pub fn changed(
        &self,
        name: &str,
        has_values: bool,
        files: &dyn Files,
    ) -> Result<Arc<PatternSet>, String> {
        struct Lenient<'l>(&'l dyn Files, Cell<bool>);
        impl Files for Lenient<'_> {
            fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
                self.0.read(path, limit).or_else(|error| {
                    self.1.set(error.kind() == io::ErrorKind::NotFound);
                    if self.1.get() { Ok(Vec::new()) } else { Err(error) }
                })
            }
        }
        let lenient = Lenient(files, Cell::new(false));
        let set = self.load(name, has_values, &lenient)?;
        if lenient.1.get() && !name.starts_with("opt@") {
            self.lock().missing.insert(name.strip_prefix("file@").unwrap_or(name).to_owned());
        }
        Ok(set)
    }

    fn load(&self, name: &str, has_values: bool, files: &dyn Files) -> Result<Arc<PatternSet>, String> {
        let (source, key) = match name {
            _ if name.starts_with("virt@") => (EntrySource::Virtual, name),
            _ => match (name.strip_prefix("opt@"), name.strip_prefix("file@")) {
                (Some(path), _) => (EntrySource::Optional(path), name),
                (_, Some(path)) => (EntrySource::File(path), path),
                _ => (EntrySource::File(name), name),
            },
        };
        if let Some(set) = self.find(key) {
            return match set.has_values() == has_values {
                true => Ok(set),
                false if has_values => Err(format!(
                    "The file \"{name}\" is already used as one column file and cannot be used by as two column file"
                )),
                false => Err(format!(
                    "The file \"{name}\" is already used as two column file and cannot be used by as one column file"
                )),
            };
        }
        let bytes = match source {
            EntrySource::Virtual => Vec::new(),
            EntrySource::File(path) => {
                files.read(path, MAX_NAMED_FILE).map_err(|error| failed_to_open(path, &error))?
            }
            EntrySource::Optional(path) => match files.read(path, MAX_NAMED_FILE) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(failed_to_open(path, &error)),
            },
        };
        let mut state = self.lock();
        let (number, key) = (state.free_number(None)?, SetName::File(key.into()));
        let set = Arc::new(match has_values {
            true => PatternSet::new(number, key, true, map_entries(&bytes)),
            false => PatternSet::new(number, key, false, acl_entries(&bytes)),
        });
        state.insert(set.clone());
        Ok(set)
    }

    /// A set for the words of one ACL line, with the number of `-u` if given.
    pub fn anonymous(&self, number: Option<u32>, patterns: Vec<Vec<u8>>) -> Result<Arc<PatternSet>, String> {
        let entries = patterns.iter().map(|pattern| FileEntry { line: 0, pattern, value: None });
        let mut state = self.lock();
        let name = number.map_or(SetName::Words, SetName::Number);
        let set = Arc::new(PatternSet::new(state.free_number(number)?, name, false, entries));
        state.insert(set.clone());
        Ok(set)
    }

    /// The set with this name.
    pub fn find(&self, name: &str) -> Option<Arc<PatternSet>> {
        let state = self.lock();
        state.by_name.get(name).or_else(|| state.by_name.get(name.strip_prefix("file@")?)).cloned()
    }

    /// The set with this number.
    pub fn find_number(&self, number: u32) -> Option<Arc<PatternSet>> {
        self.lock().by_number.get(&number).cloned()
    }

    /// The set with the lowest number from `number` on, for listings in parts.
    pub fn next_from(&self, number: u32) -> Option<Arc<PatternSet>> {
        self.lock().by_number.range(number..).next().map(|(_, set)| set.clone())
    }

    /// Every set, by number.
    pub fn sets(&self) -> Vec<Arc<PatternSet>> {
        self.lock().by_number.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `ENOENT` of Linux.
const NO_SUCH_FILE: i32 = 2;

fn failed_to_open(path: &str, error: &io::Error) -> String {
    format!("failed to open pattern file <{path}> ({})", error_text(error))
}

impl StoreState {
    fn free_number(&mut self, wanted: Option<u32>) -> Result<u32, String> {
        if let Some(number) = wanted {
            return match self.by_number.contains_key(&number) {
                true => Err(format!("the unique id {number} is already used")),
                false => Ok(number),
            };
        }
        while self.by_number.contains_key(&self.next_number) {
            self.next_number += 1;
        }
        Ok(self.next_number)
    }

    fn insert(&mut self, set: Arc<PatternSet>) {
        if let Some(name) = set.name() {
            self.by_name.insert(name.into(), set.clone());
        }
        self.by_number.insert(set.number(), set);
    }
}
