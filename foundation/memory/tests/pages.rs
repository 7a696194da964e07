//! Pages that can be refused, beside an allocator that is out of memory. One test, because a shortage concerns the
//! whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_memory::shortage::{is_short, limit, shortages};
use weir_memory::{MeasuringAllocator, Pages};

/// The system allocator, which fails on demand.
struct Sometimes;

static IS_EMPTY: AtomicBool = AtomicBool::new(false);

// SAFETY: its blocks come from the system allocator, and go back there.
unsafe impl GlobalAlloc for Sometimes {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_EMPTY.load(Relaxed) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: MeasuringAllocator<Sometimes> = MeasuringAllocator::new(Sometimes);

#[test]
fn near_the_memory_limit_pages_are_refused_before_small_allocations() {
    const WORDS: usize = 1 << 14;
    let early = Pages::new(WORDS).expect("memory");
    assert!(early.iter().all(|word| *word == 0));

    let before = shortages().failures;
    IS_EMPTY.store(true, Relaxed);
    drop(std::hint::black_box(Box::new(1_u64)));
    let (was_short, meanwhile) = (is_short(), Pages::new(WORDS));
    IS_EMPTY.store(false, Relaxed);
    assert!(was_short && meanwhile.is_none(), "the kernel has some, but others need it");
    assert_eq!(
        shortages().failures - before,
        3,
        "the box, the look whether there is memory again, the pages"
    );
    // The allocator is tried again every 10 ms.
    let end = Instant::now() + Duration::from_secs(10);
    while Pages::new(WORDS).is_none() {
        assert!(Instant::now() < end, "the shortage is over");
        std::thread::yield_now();
    }

    limit(8 << 20);
    // Allocations before the limit do not count, nor does their release.
    drop(early);
    let mut held: Vec<Pages> = std::iter::from_fn(|| Pages::new(WORDS)).take(200).collect();
    assert!((94..=96).contains(&held.len()), "{} times 64 kB are not three quarters of 8 MB", held.len());
    assert!((94 << 16..=98 << 16).contains(&shortages().used), "{:?}", shortages());
    held.pop();
    held.push(Pages::new(WORDS).expect("one went"));
    assert!(Pages::new(usize::MAX).is_none() && Pages::new(WORDS).is_none());
    held.clear();
    assert!(shortages().used < 2 << 16, "{:?}", shortages());
}
