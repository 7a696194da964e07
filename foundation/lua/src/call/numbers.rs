//! The numbers of objects, which scripts cannot change.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use crate::raw::RawState;

/// The two numbers of an object on a stack.
#[derive(Debug)]
pub struct ObjectNumbers<'s> {
    pub(super) raw: RawState,
    pub(super) table: i32,
    pub(super) life: PhantomData<&'s ()>,
}

impl ObjectNumbers<'_> {
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

    fn set(&self, key: *const c_void, number: i64) {
        self.raw.push_integer(number);
        self.raw.set_by_pointer(self.table, key);
    }
}

/// The key of an object's number: an address that scripts do not have.
pub(super) fn first_key() -> *const c_void {
    ptr::from_ref(&FIRST).cast()
}

static FIRST: u8 = 0;
static SECOND: u8 = 1;
