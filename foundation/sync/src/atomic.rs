//! The standard atomics. With debug assertions each thread counts its expensive operations.
//!
//! A read-modify-write or a full fence costs as much as a hundred plain instructions, and more when other processors use the same
//! cache line. Functional tests do not detect a change that adds one to a wake-up. Therefore tests count them with `operations`.
//! A release build uses the standard types.
//!
//! The scheduler takes its atomics from here. The façade of this crate's other modules takes them from here, too, or from loom.

pub use std::sync::atomic::Ordering;
#[cfg(not(debug_assertions))]
pub use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};

#[cfg(debug_assertions)]
pub use counted::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, CountedAtomic, Operations,
    fence, operations,
};

/// Notes that this thread acquired an exclusive lock.
#[inline]
pub(crate) fn note_locked() {
    #[cfg(debug_assertions)]
    counted::note(|thread| {
        thread.operations.locks += 1;
        thread.held += 1;
    });
}

/// Notes that this thread released an exclusive lock.
#[inline]
pub(crate) fn note_unlocked() {
    #[cfg(debug_assertions)]
    counted::note(|thread| thread.held = thread.held.saturating_sub(1));
}

#[cfg(debug_assertions)]
mod counted {
    use std::cell::Cell;
    use std::sync::atomic::{self, Ordering};

    /// The expensive operations of one thread.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Operations {
        /// Read-modify-writes, and stores with a full fence.
        pub read_modify_writes: u64,
        pub fences: u64,
        /// Exclusive locks of this crate.
        pub locks: u64,
        /// Read-modify-writes while the thread held such a lock.
        pub under_lock: u64,
    }

    /// The operations of the current thread since it started.
    pub fn operations() -> Operations {
        THREAD.get().operations
    }

    impl std::ops::Sub for Operations {
        type Output = Self;

        fn sub(self, before: Self) -> Self {
            Self {
                read_modify_writes: self.read_modify_writes - before.read_modify_writes,
                fences: self.fences - before.fences,
                locks: self.locks - before.locks,
                under_lock: self.under_lock - before.under_lock,
            }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Thread {
        pub(super) operations: Operations,
        /// Number of exclusive locks held.
        pub(super) held: u32,
    }

    thread_local! {
        static THREAD: Cell<Thread> = const {
            Cell::new(Thread {
                operations: Operations { read_modify_writes: 0, fences: 0, locks: 0, under_lock: 0 },
                held: 0,
            })
        };
    }

    #[inline]
    pub(super) fn note(change: impl FnOnce(&mut Thread)) {
        let mut thread = THREAD.get();
        change(&mut thread);
        THREAD.set(thread);
    }

    #[inline]
    fn note_write() {
        note(|thread| {
            thread.operations.read_modify_writes += 1;
            thread.operations.under_lock += u64::from(thread.held > 0);
        });
    }

    /// [`atomic::fence`], counted.
    #[inline]
    pub fn fence(order: Ordering) {
        note(|thread| thread.operations.fences += 1);
        atomic::fence(order);
    }

    /// A standard atomic with counting. Operations not declared here do not compile, so none is left uncounted.
    #[repr(transparent)]
    #[derive(Default)]
    pub struct CountedAtomic<A>(A);

    impl<A: std::fmt::Debug> std::fmt::Debug for CountedAtomic<A> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }

    macro_rules! counted {
        ($([$($of:tt)*])? $name:ident: $value:ty; $($operation:ident)*) => {
            #[doc = concat!("The standard `", stringify!($name), "`, counted.")]
            pub type $name$(<$($of)*>)? = CountedAtomic<atomic::$name$(<$($of)*>)?>;

            impl$(<$($of)*>)? CountedAtomic<atomic::$name$(<$($of)*>)?> {
                /// As the standard type's.
                pub const fn new(value: $value) -> Self {
                    Self(atomic::$name::new(value))
                }

                /// As the standard type's.
                ///
                /// # Safety
                /// As the standard type's.
                pub const unsafe fn from_ptr<'a>(place: *mut $value) -> &'a Self {
                    // SAFETY: the caller promises that the place holds such a value, for that long, and that no other access races
                    // with it; an atomic of the value has its size, and this type is a transparent wrapper of the atomic.
                    unsafe { &*place.cast::<Self>() }
                }

                /// As the standard type's.
                #[inline]
                pub fn load(&self, order: Ordering) -> $value {
                    self.0.load(order)
                }

                /// As the standard type's.
                #[inline]
                pub fn store(&self, value: $value, order: Ordering) {
                    if order == Ordering::SeqCst {
                        note_write();
                    }
                    self.0.store(value, order);
                }

                /// As the standard type's.
                #[inline]
                pub fn get_mut(&mut self) -> &mut $value {
                    self.0.get_mut()
                }

                /// As the standard type's.
                #[inline]
                pub fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    note_write();
                    self.0.compare_exchange(from, to, success, failure)
                }

                /// As the standard type's.
                #[inline]
                pub fn compare_exchange_weak(
                    &self,
                    from: $value,
                    to: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    note_write();
                    self.0.compare_exchange_weak(from, to, success, failure)
                }

                $(
                    /// As the standard type's.
                    #[inline]
                    pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                        note_write();
                        self.0.$operation(value, order)
                    }
                )*
            }
        };
    }

    counted!(AtomicBool: bool; swap);
    counted!(AtomicI32: i32; swap fetch_add fetch_sub);
    counted!(AtomicU8: u8; swap fetch_or fetch_and);
    counted!(AtomicU32: u32; swap fetch_add fetch_sub fetch_or fetch_and);
    counted!(AtomicU64: u64; swap fetch_add fetch_sub fetch_or fetch_and fetch_xor);
    counted!(AtomicUsize: usize; swap fetch_add fetch_sub);
    counted!([T] AtomicPtr: *mut T; swap);
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests {
    use super::*;
    use Ordering::{Relaxed, SeqCst};

    fn of(work: impl FnOnce()) -> Operations {
        let before = operations();
        work();
        operations() - before
    }

    /// Loads and stores are not counted. All other operations count, on their own thread only.
    #[test]
    fn read_modify_writes_and_locks_are_counted_by_thread() {
        let (word, bit) = (AtomicU64::new(0), AtomicBool::new(false));
        let plain = of(|| {
            word.store(word.load(SeqCst) + 1, Relaxed);
            bit.store(true, Relaxed);
        });
        assert_eq!(plain, Operations::default());
        let expensive = of(|| {
            word.fetch_add(1, Relaxed);
            word.store(7, SeqCst);
            bit.swap(false, Relaxed);
            _ = word.compare_exchange(7, 8, Relaxed, Relaxed);
            fence(SeqCst);
        });
        assert_eq!(expensive, Operations { read_modify_writes: 4, fences: 1, ..Operations::default() });
        let of_others = of(|| {
            std::thread::scope(|scope| drop(scope.spawn(|| word.fetch_add(1, Relaxed)).join()));
        });
        assert_eq!((of_others, word.load(Relaxed)), (Operations::default(), 9));
    }
}
