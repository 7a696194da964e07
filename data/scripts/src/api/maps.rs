//! `Map`: a file of keys and values. And the functions of `core` that change maps and lists of patterns.

use std::borrow::Cow;
use std::sync::Arc;

use weir_expr::pattern::{MatchMethod, PatternIndex, Selector};
use weir_expr::{Location, PatternSet, Value};
use weir_lua::{LuaKind, Misuse};

use super::classes::{ClassDecl, LateClass};
use super::{ApiCall, ApiResult};
use crate::world::{ScriptState, World};

pub(super) static CLASS: ClassDecl = ClassDecl::new(
    "Map",
    &[("lookup", |call| look_up(call, false)), ("slookup", |call| look_up(call, true))],
);

/// Makes the global `Map`. Its members are made when a script reads them.
pub(super) fn install(state: &mut ScriptState) {
    let metatable = state.with_stack(|stack| {
        stack.push_table(0, 1);
        stack.push_function::<World>(member, 0);
        stack.set_field(b"__index");
        stack.keep()
    });
    let stack = state.stack();
    stack.push_table(0, 0);
    stack.set_metatable(metatable);
    state.set_global(b"Map");
    state.forget(metatable);
}

/// A member of `Map`: `new`, or the number of a method (`Map._str`, `Map.str`).
fn member(call: &ApiCall<'_>) -> ApiResult {
    let name = match call.kind(2) {
        LuaKind::String => call.bytes(2).unwrap_or_default(),
        _ => b"",
    };
    let word = name.strip_prefix(b"_").unwrap_or(name);
    match METHODS.iter().position(|method| method.as_bytes() == word) {
        _ if name == b"new" => call.push_function::<World>(new, 0),
        Some(number) => call.push_integer(number as i64),
        None => call.push_nil(),
    }
    call.results(1)
}

/// The methods of maps, by number. `Map.new` refuses the last one.
const METHODS: [&str; 14] =
    ["found", "bool", "int", "ip", "bin", "len", "str", "beg", "sub", "dir", "dom", "end", "reg", "regm"];

/// `Map.new(file [, method])`: the map of a file, which is loaded while the configuration is read.
fn new(call: &ApiCall<'_>) -> ApiResult {
    if !(1..=2).contains(&call.count()) {
        return Err(Misuse::text("'new' needs at least 1 argument."));
    }
    let world = call.host();
    if !world.is_loading.get() {
        return Err(Misuse::text("'new': map: cannot load map at runtime."));
    }
    let name = String::from_utf8_lossy(call.expect_bytes(1)?).into_owned();
    let number = if call.is_nil(2) { STR } else { call.expect_integer(2)? };
    let word = usize::try_from(number).ok().and_then(|number| METHODS.get(number));
    let Some(word) = word else { return Err(Misuse::text("'new' needs a valid match method.")) };
    let Some(method) = MatchMethod::parse(word) else {
        return Err(Misuse::text("'new' doesn't support this match mode."));
    };
    let index = load(world, &name, method).map_err(|message| Misuse::text(format!("'new': {message}.")))?;
    let mut maps = world.maps.borrow_mut();
    let known = maps.iter().position(|known| Arc::ptr_eq(known, &index));
    let number = known.unwrap_or_else(|| {
        maps.push(index);
        maps.len() - 1
    });
    LateClass::Map.push(call, number as i64);
    call.results(1)
}

fn load(world: &World, name: &str, method: MatchMethod) -> Result<Arc<PatternIndex>, String> {
    let at = Location::new("Lua".into(), 0);
    let set = world.resources.patterns.named(name, true, &*world.resources.files)?;
    let index = set.index(method, false, &at).map_err(|message| format!("{message} of file '{name}'"))?;
    set.used_by_map(&at);
    Ok(index)
}

/// `map:lookup(key)`: the value, or nil. `map:slookup(key)`: the value, or an empty text.
fn look_up(call: &ApiCall<'_>, is_text: bool) -> ApiResult {
    if call.count() != 2 {
        return Err(Misuse::text(format!(
            "'{}' needs 2 arguments",
            if is_text { "slookup" } else { "lookup" }
        )));
    }
    let number = LateClass::Map.number(call, 1)?;
    let maps = &call.host().maps;
    let index = usize::try_from(number).ok().and_then(|number| maps.borrow().get(number).cloned());
    let index = index.ok_or_else(|| call.wrong_kind(1, "Map"))?;
    let key = match index.method() {
        MatchMethod::Int => Value::Int(call.expect_integer(2)?),
        _ => Value::Str(Cow::Borrowed(call.expect_bytes(2)?)),
    };
    match index.find(&key, |found| found.entry.value()).flatten() {
        Some(value) => call.push_bytes(&value),
        None if is_text => call.push_bytes(b""),
        None => call.push_nil(),
    }
    call.results(1)
}

/// The arguments of a function that changes a file: its entries, and the texts behind.
fn file_arguments<'c, const N: usize>(
    call: &'c ApiCall<'_>,
    function: &str,
    noun: &str,
) -> Result<(Arc<PatternSet>, [&'c [u8]; N]), Misuse> {
    if call.count() != N as i32 + 1 {
        return Err(Misuse::text(format!("'{function}' needs {} arguments", N + 1)));
    }
    let name = String::from_utf8_lossy(call.expect_bytes(1)?);
    let mut texts = [&b""[..]; N];
    for (text, index) in texts.iter_mut().zip(2..) {
        *text = call.expect_bytes(index)?;
    }
    let set = call.host().resources.patterns.find(&name);
    let set = set.ok_or_else(|| Misuse::text(format!("'{function}': unknown {noun} file '{name}'")))?;
    Ok((set, texts))
}

/// `core.set_map(file, key, value)`. As in HAProxy, a refused key or value changes nothing.
pub(super) fn set_map(call: &ApiCall<'_>) -> ApiResult {
    let (set, [key, value]) = file_arguments(call, "set_map", "map")?;
    let _ = set.set_or_add(None, key, value);
    call.results(0)
}

/// `core.del_map(file, key)`.
pub(super) fn del_map(call: &ApiCall<'_>) -> ApiResult {
    delete(call, "del_map")
}

/// `core.del_acl(file, key)`.
pub(super) fn del_acl(call: &ApiCall<'_>) -> ApiResult {
    delete(call, "del_acl")
}

fn delete(call: &ApiCall<'_>, function: &str) -> ApiResult {
    let (set, [key]) = file_arguments(call, function, "acl")?;
    let _ = set.delete(Selector::Pattern(key));
    call.results(0)
}

/// `core.add_acl(file, key)`. An existing key is not added again.
pub(super) fn add_acl(call: &ApiCall<'_>) -> ApiResult {
    let (set, [key]) = file_arguments(call, "add_acl", "acl")?;
    if !set.contains(key) {
        let _ = set.add(None, key, None);
    }
    call.results(0)
}

/// The number of the default method.
const STR: i64 = 6;
