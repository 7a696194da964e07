//! `Regex`: regular expressions.

use std::sync::Arc;

use weir_expr::Location;
use weir_expr::pattern::regex::Regex;
use weir_lua::{LuaKind, Misuse};

use super::classes::{ClassDecl, LateClass};
use super::{ApiCall, ApiResult, table};
use crate::world::{ScriptState, World};

pub(super) static CLASS: ClassDecl =
    ClassDecl::new("Regex", &[("new", new), ("exec", exec), ("match", matches)]);

/// Makes the global `Regex`.
pub(super) fn install(state: &mut ScriptState) {
    let members = state.with_stack(|stack| table(stack, CLASS.methods));
    state.stack().push_reference(members);
    state.set_global(b"Regex");
    state.forget(members);
}

/// `Regex.new(text, case_sensitive)`: true and an object, or false and a message. The object has its text as element 0, so that Lua can
/// collect it: compiled expressions are in a cache.
fn new(call: &ApiCall<'_>) -> ApiResult {
    let text = call.expect_bytes(1)?.to_vec();
    if call.kind(2) != LuaKind::Boolean {
        return Err(call.wrong_kind(2, "boolean"));
    }
    let ignores_case = !call.boolean(2);
    match compiled(call.host(), &text, ignores_case) {
        Ok(_) => {
            call.push_boolean(true);
            LateClass::Regex.push(call, i64::from(ignores_case));
            call.push_bytes(&text);
            call.set_index(0);
        }
        Err(message) => {
            call.push_boolean(false);
            call.push_bytes(message.as_bytes());
        }
    }
    call.results(2)
}

/// `regex:exec(text)`: whether it matches.
fn exec(call: &ApiCall<'_>) -> ApiResult {
    let regex = of_object(call)?;
    call.push_boolean(regex.is_match(call.expect_bytes(2)?));
    call.results(1)
}

/// `regex:match(text)`: whether it matches, and a table of the match and its groups. Groups without a part in the match are left out.
fn matches(call: &ApiCall<'_>) -> ApiResult {
    let regex = of_object(call)?;
    let text = call.expect_bytes(2)?;
    let mut groups = regex.groups();
    let is_match = regex.captures(text, 0, &mut groups).is_some();
    call.push_boolean(is_match);
    call.push_table(4, 0);
    for number in (0..MOST_GROUPS).filter(|_| is_match) {
        if let Some(group) = groups.get(number, text) {
            call.push_bytes(group);
            call.set_index(number as i64 + 1);
        }
    }
    call.results(2)
}

/// The compiled expression of the object in argument 1.
fn of_object(call: &ApiCall<'_>) -> Result<Arc<Regex>, Misuse> {
    let ignores_case = LateClass::Regex.number(call, 1)? != 0;
    call.with_index(1, 0, |stack| compiled(call.host(), stack.bytes(-1).unwrap_or_default(), ignores_case))
        .map_err(Misuse::text)
}

/// A compiled expression, from the cache of the state.
fn compiled(world: &World, text: &[u8], ignores_case: bool) -> Result<Arc<Regex>, String> {
    let mut cache = world.regexes[usize::from(ignores_case)].borrow_mut();
    if let Some(known) = cache.get(text) {
        return Ok(Arc::clone(known));
    }
    let pattern = std::str::from_utf8(text).map_err(|_| "the expression is not UTF-8".to_owned())?;
    let regex = Regex::new(pattern, ignores_case, &Location::new("Lua".into(), 0));
    let regex = Arc::new(regex.map_err(|error| error.to_string())?);
    // Expressions may come from requests.
    if cache.len() >= MOST_COMPILED {
        cache.clear();
    }
    cache.insert(text.into(), Arc::clone(&regex));
    Ok(regex)
}

/// Groups in the result of a match, with the whole match, as in HAProxy.
const MOST_GROUPS: usize = 20;
/// Compiled expressions that a state keeps.
const MOST_COMPILED: usize = 256;
