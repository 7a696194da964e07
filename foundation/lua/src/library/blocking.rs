//! Functions that block their thread: those of files and of other processes. Each measures itself in a run that is measured.

use std::time::Instant;

use mlua_sys as ffi;

use super::set_field;
use crate::frame::functions;
use crate::limits::RunLimits;
use crate::raw::{REGISTRY, RawState};

/// The functions of a table, with their names in reports.
type BlockingFunctions = &'static [(&'static str, &'static str)];

const BASE: BlockingFunctions = &[("loadfile", "loadfile")];
const IO: BlockingFunctions = &[
    ("close", "io.close"),
    ("input", "io.input"),
    ("lines", "io.lines"),
    ("open", "io.open"),
    ("output", "io.output"),
    ("popen", "io.popen"),
    ("read", "io.read"),
    ("tmpfile", "io.tmpfile"),
    ("write", "io.write"),
];
const FILE: BlockingFunctions = &[
    ("close", "file:close"),
    ("flush", "file:flush"),
    ("lines", "file:lines"),
    ("read", "file:read"),
    ("seek", "file:seek"),
    ("write", "file:write"),
];
const OS: BlockingFunctions =
    &[("execute", "os.execute"), ("remove", "os.remove"), ("rename", "os.rename"), ("tmpname", "os.tmpname")];

/// Replaces the functions of the library that was opened.
pub(super) fn replace(raw: RawState, library: &[u8]) {
    raw.reserve(5);
    match library {
        b"_G" => wrap_all(raw, BASE),
        b"os" => wrap_all(raw, OS),
        b"io" => {
            wrap_all(raw, IO);
            // The methods of files.
            raw.push_bytes(b"FILE*");
            raw.push_value_of_key(REGISTRY);
            raw.push_bytes(b"__index");
            raw.push_value_of_key(-2);
            wrap_all(raw, FILE);
            raw.pop(2);
        }
        _ => {}
    }
}

/// Wraps functions of the table at the top.
fn wrap_all(raw: RawState, names: BlockingFunctions) {
    if raw.kind(-1) != ffi::LUA_TTABLE {
        return;
    }
    for (field, name) in names {
        raw.push_bytes(field.as_bytes());
        raw.push_value_of_key(-2);
        raw.push_bytes(name.as_bytes());
        raw.push_function(measured, 2);
        set_field(raw, field);
    }
}

functions! {
    /// Calls a function of Lua's libraries in its own frame, so that its errors name it and the position of the script. An error leaves the frame.
    fn measured(frame) {
        let Some(function) = frame.c_function(RawState::upvalue(1)) else { return 0 };
        let limits = RunLimits::of(*frame);
        if !limits.meter.is_on() {
            return frame.run_c_function(function);
        }
        let began = Instant::now();
        let count = frame.run_c_function(function);
        let name = frame.bytes(RawState::upvalue(2)).and_then(|name| std::str::from_utf8(name).ok());
        limits.meter.add_blocking(name.unwrap_or_default(), *frame, began.elapsed());
        count
    }
}
