//! The program's allocator, and a wrapper for any allocator that counts callers, measures time and handles memory exhaustion.
//!
//! ```text
//!  static ALLOCATOR: Measured<Mimalloc> = Measured::new(Mimalloc);
//!
//!  alloc ──► one load, one branch ──► the allocator                         (nothing is measured)
//!                    └──► the allocator ──► stack ──► counters of that place   (bounded table, "other" beyond)
//! ```
//! While measuring is off, an allocation costs one load of a rarely written word and one predictable branch. While
//! counting, each allocation walks the stack. Symbol names are resolved on an operator's request in a separate thread,
//! because this takes as long as thousands of requests.
//!
//! Begin with [`MeasuringAllocator`], [`count`], [`name_places`] and [`report`]; a scheduler reads [`spent_ns`] around a task.
//! The program wraps [`Mimalloc`]. [`shortage`] handles memory exhaustion. [`Pages`] are memory for uses that can be refused.
//!
//! This crate must not know the purpose of the memory. It allocates for its own use only on the first allocation of a call site.

mod mimalloc;
mod names;
mod pages;
mod reservation;
pub mod shortage;
mod stack;
mod table;

pub use mimalloc::Mimalloc;
pub use pages::Pages;
pub use table::{AllocationMethod, CallSite, CallSiteCounters, MemoryReport};

use stack::Stack;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use table::TABLE;
use weir_sys::time::monotonic_ns;

/// An allocator that can report its call sites. Install it as the `#[global_allocator]`.
#[derive(Debug)]
pub struct MeasuringAllocator<A> {
    allocator: A,
}

impl<A> MeasuringAllocator<A> {
    /// Wraps an allocator.
    pub const fn new(allocator: A) -> Self {
        Self { allocator }
    }
}

/// Turns counting by call site on or off. Turning it on resets the counters.
pub fn count(on: bool) {
    if on && !is_counting() {
        TABLE.clear();
        SINCE_NS.store(monotonic_ns(), Relaxed);
    }
    if !on && is_counting() {
        UNTIL_NS.store(monotonic_ns(), Relaxed);
    }
    change(COUNTING, on);
}

/// Disables [`give_back`] (`no-memory-trimming`).
pub fn keep_free_memory() {
    KEEPS_FREE.store(true, Relaxed);
}

/// Returns free memory to the kernel. mimalloc does this by itself only during further allocations and frees, so it
/// would keep the memory of a past peak. Takes milliseconds.
pub fn give_back() {
    if !KEEPS_FREE.load(Relaxed) {
        mi_collect(true);
    }
}

// SAFETY: mimalloc.h declares it so. It takes either value, from any thread, and moves no live block; with another
// allocator in use, it frees nothing.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Whether counting by call site is on.
pub fn is_counting() -> bool {
    MEASURING.load(Relaxed) & COUNTING != 0
}

/// Turns measuring the time of allocations on or off, for [`spent_ns`].
pub fn measure_time(on: bool) {
    change(TIMING, on);
}

/// Nanoseconds spent by the current thread in the allocator while measuring was on.
#[inline]
pub fn spent_ns() -> u64 {
    SPENT_NS.get()
}

/// Sets the function that returns the current thread's kind of work, for counting. Calls after the first are ignored.
pub fn name_work_with(name: fn() -> Option<&'static str>) {
    let _ = WORK.set(name);
}

/// Whether some counted call sites are still unnamed.
pub fn has_unnamed_places() -> bool {
    TABLE.has_unnamed()
}

/// Resolves the symbol names of all counted call sites in a low-priority thread, then calls `done` there. The first call
/// takes some hundred milliseconds to read debug information. The thread is kept, because the process may be unable to
/// create another one later.
///
/// # Errors
/// When the thread cannot be started. `done` is not called then.
pub fn name_places(done: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    static NAMER: Mutex<Option<Sender<Completion>>> = Mutex::new(None);
    let mut namer = NAMER.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = match &*namer {
        Some(sender) => sender,
        None => {
            let (sender, receiver) = channel::<Completion>();
            weir_sys::thread::start(c"place-names", move || {
                weir_sys::process::give_way();
                for done in receiver {
                    name_places_here();
                    done();
                }
            })?;
            namer.insert(sender)
        }
    };
    sender.send(Box::new(done)).map_err(|_| std::io::ErrorKind::BrokenPipe.into())
}

type Completion = Box<dyn FnOnce() + Send>;

/// Like [`name_places`], but blocks the calling thread.
pub fn name_places_here() {
    without_counting(|| TABLE.name());
}

/// The current counters. Call sites not yet resolved by [`name_places`] are [`CallSite::Other`].
pub fn report() -> MemoryReport {
    let now_ns = monotonic_ns();
    let since_ns = SINCE_NS.load(Relaxed);
    let until_ns = if is_counting() { now_ns } else { UNTIL_NS.load(Relaxed) };
    MemoryReport { since_ns, until_ns, now_ns, lines: without_counting(|| TABLE.lines()) }
}

// SAFETY: a request is passed on to the wrapped allocator unchanged, and its result is returned unchanged. If it
// returns null, the region serves the request, and takes its own blocks back. Measuring neither unwinds nor takes
// memory from this allocator that it would measure.
unsafe impl<A: GlobalAlloc> GlobalAlloc for MeasuringAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        let request = || unsafe { self.allocator.alloc(layout) };
        let block = match MEASURING.load(Relaxed) {
            0 => request(),
            _ => measured(AllocationMethod::Alloc, [layout.size(), 0], request),
        };
        if block.is_null() { shortage::relieve(layout) } else { block }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        let request = || unsafe { self.allocator.alloc_zeroed(layout) };
        let block = match MEASURING.load(Relaxed) {
            0 => request(),
            _ => measured(AllocationMethod::AllocZeroed, [layout.size(), 0], request),
        };
        if block.is_null() { zeroed_relief(layout) } else { block }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same: the block came from the wrapped allocator.
        let request = || unsafe { self.allocator.realloc(block, layout, size) };
        let measuring = MEASURING.load(Relaxed);
        if measuring & FAILED != 0 && shortage::lent(block) {
            // SAFETY: the caller keeps the contract, which is the same.
            return unsafe { self.move_block(block, layout, size) };
        }
        let moved = match measuring {
            0 => request(),
            _ => measured(AllocationMethod::Realloc, [size, layout.size()], request),
        };
        if moved.is_null() {
            // SAFETY: the caller keeps the contract, which is the same; the block stayed where it is.
            return unsafe { self.move_block(block, layout, size) };
        }
        moved
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same: the block came from the wrapped allocator.
        let request = || unsafe { self.allocator.dealloc(block, layout) };
        let measuring = MEASURING.load(Relaxed);
        if measuring == 0 {
            return request();
        }
        if measuring & FAILED != 0
            && shortage::lent(block)
            && let Some(block) = NonNull::new(block)
        {
            // SAFETY: the region lent it for this layout, and the caller uses it no more.
            return unsafe { shortage::give_back(block, layout) };
        }
        measured(AllocationMethod::Free, [0, layout.size()], request);
    }
}

impl<A: GlobalAlloc> MeasuringAllocator<A> {
    /// Resizes a block that the wrapped allocator cannot resize: it is out of memory, or the block is the region's.
    ///
    /// # Safety
    /// As [`GlobalAlloc::realloc`].
    #[cold]
    unsafe fn move_block(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(larger) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
        // SAFETY: by the caller's contract, the size is not zero.
        let moved = unsafe { self.alloc(larger) };
        if !moved.is_null() {
            // SAFETY: both blocks hold as many bytes, and the new one is referenced only here.
            unsafe { moved.copy_from_nonoverlapping(block, size.min(layout.size())) };
            // SAFETY: it was allocated here with this layout, and the caller uses it no more.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

/// A zeroed block of the region, after the allocator failed.
#[cold]
fn zeroed_relief(layout: Layout) -> *mut u8 {
    let block = shortage::relieve(layout);
    if !block.is_null() {
        // SAFETY: the block has that many bytes.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block
}

/// Runs the request and measures it. `bytes` are the bytes allocated and the bytes freed.
#[cold]
#[inline(never)]
fn measured<R>(method: AllocationMethod, bytes: [usize; 2], request: impl FnOnce() -> R) -> R {
    let measuring = MEASURING.load(Relaxed);
    let began_ns = if measuring & TIMING != 0 { monotonic_ns() } else { 0 };
    let result = request();
    if measuring & LIMITED != 0 {
        shortage::charge(bytes[0] as i64 - bytes[1] as i64);
    }
    if measuring & TIMING != 0 {
        SPENT_NS.set(SPENT_NS.get().wrapping_add(monotonic_ns().saturating_sub(began_ns)));
    }
    if measuring & COUNTING != 0 && !BUSY.replace(true) {
        TABLE.add(&Stack::here(), method, bytes.map(|bytes| bytes as u64));
        BUSY.set(false);
    }
    result
}

/// Runs `work` without counting its allocations.
fn without_counting<R>(work: impl FnOnce() -> R) -> R {
    let busy = BUSY.replace(true);
    let result = work();
    BUSY.set(busy);
    result
}

fn change(bit: u8, on: bool) {
    if on {
        MEASURING.fetch_or(bit, Relaxed);
    } else {
        MEASURING.fetch_and(!bit, Relaxed);
    }
}

/// Bits of the active measurements. Read at every allocation, so it has a cache line of its own.
#[repr(align(128))]
struct MeasurementSwitch(AtomicU8);

impl std::ops::Deref for MeasurementSwitch {
    type Target = AtomicU8;

    fn deref(&self) -> &AtomicU8 {
        &self.0
    }
}

static KEEPS_FREE: AtomicBool = AtomicBool::new(false);
static MEASURING: MeasurementSwitch = MeasurementSwitch(AtomicU8::new(0));
const COUNTING: u8 = 1;
const TIMING: u8 = 2;
/// Bytes in use are counted, because `-m` sets a limit.
const LIMITED: u8 = 4;
/// The wrapped allocator ran out of memory at least once.
const FAILED: u8 = 8;
static SINCE_NS: AtomicU64 = AtomicU64::new(0);
static UNTIL_NS: AtomicU64 = AtomicU64::new(0);
static WORK: OnceLock<fn() -> Option<&'static str>> = OnceLock::new();

thread_local! {
    /// Set while this crate allocates for its own use.
    static BUSY: Cell<bool> = const { Cell::new(false) };
    static SPENT_NS: Cell<u64> = const { Cell::new(0) };
}
