//! Userdata with bytes of Rust, which scripts can neither read nor change.

use std::ffi::{c_int, c_void};
use std::ptr;

use mlua_sys as ffi;

use super::LuaStack;
use crate::raw::RawState;

/// The mark of a userdata: an address that scripts do not have.
static MARK: u8 = 2;

fn mark() -> *const c_void {
    ptr::from_ref(&MARK).cast()
}

/// Pushes a userdata with a copy of the bytes.
pub fn push_opaque(stack: &LuaStack<'_>, bytes: &[u8]) {
    stack.reserve(2);
    let raw = stack.raw;
    // SAFETY: two places are reserved. Allocation does not fail.
    let block = unsafe { ffi::lua_newuserdatauv(raw.pointer(), bytes.len(), 1) };
    // SAFETY: the new block has this length, and nothing else refers to it.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), block.cast::<u8>(), bytes.len()) };
    raw.push_light(mark().cast_mut());
    // SAFETY: below the top is the userdata, which has one value.
    unsafe { ffi::lua_setiuservalue(raw.pointer(), -2, 1) };
}

/// The bytes of a userdata of [`push_opaque`]. `None` for everything else.
pub fn opaque_bytes<'a>(stack: &'a LuaStack<'_>, index: i32) -> Option<&'a [u8]> {
    stack.reserve(1);
    // The value stays where it is for as long as this borrow: see `assert_free`.
    stack.lent.set(stack.lent.get().max(stack.absolute(index)));
    marked_bytes(stack.raw, index)
}

/// The bytes of a userdata with the mark. They last while the value is on the stack. The caller reserved a place.
fn marked_bytes<'s>(raw: RawState, index: c_int) -> Option<&'s [u8]> {
    if raw.kind(index) != ffi::LUA_TUSERDATA {
        return None;
    }
    // SAFETY: the value is a userdata. The call pushes one value: the own value, or nil.
    unsafe { ffi::lua_getiuservalue(raw.pointer(), index, 1) };
    let is_ours = raw.kind(-1) == ffi::LUA_TLIGHTUSERDATA && raw.light(-1).cast_const() == mark();
    raw.pop(1);
    if !is_ours {
        return None;
    }
    let block: *const u8 = raw.light(index).cast();
    // SAFETY: only `push_opaque` marks a userdata. Its block has this length and is never written again, and the caller keeps the value on the stack.
    Some(unsafe { std::slice::from_raw_parts(block, raw.length(index)) })
}
