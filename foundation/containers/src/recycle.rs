//! Boxes with memory recycled by size class instead of returned to the allocator.
//!
//! Each connection spawns a task and each request boxes a future, so the same sizes recur. Each thread keeps a short
//! last-in, first-out list of free blocks per class. The boxes are not `Send`.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use crate::pools::PoolCounters;

/// A pinned future in recycled memory. The handle is two words. Dropping it drops the future and recycles the block.
pub struct PooledFuture<'a, Output = ()> {
    future: NonNull<dyn Future<Output = Output> + 'a>,
    /// Ownership of the future, which makes the handle `!Send`.
    owns: PhantomData<dyn Future<Output = Output> + 'a>,
}

impl<'a, Output> PooledFuture<'a, Output> {
    /// Moves `future` into recycled memory.
    #[inline]
    pub fn new<F: Future<Output = Output> + 'a>(future: F) -> Self {
        let future: NonNull<F> = PoolBox::into_raw(PoolBox::new(future));
        Self { future, owns: PhantomData }
    }
}

impl<Output> Future for PooledFuture<'_, Output> {
    type Output = Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Output> {
        // SAFETY: the pointer came from a box that this value owns, so it is valid and not aliased.
        let future = unsafe { self.future.as_mut() };
        // SAFETY: the future sits in its block until it is dropped in place, whatever moves the handle.
        let future = unsafe { Pin::new_unchecked(future) };
        future.poll(context)
    }
}

impl<Output> Drop for PooledFuture<'_, Output> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `PoolBox::into_raw` and is given back only here.
        drop(unsafe { PoolBox::from_raw(self.future) });
    }
}

// Moving the handle does not move the pinned future.
impl<Output> Unpin for PooledFuture<'_, Output> {}

impl<Output> std::fmt::Debug for PooledFuture<'_, Output> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PooledFuture")
    }
}

/// A value in recycled memory.
pub struct PoolBox<T: ?Sized> {
    value: NonNull<T>,
    owns: PhantomData<T>,
}

impl<T> PoolBox<T> {
    /// Moves `value` into recycled memory.
    #[inline]
    pub fn new(value: T) -> Self {
        let block = take(Layout::new::<T>()).cast::<T>();
        // SAFETY: the block is free, and `take` made it large and aligned enough for a `T`.
        unsafe { block.write(value) };
        Self { value: block, owns: PhantomData }
    }
}

impl<T: ?Sized> PoolBox<T> {
    /// Releases ownership without dropping the value.
    fn into_raw(boxed: Self) -> NonNull<T> {
        let value = boxed.value;
        std::mem::forget(boxed);
        value
    }

    /// # Safety
    /// `value` must come from [`PoolBox::into_raw`] (perhaps unsized since), once.
    unsafe fn from_raw(value: NonNull<T>) -> Self {
        Self { value, owns: PhantomData }
    }
}

impl<T: ?Sized> Deref for PoolBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the box owns an initialised value until it is dropped.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for PoolBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the box owns an initialised value, and `&mut self` makes the access exclusive.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized> Drop for PoolBox<T> {
    #[inline]
    fn drop(&mut self) {
        let layout = Layout::for_value::<T>(self);
        // Returns the block even if the value's destructor unwinds.
        let _block = LentMemory { address: self.value.cast(), layout };
        // SAFETY: the value is initialised and not used afterwards.
        unsafe { self.value.drop_in_place() };
    }
}

/// Memory from [`take`] with its layout. Dropping it returns the memory.
struct LentMemory {
    address: NonNull<u8>,
    layout: Layout,
}

impl Drop for LentMemory {
    #[inline]
    fn drop(&mut self) {
        give_back(self.address, self.layout);
    }
}

/// Counters of the current thread's free lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecycleStatistics {
    /// Blocks requested from the allocator.
    pub allocated: u64,
    /// Blocks returned to the allocator.
    pub released: u64,
    /// Free blocks in the lists.
    pub free: usize,
}

/// Counters of the current thread's free lists.
pub fn recycle_statistics() -> RecycleStatistics {
    LISTS.with_borrow(|lists| RecycleStatistics {
        allocated: lists.counts.iter().map(|(allocated, _)| allocated).sum(),
        released: lists.counts.iter().map(|(_, released)| released).sum(),
        free: lists.free.iter().map(Vec::len).sum(),
    })
}

/// Counters of each size class.
pub(crate) fn counters() -> [PoolCounters; CLASS_COUNT] {
    LISTS.with_borrow(|lists| {
        std::array::from_fn(|class| {
            let (taken, released) = lists.counts[class];
            let allocated = taken.saturating_sub(released);
            let used = allocated.saturating_sub(lists.free[class].len() as u64);
            PoolCounters { name: NAMES[class], size: CLASSES[class], allocated, used, failures: 0 }
        })
    })
}

/// Sets the maximum free memory per class of the current thread, in bytes (`tune.memory.hot-size`).
pub fn keep_recycled(bytes: usize) {
    LISTS.with_borrow_mut(|lists| lists.reserve = bytes);
}

/// Returns the current thread's free blocks to the allocator.
pub fn trim_recycled() {
    LISTS.with_borrow_mut(|lists| lists.trim());
}

struct FreeLists {
    /// Maximum free memory per class, in bytes.
    reserve: usize,
    free: [Vec<NonNull<u8>>; CLASSES.len()],
    /// For each class, the number of blocks allocated and released.
    counts: [(u64, u64); CLASSES.len()],
}

#[inline]
fn take(layout: Layout) -> NonNull<u8> {
    let Some(class) = class_of(layout) else { return allocate(layout) };
    let recycled = LISTS.try_with(|lists| {
        let mut lists = lists.borrow_mut();
        let block = lists.free[class].pop();
        lists.counts[class].0 += u64::from(block.is_none());
        block
    });
    recycled.ok().flatten().unwrap_or_else(|| allocate(class_layout(class)))
}

#[inline]
fn give_back(block: NonNull<u8>, layout: Layout) {
    let Some(class) = class_of(layout) else { return release(block, layout) };
    let kept = LISTS.try_with(|lists| {
        let mut lists = lists.borrow_mut();
        let keep = lists.free[class].len() < lists.reserve / CLASSES[class];
        if keep {
            lists.free[class].push(block);
        }
        lists.counts[class].1 += u64::from(!keep);
        keep
    });
    if kept != Ok(true) {
        release(block, class_layout(class));
    }
}

impl FreeLists {
    fn trim(&mut self) {
        for (class, blocks) in self.free.iter_mut().enumerate() {
            self.counts[class].1 += blocks.len() as u64;
            for block in std::mem::take(blocks) {
                release(block, class_layout(class));
            }
        }
    }
}

impl Drop for FreeLists {
    fn drop(&mut self) {
        self.trim();
    }
}

#[cold]
fn allocate(layout: Layout) -> NonNull<u8> {
    if layout.size() == 0 {
        // A zero-sized value needs an aligned address, but not memory.
        let address = std::ptr::without_provenance_mut(layout.align());
        return NonNull::new(address).expect("an alignment is not zero");
    }
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cold]
fn release(block: NonNull<u8>, layout: Layout) {
    if layout.size() > 0 {
        // SAFETY: `allocate` made this block with this same layout.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}

/// The smallest class that fits `layout`. `None` if no class does. Depends only on the layout, so that a block returns to its class.
#[inline]
fn class_of(layout: Layout) -> Option<usize> {
    if layout.size() == 0 || layout.align() > ALIGNMENT {
        return None;
    }
    let class = *CLASS_OF.get(layout.size().div_ceil(STEP))?;
    Some(usize::from(class))
}

/// The class of each size, in units of [`STEP`]. Every class is a multiple of it.
static CLASS_OF: [u8; CLASSES[CLASS_COUNT - 1] / STEP + 1] = {
    let mut classes = [0; CLASSES[CLASS_COUNT - 1] / STEP + 1];
    let (mut steps, mut class) = (0, 0);
    while steps < classes.len() {
        while CLASSES[class] < steps * STEP {
            class += 1;
        }
        classes[steps] = class as u8;
        steps += 1;
    }
    classes
};
const STEP: usize = 32;

#[inline]
fn class_layout(class: usize) -> Layout {
    let size = CLASSES[class];
    let alignment = if size.is_power_of_two() { CACHE_LINE } else { ALIGNMENT };
    Layout::from_size_align(size, alignment).expect("every class is a valid layout")
}

/// Block sizes in bytes. Steps of a half keep waste below a third. Steps are finer near the sizes of streams.
const CLASSES: [usize; 26] = [
    64, 96, 128, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072,
    4096, 6144, 8192, 12_288, 16_384, 32_768,
];
const NAMES: [&str; CLASS_COUNT] = [
    "block_64",
    "block_96",
    "block_128",
    "block_192",
    "block_224",
    "block_256",
    "block_320",
    "block_384",
    "block_448",
    "block_512",
    "block_640",
    "block_768",
    "block_896",
    "block_1024",
    "block_1280",
    "block_1536",
    "block_1792",
    "block_2048",
    "block_2560",
    "block_3072",
    "block_4096",
    "block_6144",
    "block_8192",
    "block_12288",
    "block_16384",
    "block_32768",
];
/// Number of size classes.
pub(crate) const CLASS_COUNT: usize = CLASSES.len();
/// Minimum alignment of blocks, the default of allocators.
const ALIGNMENT: usize = 16;
/// A future aligned to a cache line spans the fewest lines. This is free only for sizes that are powers of two. For other
/// sizes the allocator uses its next larger class (1,536 bytes for 1,280).
const CACHE_LINE: usize = 64;
/// Default maximum of free memory per class and thread, in bytes.
const RESERVE_BYTES: usize = 1 << 20;

thread_local! {
    static LISTS: RefCell<ManuallyDrop<FreeLists>> = const { RefCell::new(ManuallyDrop::new(FreeLists { reserve: RESERVE_BYTES, free: [const { Vec::new() }; CLASSES.len()], counts: [(0, 0); CLASSES.len()] })) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::task::Waker;

    #[test]
    fn every_size_maps_to_the_smallest_fitting_class() {
        for size in 1..=CLASSES[CLASS_COUNT - 1] {
            let layout = Layout::from_size_align(size, 8).expect("a valid layout");
            assert_eq!(class_of(layout), CLASSES.iter().position(|class| *class >= size), "{size}");
        }
        let large = |size| class_of(Layout::from_size_align(size, 8).expect("a valid layout"));
        assert_eq!(
            (large(0), large(CLASSES[CLASS_COUNT - 1] + 1), large(usize::MAX >> 2)),
            (None, None, None)
        );
    }

    #[test]
    fn a_released_block_is_reused() {
        let first = PoolBox::new([1_u8; 100]);
        let address = first.as_ptr();
        drop(first);
        let second = PoolBox::new([2_u8; 120]);
        assert_eq!((second.as_ptr(), second[119]), (address, 2));
        assert_eq!(recycle_statistics().allocated, 1);
    }

    /// A block with an alignment that does not divide its size takes the allocator's next size class.
    #[test]
    fn only_blocks_with_power_of_two_sizes_are_cache_line_aligned() {
        for (class, name) in NAMES.into_iter().enumerate() {
            let layout = class_layout(class);
            let wanted = if layout.size().is_power_of_two() { CACHE_LINE } else { ALIGNMENT };
            assert_eq!(layout.align(), wanted, "{name}");
            assert_eq!(name, format!("block_{}", layout.size()));
        }
    }

    #[test]
    fn unusual_layouts_are_allocated_outside_of_the_pool() {
        #[repr(align(256))]
        struct Wide(u8);
        assert_eq!(PoolBox::new(Wide(3)).0, 3);
        assert_eq!(PoolBox::new([9_u8; 100_000])[99_999], 9);
        let nothing = PoolBox::new(());
        assert_eq!(*nothing, ());
        assert_eq!(recycle_statistics().allocated, 0);
    }

    #[test]
    fn dropping_a_future_drops_its_captured_values() {
        struct DropCounter(Rc<Cell<u32>>);
        impl Drop for DropCounter {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = Rc::new(Cell::new(0));
        let flag = DropCounter(dropped.clone());
        let mut future = PooledFuture::new(async move {
            std::future::pending::<()>().await;
            drop(flag);
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        assert_eq!(dropped.get(), 0);
        drop(future);
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn a_pooled_future_may_borrow_and_return_a_value() {
        let text = String::from("lent");
        let mut future = PooledFuture::new(async { text.len() });
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut future).poll(&mut context), Poll::Ready(4));
    }

    #[test]
    fn a_size_class_keeps_a_limited_number_of_free_blocks() {
        let many: Vec<_> = (0..40).map(|_| PoolBox::new([0_u8; 32_768])).collect();
        drop(many);
        let statistics = recycle_statistics();
        assert_eq!((statistics.allocated, statistics.released, statistics.free), (40, 8, 32));
        keep_recycled(100_000);
        let many: Vec<_> = (0..40).map(|_| PoolBox::new([0_u8; 32_768])).collect();
        trim_recycled();
        drop(many);
        assert_eq!(recycle_statistics().free, 3);
        trim_recycled();
        assert_eq!(recycle_statistics().free, 0);
    }
}
