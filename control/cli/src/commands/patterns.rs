//! Maps and ACLs, with one implementation of each verb for both.

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::{answer, complaint};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::PatternKind::{Acl, Map};
use crate::target::{
    CommandTarget, Found, ListPosition, Lookup, Pattern, PatternKind, PatternSet, SetKey, VersionError, Which,
};

macro_rules! row {
    ($name:literal, $syntax:literal, $help:literal, $run:expr) => {
        Command {
            name: $name,
            syntax: $syntax,
            // Patterns control access, and may contain names of users.
            level: Level::Admin,
            flags: WORKER,
            help: $help,
            run: Some($run),
        }
    };
}

pub(super) static COMMANDS: &[Command] = &[
    row!("show map", "show map [@<ver>] [map]", "list the maps, or the entries of one", |c, a| show(
        c, a, Map
    )),
    row!("show acl", "show acl [@<ver>] <acl>", "list the acls, or the entries of one", |c, a| show(
        c, a, Acl
    )),
    row!("get map", "get map <map> <value>", "show the value that a map returns for a key", |c, a| get(
        c, a, Map
    )),
    row!("get acl", "get acl <acl> <value>", "show the patterns of an acl that match a value", |c, a| get(
        c, a, Acl
    )),
    row!(
        "add map",
        "add map [@<ver>] <map> <key> <val>",
        "add an entry to a map, or many as a payload of keys and values",
        add_map
    ),
    row!("add acl", "add acl [@<ver>] <acl> <pattern>", "add a pattern to an acl", add_acl),
    row!("set map", "set map <map> [<key>|#<ref>] <value>", "give an entry of a map a new value", set_map),
    row!("del map", "del map <map> [<key>|#<ref>]", "delete entries of a map", |c, a| delete(c, a, Map)),
    row!("del acl", "del acl <acl> [<key>|#<ref>]", "delete patterns of an acl", |c, a| delete(c, a, Acl)),
    row!("clear map", "clear map [@<ver>] <map>", "delete all entries of a map", |c, a| clear(c, a, Map)),
    row!("clear acl", "clear acl [@<ver>] <acl>", "delete all patterns of an acl", |c, a| clear(c, a, Acl)),
    row!(
        "prepare map",
        "prepare map <map>",
        "begin a new version of a map, to replace it at once",
        |c, a| { prepare(c, a, Map) }
    ),
    row!(
        "prepare acl",
        "prepare acl <acl>",
        "begin a new version of an acl, to replace it at once",
        |c, a| { prepare(c, a, Acl) }
    ),
    row!(
        "commit map",
        "commit map @<ver> <map>",
        "use a prepared version of a map, delete all others",
        |c, a| { commit(c, a, Map) }
    ),
    row!(
        "commit acl",
        "commit acl @<ver> <acl>",
        "use a prepared version of an acl, delete all others",
        |c, a| { commit(c, a, Acl) }
    ),
];

/// Parses the version if the first word is `@<ver>`. Also returns the number of words used.
fn version(arguments: &CommandArguments<'_>) -> Result<(Option<u32>, usize), CommandOutcome> {
    match arguments.word(0).strip_prefix('@') {
        None => Ok((None, 0)),
        Some(number) => match number.parse() {
            Ok(version) => Ok((Some(version), 1)),
            Err(_) => Err(CommandOutcome::error("Invalid version number.\n")),
        },
    }
}

fn find(
    context: &CommandContext<'_>,
    kind: PatternKind,
    name: &str,
) -> Result<(SetKey, PatternSet), CommandOutcome> {
    context
        .target
        .pattern_set(kind, name)
        .and_then(|key| Some((key, context.target.pattern_set_view(key)?)))
        .ok_or_else(|| {
            CommandOutcome::error(format!(
                "Unknown {} identifier. Please use #<id> or <file>.\n",
                kind.noun()
            ))
        })
}

fn missing(kind: PatternKind, what: &str) -> CommandOutcome {
    CommandOutcome::error(format!("Missing {} {what}.\n", kind.noun()))
}

/// The selected entries: `#<ref>` selects one entry by its number, other words select all entries with this key.
fn which(word: &str) -> Which<'_> {
    let number = word.strip_prefix('#').and_then(|rest| {
        let digits = rest.strip_prefix("0x").unwrap_or(rest);
        u64::from_str_radix(digits, 16).ok()
    });
    number.map_or(Which::Key(word), Which::Number)
}

fn show(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: PatternKind,
) -> CommandOutcome {
    answer(|| {
        let (version, skip) = version(arguments)?;
        let name = arguments.word(skip);
        if name.is_empty() && skip == 0 {
            return Ok(CommandOutcome::Stream(Box::new(ListSets { kind, begun: false, place: 0 })));
        }
        let (set, view) = find(context, kind, name)?;
        let version = version.unwrap_or(view.current_version);
        Ok(CommandOutcome::Stream(Box::new(ListPatterns { set, version, place: 0 })))
    })
}

struct ListSets {
    kind: PatternKind,
    begun: bool,
    place: ListPosition,
}

impl AnswerStream for ListSets {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        if !self.begun {
            self.begun = true;
            out.extend_from_slice(b"# id (file) description\n");
        }
        while out.len() < enough {
            let Some(set) = target.next_pattern_set(self.kind, &mut self.place) else {
                return AnswerStep::Done;
            };
            let line = format!(
                "{} ({}) {}. curr_ver={} next_ver={} entry_cnt={}\n",
                set.id,
                set.file.as_deref().unwrap_or_default(),
                set.description,
                set.current_version,
                set.next_version,
                set.entries
            );
            out.extend_from_slice(line.as_bytes());
        }
        AnswerStep::More
    }
}

struct ListPatterns {
    set: SetKey,
    version: u32,
    place: ListPosition,
}

impl AnswerStream for ListPatterns {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        loop {
            let before = out.len();
            let mut write = |pattern: Pattern<'_>| {
                write_pattern(pattern, out);
                out.len() < enough
            };
            if !target.visit_patterns(self.set, self.version, &mut self.place, &mut write) {
                return AnswerStep::Done;
            }
            // No output may mean a long run of deleted entries. Yield after it, too.
            if out.len() >= enough || out.len() == before {
                return AnswerStep::More;
            }
        }
    }
}

/// Writes `0x<number> <key>[ <value>]`, with at least twelve digits. Avoids the slow formatting machinery: lists may have millions of entries.
fn write_pattern(pattern: Pattern<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0x");
    let digits = (16 - pattern.number.leading_zeros() / 4).max(12);
    out.extend((0..digits).rev().map(|at| b"0123456789abcdef"[(pattern.number >> (4 * at) & 15) as usize]));
    for word in [Some(pattern.key), pattern.value].into_iter().flatten() {
        out.push(b' ');
        out.extend_from_slice(word.as_bytes());
    }
    out.push(b'\n');
}

fn get(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: PatternKind,
) -> CommandOutcome {
    answer(|| {
        if arguments.len() < 2 {
            return Err(missing(kind, "identifier and/or key"));
        }
        let (set, _) = find(context, kind, arguments.word(0))?;
        let found = context.target.look_up(set, kind, arguments.word(1));
        Ok(CommandOutcome::Text(found.iter().map(|lookup| lookup_line(kind, lookup)).collect()))
    })
}

fn lookup_line(kind: PatternKind, lookup: &Lookup) -> String {
    let case = if lookup.case_sensitive { "sensitive" } else { "insensitive" };
    let verb = match kind {
        Map => "found",
        Acl => "match",
    };
    let head = format!("type={}, case={case}, {verb}", lookup.method);
    match &lookup.found {
        None => format!("{head}=no\n"),
        Some(Found { index, pattern, value: None }) => {
            let word = if kind == Map { "key" } else { "pattern" };
            format!("{head}=yes, idx={index}, {word}=\"{pattern}\"\n")
        }
        Some(Found { index, pattern, value: Some((value, type_)) }) => {
            let word = if kind == Map { "key" } else { "pattern" };
            format!("{head}=yes, idx={index}, {word}=\"{pattern}\", value=\"{value}\", type=\"{type_}\"\n")
        }
    }
}

/// The version to which entries are added: the active one or a prepared one.
fn version_to_fill(view: &PatternSet, wanted: Option<u32>, kind: PatternKind) -> Result<u32, CommandOutcome> {
    let version = wanted.unwrap_or(view.current_version);
    if version.wrapping_sub(view.current_version) > view.next_version.wrapping_sub(view.current_version) {
        return Err(CommandOutcome::error(format!(
            "Version number in the future, please use 'prepare {}' before.\n",
            kind.word()
        )));
    }
    Ok(version)
}

fn add_map(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let (wanted, skip) = version(arguments)?;
        let words = arguments.from(skip);
        let complete = if arguments.payload.is_some() { words.len() == 1 } else { words.len() >= 3 };
        if !complete {
            return Err(CommandOutcome::error(
                "'add map' expects three parameters (map identifier, key and value) or one parameter (map identifier) \
                 and a payload\n",
            ));
        }
        let (set, view) = find(context, Map, &words[0])?;
        let version = version_to_fill(&view, wanted, Map)?;
        match arguments.payload {
            Some(payload) => add_lines(context, set, version, payload),
            None => add_one(context, set, version, &words[1], Some(&words[2])),
        }
    })
}

/// Adds one entry per line: the key, spaces, and the rest as the value.
fn add_lines(
    context: &mut CommandContext<'_>,
    set: SetKey,
    version: u32,
    payload: &str,
) -> Result<CommandOutcome, CommandOutcome> {
    for line in payload.lines() {
        let line = line.trim_start();
        if line.is_empty() {
            continue;
        }
        let (key, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let value = value.trim_start();
        if value.is_empty() {
            return Err(CommandOutcome::error(format!("Missing value for key '{key}'.\n")));
        }
        add_one(context, set, version, key, Some(value))?;
    }
    Ok(CommandOutcome::Nothing)
}

fn add_one(
    context: &mut CommandContext<'_>,
    set: SetKey,
    version: u32,
    key: &str,
    value: Option<&str>,
) -> Result<CommandOutcome, CommandOutcome> {
    match context.target.add_pattern(set, version, key, value) {
        Ok(()) => Ok(CommandOutcome::Nothing),
        Err(text) => Err(complaint(&text)),
    }
}

fn add_acl(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let (wanted, skip) = version(arguments)?;
        let words = arguments.from(skip);
        if words.len() < 2 {
            return Err(CommandOutcome::error(
                "'add acl' expects two parameters: ACL identifier and pattern.\n",
            ));
        }
        // If the file is used as a map and not as an ACL, this gives a clear message.
        let named = find(context, Acl, &words[0])
            .or_else(|unknown| find(context, Map, &words[0]).map_err(|_| unknown));
        let (set, view) = named?;
        if view.has_values {
            return Err(CommandOutcome::error(
                "This ACL is shared with a map containing samples. You must use the command 'add map' to add values.\n",
            ));
        }
        let version = version_to_fill(&view, wanted, Acl)?;
        add_one(context, set, version, &words[1], None)
    })
}

fn set_map(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        if arguments.len() < 3 {
            return Err(CommandOutcome::error(
                "'set map' expects three parameters: map identifier, key and value.\n",
            ));
        }
        let (set, _) = find(context, Map, arguments.word(0))?;
        let which = which(arguments.word(1));
        if context.target.set_pattern(set, which, arguments.word(2)) {
            return Ok(CommandOutcome::Nothing);
        }
        Err(CommandOutcome::error(match which {
            Which::Key(_) => "entry not found.\n",
            Which::Number(_) => "key or pattern not found.\n",
        }))
    })
}

fn delete(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: PatternKind,
) -> CommandOutcome {
    answer(|| {
        if arguments.len() < 2 {
            return Err(CommandOutcome::error(format!(
                "This command expects two parameters: {} identifier and key.\n",
                kind.noun()
            )));
        }
        let (set, _) = find(context, kind, arguments.word(0))?;
        if context.target.delete_pattern(set, which(arguments.word(1))) {
            return Ok(CommandOutcome::Nothing);
        }
        Err(CommandOutcome::error("Key not found.\n"))
    })
}

fn clear(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: PatternKind,
) -> CommandOutcome {
    answer(|| {
        let (version, skip) = version(arguments)?;
        let name = arguments.word(skip);
        if name.is_empty() {
            return Err(missing(kind, "identifier"));
        }
        let (set, view) = find(context, kind, name)?;
        context.target.clear_patterns(set, version.unwrap_or(view.current_version));
        Ok(CommandOutcome::Nothing)
    })
}

fn prepare(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: PatternKind,
) -> CommandOutcome {
    answer(|| {
        let (set, _) = find(context, kind, arguments.word(0))?;
        Ok(CommandOutcome::info(format!("New version created: {}\n", context.target.prepare_version(set))))
    })
}

fn commit(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    kind: PatternKind,
) -> CommandOutcome {
    answer(|| {
        let (version, skip) = version(arguments)?;
        let version = version.ok_or_else(|| CommandOutcome::error("Missing version number.\n"))?;
        if arguments.word(skip).is_empty() {
            return Err(missing(kind, "identifier"));
        }
        let (set, _) = find(context, kind, arguments.word(skip))?;
        match context.target.commit_version(set, version) {
            Ok(()) => Ok(CommandOutcome::Nothing),
            Err(VersionError::OutOfRange) => Err(CommandOutcome::error("Version number out of range.\n")),
        }
    })
}
