//! A list of woken items of one thread, by number. Any thread can wake an item. Each item is listed at most once, without allocation.
//!
//! ```text
//!            mark (swap true: was clear)              take (whole list), then for each:
//!   idle ───────────────────────────────► listed ──────────────────────────────► idle
//!            push on the stack                        clear the mark, then run it
//! ```
//! The mark is set *before* the number enters the list and cleared *after* it left it (R63). Setting and clearing are
//! both read-modify-writes: a waker that finds the mark set has still released its writes to the thread that clears the
//! mark next, so that run sees them. A plain load there is the race of R62 that weakly ordered processors show.
//!
//! A waker may leave a [`WakeStamp`]: when and where it woke. Only the waker that sets the mark writes the stamp, before the
//! number enters the list. The owner reads the stamp before it clears the mark, so a later waker cannot overwrite it (R66, R81).
//!
//! A wake may contain the generation of an item to be killed ([`WakeList::doom`]). The generation is stored in the
//! item's link, so a kill never fails for lack of space and never affects a later item with the same number.

use crate::primitives::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::static_ref::StaticRef;
use std::panic::Location;
use std::sync::OnceLock;

/// A list of woken numbers, with many wakers and one owner.
pub struct WakeList {
    head: AtomicU32,
    chunks: Box<[OnceLock<Box<[WakeLink]>>]>,
    /// Separate from the links, because most wakes are not measured and need no stamp.
    stamps: Box<[OnceLock<Box<[StampCell]>>]>,
}

/// Time and source location of a wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeStamp {
    /// Time on the waker's clock in nanoseconds. Never 0.
    pub date_ns: u64,
    /// Source location of the wake.
    pub place: &'static Location<'static>,
}

/// A woken number with the data of its wakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WokenNumber {
    pub number: u32,
    /// Generation of the item to kill, if any.
    pub doomed: Option<u32>,
    /// Time and place of the first wake, if its waker recorded them.
    pub stamp: Option<WakeStamp>,
}

struct WakeLink {
    listed: AtomicBool,
    next: AtomicU32,
    /// The youngest generation to kill. [`NOBODY`] if none.
    doomed: AtomicU32,
}

struct StampCell {
    /// The time of the wake. 0 without a stamp.
    date_ns: AtomicU64,
    place: StaticRef<Location<'static>>,
}

impl WakeList {
    /// A list for numbers below `limit`. Memory is allocated in chunks at the first wake.
    pub fn new(limit: u32) -> Self {
        let chunks = (0..limit.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        let stamps = (0..limit.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        let list = Self { head: AtomicU32::new(NONE), chunks, stamps };
        if cfg!(loom) {
            // Loom does not track the ordering of `OnceLock`, so allocate all chunks now.
            for number in 0..limit {
                let _ = (list.link(number), list.make_stamp(number));
            }
        }
        list
    }

    /// Lists `number`. True if it was not listed yet, in which case the caller may have to ring the owner's doorbell.
    /// Ignores a number beyond the limit.
    pub fn wake(&self, number: u32) -> bool {
        self.wake_stamped(number, None)
    }

    /// As [`WakeList::wake`], and stores a stamp if the number was not listed yet.
    pub fn wake_stamped(&self, number: u32, stamp: Option<WakeStamp>) -> bool {
        let Some(link) = self.link(number) else { return false };
        if link.listed.swap(true, Ordering::AcqRel) {
            return false;
        }
        if let Some((stamp, cell)) = stamp.and_then(|stamp| Some((stamp, self.make_stamp(number)?))) {
            cell.place.set(Some(stamp.place));
            cell.date_ns.store(stamp.date_ns, Ordering::Relaxed);
        }
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            link.next.store(head, Ordering::Relaxed);
            match self.head.compare_exchange_weak(head, number, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(newer) => head = newer,
            }
        }
    }

    /// Lists `number` and requests that the item of `generation` is killed. Returns the same as [`WakeList::wake`].
    ///
    /// Of two requests the younger generation wins, because a younger item exists only after the older has ended.
    pub fn doom(&self, number: u32, generation: u32) -> bool {
        let Some(link) = self.link(number) else { return false };
        let mut doomed = link.doomed.load(Ordering::Relaxed);
        while doomed == NOBODY || is_younger(generation, doomed) {
            // Relaxed suffices, because setting the mark in `wake` releases this write.
            match link.doomed.compare_exchange_weak(doomed, generation, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(newer) => doomed = newer,
            }
        }
        self.wake(number)
    }

    /// Whether the list is empty, as far as this thread sees.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == NONE
    }

    /// Takes the whole list and passes each number to `receive` in the order of the wakes. Returns the count. Only for the owner.
    pub fn drain(&self, mut receive: impl FnMut(WokenNumber)) -> usize {
        // Loom tries other schedules at read-modify-writes, not at a load like this one, which only saves the swap.
        if !cfg!(loom) && self.is_empty() {
            return 0;
        }
        let mut number = self.reverse(self.head.swap(NONE, Ordering::Acquire));
        let mut count = 0;
        while number != NONE {
            let link = self.link(number).expect("a listed number has its link");
            // Read `next` before clearing the mark. After that a waker may list the number again.
            let next = link.next.load(Ordering::Relaxed);
            let stamp = self.take_stamp(number);
            link.listed.swap(false, Ordering::AcqRel);
            // Loom tries other schedules at read-modify-writes, not at loads: the load only saves the swap.
            let doomed = match link.doomed.load(Ordering::Relaxed) {
                NOBODY if !cfg!(loom) => NOBODY,
                _ => link.doomed.swap(NOBODY, Ordering::Relaxed),
            };
            let doomed = (doomed != NOBODY).then_some(doomed);
            receive(WokenNumber { number, doomed, stamp });
            count += 1;
            number = next;
        }
        count
    }

    /// Reverses a taken list. Its marks are still set, so other threads do not write these links.
    fn reverse(&self, mut number: u32) -> u32 {
        let mut reversed = NONE;
        while number != NONE {
            let link = self.link(number).expect("a listed number has its link");
            let next = link.next.load(Ordering::Relaxed);
            link.next.store(reversed, Ordering::Relaxed);
            reversed = number;
            number = next;
        }
        reversed
    }

    fn make_stamp(&self, number: u32) -> Option<&StampCell> {
        let chunk = self.stamps.get((number / CHUNK) as usize)?;
        let fresh = || StampCell { date_ns: AtomicU64::new(0), place: StaticRef::none() };
        chunk.get_or_init(|| (0..CHUNK).map(|_| fresh()).collect()).get((number % CHUNK) as usize)
    }

    fn take_stamp(&self, number: u32) -> Option<WakeStamp> {
        let cell = self.stamps.get((number / CHUNK) as usize)?.get()?.get((number % CHUNK) as usize)?;
        let date_ns = cell.date_ns.load(Ordering::Relaxed);
        if date_ns == 0 {
            return None;
        }
        // The next waker of this number may leave no stamp.
        cell.date_ns.store(0, Ordering::Relaxed);
        Some(WakeStamp { date_ns, place: cell.place.get()? })
    }

    fn link(&self, number: u32) -> Option<&WakeLink> {
        let chunk = self.chunks.get((number / CHUNK) as usize)?;
        let links = chunk.get_or_init(|| {
            let fresh = || WakeLink {
                listed: AtomicBool::new(false),
                next: AtomicU32::new(NONE),
                doomed: AtomicU32::new(NOBODY),
            };
            (0..CHUNK).map(|_| fresh()).collect()
        });
        links.get((number % CHUNK) as usize)
    }
}

impl std::fmt::Debug for WakeList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WakeList(below {})", self.chunks.len() as u32 * CHUNK)
    }
}

/// Whether generation `one` is later than `other`, with wraparound.
fn is_younger(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) > 0
}

const NONE: u32 = u32::MAX;
/// Not a generation. Generations of items are never 0.
const NOBODY: u32 = 0;
/// Numbers per allocation. Small for loom, which tracks every atomic.
const CHUNK: u32 = if cfg!(loom) { 2 } else { 4096 };

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_woken_number_is_listed_once() {
        let list = WakeList::new(5000);
        assert!(list.wake(7) && list.wake(4999) && !list.wake(7));
        assert!(!list.wake(1 << 20), "beyond the limit");
        let mut woken = Vec::new();
        assert_eq!(list.drain(|listed| woken.push(listed.number)), 2);
        assert_eq!(woken, [7, 4999]);
        assert!(list.is_empty() && list.wake(7));
    }

    #[test]
    fn the_stamp_is_that_of_the_first_wake_of_a_number() {
        let list = WakeList::new(8);
        let here = Location::caller();
        let stamp = |date_ns| Some(WakeStamp { date_ns, place: here });
        // R81: a wake of a listed number does not change its date.
        assert!(list.wake_stamped(3, stamp(10)) && !list.wake_stamped(3, stamp(20)));
        assert!(list.wake(4));
        let mut seen = Vec::new();
        list.drain(|listed| seen.push((listed.number, listed.stamp.map(|stamp| stamp.date_ns))));
        assert_eq!(seen, [(3, Some(10)), (4, None)]);
        // R78: a wake without a stamp does not inherit an old stamp.
        assert!(list.wake(3));
        list.drain(|listed| assert_eq!((listed.number, listed.stamp), (3, None)));
    }

    /// R67: a kill is delivered with the wake. A kill of a former item of the number is replaced by a younger one.
    #[test]
    fn a_kill_order_names_the_generation_of_its_task() {
        let list = WakeList::new(16);
        let drained = |list: &WakeList| {
            let mut orders = Vec::new();
            list.drain(|listed| orders.push((listed.number, listed.doomed)));
            orders
        };
        assert!(list.wake(3) && !list.doom(3, 8) && list.doom(4, u32::MAX));
        assert_eq!(drained(&list), [(3, Some(8)), (4, Some(u32::MAX))]);
        assert!(list.wake(3));
        assert_eq!(drained(&list), [(3, None)]);
        for (orders, last) in [([5, 7], 7), ([7, 5], 7), ([u32::MAX, 1], 1), ([1, u32::MAX], 1)] {
            for generation in orders {
                list.doom(0, generation);
            }
            assert_eq!(drained(&list), [(0, Some(last))]);
        }
        assert!(!list.doom(1 << 20, 1), "beyond the limit");
    }

    /// R62: each of thousands of wakes from several threads is followed by a run.
    #[test]
    fn no_wake_is_lost_under_load() {
        use crate::atomic::AtomicU64;
        let list = WakeList::new(64);
        let wanted: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let served: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let ended = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (list, wanted, ended) = (&list, &wanted, &ended);
                scope.spawn(move || {
                    for round in 0..20_000_u64 {
                        let number = (round.wrapping_mul(7 + thread) % 64) as usize;
                        wanted[number].fetch_add(1, Ordering::Relaxed);
                        list.wake(number as u32);
                    }
                    ended.fetch_add(1, Ordering::Release);
                });
            }
            let serve = |listed: WokenNumber| {
                let number = listed.number as usize;
                served[number].store(wanted[number].load(Ordering::Relaxed), Ordering::Relaxed);
            };
            while ended.load(Ordering::Acquire) < 4 {
                list.drain(serve);
            }
            list.drain(serve);
        });
        for number in 0..64 {
            assert_eq!(served[number].load(Ordering::Relaxed), wanted[number].load(Ordering::Relaxed));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// R62, R63: a run after a wake sees all earlier writes of the waker, even if the number was already listed.
    #[test]
    fn the_run_after_a_wake_sees_the_wakers_writes() {
        loom::model(|| {
            let shared = Arc::new((WakeList::new(2), AtomicU32::new(0), AtomicU32::new(0)));
            let wakers: Vec<_> = (0..2)
                .map(|which| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || {
                        let flag = if which == 0 { &shared.1 } else { &shared.2 };
                        flag.store(1, Ordering::Relaxed);
                        shared.0.wake(1);
                    })
                })
                .collect();
            let mut seen = (0, 0);
            let look = || (shared.1.load(Ordering::Relaxed), shared.2.load(Ordering::Relaxed));
            shared.0.drain(|_| seen = look());
            for waker in wakers {
                waker.join().expect("a waker ends");
            }
            shared.0.drain(|_| seen = look());
            assert_eq!(seen, (1, 1));
            assert!(shared.0.is_empty());
        });
    }

    /// R63: two wakes and one drain never list a number twice.
    #[test]
    fn concurrent_wakes_never_list_a_number_twice() {
        loom::model(|| {
            let list = Arc::new(WakeList::new(2));
            let waker = {
                let list = list.clone();
                loom::thread::spawn(move || u32::from(list.wake(0)))
            };
            let mine = u32::from(list.wake(1));
            let mut runs = list.drain(|_| {}) as u32;
            let mine_again = u32::from(list.wake(1));
            let theirs = waker.join().expect("the waker ends");
            runs += list.drain(|_| {}) as u32;
            assert_eq!(runs, mine + mine_again + theirs);
            assert!(list.is_empty());
        });
    }

    /// R63: listing a number again while its former list is being drained does not lose the rest of that list.
    #[test]
    fn a_number_woken_during_a_drain_does_not_lose_other_numbers() {
        loom::model(|| {
            let list = Arc::new(WakeList::new(2));
            assert!(list.wake(0) && list.wake(1));
            let waker = {
                let list = list.clone();
                loom::thread::spawn(move || usize::from(list.wake(0)))
            };
            let mut runs = [0, 0];
            let mut run = |listed: WokenNumber| runs[listed.number as usize] += 1;
            list.drain(&mut run);
            let again = waker.join().expect("the waker ends");
            list.drain(&mut run);
            assert_eq!(runs, [1 + again, 1]);
            assert!(list.is_empty());
        });
    }

    /// R66, R81: the date delivered with a wake is the date of that wake, even if another wake follows at once.
    #[test]
    fn a_later_wake_does_not_replace_the_date_of_a_listed_wake() {
        loom::model(|| {
            let list = Arc::new(WakeList::new(2));
            let place = Location::caller();
            let waker = {
                let list = list.clone();
                loom::thread::spawn(move || list.wake_stamped(0, Some(WakeStamp { date_ns: 1, place })))
            };
            let mine = list.wake_stamped(0, Some(WakeStamp { date_ns: 2, place }));
            let mut dates = Vec::new();
            let mut note =
                |listed: WokenNumber| dates.push(listed.stamp.expect("every wake has one").date_ns);
            list.drain(&mut note);
            let theirs = waker.join().expect("the waker ends");
            list.drain(&mut note);
            dates.sort_unstable();
            let expected: Vec<u64> =
                [(theirs, 1), (mine, 2)].iter().filter(|wake| wake.0).map(|wake| wake.1).collect();
            assert_eq!(dates, expected);
        });
    }

    /// R67, R71: two kills race with a drain. The younger is delivered exactly once.
    #[test]
    fn the_younger_of_two_concurrent_kills_is_delivered_once() {
        loom::model(|| {
            let list = Arc::new(WakeList::new(2));
            let killers: Vec<_> = [1, 2]
                .map(|generation| {
                    let list = list.clone();
                    loom::thread::spawn(move || list.doom(0, generation))
                })
                .into_iter()
                .collect();
            let mut orders = Vec::new();
            list.drain(|listed| orders.extend(listed.doomed));
            for killer in killers {
                killer.join().expect("a killer ends");
            }
            list.drain(|listed| orders.extend(listed.doomed));
            // The older kill may be replaced, because its item must have ended by then. The younger one is always delivered.
            assert!(orders.contains(&2) && orders.iter().filter(|&&order| order == 2).count() == 1);
            assert!(list.is_empty());
        });
    }
}
