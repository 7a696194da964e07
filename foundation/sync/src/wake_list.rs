//! Numbered things of one thread, woken by any other: no allocation, each queued at most once.
//!
//! ```text
//!            mark (swap true: was clear)              take (whole list), then for each:
//!   idle ───────────────────────────────► listed ──────────────────────────────► idle
//!            push on the stack                        clear the mark, then run it
//! ```
//! The mark is set *before* the number enters the list and cleared *after* it left it (R63). Setting and clearing
//! are both read-modify-writes: a waker that finds the mark set has still released what it wrote to whoever
//! clears the mark next, so that run sees it. A plain load there is the race of R62 that weakly ordered
//! processors show.

use crate::primitives::{AtomicBool, AtomicU32, Ordering};
use std::sync::OnceLock;

/// A list of small numbers with many wakers and one owner.
pub struct WakeList {
    head: AtomicU32,
    chunks: Box<[OnceLock<Box<[Link]>>]>,
}

struct Link {
    listed: AtomicBool,
    next: AtomicU32,
}

impl WakeList {
    /// A list for numbers below `limit`; memory for them comes in chunks when they are first woken.
    pub fn new(limit: u32) -> Self {
        let chunks = (0..limit.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        let list = Self { head: AtomicU32::new(NONE), chunks };
        if cfg!(loom) {
            // Loom does not see that `OnceLock` orders the making of a chunk before its use.
            for number in 0..limit {
                let _ = list.link(number);
            }
        }
        list
    }

    /// Lists `number` unless it is listed already. Returns whether it is new in the list: then the owner may have
    /// to be rung. A number beyond the limit is ignored.
    pub fn wake(&self, number: u32) -> bool {
        let Some(link) = self.link(number) else { return false };
        if link.listed.swap(true, Ordering::AcqRel) {
            return false;
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

    /// Whether nothing is listed, as far as this thread sees.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == NONE
    }

    /// Takes the whole list and hands each number to `receive`, last come first served; returns how many there
    /// were. Only for the owner.
    pub fn drain(&self, mut receive: impl FnMut(u32)) -> usize {
        // Loom tries other schedules at read-modify-writes, not at a load like this one, which only saves the swap.
        if !cfg!(loom) && self.is_empty() {
            return 0;
        }
        let mut number = self.head.swap(NONE, Ordering::Acquire);
        let mut count = 0;
        while number != NONE {
            let link = self.link(number).expect("a listed number has its link");
            // The next one is read before the mark goes: afterwards a waker may list the number anew.
            let next = link.next.load(Ordering::Relaxed);
            link.listed.swap(false, Ordering::AcqRel);
            receive(number);
            count += 1;
            number = next;
        }
        count
    }

    fn link(&self, number: u32) -> Option<&Link> {
        let chunk = self.chunks.get((number / CHUNK) as usize)?;
        let links = chunk.get_or_init(|| {
            let fresh = || Link { listed: AtomicBool::new(false), next: AtomicU32::new(NONE) };
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

const NONE: u32 = u32::MAX;
/// How many numbers share one allocation. Loom tracks every atomic, so its models get by with few.
const CHUNK: u32 = if cfg!(loom) { 2 } else { 4096 };

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_listed_once() {
        let list = WakeList::new(5000);
        assert!(list.wake(7) && list.wake(4999) && !list.wake(7));
        assert!(!list.wake(1 << 20), "beyond the limit");
        let mut woken = Vec::new();
        assert_eq!(list.drain(|number| woken.push(number)), 2);
        assert_eq!(woken, [4999, 7]);
        assert!(list.is_empty() && list.wake(7));
    }

    /// R62: thousands of wakes from several threads, and every one is followed by a run.
    #[test]
    fn no_wake_is_lost_under_load() {
        use std::sync::atomic::AtomicU64;
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
            let serve = |number: u32| {
                let number = number as usize;
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

    /// R62, R63: whatever a waker wrote before waking is seen by a run that follows, even when the wake found
    /// the number listed already.
    #[test]
    fn the_run_after_a_wake_sees_what_was_written() {
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
            let look = |_| (shared.1.load(Ordering::Relaxed), shared.2.load(Ordering::Relaxed));
            shared.0.drain(|number| seen = look(number));
            for waker in wakers {
                waker.join().expect("a waker ends");
            }
            shared.0.drain(|number| seen = look(number));
            assert_eq!(seen, (1, 1));
            assert!(shared.0.is_empty());
        });
    }

    /// R63: two wakes and one drain never list a number twice.
    #[test]
    fn a_number_is_never_twice_in_the_list() {
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
}
