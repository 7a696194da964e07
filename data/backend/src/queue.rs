//! Waiting for a slot, and why no wake-up is lost.
//!
//! A request that finds no free slot waits in the queue of a server (persistence or a hash designated
//! that server) or in the backend's queue (any server will do). All queues of a backend change under
//! the backend's lock. The holder of the lock hands a free slot to the head of a queue. The waiter is
//! *granted* the slot before it is woken, so no request can overtake it and it never has to retry.
//!
//! Only one step happens outside the lock: a finished request releases its slot. The two sides
//! do the following, in this order and with sequentially consistent accesses:
//!
//! ```text
//!   release (no lock)                      enqueue (under the lock)
//!   R1  served -= 1                        E1  queued += 1
//!   R2  if queued > 0: lock, hand out      E2  if served < limit: hand out
//! ```
//!
//! Either R1 comes before the read of E2, and the enqueuing request hands the slot out; or E2 reads before
//! R1, then E1 comes before the read of R2, and the releasing request does. When both do, the second finds
//! no free slot. This needs no retry loop. R167's endless retry came from re-testing a count to guess whether
//! a wake-up had been missed. The sequence counter that R168 proposes detects a decision that went stale
//! between choosing and queueing. Here both happen in one critical section, so no decision goes stale.
//! `tests/queue_loom.rs` explores the interleavings of this code with loom, `tests/queue_sequences.rs`
//! random histories of a backend.
//!
//! It remains to show that every waiter has a release to wait for. A limit is never below 1
//! (`weight::slot_limit`), so a server with waiters either serves a request, and its release hands out, or
//! has room, and then the hand-out under the lock would have used it. Changes of limits, weights and states
//! hand out before they give the lock back. A server that goes down sends its waiters to choose again, and
//! the last one sends the backend's queue too (R169). The same is true of the servers that a request waits for while it
//! avoids one. The only usable server cannot be avoided.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::server_key::ServerKey;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Notifies the owner of a [`QueueEntry`](crate::QueueEntry) that it has an outcome. Called from any thread, at most once.
pub trait WakeWaiter: Send + Sync {
    /// Makes the waiter poll its [`QueueEntry`](crate::QueueEntry) again. Must not call back into the backend.
    fn wake(&self);
}

/// A closure as a [`WakeWaiter`].
pub struct WakeFn<F>(pub F);

impl<F: Fn() + Send + Sync> WakeWaiter for WakeFn<F> {
    fn wake(&self) {
        (self.0)();
    }
}

/// The order in queues, from `set-priority-class` and `set-priority-offset`. Lower values come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    class: i16,
    offset_ms: i32,
}

impl Priority {
    /// Values are clamped to the documented ranges: ±2047 for the class, ±524287 for the offset.
    #[must_use]
    pub fn new(class: i64, offset_ms: i64) -> Self {
        let class = class.clamp(-Self::CLASS_LIMIT, Self::CLASS_LIMIT);
        let offset_ms = offset_ms.clamp(-Self::OFFSET_LIMIT, Self::OFFSET_LIMIT);
        Self {
            class: i16::try_from(class).unwrap_or_default(),
            offset_ms: i32::try_from(offset_ms).unwrap_or_default(),
        }
    }

    /// The class, from -2047 to 2047.
    #[must_use]
    pub fn class(self) -> i16 {
        self.class
    }

    /// The offset in milliseconds, from -524287 to 524287.
    #[must_use]
    pub fn offset_ms(self) -> i32 {
        self.offset_ms
    }

    const CLASS_LIMIT: i64 = 2047;
    const OFFSET_LIMIT: i64 = 524_287;
}

/// One of the queues of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueOf {
    Server(ServerKey),
    Backend,
}

/// A position in a queue: class, then time with its offset, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuePosition {
    class: i16,
    at_ms: i64,
    arrival: u64,
}

impl QueuePosition {
    pub(crate) fn new(priority: Priority, now_ms: u64, arrival: u64) -> Self {
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let at_ms = now_ms.saturating_add(i64::from(priority.offset_ms));
        Self { class: priority.class, at_ms, arrival }
    }
}

/// The state that a waiter shares with the backend.
pub(crate) struct Waiter {
    state: AtomicU64,
    ahead: AtomicU32,
    /// Whether the request stays in its server's queue when the server goes down (`option persist`, `force-persist`).
    pub(crate) sticky: bool,
    /// The server that must not serve the request, although it may have room.
    avoid: Option<ServerKey>,
    wake: Box<dyn WakeWaiter>,
}

/// The outcome of a wait.
pub(crate) enum Decision {
    Granted(ServerKey),
    ChooseAgain,
}

const UNDECIDED: u64 = 0;
const CHOOSE_AGAIN: u64 = 1;
/// A granted slot is encoded as this value plus the key of the server.
const GRANTED: u64 = 2;

impl Waiter {
    pub(crate) fn new(wake: Box<dyn WakeWaiter>, sticky: bool, avoid: Option<ServerKey>) -> Self {
        Self { state: AtomicU64::new(UNDECIDED), ahead: AtomicU32::new(0), sticky, avoid, wake }
    }

    /// Sets the decision, under the lock. The wake-up follows after the lock is released.
    pub(crate) fn decide(&self, decision: &Decision) {
        let state = match decision {
            Decision::ChooseAgain => CHOOSE_AGAIN,
            Decision::Granted(key) => GRANTED + key.to_number(),
        };
        self.state.store(state, Ordering::Release);
    }

    pub(crate) fn decision(&self) -> Option<Decision> {
        match self.state.load(Ordering::Acquire) {
            UNDECIDED => None,
            CHOOSE_AGAIN => Some(Decision::ChooseAgain),
            granted => Some(Decision::Granted(ServerKey::from_number(granted - GRANTED))),
        }
    }

    pub(crate) fn wake(&self) {
        self.wake.wake();
    }
}

/// One queue. Its length is bounded by the number of streams that the process admits.
#[derive(Default)]
pub(crate) struct WaitQueue {
    /// Waiters that any server may serve.
    anyone: WaitersInOrder,
    /// Waiters that avoid a server, by that server. Kept apart, so that a server finds its next waiter without looking at those.
    avoiding: BTreeMap<ServerKey, WaitersInOrder>,
    /// How many waiters were served from this queue so far.
    served: u64,
}

/// Waiters, and how many were served when each joined.
type WaitersInOrder = BTreeMap<QueuePosition, (u64, Arc<Waiter>)>;

impl WaitQueue {
    pub(crate) fn insert(&mut self, order: QueuePosition, waiter: Arc<Waiter>) {
        let waiters = match waiter.avoid {
            Some(server) => self.avoiding.entry(server).or_default(),
            None => &mut self.anyone,
        };
        waiters.insert(order, (self.served, waiter));
    }

    /// Takes out a waiter that gives up. False if it was already taken out.
    pub(crate) fn remove(&mut self, order: QueuePosition, waiter: &Waiter) -> bool {
        let Some((joined, _)) = self.take(order, waiter.avoid) else { return false };
        waiter.note_ahead(self.served - joined + 1);
        true
    }

    fn take(&mut self, order: QueuePosition, avoid: Option<ServerKey>) -> Option<(u64, Arc<Waiter>)> {
        let Some(server) = avoid else { return self.anyone.remove(&order) };
        let waiters = self.avoiding.get_mut(&server)?;
        let taken = waiters.remove(&order);
        if waiters.is_empty() {
            self.avoiding.remove(&server);
        }
        taken
    }

    /// The next waiter, without those that avoid `server`.
    pub(crate) fn head(&self, server: Option<ServerKey>) -> Option<QueueHead> {
        let of = |avoid, waiters: &WaitersInOrder| {
            waiters.first_key_value().map(|(order, _)| QueueHead { order: *order, avoid })
        };
        let others = self.avoiding.iter().filter(|(avoided, _)| Some(**avoided) != server);
        let others = others.filter_map(|(avoided, waiters)| of(Some(*avoided), waiters));
        of(None, &self.anyone).into_iter().chain(others).min_by_key(|head| head.order)
    }

    /// Takes the next waiter out, to be served.
    pub(crate) fn serve(&mut self, head: QueueHead) -> Option<Arc<Waiter>> {
        let (joined, waiter) = self.take(head.order, head.avoid)?;
        self.served += 1;
        waiter.note_ahead(self.served - joined);
        Some(waiter)
    }

    /// Takes out all waiters that are not sticky.
    pub(crate) fn evict(&mut self, into: &mut Vec<Arc<Waiter>>) {
        let served = self.served;
        let mut keeps = |_: &QueuePosition, (joined, waiter): &mut (u64, Arc<Waiter>)| {
            if waiter.sticky {
                return true;
            }
            waiter.note_ahead(served - *joined + 1);
            into.push(Arc::clone(waiter));
            false
        };
        self.anyone.retain(&mut keeps);
        self.avoiding.values_mut().for_each(|waiters| waiters.retain(&mut keeps));
        self.avoiding.retain(|_, waiters| !waiters.is_empty());
    }

    pub(crate) fn length(&self) -> u32 {
        let avoiding: usize = self.avoiding.values().map(BTreeMap::len).sum();
        u32::try_from(self.anyone.len() + avoiding).unwrap_or(u32::MAX)
    }

    /// Whether a waiter avoids a server.
    pub(crate) fn has_avoiding(&self) -> bool {
        !self.avoiding.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.anyone.is_empty() && self.avoiding.is_empty()
    }
}

/// The next waiter of a queue for one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueHead {
    pub(crate) order: QueuePosition,
    avoid: Option<ServerKey>,
}

impl Waiter {
    /// How many requests left the queue while this one waited. Set when this one leaves it.
    pub(crate) fn ahead(&self) -> u32 {
        self.ahead.load(Ordering::Relaxed)
    }

    fn note_ahead(&self, ahead: u64) {
        self.ahead.store(u32::try_from(ahead).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}
