//! The wrapper as a program's allocator: the call sites counted, and no counts while counting is off.
//!
//! A single test, because counting is process-wide.

use std::sync::mpsc;

use weir_memory::{
    AllocationMethod, CallSite, MeasuringAllocator, MemoryReport, count, is_counting, measure_time, report,
    spent_ns,
};

#[global_allocator]
static ALLOCATOR: MeasuringAllocator<std::alloc::System> = MeasuringAllocator::new(std::alloc::System);

#[inline(never)]
fn hungry(times: usize) -> Vec<Vec<u8>> {
    (0..times).map(|_| std::hint::black_box(Vec::with_capacity(1000))).collect()
}

/// The counts, with names.
fn named() -> MemoryReport {
    let (sender, receiver) = mpsc::channel();
    weir_memory::name_places(move || _ = sender.send(std::thread::current().id())).expect("a thread");
    assert_ne!(receiver.recv().expect("it is called"), std::thread::current().id());
    report()
}

/// R178: the requests of one call site are counted exactly and under its name, separate from concurrent ones of other call sites.
#[test]
fn allocations_are_counted_by_caller_only_while_counting_is_on() {
    drop(hungry(10));
    assert!(!is_counting() && report().lines.is_empty());
    weir_memory::name_work_with(|| Some("test"));
    count(true);
    let kept = hungry(100);
    count(false);
    drop(hungry(10));
    // Reading the counters does not wait for naming.
    assert!(weir_memory::has_unnamed_places());
    assert!(report().lines.iter().all(|line| line.place == CallSite::Other));
    let after = named();
    assert!(!weir_memory::has_unnamed_places());
    assert!(after.since_ns < after.until_ns && after.until_ns <= after.now_ns);
    let of_hungry: Vec<_> = after
        .lines
        .iter()
        .filter(|line| matches!(&line.place, CallSite::Caller(name) if name.contains("@foundation/memory/tests/counting.rs:")))
        .filter(|line| line.method == AllocationMethod::Alloc && line.allocated_bytes >= 100_000)
        .collect();
    assert_eq!(of_hungry.len(), 1, "{:?}", after.lines);
    // A hundred buffers, and the list of them.
    let list = 100 * size_of::<Vec<u8>>() as u64;
    assert_eq!((of_hungry[0].allocations, of_hungry[0].allocated_bytes), (101, 100_000 + list));
    assert_eq!(of_hungry[0].work, Some("test"));
    assert_eq!(of_hungry[0].frees, 0);
    let sorted = |report: MemoryReport| {
        let mut lines = report.lines;
        lines.sort_by_key(|line| (line.place.clone(), line.work, line.method));
        lines
    };
    assert_eq!(sorted(report()), sorted(after), "nothing is counted while it is off");
    // Turning it on again resets the counters; a free is counted for the caller that frees.
    count(true);
    drop(kept);
    count(false);
    let frees: u64 = report().lines.iter().map(|line| line.frees).sum();
    assert!(frees >= 101, "{:?}", report().lines);
    assert!(report().lines.iter().all(|line| line.allocated_bytes < 100_000));

    assert_eq!(spent_ns(), 0);
    measure_time(true);
    drop(hungry(100));
    measure_time(false);
    let spent = spent_ns();
    assert!(spent > 0);
    drop(hungry(100));
    assert_eq!(spent_ns(), spent);
}
