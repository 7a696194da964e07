//! Maps and ACL files: versioned sets of patterns that can change while they are matched.

use super::ListPosition;

/// A set that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetKey(pub u64);

/// Whether a command means maps or ACLs. A file may be both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    Map,
    Acl,
}

impl PatternKind {
    /// The word in commands.
    pub fn word(self) -> &'static str {
        match self {
            PatternKind::Map => "map",
            PatternKind::Acl => "acl",
        }
    }

    /// The word in messages.
    pub fn noun(self) -> &'static str {
        match self {
            PatternKind::Map => "map",
            PatternKind::Acl => "ACL",
        }
    }
}

/// Operations on maps and ACLs.
pub trait PatternTarget {
    /// The set of this kind with this file name, or with the number in `#<id>`.
    fn pattern_set(&self, kind: PatternKind, name: &str) -> Option<SetKey>;

    /// The next set of this kind, and the place behind it.
    fn next_pattern_set(&self, kind: PatternKind, place: &mut ListPosition) -> Option<PatternSet>;

    /// The current state of a set.
    fn pattern_set_view(&self, set: SetKey) -> Option<PatternSet>;

    /// Passes the next patterns of a version to `each`, in the order of insertion, until it returns false; a bounded
    /// number in one call. Moves the place behind the last one. False after the end.
    fn visit_patterns(
        &self,
        set: SetKey,
        version: u32,
        place: &mut ListPosition,
        each: &mut dyn FnMut(Pattern<'_>) -> bool,
    ) -> bool;

    /// The entries that match a value: one answer per matching method of the set.
    fn look_up(&self, set: SetKey, kind: PatternKind, value: &str) -> Vec<Lookup>;

    /// Adds a pattern to a version that exists. The error is a text for the operator, without newline.
    fn add_pattern(
        &mut self,
        set: SetKey,
        version: u32,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), String>;

    /// Gives the entries with this key, or the entry with this number, a new value. False if no entry matches.
    fn set_pattern(&mut self, set: SetKey, which: Which<'_>, value: &str) -> bool;

    /// Deletes the entries with this key, or the entry with this number. False if no entry matches.
    fn delete_pattern(&mut self, set: SetKey, which: Which<'_>) -> bool;

    /// Deletes all patterns of a version.
    fn clear_patterns(&mut self, set: SetKey, version: u32);

    /// Makes a new version to be filled, and returns its number.
    fn prepare_version(&mut self, set: SetKey) -> u32;

    /// Makes a prepared version the one that is matched, and deletes all others.
    fn commit_version(&mut self, set: SetKey, version: u32) -> Result<(), VersionError>;
}

/// Which entries of a set a command means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// All with this key.
    Key(&'a str),
    /// The one with this number.
    Number(u64),
}

/// A version that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionError {
    /// Not prepared, or committed already.
    OutOfRange,
}

/// A set, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternSet {
    pub id: u32,
    /// Its file; `None` for patterns in the configuration.
    pub file: Option<String>,
    /// Its users and their positions.
    pub description: String,
    /// The version that is matched.
    pub current_version: u32,
    /// The newest version that was prepared.
    pub next_version: u32,
    /// The number of entries, over all versions.
    pub entries: u64,
    /// Whether entries have values: it is (also) a map.
    pub has_values: bool,
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern<'a> {
    /// The entry's identifier: unique in its set. Printed in hexadecimal.
    pub number: u64,
    pub key: &'a str,
    /// The value of a map entry.
    pub value: Option<&'a str>,
}

/// How a value fared with one way of matching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The way: `str`, `ip`, `beg`, ...
    pub method: &'static str,
    /// Whether letter case counts.
    pub case_sensitive: bool,
    /// The entry that matched.
    pub found: Option<Found>,
}

/// An entry that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How it was found: `tree` or `list`.
    pub index: &'static str,
    pub pattern: String,
    /// Its value and the value's type, in a map.
    pub value: Option<(String, &'static str)>,
}
