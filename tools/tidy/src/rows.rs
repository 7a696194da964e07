//! Every keyword of weir's language, implemented or not, from the rows of all crates.

use std::collections::BTreeSet;

use weir_cli::command::{HIDDEN, WORKER};
use weir_config::vocabulary::{self, WordPlace, WordState};
use weir_expr::{FetchDecl, converters, internal};
use weir_stats::{fields, info};

use crate::{BrokenRule, Workspace};

/// A keyword, fetch, converter, command or counter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LanguageWord {
    /// The kind of word.
    pub kind: WordKind,
    /// The word.
    pub name: String,
    /// One-line help text. May be empty for an unimplemented word.
    pub help: String,
    /// Whether it is implemented.
    pub ready: bool,
}

/// The kinds of words, in the order in which the README lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WordKind {
    /// A word of the configuration.
    Configuration(WordPlace),
    /// A sample fetch.
    Fetch,
    /// A converter.
    Converter,
    /// A command of the runtime API.
    Command,
    /// A field of `show stat` or `show info`.
    Counter,
}

impl WordKind {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        let configuration = WordPlace::ALL.into_iter().map(Self::Configuration);
        configuration.chain([Self::Fetch, Self::Converter, Self::Command, Self::Counter])
    }

    /// The heading of the kind.
    pub fn title(self) -> &'static str {
        match self {
            Self::Configuration(place) => place.title(),
            Self::Fetch => "Sample fetches",
            Self::Converter => "Converters",
            Self::Command => "Runtime API commands",
            Self::Counter => "Counters",
        }
    }
}

/// All words, sorted.
pub fn words() -> BTreeSet<LanguageWord> {
    let mut words = BTreeSet::new();
    let mut add = |kind: WordKind, name: &str, help: &str, ready: bool| {
        words.insert(LanguageWord { kind, name: name.to_owned(), help: help.to_owned(), ready });
    };
    for word in
        vocabulary::words(&weir_stream::KEYWORDS).iter().filter(|word| word.state != WordState::Removed)
    {
        add(WordKind::Configuration(word.place), word.name, word.help, word.state == WordState::Ready);
    }
    let internal = internal::FETCHES.iter().map(|row| &row.decl);
    let rows: Vec<&FetchDecl> =
        internal.chain(weir_vocabulary::fetch::FETCHES.iter().map(|row| &row.decl)).collect();
    rows.iter().for_each(|row| add(WordKind::Fetch, row.name, row.help, true));
    for name in weir_expr::fetch::names().iter().filter(|name| rows.iter().all(|row| row.name != **name)) {
        add(WordKind::Fetch, name, "", false);
    }
    converters::all().iter().for_each(|row| add(WordKind::Converter, row.name, row.help, true));
    for name in converters::names().iter().filter(|name| converters::find(name).is_none()) {
        add(WordKind::Converter, name, "", false);
    }
    for row in weir_cli::commands().filter(|row| row.flags & WORKER != 0 && row.flags & HIDDEN == 0) {
        add(WordKind::Command, row.name, row.help, row.run.is_some());
    }
    fields::FIELDS.iter().for_each(|row| add(WordKind::Counter, row.name, row.description, true));
    info::INFO_FIELDS.iter().for_each(|row| add(WordKind::Counter, row.name, row.description, true));
    words
}

/// Implemented words without a help text.
pub fn without_help(_: &Workspace) -> Vec<BrokenRule> {
    let silent = |word: &LanguageWord| word.ready && word.help.trim().is_empty();
    let fault =
        |word: LanguageWord| BrokenRule::new(format!("{:?} {}", word.kind, word.name), "has no help text");
    words().into_iter().filter(silent).map(fault).collect()
}
