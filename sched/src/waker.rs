//! A task's key as a standard waker, for foreign futures: one word, without reference count or allocation.

use crate::key::TaskKey;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// The waker of `key`. Copying and dropping it cost nothing; it may outlive the task and cross threads.
#[inline]
pub(crate) fn waker(key: TaskKey) -> Waker {
    // SAFETY: the functions of the table treat the data as a number, so they keep the contract of a waker on any
    // thread and for any number of copies.
    unsafe { Waker::from_raw(raw(key)) }
}

#[inline]
fn raw(key: TaskKey) -> RawWaker {
    RawWaker::new(std::ptr::without_provenance(key.to_bits() as usize), &TABLE)
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, forget);

fn clone(data: *const ()) -> RawWaker {
    RawWaker::new(data, &TABLE)
}

fn wake(data: *const ()) {
    crate::worker::wake(TaskKey::from_bits(data.addr() as u64));
}

fn forget(_: *const ()) {}

// A key has to fit the data word of a waker.
const _: () = assert!(size_of::<usize>() == size_of::<TaskKey>());
