//! Access to the values of a stack: the arguments and results of functions.

mod function;
mod opaque;
mod parts;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use mlua_sys as ffi;

use crate::failure::Misuse;
use crate::library::hide;

use crate::raw::{REGISTRY, RawState};
use crate::shared::{LuaHost, LuaReference, Shared};

use function::trampoline;
pub use function::{CallEnd, Function};
pub use opaque::{opaque_bytes, push_opaque};
pub use parts::{ObjectParts, TableMember};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaKind {
    /// No value: an argument that was not given.
    None,
    Nil,
    Boolean,
    Integer,
    Float,
    String,
    Table,
    Function,
    /// A value of C: userdata of modules, files.
    Userdata,
    Coroutine,
}

/// The stack of a state or coroutine. The first value has the index 1; negative indices count from the top.
#[derive(Debug)]
pub struct LuaStack<'s> {
    raw: RawState,
    /// The highest value with bytes that are lent out. It stays on the stack.
    lent: Cell<c_int>,
    life: PhantomData<&'s ()>,
}

impl LuaStack<'_> {
    pub(crate) fn new(raw: RawState) -> Self {
        LuaStack { raw, lent: Cell::new(0), life: PhantomData }
    }

    /// The number of values.
    pub fn count(&self) -> i32 {
        self.raw.top()
    }

    /// The type of a value.
    pub fn kind(&self, index: i32) -> LuaKind {
        match self.raw.kind(index) {
            ffi::LUA_TNIL => LuaKind::Nil,
            ffi::LUA_TBOOLEAN => LuaKind::Boolean,
            ffi::LUA_TNUMBER if self.raw.is_integer(index) => LuaKind::Integer,
            ffi::LUA_TNUMBER => LuaKind::Float,
            ffi::LUA_TSTRING => LuaKind::String,
            ffi::LUA_TTABLE => LuaKind::Table,
            ffi::LUA_TFUNCTION => LuaKind::Function,
            ffi::LUA_TLIGHTUSERDATA | ffi::LUA_TUSERDATA => LuaKind::Userdata,
            ffi::LUA_TTHREAD => LuaKind::Coroutine,
            _ => LuaKind::None,
        }
    }

    /// The name of a value's type, as in Lua's messages.
    pub fn kind_name(&self, index: i32) -> &'static str {
        self.raw.kind_name(self.raw.kind(index)).to_str().unwrap_or("value")
    }

    /// Whether the value is nil, or was not given.
    pub fn is_nil(&self, index: i32) -> bool {
        matches!(self.kind(index), LuaKind::Nil | LuaKind::None)
    }

    /// Everything but nil and false is true.
    pub fn boolean(&self, index: i32) -> bool {
        self.raw.boolean(index)
    }

    /// The value as an integer. `None` if it is not one and does not look like one.
    pub fn integer(&self, index: i32) -> Option<i64> {
        self.raw.integer(index)
    }

    /// The value as a number. `None` if it is not one and does not look like one.
    pub fn number(&self, index: i32) -> Option<f64> {
        self.raw.number(index)
    }

    /// The bytes of a string or a number. `None` for other values.
    pub fn bytes(&self, index: i32) -> Option<&[u8]> {
        // The value stays where it is for as long as this borrow: see `assert_free`.
        self.lent.set(self.lent.get().max(self.absolute(index)));
        self.raw.bytes(index)
    }

    /// The length of a string, or the border of a table.
    pub fn length(&self, index: i32) -> usize {
        self.raw.length(index)
    }

    /// Makes room for `count` values. A stack without room is beyond all that scripts do; the push would panic then, which fails the call.
    fn reserve(&self, count: c_int) {
        assert!(self.raw.reserve(count), "the stack of Lua has no room");
    }

    /// Pushes nil.
    pub fn push_nil(&self) {
        self.reserve(1);
        self.raw.push_nil();
    }

    /// Pushes a boolean.
    pub fn push_boolean(&self, value: bool) {
        self.reserve(1);
        self.raw.push_boolean(value);
    }

    /// Pushes an integer.
    pub fn push_integer(&self, value: i64) {
        self.reserve(1);
        self.raw.push_integer(value);
    }

    /// Pushes a string.
    pub fn push_bytes(&self, bytes: &[u8]) {
        self.reserve(1);
        self.raw.push_bytes(bytes);
    }

    /// Pushes a copy of a value.
    pub fn push_value(&self, index: i32) {
        self.reserve(1);
        self.raw.push_value(index);
    }

    /// Pushes an empty table with room for `array` elements and `fields` fields.
    pub fn push_table(&self, array: usize, fields: usize) {
        self.reserve(1);
        self.raw.push_table(array, fields);
    }

    /// Pushes a kept value.
    pub fn push_reference(&self, reference: LuaReference) {
        self.reserve(1);
        self.raw.push_element(REGISTRY, i64::from(reference.0));
    }

    /// Pushes a function of Rust. Its calls see `number`.
    pub fn push_function<H: LuaHost>(&self, function: Function<H>, number: i64) {
        self.reserve(2);
        self.raw.push_light(function as *mut c_void);
        self.raw.push_integer(number);
        self.raw.push_function(trampoline::<H>, 2);
    }

    /// Whether the value is a table, which the accesses below need.
    fn assert_table(&self, index: i32) {
        assert!(self.raw.kind(index) == ffi::LUA_TTABLE, "a table at {index}");
    }

    /// The values from the top down to `count` may be removed: no bytes of them are lent out.
    fn assert_free(&self, count: c_int) {
        assert!(self.raw.top() - count >= self.lent.get(), "bytes of the value are in use");
    }

    /// Removes the value at the top and makes it a field of the table below it.
    pub fn set_field(&self, name: &[u8]) {
        self.assert_table(-2);
        self.assert_free(1);
        self.reserve(1);
        self.raw.push_bytes(name);
        self.raw.insert(-2);
        self.raw.set(-3);
    }

    /// Removes the value at the top and makes it an element of the table below it.
    pub fn set_index(&self, index: i64) {
        self.assert_table(-2);
        self.assert_free(1);
        self.raw.set_index(-2, index);
    }

    /// Pushes a field of the table at `index`, or nil.
    pub fn push_field(&self, index: i32, name: &[u8]) {
        self.assert_table(index);
        self.reserve(1);
        let table = self.absolute(index);
        self.raw.push_bytes(name);
        self.raw.push_value_of_key(table);
    }

    /// The member of the table at `index` with the string at `key` as its name.
    pub fn member(&self, index: i32, key: i32) -> TableMember<'_> {
        self.assert_table(index);
        TableMember { raw: self.raw, table: self.absolute(index), key: self.absolute(key), life: PhantomData }
    }

    /// Pushes an element of the table at `index`, or nil.
    pub fn push_index(&self, index: i32, element: i64) {
        self.assert_table(index);
        self.reserve(1);
        self.raw.push_element(index, element);
    }

    /// Calls `visit` with an element of the table at `index` at the top of the stack, and removes it.
    pub fn with_index<R>(&self, index: i32, element: i64, visit: impl FnOnce(&Self) -> R) -> R {
        let (top, lent) = (self.raw.top(), self.lent.get());
        self.push_index(index, element);
        let visited = visit(self);
        self.lent.set(lent);
        self.raw.set_top(top);
        visited
    }

    /// Calls `visit` for each pair of the table at `index`: the key is at -2, the value at -1. `visit` does not change
    /// the table, and reads keys by [`LuaStack::kind`] before it converts them.
    pub fn each_pair<E>(&self, index: i32, mut visit: impl FnMut(&Self) -> Result<(), E>) -> Result<(), E> {
        self.assert_table(index);
        self.reserve(3);
        let table = self.absolute(index);
        self.raw.push_nil();
        while self.raw.next(table) {
            let top = self.raw.top();
            // A conversion would change the key: the visitor sees a copy of it.
            self.raw.push_value(-2);
            self.raw.insert(-2);
            // The visitor's borrows end with it.
            let lent = self.lent.get();
            let visited = visit(self);
            self.lent.set(lent);
            self.raw.set_top(top - 1);
            if let Err(end) = visited {
                self.raw.pop(1);
                return Err(end);
            }
        }
        Ok(())
    }

    /// Whether two values are the same one, without metamethods.
    pub fn is_same(&self, one: i32, other: i32) -> bool {
        self.raw.is_equal(one, other)
    }

    /// Hides a metatable from scripts: they see a copy of its methods. Every class of objects is hidden, so that scripts cannot give it a finalizer.
    pub fn hide_class(&self, class: LuaReference) {
        self.push_reference(class);
        self.assert_table(-1);
        hide(self.raw);
        self.raw.pop(1);
    }

    /// Gives the table at the top the metatable below the reference.
    pub fn set_metatable(&self, metatable: LuaReference) {
        self.assert_table(-1);
        self.push_reference(metatable);
        self.assert_table(-1);
        self.raw.set_metatable(-2);
    }

    /// Pushes an object: a table of a class with a number that scripts cannot change, and room for so many fields. They need no more memory then.
    pub fn push_object(&self, class: LuaReference, number: i64, fields: usize) {
        self.reserve(3);
        self.raw.push_table(0, 1 + fields);
        self.parts(-1).set_first(number);
        self.raw.push_element(REGISTRY, i64::from(class.0));
        self.assert_table(-1);
        self.raw.set_metatable(-2);
    }

    /// The number of an object of the class. `None` for everything else.
    pub fn object(&self, index: i32, class: LuaReference) -> Option<i64> {
        self.object_of(index, [class]).map(|(_, number)| number)
    }

    /// The position of an object's class among these, and its number. `None` for everything else.
    pub fn object_of<const COUNT: usize>(
        &self,
        index: i32,
        classes: [LuaReference; COUNT],
    ) -> Option<(usize, i64)> {
        if self.raw.kind(index) != ffi::LUA_TTABLE {
            return None;
        }
        self.reserve(2);
        if !self.raw.push_metatable(index) {
            return None;
        }
        let is_class = |class: &LuaReference| {
            self.raw.push_element(REGISTRY, i64::from(class.0));
            let is_same = self.raw.is_equal(-1, -2);
            self.raw.pop(1);
            is_same
        };
        let position = classes.iter().position(is_class);
        self.raw.pop(1);
        let position = position?;
        self.raw.push_by_pointer(index, parts::first_key());
        let number = self.raw.integer(-1);
        self.raw.pop(1);
        Some((position, number?))
    }

    /// The numbers of the object at `index`, and the value that is attached to it.
    pub fn parts(&self, index: i32) -> ObjectParts<'_> {
        self.assert_table(index);
        self.reserve(1);
        ObjectParts { raw: self.raw, table: self.absolute(index), life: PhantomData }
    }

    /// Pushes the name of the class of an object (`__name`), or nil.
    pub fn push_class_name(&self, index: i32) {
        self.reserve(2);
        if !self.raw.push_metatable(index) {
            return self.raw.push_nil();
        }
        self.raw.push_bytes(b"__name");
        self.raw.push_value_of_key(-2);
        self.raw.remove(-2);
    }

    /// Removes `count` values from the top.
    pub fn pop(&self, count: i32) {
        self.assert_free(count);
        self.raw.pop(count);
    }

    /// Removes a value from below others.
    pub fn remove(&mut self, index: i32) {
        // Nothing is lent out during an exclusive borrow.
        self.lent.set(0);
        self.raw.remove(index);
    }

    /// Keeps the value at the top, and removes it. The state forgets it by [`LuaState::forget`](crate::LuaState::forget).
    pub fn keep(&self) -> LuaReference {
        self.assert_free(1);
        LuaReference(self.raw.keep())
    }

    fn absolute(&self, index: i32) -> i32 {
        if index < 0 { self.raw.top() + index + 1 } else { index }
    }
}

/// A call of a function of Rust by a script.
pub struct LuaCall<'c, H: LuaHost> {
    stack: LuaStack<'c>,
    shared: &'c Shared<H>,
    arguments: i32,
}

impl<H: LuaHost> std::fmt::Debug for LuaCall<'_, H> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stack.fmt(out)
    }
}

impl<'c, H: LuaHost> Deref for LuaCall<'c, H> {
    type Target = LuaStack<'c>;

    fn deref(&self) -> &LuaStack<'c> {
        &self.stack
    }
}

impl<'c, H: LuaHost> LuaCall<'c, H> {
    pub(crate) fn new(raw: RawState, shared: &'c Shared<H>) -> Self {
        LuaCall { stack: LuaStack::new(raw), shared, arguments: raw.top() }
    }

    /// The number of arguments. Further values on the stack are those that the function pushed.
    pub fn arguments(&self) -> i32 {
        self.arguments
    }

    /// The number that the function was registered with.
    pub fn number_of_function(&self) -> i64 {
        self.stack.raw.integer(RawState::upvalue(2)).unwrap_or(0)
    }

    /// The state's host.
    pub fn host(&self) -> &'c H {
        &self.shared.host
    }

    /// Forgets a kept value.
    pub fn forget(&self, reference: LuaReference) {
        self.stack.raw.forget(reference.0);
    }

    /// Calls `act` with the target of the run and the stack. `None` without a target: at load time, and in finalizers.
    pub fn with_target<R>(&self, act: impl FnOnce(&mut H::Target, &LuaStack<'c>) -> R) -> Option<R> {
        let pointer = self.shared.target.take()?;
        let lent = Lent { shared: self.shared, pointer };
        // SAFETY: the run borrowed the target exclusively and lasts longer than this call. The place is empty meanwhile, so a call that begins in
        // between, as by a finalizer, cannot reach the target.
        let target = unsafe { &mut *lent.pointer.as_ptr() };
        Some(act(target, &self.stack))
    }

    /// The bytes of a string argument. Numbers are converted.
    pub fn expect_bytes(&self, index: i32) -> Result<&[u8], Misuse> {
        self.bytes(index).ok_or_else(|| self.wrong_kind(index, "string"))
    }

    /// An integer argument.
    pub fn expect_integer(&self, index: i32) -> Result<i64, Misuse> {
        self.integer(index).ok_or_else(|| match self.number(index) {
            Some(_) => Misuse::argument(index, "number has no integer representation"),
            None => self.wrong_kind(index, "number"),
        })
    }

    /// An argument that is a table.
    pub fn expect_table(&self, index: i32) -> Result<(), Misuse> {
        self.expect_kind(index, LuaKind::Table, "table")
    }

    /// An argument that is a function.
    pub fn expect_function(&self, index: i32) -> Result<(), Misuse> {
        self.expect_kind(index, LuaKind::Function, "function")
    }

    fn expect_kind(&self, index: i32, kind: LuaKind, name: &'static str) -> Result<(), Misuse> {
        if self.kind(index) == kind { Ok(()) } else { Err(self.wrong_kind(index, name)) }
    }

    /// The failure of an argument of another type than `expected`.
    pub fn wrong_kind(&self, index: i32, expected: &str) -> Misuse {
        Misuse::argument(index, format!("{expected} expected, got {}", self.kind_name(index)))
    }

    /// Whether the run has exceeded its time or its memory: a long function of Rust ends then.
    pub fn exceeds_bounds(&self) -> bool {
        let limits = &self.shared.limits;
        limits.clock.is_late() || limits.memory.has_exceeded()
    }

    /// Collects all garbage of the state, by which finalizers run.
    pub fn collect(&self) {
        self.stack.raw.collect();
    }

    /// Ends the call with the results at the top of the stack.
    pub fn results(&self, count: i32) -> Result<CallEnd, Misuse> {
        Ok(CallEnd::Return(count))
    }

    /// Ends the run with its last argument as the result, or nil without arguments. The value is raised as an error, so a script can catch it:
    /// then the run goes on.
    pub fn end_run(&self) -> Result<CallEnd, Misuse> {
        if self.arguments == 0 {
            self.push_nil();
        }
        Ok(CallEnd::EndRun)
    }

    /// Whether [`LuaCall::wait`] can succeed here.
    pub fn can_wait(&self) -> bool {
        self.stack.raw.is_yieldable() && self.shared.limits.is_driven(self.stack.raw)
    }

    /// Whether a coroutine runs that may yield: the driver's, or one of the script.
    pub fn is_yieldable(&self) -> bool {
        self.stack.raw.is_yieldable()
    }

    /// Stops the coroutine until its driver resumes it with the results of `wait`.
    ///
    /// # Errors
    /// If the script is at a place that cannot wait: a fetch, a converter, a comparison of `table.sort`.
    pub fn wait(&self, wait: H::Wait) -> Result<CallEnd, Misuse> {
        if !self.can_wait() {
            return Err(match self.shared.limits.runs_coroutine() && !self.is_yieldable() {
                true => Misuse::bare(ACROSS_C_CALL),
                false => Misuse::text(CANNOT_WAIT),
            });
        }
        self.shared.wait.set(Some(wait));
        Ok(CallEnd::Wait)
    }
}

/// Puts the target back, also if a panic unwinds.
struct Lent<'c, H: LuaHost> {
    shared: &'c Shared<H>,
    pointer: NonNull<H::Target>,
}

impl<H: LuaHost> Drop for Lent<'_, H> {
    fn drop(&mut self) {
        self.shared.target.set(Some(self.pointer));
    }
}

/// Lua's message of a wait within a function of C that calls the script, as a comparison of `table.sort`.
const ACROSS_C_CALL: &str = "attempt to yield across a C-call boundary";
/// The message of a wait in a place that cannot wait.
pub const CANNOT_WAIT: &str = "attempt to yield from outside a coroutine";
