//! The class `StickTable`.

use weir_expr::table::DataKind;
use weir_expr::{SampleType, Value};
use weir_lua::{LuaKind, LuaStack, Misuse};
use weir_tables::{DataType, EntryFilter, Key, KeyType, LockedEntry, MAX_FILTERS, Table, TableCursor};

use super::classes::{ClassDecl, LateClass};
use super::process::process;
use super::{ApiCall, ApiResult};
use crate::process::ScriptProcess;

/// A table. Its number is that of its proxy.
pub(super) static CLASS: ClassDecl =
    ClassDecl::new("StickTable", &[("info", info), ("lookup", look_up), ("dump", dump)]);

fn table<'c>(call: &ApiCall<'c>) -> Result<(&'c dyn ScriptProcess, &'c Table), Misuse> {
    let (number, process) = (LateClass::StickTable.number(call, 1)?, process(call)?);
    let table = u32::try_from(number).ok().and_then(|proxy| process.table(proxy));
    Ok((process, table.ok_or_else(|| call.wrong_kind(1, "StickTable"))?))
}

/// `table:info()`: its settings, and its use.
fn info(call: &ApiCall<'_>) -> ApiResult {
    let (_, table) = table(call)?;
    let declaration = table.declaration();
    let length = match declaration.key {
        KeyType::Text(length) => length + 1,
        KeyType::Binary(length) => length,
        KeyType::Ipv6 => 16,
        _ => 4,
    };
    call.push_table(0, 7);
    call.push_bytes(declaration.key.name().as_bytes());
    call.set_field(b"type");
    let numbers = [
        ("length", i64::from(length)),
        ("size", i64::from(declaration.size)),
        ("used", i64::from(table.used())),
        ("expire", i64::from(declaration.expire_ms)),
    ];
    for (name, number) in numbers {
        call.push_integer(number);
        call.set_field(name.as_bytes());
    }
    call.push_boolean(declaration.no_purge);
    call.set_field(b"nopurge");
    call.push_table(0, 8);
    for data in table.layout().stored() {
        // The period of a rate, in milliseconds.
        let period = match data.kind() {
            DataKind::Rate => i64::from(table.layout().period_ms(data)),
            _ => -1,
        };
        call.push_integer(period);
        call.set_field(data.name().as_bytes());
    }
    call.set_field(b"data");
    call.results(1)
}

/// An entry, copied out of its table: Lua may run a script's finalizers whenever it takes memory.
struct CopiedEntry {
    key: Value<'static>,
    trackers: u32,
    expires_in_ms: u32,
    data: Vec<(DataType, CopiedData)>,
}

enum CopiedData {
    Number(u64),
    Name(Option<std::sync::Arc<str>>),
}

impl CopiedEntry {
    fn new(table: &Table, row: &mut LockedEntry<'_>) -> CopiedEntry {
        let stored = table.layout().stored().map(|data| {
            // Of arrays, the first element.
            let value = match data.kind() {
                DataKind::Name => CopiedData::Name(row.server_key()),
                _ => CopiedData::Number(row.get(data, 0).unwrap_or_default()),
            };
            (data, value)
        });
        let data = stored.collect();
        CopiedEntry { key: row.key(), trackers: row.trackers(), expires_in_ms: row.expires_in_ms(), data }
    }

    /// Pushes a table of the data.
    fn push(&self, stack: &LuaStack<'_>) {
        stack.push_table(0, self.data.len() + 2);
        for (data, value) in &self.data {
            match value {
                CopiedData::Number(number) => stack.push_integer(*number as i64),
                CopiedData::Name(name) => stack.push_bytes(name.as_deref().unwrap_or("-").as_bytes()),
            }
            stack.set_field(data.name().as_bytes());
        }
    }
}

/// `table:lookup(key)`: the data of an entry, its users, and its time in milliseconds. Nil without an entry.
fn look_up(call: &ApiCall<'_>) -> ApiResult {
    let (process, table) = table(call)?;
    let word = if call.count() == 2 { call.bytes(2) } else { None };
    let is_number = |word: &&[u8]| std::str::from_utf8(word).is_ok_and(|word| word.parse::<u32>().is_ok());
    let kind = table.declaration().key;
    // A text that is not a number would be read as 0.
    let word = word.filter(|word| kind != KeyType::Integer || is_number(word));
    let key = word.and_then(|word| Key::of(Value::Str(word.into()), kind));
    let entry =
        key.and_then(|key| table.look(&key, process.table_clock_ms(), |row| CopiedEntry::new(table, row)));
    match entry {
        Some(entry) => {
            entry.push(call);
            for (name, number) in [("use", entry.trackers), ("expire", entry.expires_in_ms)] {
                call.push_integer(number.into());
                call.set_field(name.as_bytes());
            }
        }
        None => call.push_nil(),
    }
    call.results(1)
}

/// `table:dump([filters])`: the data of all entries by key, or nil and the reason why the filters are wrong.
fn dump(call: &ApiCall<'_>) -> ApiResult {
    let (process, table) = table(call)?;
    let filters = match filters(call, table) {
        Ok(filters) => filters,
        Err(reason) => {
            call.push_nil();
            call.push_bytes(reason.as_bytes());
            return call.results(2);
        }
    };
    let (now, mut cursor, mut found) = (process.table_clock_ms(), Some(TableCursor::default()), Vec::new());
    call.push_table(0, 0);
    while let Some(at) = cursor {
        cursor = table.walk(at, AT_ONCE, now, |_, row| {
            if filters.iter().all(|filter| filter.holds(row)) {
                found.push(CopiedEntry::new(table, row));
            }
        });
        if call.exceeds_bounds() {
            return Err(Misuse::text("the table is too large for the bounds of time and memory"));
        }
        for entry in found.drain(..) {
            let Some(key) = entry.key.clone().cast(SampleType::Str) else { continue };
            entry.push(call);
            call.set_field(key.bytes().unwrap_or_default());
        }
    }
    call.results(1)
}

/// The filters in argument 2.
fn filters(call: &ApiCall<'_>, table: &Table) -> Result<Vec<EntryFilter>, String> {
    match call.kind(2) {
        LuaKind::None | LuaKind::Nil => return Ok(Vec::new()),
        LuaKind::Table => {}
        _ => return Err("filter table expected".to_owned()),
    }
    let count = call.length(2);
    if count > MAX_FILTERS {
        return Err(format!("Filter table too large (len > {MAX_FILTERS})"));
    }
    let filter = |number: usize| {
        call.with_index(2, number as i64, |stack| filter(stack, table))
            .map_err(|reason| format!("{reason} (entry #{number})"))
    };
    (1..=count).map(filter).collect()
}

/// The filter at the top of the stack: data, operator, value.
fn filter(stack: &LuaStack<'_>, table: &Table) -> Result<EntryFilter, &'static str> {
    if stack.kind(-1) != LuaKind::Table || stack.length(-1) != 3 {
        return Err("Filter table entry must be a triplet: {\"data_col\", \"op\", val}");
    }
    let word = |position| {
        stack.with_index(-1, position, |stack| {
            String::from_utf8_lossy(stack.bytes(-1).unwrap_or_default()).into_owned()
        })
    };
    let data = DataType::from_name(&word(1)).filter(|data| table.layout().stores(*data));
    let data = data.ok_or("Filter table data column not present in stick table")?;
    let comparison = EntryFilter::comparison(&word(2)).ok_or("Unknown operator in filter table")?;
    let value = stack.with_index(-1, 3, |stack| stack.integer(-1).unwrap_or(0));
    Ok(EntryFilter { data, element: 0, comparison, value })
}

/// Slots of a table that are visited under one lock.
const AT_ONCE: u32 = 32;
