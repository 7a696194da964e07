//! `show table`, `set table`, `clear table` (management manual, 9.3).
//!
//! Long answers and long operations process a few entries at a time. A table is never locked as a whole.

use std::sync::Arc;

use weir_expr::Value;
use weir_expr::table::{DataKind, DataType, KeyType};
use weir_tables::{EntryFilter, EntryKey, Key, LockedEntry, MAX_FILTERS, Removal, Table, TableCursor};

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::answer;
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::CommandTarget;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "clear table",
        syntax: "clear table <table> [<filter>]*",
        level: Level::Operator,
        flags: WORKER,
        help: "delete entries of a stick-table (filter: data, key or ptr)",
        run: Some(clear),
    },
    Command {
        name: "set table",
        syntax: "set table <table> key <k> [data.* <v>]*",
        level: Level::Operator,
        flags: WORKER,
        help: "make or change an entry of a stick-table",
        run: Some(set),
    },
    Command {
        name: "show table",
        syntax: "show table [<table> [<filter>]*]",
        level: Level::User,
        flags: WORKER,
        help: "list the stick-tables, or the entries of one (filter: data, key or ptr)",
        run: Some(show),
    },
];

/// The operation on a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Show,
    Set,
    Clear,
}

impl Verb {
    /// The message for a command without its required arguments.
    fn usage(self) -> CommandOutcome {
        CommandOutcome::error(match self {
            Verb::Show => {
                "Optional argument only supports \"data.<store_data_type>\" <operator> <value> or key <key> or ptr <ptr>\n"
            }
            Verb::Set => {
                "Required arguments: <table> key <key> [data.<store_data_type> <value>]* or <table> ptr <ptr> [data.<store_data_type> <value>]*\n"
            }
            Verb::Clear => {
                "Required arguments: <table> \"data.<store_data_type>\" <operator> <value> or <table> key <key> or <table> ptr <ptr>\n"
            }
        })
    }
}

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    if arguments.word(0).is_empty() {
        return CommandOutcome::Stream(Box::new(ListTables { next: context.target.tables().len() }));
    }
    run(context, arguments, Verb::Show)
}

fn set(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    run(context, arguments, Verb::Set)
}

fn clear(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    run(context, arguments, Verb::Clear)
}

fn run(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>, verb: Verb) -> CommandOutcome {
    answer(|| {
        let name = arguments.word(0);
        if name.is_empty() {
            return Err(verb.usage());
        }
        let mut tables = context.target.tables().iter();
        let table = tables.find(|table| *table.declaration().name == *name);
        let table = table.ok_or_else(|| CommandOutcome::error("No such table\n"))?;
        let now = context.target.table_clock_ms();
        // Keys are client addresses, cookies and tokens.
        let may_see = context.modes.level >= Level::Operator;
        match arguments.word(1) {
            "key" | "ptr" if !may_see => Err(CommandOutcome::denied()),
            "key" => {
                let key = key(table, arguments.word(2), verb)?;
                by_key(table, &key, verb, arguments, now)
            }
            "ptr" => by_number(table, verb, arguments, now),
            word if word.starts_with("data.") && verb == Verb::Set => Err(CommandOutcome::error(
                "content-based lookup is only supported with the \"show\" and \"clear\" actions\n",
            )),
            word if word.starts_with("data.") => {
                let filters = filters(table, arguments)?;
                Ok(if may_see { every(table, filters, verb) } else { concealed(table) })
            }
            "" if !may_see => Ok(concealed(table)),
            "" if verb != Verb::Set => Ok(every(table, Vec::new(), verb)),
            "" => Ok(CommandOutcome::Nothing),
            _ => Err(verb.usage()),
        }
    })
}

/// The output of `show table` for a level without access to the entries.
fn concealed(table: &Table) -> CommandOutcome {
    let mut text = Vec::new();
    head(table, &mut text);
    text.extend_from_slice(b"# contents not dumped due to insufficient privileges\n");
    CommandOutcome::Text(printed(&text))
}

fn every(table: &Arc<Table>, filters: Vec<EntryFilter>, verb: Verb) -> CommandOutcome {
    let walk = TableWalk {
        table: Arc::clone(table),
        filters,
        cursor: Some(TableCursor::default()),
        begun: false,
        found: Vec::new(),
    };
    match verb {
        Verb::Clear => CommandOutcome::Stream(Box::new(ClearEntries(walk))),
        Verb::Show | Verb::Set => CommandOutcome::Stream(Box::new(ListEntries(walk))),
    }
}

fn key(table: &Table, word: &str, verb: Verb) -> Result<Key, CommandOutcome> {
    if word.is_empty() {
        return Err(CommandOutcome::error("Key value expected\n"));
    }
    let kind = table.declaration().key;
    if matches!(kind, KeyType::Binary(_)) {
        return Err(CommandOutcome::error(match verb {
            Verb::Show => {
                "Showing keys from tables of type other than ip, ipv6, string and integer is not supported\n"
            }
            Verb::Set => {
                "Inserting keys into tables of type other than ip, ipv6, string and integer is not supported\n"
            }
            Verb::Clear => {
                "Removing keys from tables of type other than ip, ipv6, string and integer is not supported\n"
            }
        }));
    }
    // A word that is not a number would be parsed as 0.
    let is_number = word.parse::<u32>().is_ok();
    let key = Key::of(Value::Str(word.as_bytes().into()), kind);
    key.filter(|_| is_number || kind != KeyType::Integer)
        .ok_or_else(|| CommandOutcome::error("Invalid key\n"))
}

fn by_key(
    table: &Table,
    key: &Key,
    verb: Verb,
    arguments: &CommandArguments<'_>,
    now: u64,
) -> Result<CommandOutcome, CommandOutcome> {
    match verb {
        Verb::Show => {
            let mut text = Vec::new();
            head(table, &mut text);
            let number = table.number_of(key, now);
            let shown = table.look(key, now, |row| line(table, number, row, &mut text));
            Ok(shown.map_or(CommandOutcome::Nothing, |()| CommandOutcome::Text(printed(&text))))
        }
        Verb::Set => {
            let changes = changes(table, arguments)?;
            match table.store(key, now, |row| apply(&changes, row)) {
                Some(()) => Ok(CommandOutcome::Nothing),
                None => Err(CommandOutcome::error("Unable to allocate a new entry\n")),
            }
        }
        Verb::Clear => removed(table.remove(key, now)),
    }
}

fn by_number(
    table: &Table,
    verb: Verb,
    arguments: &CommandArguments<'_>,
    now: u64,
) -> Result<CommandOutcome, CommandOutcome> {
    let digits = arguments.word(2).strip_prefix("0x");
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let number = number.ok_or_else(|| CommandOutcome::error("Pointer expected (0xffff notation)\n"))?;
    let entry = EntryKey::from_number(number);
    let missing = || CommandOutcome::error("No entry can be found matching ptr.\n");
    match verb {
        Verb::Show => {
            let mut text = Vec::new();
            head(table, &mut text);
            let shown = table.at(entry, now, |row| line(table, number, row, &mut text));
            shown.map(|()| CommandOutcome::Text(printed(&text))).ok_or_else(missing)
        }
        Verb::Set => {
            let changes = changes(table, arguments)?;
            let changed = table.touch(entry, now, |row| apply(&changes, row));
            changed.map(|()| CommandOutcome::Nothing).ok_or_else(missing)
        }
        Verb::Clear => match table.remove_entry(entry) {
            Removal::Missing => Err(missing()),
            other => removed(other),
        },
    }
}

fn removed(removed: Removal) -> Result<CommandOutcome, CommandOutcome> {
    match removed {
        Removal::InUse => Err(CommandOutcome::error("Entry currently in use, cannot remove\n")),
        Removal::Gone | Removal::Missing => Ok(CommandOutcome::Nothing),
    }
}

struct EntryChange {
    data: DataType,
    element: u16,
    value: u64,
}

fn changes(table: &Table, arguments: &CommandArguments<'_>) -> Result<Vec<EntryChange>, CommandOutcome> {
    let mut changes = Vec::new();
    for pair in arguments.from(3).chunks(2).filter(|pair| !pair[0].is_empty()) {
        let Some(name) = pair[0].strip_prefix("data.") else {
            return Err(CommandOutcome::error("\"data.<type>\" followed by a value expected\n"));
        };
        let (data, element) = data_of(table, name).map_err(CommandOutcome::error)?;
        let value = pair.get(1).and_then(|value| value.parse().ok());
        let is_number = data.kind() != DataKind::Name;
        let value = value.filter(|_| is_number);
        let value = value.ok_or_else(|| CommandOutcome::error("Require a valid integer value to store\n"))?;
        changes.push(EntryChange { data, element, value });
    }
    Ok(changes)
}

fn apply(changes: &[EntryChange], row: &mut LockedEntry<'_>) {
    for change in changes {
        row.set(change.data, change.element, change.value);
    }
}

/// Parses a data type stored by the table, with its array index.
fn data_of(table: &Table, name: &str) -> Result<(DataType, u16), &'static str> {
    let (name, element) = match name.split_once('[') {
        None => (name, Some(0)),
        Some((name, index)) => (name, index.strip_suffix(']').and_then(|index| index.parse().ok())),
    };
    let data = DataType::from_name(name).ok_or("Unknown data type\n")?;
    if !table.layout().stores(data) {
        return Err("Data type not stored in this table\n");
    }
    match element {
        Some(element) if element < table.layout().elements(data) => Ok((data, element)),
        _ => Err("index out of range in this data array\n"),
    }
}

fn filters(table: &Table, arguments: &CommandArguments<'_>) -> Result<Vec<EntryFilter>, CommandOutcome> {
    let mut filters = Vec::new();
    for words in arguments.from(1).chunks(3).filter(|words| !words[0].is_empty()) {
        let number = filters.len() + 1;
        let wrong = |what: &str| CommandOutcome::error(format!("Filter entry #{number}: {what}"));
        if number > MAX_FILTERS {
            return Err(CommandOutcome::error(format!("No more than {MAX_FILTERS} filters are supported\n")));
        }
        let name = words[0].strip_prefix("data.").ok_or_else(|| wrong("Expected data.<type>\n"))?;
        let (data, element) = data_of(table, name).map_err(wrong)?;
        let comparison = EntryFilter::comparison(words.get(1).map_or("", String::as_str));
        let comparison = comparison.ok_or_else(|| {
            wrong("Require and operator among \"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\"\n")
        })?;
        let value = words.get(2).and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| wrong("Require a valid integer value to compare against\n"))?;
        filters.push(EntryFilter { data, element, comparison, value });
    }
    Ok(filters)
}

/// Lists all tables.
struct ListTables {
    /// Number of tables still to list. The last table comes first, as in HAProxy.
    next: usize,
}

impl AnswerStream for ListTables {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        while out.len() < enough {
            let Some(next) = self.next.checked_sub(1) else { return AnswerStep::Done };
            self.next = next;
            if let Some(table) = target.tables().get(next) {
                head(table, out);
            }
        }
        AnswerStep::More
    }
}

/// Iterates over the entries of a table, a few at a time.
struct TableWalk {
    table: Arc<Table>,
    filters: Vec<EntryFilter>,
    /// The next position. `None` at the end.
    cursor: Option<TableCursor>,
    begun: bool,
    found: Vec<EntryKey>,
}

/// Maximum number of entries visited under one shard lock.
const AT_ONCE: u32 = 32;
/// Maximum number of visited entries without a match before other tasks run.
const IN_A_ROW: u32 = 1024;
/// Maximum number of removed entries before other tasks run. A removal takes as long as several visits.
const REMOVED_IN_A_ROW: usize = 256;

impl TableWalk {
    /// Calls `then` with the matching entries of one step. False at the end.
    fn go_on(&mut self, now: u64, mut then: impl FnMut(EntryKey, &mut LockedEntry<'_>)) -> bool {
        let Some(cursor) = self.cursor else { return false };
        let filters = &self.filters;
        self.cursor = self.table.walk(cursor, AT_ONCE, now, |entry, row| {
            if filters.iter().all(|filter| filter.holds(row)) {
                then(entry, row);
            }
        });
        self.cursor.is_some()
    }
}

/// `show table <name>`.
struct ListEntries(TableWalk);

impl AnswerStream for ListEntries {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        let (now, table) = (target.table_clock_ms(), Arc::clone(&self.0.table));
        if !self.0.begun {
            // Remove expired entries first, so they are neither shown nor counted.
            if table.expire(now, IN_A_ROW) {
                return AnswerStep::More;
            }
            self.0.begun = true;
            head(&table, out);
        }
        let mut looked = 0;
        while out.len() < enough && looked < IN_A_ROW {
            looked += AT_ONCE;
            if !self.0.go_on(now, |entry, row| line(&table, entry.number(), row, out)) {
                return AnswerStep::Done;
            }
        }
        AnswerStep::More
    }
}

/// `clear table <name>`.
struct ClearEntries(TableWalk);

impl AnswerStream for ClearEntries {
    fn advance(&mut self, target: &mut dyn CommandTarget, _: usize, _: &mut Vec<u8>) -> AnswerStep {
        let now = target.table_clock_ms();
        let (mut looked, mut removed) = (0, 0);
        while looked < IN_A_ROW && removed < REMOVED_IN_A_ROW {
            looked += AT_ONCE;
            let mut found = std::mem::take(&mut self.0.found);
            let more = self.0.go_on(now, |entry, _| found.push(entry));
            removed += found.len();
            for entry in found.drain(..) {
                // Tracked entries are not removed (management manual, "clear table").
                self.0.table.remove_entry(entry);
            }
            self.0.found = found;
            if !more {
                return AnswerStep::Done;
            }
        }
        AnswerStep::More
    }
}

fn head(table: &Table, out: &mut Vec<u8>) {
    let declaration = table.declaration();
    let text = format!(
        "# table: {}, type: {}, size:{}, used:{}\n",
        declaration.name,
        declaration.key.name(),
        declaration.size,
        table.used()
    );
    out.extend_from_slice(text.as_bytes());
}

fn line(table: &Table, number: u64, row: &mut LockedEntry<'_>, out: &mut Vec<u8>) {
    use std::io::Write as _;
    // Writing to memory does not fail.
    let _ = write!(out, "0x{number:x}: key=");
    write_key(&row.key(), out);
    let _ = write!(out, " use={} exp={} shard=0", row.trackers(), row.expires_in_ms());
    for data in table.layout().stored() {
        for element in 0..table.layout().elements(data) {
            let name = data.name();
            let value = row.get(data, element).unwrap_or_default();
            let _ = match (data, data.kind()) {
                (DataType::Gpt, _) => write!(out, " gpt{element}={value}"),
                (DataType::Gpc, _) => write!(out, " gpc{element}={value}"),
                (DataType::GpcRate, _) => {
                    write!(out, " gpc{element}_rate({})={value}", table.layout().period_ms(data))
                }
                (_, DataKind::Rate) => write!(out, " {name}({})={value}", table.layout().period_ms(data)),
                (_, DataKind::Name) => write!(out, " {name}={}", row.server_key().as_deref().unwrap_or("-")),
                _ => write!(out, " {name}={value}"),
            };
        }
    }
    out.push(b'\n');
}

fn write_key(key: &Value<'_>, out: &mut Vec<u8>) {
    use std::io::Write as _;
    match key {
        Value::Bin(bytes) => bytes.iter().for_each(|byte| _ = write!(out, "{byte:02X}")),
        Value::Str(bytes) => {
            for byte in bytes.iter() {
                match byte {
                    // Escape separators and non-printable characters.
                    b' ' | b'=' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                    0x21..=0x7e => out.push(*byte),
                    _ => _ = write!(out, "\\x{byte:02X}"),
                }
            }
        }
        Value::Ipv4(address) => _ = write!(out, "{address}"),
        Value::Ipv6(address) => _ = write!(out, "{address}"),
        Value::Int(number) => _ = write!(out, "{number}"),
        Value::Bool(_) | Value::Method(_) => {}
    }
}

fn printed(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
