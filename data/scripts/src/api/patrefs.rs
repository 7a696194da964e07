//! `Patref`: the entries of a map or a list of patterns, live or in a version that is prepared.

use std::sync::Arc;

use weir_expr::PatternSet;
use weir_expr::pattern::{Selector, SetError};
use weir_lua::{LuaKind, Misuse};

use super::classes::{ClassDecl, LateClass};
use super::{ApiCall, ApiResult, events};
use crate::events::EventSubject;
use crate::world::World;

pub(super) static CLASS: ClassDecl = ClassDecl {
    field: Some(value_of_key),
    pairs: Some(pairs),
    is_sealed: true,
    ..ClassDecl::new(
        "Patref",
        &[
            ("get_name", name),
            ("is_map", is_map),
            ("purge", purge),
            ("prepare", prepare),
            ("commit", commit),
            ("giveup", give_up),
            ("add", add),
            ("add_bulk", add_bulk),
            ("del", delete),
            ("set", set),
            ("event_sub", event_sub),
        ],
    )
};

/// `core.get_patref(name)`. The object's numbers are those of the set, and of the version that it prepares.
pub(super) fn of_name(call: &ApiCall<'_>) -> ApiResult {
    if call.count() != 1 {
        return Err(Misuse::text("'get_patref' needs 1 arguments"));
    }
    let name = String::from_utf8_lossy(call.expect_bytes(1)?);
    let set = call.host().resources.patterns.find(&name);
    let set = set.ok_or_else(|| Misuse::text(format!("'get_patref': unknown pattern reference '{name}'")))?;
    LateClass::Patref.push(call, set.number().into());
    call.results(1)
}

/// The set of the object in argument 1, and the version that it changes.
fn target(call: &ApiCall<'_>) -> Result<(Arc<PatternSet>, Option<u32>), Misuse> {
    let number = LateClass::Patref.number(call, 1)?;
    let set =
        u32::try_from(number).ok().and_then(|number| call.host().resources.patterns.find_number(number));
    let set = set.ok_or_else(|| call.wrong_kind(1, "Patref"))?;
    Ok((set, prepared(call)))
}

/// The version that the object in argument 1 prepares.
fn prepared(call: &ApiCall<'_>) -> Option<u32> {
    call.parts(1).second().and_then(|version| u32::try_from(version).ok()).filter(|version| *version > 0)
}

fn name(call: &ApiCall<'_>) -> ApiResult {
    let (set, _) = target(call)?;
    call.push_bytes(set.name().unwrap_or_default().as_bytes());
    call.results(1)
}

fn is_map(call: &ApiCall<'_>) -> ApiResult {
    let (set, _) = target(call)?;
    call.push_boolean(set.has_values());
    call.results(1)
}

fn purge(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    let _ = set.clear(version);
    call.results(0)
}

fn prepare(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    // Only one version of an object is in preparation.
    if let Some(version) = version {
        set.abandon(version);
    }
    call.parts(1).set_second(set.prepare().into());
    call.results(0)
}

fn commit(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    let Some(version) = version else { return failed(call, "Nothing to do") };
    call.parts(1).set_second(0);
    ended(call, set.commit(version))
}

fn give_up(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    if let Some(version) = version {
        set.abandon(version);
    }
    call.parts(1).set_second(0);
    call.results(0)
}

/// `patref:add(key [, value])`. A list takes no value.
fn add(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    let key = call.expect_bytes(2)?;
    let value = if call.is_nil(3) { None } else { Some(call.expect_bytes(3)?) };
    ended(call, set.add(version, key, value.filter(|_| set.has_values())))
}

/// `patref:add_bulk(table)`: keys and values for a map, an array of keys for a list. Stops at the first failure.
fn add_bulk(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    call.expect_table(2)?;
    let is_map = set.has_values();
    let added = call.each_pair(2, |stack| {
        let text = |index| match stack.kind(index) {
            LuaKind::String => Ok(stack.bytes(index).unwrap_or_default()),
            _ => Err(BulkError::Table),
        };
        let (key, value) = match is_map {
            true => (text(-2)?, Some(text(-1)?)),
            false => (text(-1)?, None),
        };
        set.add(version, key, value).map_err(BulkError::Entry)
    });
    match added {
        Err(BulkError::Table) => Err(Misuse::argument(
            2,
            if is_map { "table of keys and values expected" } else { "array of keys expected" },
        )),
        Err(BulkError::Entry(error)) => ended(call, Err(error)),
        Ok(()) => ended(call, Ok(())),
    }
}

enum BulkError {
    Table,
    Entry(SetError),
}

/// `patref:del(key)`: whether there was an entry.
fn delete(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    let deleted = set.delete_in(version, Selector::Pattern(call.expect_bytes(2)?));
    call.push_boolean(deleted.is_ok());
    call.results(1)
}

/// `patref:set(key, value [, force])`. With `force`, a missing key is added.
fn set(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    let (key, value) = (call.expect_bytes(2)?, call.expect_bytes(3)?);
    let changed = match call.boolean(4) {
        true => set.set_or_add(version, key, value),
        false => set.set_in(version, Selector::Pattern(key), value).map(drop),
    };
    match changed {
        Err(SetError::NotFound) => failed(call, "entry not found"),
        other => ended(call, other),
    }
}

/// `patref:event_sub(types, function)`.
fn event_sub(call: &ApiCall<'_>) -> ApiResult {
    let (set, _) = target(call)?;
    let events = &call.host().resources.events;
    set.watch(|| {
        let events = Arc::clone(events);
        Box::new(move |number, event| events.publish_patterns(number, event))
    });
    events::subscribe_to(call, EventSubject::Patterns(set.number()), 2)
}

/// True, or nil and the reason.
fn ended(call: &ApiCall<'_>, result: Result<(), SetError>) -> ApiResult {
    match result {
        Ok(()) => {
            call.push_boolean(true);
            call.results(1)
        }
        Err(error) => failed(call, &error.to_string()),
    }
}

fn failed(call: &ApiCall<'_>, reason: &str) -> ApiResult {
    call.push_nil();
    call.push_bytes(reason.as_bytes());
    call.results(2)
}

/// `patref[key]`: the value of an entry, or true for an entry of a list. Methods come first.
fn value_of_key(call: &ApiCall<'_>, key: &[u8]) -> Result<bool, Misuse> {
    if CLASS.methods.iter().any(|(method, _)| method.as_bytes() == key) {
        return Ok(false);
    }
    let (set, version) = target(call)?;
    match set.find_in(version, key).map(|entry| entry.value()) {
        Some(Some(value)) => call.push_bytes(&value),
        Some(None) => call.push_boolean(true),
        None => call.push_nil(),
    }
    Ok(true)
}

/// `pairs(patref)`. The state of the iteration has the set, its version, and the last entry.
fn pairs(call: &ApiCall<'_>) -> ApiResult {
    let (set, version) = target(call)?;
    call.push_function::<World>(next_entry, 0);
    call.push_table(3, 0);
    let version = version.unwrap_or_else(|| set.versions().0);
    for (position, number) in [(1, i64::from(set.number())), (2, version.into()), (3, 0)] {
        call.push_integer(number);
        call.set_index(position);
    }
    call.push_nil();
    call.results(3)
}

/// The entry behind that of the state: its key and its value, which is nil for a list.
fn next_entry(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let [number, version, last] =
        [1, 2, 3].map(|position| call.with_index(1, position, |stack| stack.integer(-1).unwrap_or(0)));
    let set =
        u32::try_from(number).ok().and_then(|number| call.host().resources.patterns.find_number(number));
    let Some(set) = set else { return Err(Misuse::argument(1, "the state of an iteration expected")) };
    let (mut last, version, mut found) = (last as u64, version as u32, None);
    // A call visits a bounded number of entries, which may all be deleted ones.
    while found.is_none() {
        let visited = set.visit(version, last, |entry| {
            found = Some((entry.pattern().to_vec(), entry.value()));
            false
        });
        match visited {
            Some(next) => last = next,
            None => break,
        }
    }
    let Some((key, value)) = found else {
        call.push_nil();
        return call.results(1);
    };
    call.push_value(1);
    call.push_integer(last as i64);
    call.set_index(3);
    call.push_bytes(&key);
    match value {
        Some(value) => call.push_bytes(&value),
        None => call.push_nil(),
    }
    call.results(2)
}
