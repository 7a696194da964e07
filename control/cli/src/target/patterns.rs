//! Maps and ACL files: versioned pattern sets that can change while traffic is matched against them.

use super::ListPosition;

/// Key of a pattern set, from a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetKey(pub u64);

/// Whether a command operates on maps or ACLs. One file may be used as both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    Map,
    Acl,
}

impl PatternKind {
    /// The keyword in commands.
    pub fn word(self) -> &'static str {
        match self {
            PatternKind::Map => "map",
            PatternKind::Acl => "acl",
        }
    }

    /// The name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            PatternKind::Map => "map",
            PatternKind::Acl => "ACL",
        }
    }
}

/// Operations on maps and ACLs.
pub trait PatternTarget {
    /// The set of this kind with this file name, or with this id (`#<id>`).
    fn pattern_set(&self, kind: PatternKind, name: &str) -> Option<SetKey>;

    /// The next set of this kind. Advances `place`. `None` at the end of the list.
    fn next_pattern_set(&self, kind: PatternKind, place: &mut ListPosition) -> Option<PatternSet>;

    /// The current state of a set.
    fn pattern_set_view(&self, set: SetKey) -> Option<PatternSet>;

    /// Calls `each` with the next patterns of a version, in insertion order, until `each` returns false. Visits a bounded number per
    /// call and advances `place` past the last one. False at the end.
    fn visit_patterns(
        &self,
        set: SetKey,
        version: u32,
        place: &mut ListPosition,
        each: &mut dyn FnMut(Pattern<'_>) -> bool,
    ) -> bool;

    /// The entries that match a value: one result per match method of the set.
    fn look_up(&self, set: SetKey, kind: PatternKind, value: &str) -> Vec<Lookup>;

    /// Adds a pattern to an existing version. The error is a message for the operator, without a newline.
    fn add_pattern(
        &mut self,
        set: SetKey,
        version: u32,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), String>;

    /// Changes the value of the entries with this key, or of the entry with this number. False if no entry matches.
    fn set_pattern(&mut self, set: SetKey, which: Which<'_>, value: &str) -> bool;

    /// Deletes the entries with this key, or the entry with this number. False if no entry matches.
    fn delete_pattern(&mut self, set: SetKey, which: Which<'_>) -> bool;

    /// Deletes all patterns of a version.
    fn clear_patterns(&mut self, set: SetKey, version: u32);

    /// Creates a new, empty version. Returns its number.
    fn prepare_version(&mut self, set: SetKey) -> u32;

    /// Activates a prepared version and deletes all others.
    fn commit_version(&mut self, set: SetKey, version: u32) -> Result<(), VersionError>;
}

/// The entries selected by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// All entries with this key.
    Key(&'a str),
    /// The entry with this number.
    Number(u64),
}

/// Why a version cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionError {
    /// The version was never prepared, or is already committed.
    OutOfRange,
}

/// A set of patterns, as `show map` and `show acl` list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternSet {
    pub id: u32,
    /// The set's file. `None` for inline patterns of the configuration.
    pub file: Option<String>,
    /// The uses of the set, with their positions in the configuration.
    pub description: String,
    /// The active version.
    pub current_version: u32,
    /// The newest prepared version.
    pub next_version: u32,
    /// Number of entries in all versions.
    pub entries: u64,
    /// Whether entries have values. The set is then (also) used as a map.
    pub has_values: bool,
}

/// One entry of a pattern set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern<'a> {
    /// The entry's identifier: unique in its set. Printed in hexadecimal.
    pub number: u64,
    pub key: &'a str,
    /// The value of a map entry.
    pub value: Option<&'a str>,
}

/// The result of a lookup with one match method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The match method: `str`, `ip`, `beg`, ...
    pub method: &'static str,
    /// Whether the match is case-sensitive.
    pub case_sensitive: bool,
    /// The matching entry. `None` without a match.
    pub found: Option<Found>,
}

/// A matching entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The index that contained the entry: `tree` or `list`.
    pub index: &'static str,
    pub pattern: String,
    /// Value and type of a map entry. `None` for an ACL.
    pub value: Option<(String, &'static str)>,
}
