//! Places in scripts, as `file:line`. They are read without an allocation of Lua, so hooks and functions in C may do it.

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;

use mlua_sys as ffi;

use crate::raw::RawState;

/// The place of the innermost call of a script. `None` outside of scripts.
pub(crate) fn running_place(raw: RawState) -> Option<String> {
    let mut calls = (0..MOST_LEVELS).map_while(|level| call_at(raw, level, CallFacts::Place));
    calls.find_map(|call| place(&call, call.currentline))
}

/// The place of the function that a coroutine began with. `None` if it has not begun, or with a function in C, and for a stack of more than
/// [`DEEPEST`] levels.
pub(crate) fn outermost_place(raw: RawState) -> Option<String> {
    let call = call_at(raw, depth(raw)?.checked_sub(1)?, CallFacts::Place)?;
    place(&call, call.linedefined)
}

/// The number of levels of calls. `None` for more than [`DEEPEST`]. Lua walks to a level from the innermost one, so the levels are halved, not
/// tried one after the other.
fn depth(raw: RawState) -> Option<c_int> {
    let has = |level| call_at(raw, level, CallFacts::Place).is_some();
    let mut end = 1;
    while has(end) {
        if end >= DEEPEST {
            return None;
        }
        end *= 2;
    }
    let mut begin = 0;
    while begin < end {
        let middle = (begin + end) / 2;
        if has(middle) { begin = middle + 1 } else { end = middle }
    }
    Some(begin)
}

/// The place of the function at an index.
pub(crate) fn function_place(raw: RawState, index: c_int) -> Option<String> {
    if raw.kind(index) != ffi::LUA_TFUNCTION {
        return None;
    }
    raw.reserve(1);
    raw.push_value(index);
    let mut record = MaybeUninit::<ffi::lua_Debug>::zeroed();
    // SAFETY: the function at the top is removed. This option only reads it.
    unsafe { ffi::lua_getinfo(raw.pointer(), c">S".as_ptr(), record.as_mut_ptr()) };
    // SAFETY: integers and pointers may be zero.
    let record = unsafe { record.assume_init() };
    place(&record, record.linedefined)
}

/// The facts that a record of a call has.
#[derive(Clone, Copy)]
pub(crate) enum CallFacts {
    /// The source and the line.
    Place,
    /// Also the name of the function, and whether it replaced its caller.
    All,
}

impl CallFacts {
    /// The options of `lua_getinfo`. None of them pushes or pops a value.
    fn options(self) -> &'static CStr {
        match self {
            CallFacts::Place => c"Sl",
            CallFacts::All => c"Slnt",
        }
    }
}

/// The call at a level, 0 for the innermost one. `None` if there are fewer.
pub(crate) fn call_at(raw: RawState, level: c_int, facts: CallFacts) -> Option<ffi::lua_Debug> {
    let mut record = MaybeUninit::<ffi::lua_Debug>::zeroed();
    // SAFETY: any level is allowed.
    if unsafe { ffi::lua_getstack(raw.pointer(), level, record.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: `lua_getstack` filled the record. The options leave the stack unchanged.
    unsafe { ffi::lua_getinfo(raw.pointer(), facts.options().as_ptr(), record.as_mut_ptr()) };
    // SAFETY: integers and pointers may be zero.
    Some(unsafe { record.assume_init() })
}

/// `None` for functions in C.
fn place(record: &ffi::lua_Debug, line: c_int) -> Option<String> {
    if line < 0 || record.source.is_null() {
        return None;
    }
    // SAFETY: Lua's text has this length, and lasts as long as the function, which is on the stack or was just removed from it.
    let source = unsafe { std::slice::from_raw_parts(record.source.cast::<u8>(), record.srclen) };
    // Other sources are the texts of scripts themselves.
    let file = source.strip_prefix(b"@").unwrap_or(b"[string]");
    Some(format!("{}:{line}", String::from_utf8_lossy(file)))
}

/// The number of levels that are searched for a call of a script.
const MOST_LEVELS: c_int = 200;
/// The levels of a stack with a known beginning: Lua walks over them in less than a millisecond.
const DEEPEST: c_int = 16_384;
