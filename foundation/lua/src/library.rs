//! The standard libraries, with functions that end at the bounds of a run.
//!
//! The hook of a run is called at instructions and calls of scripts. These places of Lua's own libraries escape it, so they are ours:
//!
//! | functions | why |
//! |---|---|
//! | `find`, `match`, `gmatch`, `gsub` | a pattern may take exponential time in one call |
//! | `rep`, functions of `table` | loops over ranges that the script makes up |
//! | `coroutine.resume`, `wrap`, `close` | the timer must know the coroutine that runs |
//! | `xpcall` | its handler runs without hooks if the hook raised the error |
//! | `setmetatable` | Lua runs finalizers without hooks |
//! | `debug.sethook` | the hook is the run's |
//! | `io`, `os.execute` and such | they block their thread, and reports name them ([`blocking`]) |
//!
//! They follow Lua 5.4 in all else, its messages included.

mod blocking;
mod coroutines;
mod finalizers;
mod matcher;
mod modules;
mod patterns;
mod protected;
mod sort;
mod strings;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use finalizers::hide;

use std::ffi::CStr;

use mlua_sys as ffi;

use crate::raw::{REGISTRY, RawState};

/// Functions that replace those of Lua.
type Replacements = &'static [(&'static str, ffi::lua_CFunction)];

/// Opens a library. False if the name is unknown.
pub(crate) fn open(raw: RawState, name: &str) -> bool {
    let (name, open, ours): (&CStr, ffi::lua_CFunction, Replacements) = match name {
        "base" => (c"_G", ffi::luaopen_base, &[("xpcall", protected::xpcall)]),
        "coroutine" => (c"coroutine", ffi::luaopen_coroutine, coroutines::FUNCTIONS),
        "table" => (c"table", ffi::luaopen_table, tables::FUNCTIONS),
        "io" => (c"io", ffi::luaopen_io, &[]),
        "os" => (c"os", ffi::luaopen_os, &[]),
        "string" => (c"string", ffi::luaopen_string, strings::FUNCTIONS),
        "utf8" => (c"utf8", ffi::luaopen_utf8, &[]),
        "math" => (c"math", ffi::luaopen_math, &[]),
        "debug" => (c"debug", ffi::luaopen_debug, protected::DEBUG_FUNCTIONS),
        "package" => (c"package", ffi::luaopen_package, &[]),
        _ => return false,
    };
    raw.open_library(name, open);
    raw.reserve(4);
    push_library(raw, name);
    for (name, function) in ours {
        raw.push_function(*function, 0);
        set_field(raw, name);
    }
    blocking::replace(raw, name.to_bytes());
    match name.to_bytes() {
        b"_G" => {
            finalizers::push_setmetatable(raw, finalizers::setmetatable);
            set_field(raw, "setmetatable");
        }
        b"debug" => {
            finalizers::push_setmetatable(raw, finalizers::debug_setmetatable);
            set_field(raw, "setmetatable");
        }
        b"io" => finalizers::hide_files(raw),
        b"package" => modules::add_folders(raw),
        _ => {}
    }
    raw.pop(1);
    true
}

/// Pushes the table of a library that is open.
fn push_library(raw: RawState, name: &CStr) {
    raw.push_element(REGISTRY, ffi::LUA_RIDX_GLOBALS);
    if name != c"_G" {
        raw.push_bytes(name.to_bytes());
        raw.push_value_of_key(-2);
        raw.remove(-2);
    }
}

/// Sets a field of the table below the value at the top, which it removes.
fn set_field(raw: RawState, name: &str) {
    raw.push_bytes(name.as_bytes());
    raw.insert(-2);
    raw.set(-3);
}
