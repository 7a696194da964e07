//! Functions in Rust that raise errors of Lua: those of the libraries that replace Lua's own.
//!
//! **Invariants** of a [`CallFrame`]: Lua called the function, and no frame between that call and the use of a method owns anything: an error leaves them
//! by a `longjmp`. Values are `Copy`, borrowed bytes belong to values on the stack or to upvalues. Such a function must not panic.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr;

use mlua_sys as ffi;

use crate::limits::Steps;
use crate::raw::RawState;

/// The call of a function that may raise errors.
#[derive(Clone, Copy)]
pub(crate) struct CallFrame(RawState);

impl Deref for CallFrame {
    type Target = RawState;

    fn deref(&self) -> &RawState {
        &self.0
    }
}

/// Makes C functions of functions that take a [`CallFrame`].
macro_rules! functions {
    ($($(#[$doc:meta])* $visibility:vis fn $name:ident($frame:ident) $body:block)*) => {
        $(
            $(#[$doc])*
            $visibility unsafe extern "C-unwind" fn $name(state: *mut mlua_sys::lua_State) -> std::ffi::c_int {
                let Some($frame) = $crate::frame::CallFrame::new(state) else { return 0 };
                $body
            }
        )*
    };
}
pub(crate) use functions;

impl CallFrame {
    pub(crate) fn new(state: *mut ffi::lua_State) -> Option<CallFrame> {
        RawState::new(state).map(CallFrame)
    }

    /// The bytes of an argument that is a string or a number.
    pub(crate) fn check_bytes<'s>(self, argument: c_int) -> &'s [u8] {
        let mut length = 0;
        // SAFETY: see the invariants.
        let bytes = unsafe { ffi::luaL_checklstring(self.pointer(), argument, &mut length) };
        // SAFETY: Lua's string has this length, and stays on the stack.
        unsafe { std::slice::from_raw_parts(bytes.cast(), length) }
    }

    /// The bytes of an argument, empty without one.
    pub(crate) fn optional_bytes<'s>(self, argument: c_int) -> &'s [u8] {
        if self.is_missing(argument) { b"" } else { self.check_bytes(argument) }
    }

    /// The function in C at an index.
    pub(crate) fn c_function(self, index: c_int) -> Option<ffi::lua_CFunction> {
        // SAFETY: any index is allowed.
        unsafe { ffi::lua_tocfunction(self.pointer(), index) }
    }

    /// Runs a function in C, which uses no upvalues, with the arguments of this one. Returns the number of its results.
    pub(crate) fn run_c_function(self, function: ffi::lua_CFunction) -> c_int {
        // SAFETY: it finds its arguments as if Lua had called it. See the invariants.
        unsafe { function(self.pointer()) }
    }

    pub(crate) fn check_integer(self, argument: c_int) -> i64 {
        // SAFETY: see the invariants.
        unsafe { ffi::luaL_checkinteger(self.pointer(), argument) }
    }

    pub(crate) fn optional_integer(self, argument: c_int, default: i64) -> i64 {
        // SAFETY: see the invariants.
        unsafe { ffi::luaL_optinteger(self.pointer(), argument, default) }
    }

    pub(crate) fn check_kind(self, argument: c_int, kind: c_int) {
        // SAFETY: see the invariants.
        unsafe { ffi::luaL_checktype(self.pointer(), argument, kind) }
    }

    /// An argument was given.
    pub(crate) fn check_any(self, argument: c_int) {
        // SAFETY: see the invariants.
        unsafe { ffi::luaL_checkany(self.pointer(), argument) }
    }

    /// Sets a value of a function of Lua to the value at the top of the stack, which it removes, and pushes its name. False, without changes, if it
    /// does not have such a value.
    pub(crate) fn set_upvalue(self, function: c_int, index: c_int) -> bool {
        // SAFETY: the value is a function, and there is a value at the top.
        let name = unsafe { ffi::lua_setupvalue(self.pointer(), function, index) };
        if name.is_null() {
            return false;
        }
        // SAFETY: names end with a NUL.
        unsafe { ffi::lua_pushstring(self.pointer(), name) };
        true
    }

    /// Whether an argument is nil or was not given.
    pub(crate) fn is_missing(self, argument: c_int) -> bool {
        self.kind(argument) <= ffi::LUA_TNIL
    }

    /// Raises the error of an argument of a wrong type.
    pub(crate) fn raise_kind(self, argument: c_int, expected: &CStr) -> ! {
        let name = self.kind_name(self.kind(argument));
        // SAFETY: the format takes two texts. See the invariants.
        let text = unsafe {
            ffi::lua_pushfstring(
                self.pointer(),
                c"%s expected, got %s".as_ptr(),
                expected.as_ptr(),
                name.as_ptr(),
            )
        };
        // SAFETY: see the invariants.
        unsafe { ffi::luaL_argerror(self.pointer(), argument, text) };
        self.raise()
    }

    /// Raises the error of an argument.
    pub(crate) fn raise_argument_text(self, argument: c_int, text: &CStr) -> ! {
        // SAFETY: see the invariants.
        unsafe { ffi::luaL_argerror(self.pointer(), argument, text.as_ptr()) };
        self.raise()
    }

    /// Raises an error with the position of the script. `format` takes one number (`%d`) or none.
    pub(crate) fn raise_number(self, format: &CStr, number: c_int) -> ! {
        // SAFETY: the format takes the argument, as the caller vouches. See the invariants.
        unsafe { ffi::luaL_error(self.pointer(), format.as_ptr(), number) };
        self.raise()
    }

    /// Raises an error with the position of the script. `format` takes one text (`%s`) and one number (`%d`), or less.
    pub(crate) fn raise_text(self, format: &CStr, text: &CStr, number: i64) -> ! {
        // SAFETY: the format takes the arguments, as the caller vouches. See the invariants.
        unsafe { ffi::luaL_error(self.pointer(), format.as_ptr(), text.as_ptr(), number) };
        self.raise()
    }

    /// Raises the error of a run that is late.
    pub(crate) fn raise_late(self, steps: Steps<'_>) -> ! {
        steps.expire(self.0);
        self.raise()
    }

    /// Counts a step. Raises an error if the run is late.
    #[inline]
    pub(crate) fn step(self, steps: &mut Steps<'_>) {
        if steps.is_late() {
            self.raise_late(*steps);
        }
    }

    /// Makes room for values on the stack.
    pub(crate) fn check_stack(self, count: c_int, text: &CStr) {
        // SAFETY: see the invariants.
        unsafe { ffi::luaL_checkstack(self.pointer(), count, text.as_ptr()) }
    }

    /// Calls a function with arguments from the top of the stack.
    pub(crate) fn call_function(self, arguments: c_int, results: c_int) {
        // SAFETY: the function and its arguments are on the stack. See the invariants.
        unsafe { ffi::lua_callk(self.pointer(), arguments, results, 0, None) }
    }

    /// Calls a function in protected mode. `after` goes on if a coroutine yields in it.
    pub(crate) fn call_protected(self, arguments: c_int, handler: c_int, after: ffi::lua_KFunction) -> c_int {
        let results = ffi::LUA_MULTRET;
        // SAFETY: the function and its arguments are on the stack. See the invariants.
        unsafe { ffi::lua_pcallk(self.pointer(), arguments, results, handler, handler as isize, Some(after)) }
    }

    /// Pushes an element, by metamethods.
    pub(crate) fn push_indexed(self, table: c_int, index: i64) -> c_int {
        // SAFETY: the index is valid. See the invariants.
        unsafe { ffi::lua_geti(self.pointer(), table, index) }
    }

    /// Sets an element to the value at the top of the stack, by metamethods.
    pub(crate) fn set_indexed(self, table: c_int, index: i64) {
        // SAFETY: the index is valid. See the invariants.
        unsafe { ffi::lua_seti(self.pointer(), table, index) }
    }

    /// Replaces the key at the top of the stack by its value in a table, by metamethods.
    pub(crate) fn index_by_top(self, table: c_int) {
        // SAFETY: the index is valid. See the invariants.
        unsafe { ffi::lua_gettable(self.pointer(), table) };
    }

    /// The length of a value, by metamethods.
    pub(crate) fn measured(self, index: c_int) -> i64 {
        // SAFETY: the index is valid. See the invariants.
        unsafe { ffi::luaL_len(self.pointer(), index) }
    }

    /// Compares two values, by metamethods.
    pub(crate) fn compare(self, one: c_int, other: c_int, operation: c_int) -> bool {
        // SAFETY: the indices are valid. See the invariants.
        unsafe { ffi::lua_compare(self.pointer(), one, other, operation) != 0 }
    }

    /// Joins values at the top of the stack.
    pub(crate) fn concatenate(self, count: c_int) {
        // SAFETY: the values are there. See the invariants.
        unsafe { ffi::lua_concat(self.pointer(), count) }
    }

    /// Pushes a field of a value's metatable. False, without a push, if it is nil.
    pub(crate) fn push_metafield(self, index: c_int, name: &CStr) -> bool {
        // SAFETY: see the invariants.
        unsafe { ffi::luaL_getmetafield(self.pointer(), index, name.as_ptr()) != ffi::LUA_TNIL }
    }

    /// Rotates the values from `index` to the top by `count` places.
    pub(crate) fn rotate(self, index: c_int, count: c_int) {
        // SAFETY: the index is valid.
        unsafe { ffi::lua_rotate(self.pointer(), index, count) }
    }

    /// Replaces the value at `to` by a copy of the value at `from`.
    pub(crate) fn copy(self, from: c_int, to: c_int) {
        // SAFETY: the indices are valid.
        unsafe { ffi::lua_copy(self.pointer(), from, to) }
    }

    /// Whether the value is a function of C.
    pub(crate) fn is_c_function(self, index: c_int) -> bool {
        // SAFETY: any index is allowed.
        unsafe { ffi::lua_iscfunction(self.pointer(), index) != 0 }
    }

    /// The coroutine at the index.
    pub(crate) fn coroutine(self, index: c_int) -> Option<RawState> {
        // SAFETY: any index is allowed. Null for other values.
        RawState::new(unsafe { ffi::lua_tothread(self.pointer(), index) })
    }

    /// Pushes the traceback of a coroutine, with the message in an argument, if there is one.
    pub(crate) fn push_library_traceback(self, of: RawState, message: c_int, level: c_int) {
        // SAFETY: see the invariants. Null without a message.
        let message = unsafe { ffi::lua_tolstring(self.pointer(), message, ptr::null_mut()) };
        // SAFETY: the message stays on the stack, and both coroutines belong to one state.
        unsafe { ffi::luaL_traceback(self.pointer(), of.pointer(), message, level) };
    }

    /// Moves `count` values from the top of the stack to a coroutine, which has room for them.
    pub(crate) fn give(self, coroutine: RawState, count: c_int) {
        // SAFETY: both belong to one state, the values are there, and the caller reserved places.
        unsafe { ffi::lua_xmove(self.pointer(), coroutine.pointer(), count) }
    }

    /// Moves `count` values from the top of a coroutine's stack to this one, which has room for them.
    pub(crate) fn take(self, coroutine: RawState, count: c_int) {
        // SAFETY: both belong to one state, the values are there, and the caller reserved places.
        unsafe { ffi::lua_xmove(coroutine.pointer(), self.pointer(), count) }
    }

    /// The status of a coroutine: `LUA_OK`, `LUA_YIELD`, or that of an error.
    pub(crate) fn status_of(self, coroutine: RawState) -> c_int {
        // SAFETY: it is one of this state.
        unsafe { ffi::lua_status(coroutine.pointer()) }
    }

    /// Whether functions are active in a coroutine.
    pub(crate) fn is_active(self, coroutine: RawState) -> bool {
        let mut record = MaybeUninit::<ffi::lua_Debug>::uninit();
        // SAFETY: it is one of this state. Lua fills the record, which is not read.
        unsafe { ffi::lua_getstack(coroutine.pointer(), 0, record.as_mut_ptr()) != 0 }
    }

    /// Removes the value at the top and makes it the value of a userdata.
    pub(crate) fn set_user_value(self, userdata: c_int) {
        // SAFETY: the value is a userdata with one value, as the caller made it.
        unsafe { ffi::lua_setiuservalue(self.pointer(), userdata, 1) };
    }

    /// Pushes the value of a userdata.
    pub(crate) fn push_user_value(self, userdata: c_int) {
        // SAFETY: the value is a userdata, and the caller reserved a place.
        unsafe { ffi::lua_getiuservalue(self.pointer(), userdata, 1) };
    }

    /// Pushes a userdata without bytes, for one value.
    pub(crate) fn push_userdata(self) {
        // SAFETY: see the invariants.
        unsafe { ffi::lua_newuserdatauv(self.pointer(), 0, 1) };
    }
}

/// A string that grows. Parts of it are on the stack, so the frame pushes and pops in pairs while it is in use.
pub(crate) struct StringBuffer<'b> {
    buffer: *mut ffi::luaL_Buffer,
    place: PhantomData<&'b mut ffi::luaL_Buffer>,
}

impl<'b> StringBuffer<'b> {
    /// An empty string. `place` stays where it is, because a buffer points to itself.
    pub(crate) fn new(frame: CallFrame, place: &'b mut MaybeUninit<ffi::luaL_Buffer>) -> Self {
        let buffer = place.as_mut_ptr();
        // SAFETY: it initialises the buffer, which is borrowed and cannot move.
        unsafe { ffi::luaL_buffinit(frame.pointer(), buffer) };
        StringBuffer { buffer, place: PhantomData }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // SAFETY: the buffer is valid, and its box is at the top of the stack, if it has one.
        unsafe { ffi::luaL_addlstring(self.buffer, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Adds the string or number at the top of the stack, and removes it.
    pub(crate) fn add_top(&mut self) {
        // SAFETY: the buffer is valid, and the value is a string or a number above its box.
        unsafe { ffi::luaL_addvalue(self.buffer) }
    }

    /// Room for `count` more bytes.
    pub(crate) fn room(&mut self, count: usize) -> *mut u8 {
        // SAFETY: the buffer is valid, and its box is at the top of the stack, if it has one.
        unsafe { ffi::luaL_prepbuffsize(self.buffer, count) }.cast()
    }

    /// Pushes the string, with `count` bytes that were written to the room.
    pub(crate) fn push(self, count: usize) {
        // SAFETY: the buffer is valid, its box is at the top of the stack, and the bytes were written.
        unsafe { ffi::luaL_pushresultsize(self.buffer, count) }
    }
}

/// The key of a private value in the registry: the address of a static.
pub(crate) fn key(place: &'static u8) -> *const c_void {
    ptr::from_ref(place).cast()
}
