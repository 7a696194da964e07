//! Tracebacks of deep stacks. `luaL_traceback` walks the whole stack for each of the last levels that it shows: more than a second for a recursion
//! that overflows the stack, in which no hook can end it. So a deep stack is shown without its last levels.

use std::ffi::{CStr, c_char, c_int};
use std::fmt::{self, Write};

use mlua_sys as ffi;

use crate::places::{CallFacts, call_at};
use crate::raw::RawState;

/// Pushes `message` with the traceback of a coroutine.
pub(crate) fn push(to: RawState, of: RawState, message: &CStr, level: c_int) {
    match is_deep(of) {
        true => push_deep(to, of, message.to_bytes(), level),
        false => to.push_traceback(of, message, level),
    }
}

/// Whether a stack is too deep for the traceback of the library.
pub(crate) fn is_deep(of: RawState) -> bool {
    call_at(of, DEEP, CallFacts::Place).is_some()
}

/// Pushes `message` with the innermost levels of a deep stack. The text is in a buffer of fixed size: an error of Lua skips destructors.
pub(crate) fn push_deep(to: RawState, of: RawState, message: &[u8], level: c_int) {
    let mut text = FixedText { bytes: [0; TEXT], length: 0 };
    text.add(message);
    text.add(if message.is_empty() { b"stack traceback:" } else { b"\nstack traceback:" });
    for level in level..level.saturating_add(SHOWN) {
        let Some(record) = call_at(of, level, CallFacts::All) else { break };
        // Writing to the buffer does not fail.
        let _ = write_level(&mut text, &record);
    }
    text.add(b"\n\t...\t(skipping the other levels)");
    to.push_bytes(&text.bytes[..text.length]);
}

/// A line in the form of `luaL_traceback`.
fn write_level(text: &mut FixedText, record: &ffi::lua_Debug) -> fmt::Result {
    let bytes = |pointer: *const c_char| match pointer.is_null() {
        true => &b""[..],
        // SAFETY: Lua's texts end with a zero and last as long as the call, which does not go on meanwhile.
        false => unsafe { CStr::from_ptr(pointer) }.to_bytes(),
    };
    text.add(b"\n\t");
    text.add(bytes(record.short_src.as_ptr()));
    if record.currentline > 0 {
        write!(text, ":{}", record.currentline)?;
    }
    text.add(b": in ");
    match (bytes(record.namewhat), bytes(record.what)) {
        (b"", b"main") => text.add(b"main chunk"),
        (b"", b"C") => text.add(b"?"),
        (b"", _) => {
            text.add(b"function <");
            text.add(bytes(record.short_src.as_ptr()));
            write!(text, ":{}>", record.linedefined)?;
        }
        (kind, _) => {
            // As the library, which finds functions of modules in `package.loaded`.
            text.add(if kind == b"global" { b"function" } else { kind });
            text.add(b" '");
            text.add(bytes(record.name));
            text.add(b"'");
        }
    }
    if record.istailcall != 0 {
        text.add(b"\n\t(...tail calls...)");
    }
    Ok(())
}

/// A text of at most [`TEXT`] bytes. Further ones are left out.
struct FixedText {
    bytes: [u8; TEXT],
    length: usize,
}

impl FixedText {
    fn add(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(TEXT - self.length);
        self.bytes[self.length..self.length + count].copy_from_slice(&bytes[..count]);
        self.length += count;
    }
}

impl Write for FixedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// A stack with more levels is deep.
const DEEP: c_int = 1_000;
/// The number of levels that a traceback shows.
const SHOWN: c_int = 22;
/// The most bytes of a traceback of a deep stack.
const TEXT: usize = 4_096;
