//! One method for each function of Lua's C API that this crate uses.
//!
//! **Invariants** of a [`RawState`]: its state lives, only the thread that holds it uses it, and indices are those of values that the caller put
//! there or counted. None of the methods raises an error, except those that are named `raise_`: accesses are raw (no metamethods), and memory
//! is never refused to Rust ([`crate::memory`]).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use mlua_sys as ffi;

/// A state or a coroutine of Lua.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawState(NonNull<ffi::lua_State>);

/// The pseudo index of the registry.
pub(crate) const REGISTRY: c_int = ffi::LUA_REGISTRYINDEX;

impl RawState {
    /// Wraps the state that Lua passes to a function.
    pub(crate) fn new(state: *mut ffi::lua_State) -> Option<RawState> {
        NonNull::new(state).map(RawState)
    }

    pub(crate) fn pointer(self) -> *mut ffi::lua_State {
        self.0.as_ptr()
    }

    pub(crate) fn top(self) -> c_int {
        // SAFETY: see the invariants.
        unsafe { ffi::lua_gettop(self.pointer()) }
    }

    pub(crate) fn set_top(self, top: c_int) {
        // SAFETY: see the invariants. Stacks of this crate never have variables to close.
        unsafe { ffi::lua_settop(self.pointer(), top) }
    }

    pub(crate) fn pop(self, count: c_int) {
        self.set_top(-count - 1);
    }

    /// Makes room for `count` values. False if the stack would be too large.
    pub(crate) fn reserve(self, count: c_int) -> bool {
        // SAFETY: see the invariants. It reports a failure by its result.
        unsafe { ffi::lua_checkstack(self.pointer(), count) != 0 }
    }

    pub(crate) fn kind(self, index: c_int) -> c_int {
        // SAFETY: any index is allowed.
        unsafe { ffi::lua_type(self.pointer(), index) }
    }

    pub(crate) fn kind_name(self, kind: c_int) -> &'static CStr {
        // SAFETY: the result is a constant of Lua's library.
        let name = unsafe { ffi::lua_typename(self.pointer(), kind) };
        // SAFETY: names end with a NUL and last for ever.
        unsafe { CStr::from_ptr(name) }
    }

    pub(crate) fn boolean(self, index: c_int) -> bool {
        // SAFETY: any index is allowed.
        unsafe { ffi::lua_toboolean(self.pointer(), index) != 0 }
    }

    /// The integer at the index. Numbers and strings are converted, as Lua does.
    pub(crate) fn integer(self, index: c_int) -> Option<i64> {
        let mut is_number = 0;
        // SAFETY: any index is allowed.
        let number = unsafe { ffi::lua_tointegerx(self.pointer(), index, &mut is_number) };
        (is_number != 0).then_some(number)
    }

    pub(crate) fn number(self, index: c_int) -> Option<f64> {
        let mut is_number = 0;
        // SAFETY: any index is allowed.
        let number = unsafe { ffi::lua_tonumberx(self.pointer(), index, &mut is_number) };
        (is_number != 0).then_some(number)
    }

    pub(crate) fn is_integer(self, index: c_int) -> bool {
        // SAFETY: any index is allowed.
        unsafe { ffi::lua_isinteger(self.pointer(), index) != 0 }
    }

    /// The bytes of a string, or of a number, which becomes a string in place. They last while the value is on the stack.
    pub(crate) fn bytes<'s>(self, index: c_int) -> Option<&'s [u8]> {
        let mut length = 0;
        // SAFETY: any index is allowed. Conversion allocates, which does not fail.
        let bytes = unsafe { ffi::lua_tolstring(self.pointer(), index, &mut length) };
        if bytes.is_null() {
            return None;
        }
        // SAFETY: Lua's string has this length, and the caller keeps it on the stack.
        Some(unsafe { std::slice::from_raw_parts(bytes.cast(), length) })
    }

    pub(crate) fn light(self, index: c_int) -> *mut c_void {
        // SAFETY: any index is allowed. Null for other values.
        unsafe { ffi::lua_touserdata(self.pointer(), index) }
    }

    pub(crate) fn length(self, index: c_int) -> usize {
        // SAFETY: the index is valid. It is a raw access.
        unsafe { ffi::lua_rawlen(self.pointer(), index) }
    }

    pub(crate) fn is_equal(self, one: c_int, other: c_int) -> bool {
        // SAFETY: any index is allowed. It is a raw access.
        unsafe { ffi::lua_rawequal(self.pointer(), one, other) != 0 }
    }

    pub(crate) fn push_nil(self) {
        // SAFETY: the caller reserved a place.
        unsafe { ffi::lua_pushnil(self.pointer()) }
    }

    pub(crate) fn push_boolean(self, value: bool) {
        // SAFETY: the caller reserved a place.
        unsafe { ffi::lua_pushboolean(self.pointer(), c_int::from(value)) }
    }

    pub(crate) fn push_integer(self, value: i64) {
        // SAFETY: the caller reserved a place.
        unsafe { ffi::lua_pushinteger(self.pointer(), value) }
    }

    pub(crate) fn push_bytes(self, bytes: &[u8]) {
        let start: *const c_char = bytes.as_ptr().cast();
        // SAFETY: Lua copies the bytes. The caller reserved a place.
        unsafe { ffi::lua_pushlstring(self.pointer(), start, bytes.len()) };
    }

    pub(crate) fn push_value(self, index: c_int) {
        // SAFETY: the index is valid, and the caller reserved a place.
        unsafe { ffi::lua_pushvalue(self.pointer(), index) }
    }

    pub(crate) fn push_light(self, pointer: *mut c_void) {
        // SAFETY: the caller reserved a place.
        unsafe { ffi::lua_pushlightuserdata(self.pointer(), pointer) }
    }

    /// Pushes a C function with `upvalues` values from the top of the stack.
    pub(crate) fn push_function(self, function: ffi::lua_CFunction, upvalues: c_int) {
        // SAFETY: the values are there, and the caller reserved a place.
        unsafe { ffi::lua_pushcclosure(self.pointer(), function, upvalues) }
    }

    pub(crate) fn push_table(self, array: usize, fields: usize) {
        let bounded = |count: usize| c_int::try_from(count.min(1 << 16)).unwrap_or(0);
        // SAFETY: the caller reserved a place.
        unsafe { ffi::lua_createtable(self.pointer(), bounded(array), bounded(fields)) }
    }

    pub(crate) fn push_thread(self) -> Option<RawState> {
        // SAFETY: the caller reserved a place.
        RawState::new(unsafe { ffi::lua_newthread(self.pointer()) })
    }

    /// Pushes the element of a table with a key from the top of the stack, which it removes.
    pub(crate) fn push_value_of_key(self, table: c_int) {
        // SAFETY: the value is a table, as the caller checked. It is a raw access.
        unsafe { ffi::lua_rawget(self.pointer(), table) };
    }

    /// Sets an element of a table. The value is at the top of the stack, and the key below it. The key is not nil.
    pub(crate) fn set(self, table: c_int) {
        // SAFETY: the value is a table, as the caller checked, and the key is neither nil nor NaN. It is a raw access.
        unsafe { ffi::lua_rawset(self.pointer(), table) }
    }

    pub(crate) fn push_element(self, table: c_int, index: i64) {
        // SAFETY: the value is a table, as the caller checked. It is a raw access.
        unsafe { ffi::lua_rawgeti(self.pointer(), table, index) };
    }

    pub(crate) fn set_index(self, table: c_int, index: i64) {
        // SAFETY: the value is a table, as the caller checked. It is a raw access.
        unsafe { ffi::lua_rawseti(self.pointer(), table, index) }
    }

    pub(crate) fn push_by_pointer(self, table: c_int, key: *const c_void) {
        // SAFETY: the value is a table, as the caller checked. It is a raw access.
        unsafe { ffi::lua_rawgetp(self.pointer(), table, key) };
    }

    pub(crate) fn set_by_pointer(self, table: c_int, key: *const c_void) {
        // SAFETY: the value is a table, as the caller checked. It is a raw access.
        unsafe { ffi::lua_rawsetp(self.pointer(), table, key) }
    }

    /// Replaces the key at the top of the stack by the next one and its value. False at the end, with the key removed.
    pub(crate) fn next(self, table: c_int) -> bool {
        // SAFETY: the value is a table, and the key is nil or one that the last call gave. The table did not change in between.
        unsafe { ffi::lua_next(self.pointer(), table) != 0 }
    }

    /// Sets the metatable of a value to the table or nil at the top of the stack, which it removes.
    pub(crate) fn set_metatable(self, table: c_int) {
        // SAFETY: the value at the top is a table or nil.
        unsafe { ffi::lua_setmetatable(self.pointer(), table) };
    }

    /// Pushes the metatable of a value. False, without a push, if it lacks one.
    pub(crate) fn push_metatable(self, index: c_int) -> bool {
        // SAFETY: the index is valid, and the caller reserved a place.
        unsafe { ffi::lua_getmetatable(self.pointer(), index) != 0 }
    }

    /// Moves the value at the top of the stack down to `index`.
    pub(crate) fn insert(self, index: c_int) {
        // SAFETY: the index is valid.
        unsafe { ffi::lua_rotate(self.pointer(), index, 1) }
    }

    pub(crate) fn remove(self, index: c_int) {
        // SAFETY: the index is valid.
        unsafe { ffi::lua_rotate(self.pointer(), index, -1) };
        self.pop(1);
    }

    /// Keeps the value at the top of the stack in the registry, and removes it.
    pub(crate) fn keep(self) -> c_int {
        // SAFETY: there is a value. It is a raw access.
        unsafe { ffi::luaL_ref(self.pointer(), REGISTRY) }
    }

    pub(crate) fn forget(self, reference: c_int) {
        // SAFETY: the number is one of `keep`. It is a raw access.
        unsafe { ffi::luaL_unref(self.pointer(), REGISTRY, reference) }
    }

    /// Calls a function in protected mode. True if it succeeds. Otherwise, the error is at the top of the stack.
    pub(crate) fn call(self, arguments: c_int, results: c_int, handler: c_int) -> c_int {
        // SAFETY: the function and its arguments are on the stack.
        unsafe { ffi::lua_pcall(self.pointer(), arguments, results, handler) }
    }

    /// Compiles a text and pushes it as a function. Otherwise, the error is at the top of the stack.
    pub(crate) fn load(self, text: &[u8], name: &CStr) -> c_int {
        let start: *const c_char = text.as_ptr().cast();
        // SAFETY: the text has this length. Only texts are accepted: compiled code could break Lua.
        unsafe { ffi::luaL_loadbufferx(self.pointer(), start, text.len(), name.as_ptr(), c"t".as_ptr()) }
    }

    /// Resumes a coroutine. Also returns the number of values that it yields or returns.
    pub(crate) fn resume(self, from: RawState, arguments: c_int) -> (c_int, c_int) {
        let mut count = 0;
        // SAFETY: the function, if it has not begun, and its arguments are on the stack.
        let status = unsafe { ffi::lua_resume(self.pointer(), from.pointer(), arguments, &mut count) };
        (status, count)
    }

    /// Closes a coroutine: its variables that are to be closed run, and its stack is empty then.
    pub(crate) fn close_thread(self, from: RawState) -> c_int {
        // SAFETY: the coroutine does not run. Errors of variables are kept on its stack.
        unsafe { ffi::lua_closethread(self.pointer(), from.pointer()) }
    }

    pub(crate) fn is_yieldable(self) -> bool {
        // SAFETY: see the invariants.
        unsafe { ffi::lua_isyieldable(self.pointer()) != 0 }
    }

    /// Collects everything that is not used.
    pub(crate) fn collect(self) {
        // SAFETY: this option takes no argument. Errors of finalizers become warnings.
        unsafe { ffi::lua_gc(self.pointer(), ffi::LUA_GCCOLLECT) };
    }

    /// Pushes `message` with the traceback of a coroutine.
    pub(crate) fn push_traceback(self, of: RawState, message: &CStr, level: c_int) {
        // SAFETY: both belong to one state, and the caller reserved places.
        unsafe { ffi::luaL_traceback(self.pointer(), of.pointer(), message.as_ptr(), level) }
    }

    /// Pushes the position in the script of a level of calls, `file:line: `.
    pub(crate) fn push_position(self, level: c_int) {
        // SAFETY: any level is allowed, and the caller reserved a place.
        unsafe { ffi::luaL_where(self.pointer(), level) }
    }

    /// Opens one standard library and sets its global.
    pub(crate) fn open_library(self, name: &CStr, open: ffi::lua_CFunction) {
        // SAFETY: the function is that of a standard library, and opening one only allocates.
        unsafe { ffi::luaL_requiref(self.pointer(), name.as_ptr(), open, 1) };
        self.pop(1);
    }

    /// The hook of this coroutine.
    pub(crate) fn hook(self) -> RawHook {
        RawHook(self)
    }

    /// The place of a pointer that belongs to the state. Coroutines have copies of it.
    fn extra_space(self) -> *mut *mut c_void {
        // SAFETY: each state has it, of the size of a pointer.
        unsafe { ffi::lua_getextraspace(self.pointer()) }.cast()
    }

    pub(crate) fn set_extra(self, pointer: *mut c_void) {
        let space = self.extra_space();
        // SAFETY: the space is aligned and of the size of a pointer.
        unsafe { space.write(pointer) }
    }

    pub(crate) fn extra(self) -> *mut c_void {
        let space = self.extra_space();
        // SAFETY: `set_extra` wrote it before any other use of the state.
        unsafe { space.read() }
    }

    /// Raises the error at the top of the stack. Frames of the caller must own nothing.
    pub(crate) fn raise(self) -> ! {
        // SAFETY: see above. Only functions that Lua called use it.
        unsafe { ffi::lua_error(self.pointer()) }
    }

    /// Raises an error of argument `argument`, with the function's name and the position. The text is at the top of the stack.
    pub(crate) fn raise_argument(self, argument: c_int) -> c_int {
        let text = self.bytes(-1).map_or(ptr::null(), |text| text.as_ptr().cast());
        // SAFETY: strings of Lua end with a NUL, and it is on the stack. Only functions that Lua called use it.
        unsafe { ffi::luaL_argerror(self.pointer(), argument, text) }
    }

    /// Yields from a function that Lua called. `after` runs once the coroutine is resumed, with the context.
    pub(crate) fn raise_yield(self, context: isize, after: ffi::lua_KFunction) -> c_int {
        // SAFETY: only functions that Lua called use it, in a coroutine that can yield, and their frames own nothing.
        unsafe { ffi::lua_yieldk(self.pointer(), 0, context, Some(after)) }
    }

    /// Yields from a hook.
    pub(crate) fn raise_yield_of_hook(self) -> c_int {
        // SAFETY: only the hook uses it, in a coroutine that can yield.
        unsafe { ffi::lua_yield(self.pointer(), 0) }
    }

    /// The pseudo index of a value that belongs to the running function.
    pub(crate) fn upvalue(position: c_int) -> c_int {
        ffi::lua_upvalueindex(position)
    }

    /// Ends the state and everything in it.
    pub(crate) fn close(self) {
        // SAFETY: the owner of the state ends it once.
        unsafe { ffi::lua_close(self.pointer()) }
    }
}

/// The release of Lua that is built in: `Lua 5.4.9`.
pub fn release() -> &'static str {
    // SAFETY: it is a constant of Lua's library that ends with a NUL.
    let ident = unsafe { CStr::from_ptr((&raw const lua_ident).cast()) };
    // `$LuaVersion: Lua 5.4.9  Copyright (C) ...`
    let text = ident.to_str().unwrap_or_default().trim_start_matches("$LuaVersion: ");
    text.split("  ").next().unwrap_or_default()
}

unsafe extern "C" {
    /// lua.h. Its length is not part of the API.
    static lua_ident: [c_char; 0];
}

/// The hook of a coroutine. Signal handlers may use it, too.
#[derive(Clone, Copy)]
pub(crate) struct RawHook(RawState);

impl RawHook {
    /// Sets the hook for `events`. `count` is the number of instructions between two calls.
    pub(crate) fn set(self, hook: ffi::lua_Hook, events: c_int, count: c_int) {
        // SAFETY: the hook is a function of this crate. Lua allows this call at any time, also in a signal handler.
        unsafe { ffi::lua_sethook(self.0.pointer(), Some(hook), events, count) }
    }

    pub(crate) fn clear(self) {
        // SAFETY: see the invariants.
        unsafe { ffi::lua_sethook(self.0.pointer(), None, 0, 0) }
    }

    pub(crate) fn is_set(self) -> bool {
        // SAFETY: see the invariants.
        unsafe { ffi::lua_gethookmask(self.0.pointer()) != 0 }
    }

    /// The instructions between two calls, 0 without a hook.
    pub(crate) fn count(self) -> c_int {
        // SAFETY: see the invariants.
        unsafe { ffi::lua_gethookcount(self.0.pointer()) }
    }
}
