//! The standard libraries.

use std::ffi::CStr;

use mlua_sys as ffi;

use crate::raw::RawState;

/// Opens a library. False if the name is unknown.
pub(crate) fn open(raw: RawState, name: &str) -> bool {
    let (name, open): (&CStr, ffi::lua_CFunction) = match name {
        "base" => (c"_G", ffi::luaopen_base),
        "coroutine" => (c"coroutine", ffi::luaopen_coroutine),
        "table" => (c"table", ffi::luaopen_table),
        "io" => (c"io", ffi::luaopen_io),
        "os" => (c"os", ffi::luaopen_os),
        "string" => (c"string", ffi::luaopen_string),
        "utf8" => (c"utf8", ffi::luaopen_utf8),
        "math" => (c"math", ffi::luaopen_math),
        "debug" => (c"debug", ffi::luaopen_debug),
        "package" => (c"package", ffi::luaopen_package),
        _ => return false,
    };
    raw.open_library(name, open);
    true
}
