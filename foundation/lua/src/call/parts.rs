//! The parts of objects that scripts cannot change, and members of tables by names on the stack.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use crate::raw::RawState;

/// The two numbers of an object on a stack, and the value that is attached to it.
#[derive(Debug)]
pub struct ObjectParts<'s> {
    pub(super) raw: RawState,
    pub(super) table: i32,
    pub(super) life: PhantomData<&'s ()>,
}

impl ObjectParts<'_> {
    /// Changes the number that the object was pushed with.
    pub fn set_first(&self, number: i64) {
        self.set(first_key(), number);
    }

    /// Sets the second number.
    pub fn set_second(&self, number: i64) {
        self.set(ptr::from_ref(&SECOND).cast(), number);
    }

    /// The second number. `None` if it was not set.
    pub fn second(&self) -> Option<i64> {
        self.raw.push_by_pointer(self.table, ptr::from_ref(&SECOND).cast());
        let number = self.raw.integer(-1);
        self.raw.pop(1);
        number
    }

    /// Removes the value at the top and attaches it to the object.
    pub fn attach(&self) {
        self.raw.set_by_pointer(self.table, ptr::from_ref(&ATTACHED).cast());
    }

    /// Pushes the value that is attached to the object, or nil.
    pub fn push_attached(&self) {
        self.raw.push_by_pointer(self.table, ptr::from_ref(&ATTACHED).cast());
    }

    fn set(&self, key: *const c_void, number: i64) {
        self.raw.push_integer(number);
        self.raw.set_by_pointer(self.table, key);
    }
}

/// A member of a table: both the table and the name, a string, are on the stack.
#[derive(Debug)]
pub struct TableMember<'s> {
    pub(super) raw: RawState,
    pub(super) table: i32,
    pub(super) key: i32,
    pub(super) life: PhantomData<&'s ()>,
}

impl TableMember<'_> {
    /// Pushes the value, or nil.
    pub fn push(&self) {
        self.raw.reserve(1);
        self.raw.push_value(self.key);
        self.raw.push_value_of_key(self.table);
    }

    /// Removes the value at the top, above table and name, and makes it the value of the member.
    pub fn set(&self) {
        self.raw.reserve(1);
        self.raw.push_value(self.key);
        self.raw.insert(-2);
        self.raw.set(self.table);
    }
}

/// The key of an object's number: an address that scripts do not have.
pub(super) fn first_key() -> *const c_void {
    ptr::from_ref(&FIRST).cast()
}

static FIRST: u8 = 0;
static SECOND: u8 = 1;
static ATTACHED: u8 = 3;
