//! File descriptors, registered with the poller once, edge-triggered, until they are closed.
//!
//! A descriptor remembers the readiness that the poller reported until an attempt disproves it. It starts as readable
//! and writable; a receive that is short or would block makes it unreadable until the next event. An event that adds
//! readiness wakes the owner; an event that repeats known readiness does not.
//!
//! A caller first tries the operation. It waits only after [`ReceiveResult::Blocked`] or [`SendResult::Blocked`].

mod kept;

use crate::driver::{Network, Poller};
use crate::key::TaskKey;
use crate::worker::Worker;
use kept::DescriptorCache;
use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use weir_containers::Buffer;
use weir_sys::poll::Readiness;
use weir_sys::splice::Pipe;
use weir_sys::{Address, AddressFamily, Errno, Result, option, socket};

/// The result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveResult {
    /// The number of bytes, at least one.
    Bytes(usize),
    Blocked,
    /// Nothing was received: the buffer is full.
    Full,
    /// End of file: the peer closed its sending direction.
    End,
}

/// The result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendResult {
    /// The number of bytes taken, perhaps not all.
    Bytes(usize),
    /// No bytes were taken. Wait until the descriptor is writable.
    Blocked,
}

/// The result of beginning a connection ([`Descriptor::connect_now`]).
#[derive(Debug)]
pub enum ConnectStart {
    /// Connected. The socket is not registered with the poller.
    Stands(OwnedFd),
    /// The connection is in progress: see [`Descriptor::finish_connect`].
    Awaited(Descriptor),
}

/// A registered descriptor of the current worker, as operators see it.
#[derive(Clone, Debug)]
pub struct DescriptorView {
    /// The file descriptor number.
    pub number: i32,
    /// The task that its events wake.
    pub owner: TaskKey,
    /// The kind of that task. `None` if the task ended or belongs to another worker.
    pub kind: Option<&'static str>,
    /// Whether a receive may succeed.
    pub is_readable: bool,
    /// Whether a send may succeed.
    pub is_writable: bool,
    /// Whether the poller reported that the far end has closed its direction.
    pub peer_closed: bool,
    /// Whether both directions are closed.
    pub is_hung_up: bool,
    /// Whether a socket error is pending.
    pub has_error: bool,
    /// Whether it is a listening socket.
    pub listens: bool,
    /// The address of this end, if it is a socket.
    pub local: Option<Address>,
    /// The address of the far end, if it is connected.
    pub peer: Option<Address>,
}

/// Descriptors registered with this worker, in no particular order: those in at most `most` slots from slot `from` on.
/// Also returns the next slot; `None` after the last one.
pub fn registered(from: usize, most: usize) -> (Vec<DescriptorView>, Option<usize>) {
    let Some(worker) = Worker::try_current() else { return (Vec::new(), None) };
    let states = worker.descriptors.states.borrow();
    let until = from.saturating_add(most).min(states.len());
    let used =
        states.get(from..until).unwrap_or_default().iter().filter(|state| state.number.get() != UNUSED);
    let views = used.map(|state| state.view(worker)).collect();
    (views, (until < states.len()).then_some(until))
}

/// An open descriptor that belongs to the current worker. Dropping it closes it.
#[derive(Debug)]
pub struct Descriptor {
    entry: DescriptorSlot,
    descriptor: OwnedFd,
}

impl Descriptor {
    /// A stream socket to connect, not registered yet.
    pub fn stream_socket(family: AddressFamily) -> Result<OwnedFd> {
        if let Some(network) = network() {
            network.may_open()?;
        }
        socket::stream(family)
    }

    /// A stream socket that speaks MPTCP, not registered yet.
    pub fn multipath_socket(family: AddressFamily) -> Result<OwnedFd> {
        if let Some(network) = network() {
            network.may_open()?;
        }
        socket::multipath_stream(family)
    }

    /// Registers `descriptor` (non-blocking) with the current worker. It counts as readable and writable until tried.
    ///
    /// # Panics
    /// Outside a worker.
    pub fn register(descriptor: OwnedFd) -> Result<Self> {
        Self::register_with(descriptor, |poller, descriptor, token| poller.watch(descriptor, token))
    }

    /// Registers a listening socket that other workers have registered too: a connection is reported to one of the workers that
    /// wait.
    ///
    /// # Panics
    /// Outside a worker.
    pub fn register_shared(descriptor: OwnedFd) -> Result<Self> {
        Self::register_with(descriptor, |poller, descriptor, token| poller.watch_shared(descriptor, token))
    }

    fn register_with(
        descriptor: OwnedFd,
        watch: impl FnOnce(&mut dyn Poller, BorrowedFd<'_>, u64) -> Result<()>,
    ) -> Result<Self> {
        let worker = Worker::current();
        let entry = worker.descriptors.take();
        entry.0.number.set(descriptor.as_raw_fd());
        if let Some(network) = &worker.network
            && network.adopt(descriptor.as_fd(), entry.token())
        {
            entry.set(SIMULATED);
            return Ok(Self { entry, descriptor });
        }
        let watched = worker.with_poller(|poller| watch(poller, descriptor.as_fd(), entry.token()));
        // Built before the result is checked, so that an error frees the slot.
        let registered = Self { entry, descriptor };
        watched.map(|()| registered)
    }

    /// Starts to connect a fresh socket and registers it. While the connection is in progress, the descriptor is not writable:
    /// wait until it is, then call [`Descriptor::finish_connect`].
    pub fn connect(socket: OwnedFd, address: &Address) -> Result<Self> {
        let connected = match network() {
            None => socket::connect(&socket, address)?,
            Some(network) => network.connect(socket.as_fd(), address)?,
        };
        let descriptor = Self::register(socket)?;
        if !connected {
            descriptor.clear_writable();
            descriptor.clear_readable();
        }
        Ok(descriptor)
    }

    /// Like [`Descriptor::connect`], for peers on the same machine. Their connection is established within the system
    /// call, which does not report that. A second call detects it, and saves registering and waiting.
    pub fn connect_now(socket: OwnedFd, address: &Address) -> Result<ConnectStart> {
        match Self::connect_unregistered(&socket, address) {
            None => Self::connect(socket, address).map(ConnectStart::Awaited),
            Some(stands) => Self::begun(socket, stands?),
        }
    }

    /// Like [`connect_now`](Self::connect_now), but the caller keeps the socket, also when the connection is refused.
    /// Returns whether it is established already; `None` in a simulated network, where only registered sockets can
    /// connect.
    pub fn connect_unregistered(socket: &OwnedFd, address: &Address) -> Option<Result<bool>> {
        if network().is_some() {
            return None;
        }
        let connected = socket::connect(socket, address);
        Some(connected.and_then(|stands| Ok(stands || socket::connect_again(socket, address)?)))
    }

    /// Continues after [`connect_unregistered`](Self::connect_unregistered) returned `stands`: registers the socket if
    /// the connection is not established yet.
    pub fn begun(socket: OwnedFd, stands: bool) -> Result<ConnectStart> {
        if stands {
            return Ok(ConnectStart::Stands(socket));
        }
        let descriptor = Self::register(socket)?;
        descriptor.clear_writable();
        descriptor.clear_readable();
        Ok(ConnectStart::Awaited(descriptor))
    }

    /// Whether the started connection is established now. Returns the error if it failed.
    pub fn finish_connect(&self) -> Result<bool> {
        if !self.is_writable() {
            return Ok(false);
        }
        if self.is_simulated() {
            return self.simulated(|network, token| network.take_error(token)).map(|()| true);
        }
        socket::take_error(self).map(|()| true)
    }

    /// Removes the descriptor from the worker, to register it with another one, pass it on or close it.
    pub fn into_fd(self) -> OwnedFd {
        self.leave_poller();
        let Self { entry, descriptor } = self;
        if let (true, Some(network)) = (entry.has(SIMULATED), network()) {
            network.release(entry.token());
        }
        drop(entry);
        descriptor
    }

    /// Unregisters the descriptor from the poller. Bytes that already arrived can still be received.
    pub fn leave_poller(&self) {
        if let (false, Some(worker)) = (self.is_simulated(), Worker::try_current()) {
            // This fails only for a descriptor that is not registered, which needs no action.
            let _ = worker.with_poller(|poller| poller.forget(self.descriptor.as_fd()));
        }
    }

    /// From now on events wake `owner` instead of the former owner.
    #[inline]
    pub fn set_owner(&self, owner: TaskKey) {
        self.entry.0.owner.set(owner);
    }

    /// The task that events wake.
    #[inline]
    pub fn owner(&self) -> TaskKey {
        self.entry.0.owner.get()
    }

    /// Whether a receive may succeed.
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.entry.has(READABLE)
    }

    /// Whether a send may succeed.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.entry.has(WRITABLE)
    }

    /// Whether the peer closed its sending direction. Received bytes may be left to read.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        self.entry.has(PEER_CLOSED)
    }

    /// Whether both directions are closed.
    #[inline]
    pub fn is_hung_up(&self) -> bool {
        self.entry.has(HUNG_UP)
    }

    /// Whether an error was reported; `take_error` returns it.
    #[inline]
    pub fn has_error(&self) -> bool {
        self.entry.has(ERROR)
    }

    /// Notes that a receive would block. Callers that receive without the methods here must call it.
    #[inline]
    pub fn clear_readable(&self) {
        self.entry.clear(READABLE);
    }

    /// Notes that a send would block. Callers that send without the methods here must call it.
    #[inline]
    pub fn clear_writable(&self) {
        self.entry.clear(WRITABLE);
    }

    /// Receives into the free space of `buffer`.
    #[inline]
    pub fn receive(&self, buffer: &mut Buffer) -> Result<ReceiveResult> {
        let received = self.receive_into(buffer.space())?;
        if let ReceiveResult::Bytes(count) = received {
            buffer.fill(count);
        }
        Ok(received)
    }

    /// Receives into `space`.
    #[inline]
    pub fn receive_into(&self, space: &mut [u8]) -> Result<ReceiveResult> {
        if space.is_empty() {
            return Ok(ReceiveResult::Full);
        }
        match self.receive_raw(space) {
            Ok(0) => Ok(ReceiveResult::End),
            Ok(count) => {
                // A short receive emptied the socket. But after a reported close or error, the socket must be read to end of file.
                if count < space.len() && !self.entry.has(PEER_CLOSED | HUNG_UP | ERROR) {
                    self.clear_readable();
                }
                Ok(ReceiveResult::Bytes(count))
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.clear_readable();
                Ok(ReceiveResult::Blocked)
            }
            Err(error) => Err(error),
        }
    }

    /// Copies the bytes that a receive would return into `space` and leaves them in the socket.
    pub fn peek(&self, space: &mut [u8]) -> Result<ReceiveResult> {
        let peeked = match self.is_simulated() {
            false => socket::peek(self, space),
            true => self.simulated(|network, token| network.peek(token, space)),
        };
        match peeked {
            Ok(0) => Ok(ReceiveResult::End),
            Ok(count) => Ok(ReceiveResult::Bytes(count)),
            Err(Errno::AGAIN | Errno::INTR) => {
                self.clear_readable();
                Ok(ReceiveResult::Blocked)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends as much of `bytes` as fits; `more` announces that more follows at once.
    #[inline]
    pub fn send(&self, bytes: &[u8], more: bool) -> Result<SendResult> {
        if self.is_simulated() {
            let sent = self.simulated(|network, token| network.send(token, bytes));
            return self.sent(sent, bytes.len());
        }
        self.sent(socket::send(self, bytes, more), bytes.len())
    }

    /// Sends as much of several slices as fits.
    #[inline]
    pub fn send_vectored(&self, slices: &[IoSlice<'_>], more: bool) -> Result<SendResult> {
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        if self.is_simulated() {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            let sent = self.simulated(|network, token| network.send(token, &all));
            return self.sent(sent, wanted);
        }
        self.sent(socket::send_vectored(self, slices, more), wanted)
    }

    /// Sends as much of `buffer` as fits and consumes it.
    #[inline]
    pub fn send_buffer(&self, buffer: &mut Buffer, more: bool) -> Result<SendResult> {
        let sent = self.send(buffer, more)?;
        if let SendResult::Bytes(count) = sent {
            buffer.consume(count);
        }
        Ok(sent)
    }

    #[inline]
    fn sent(&self, result: Result<usize>, wanted: usize) -> Result<SendResult> {
        match result {
            Ok(count) => {
                if count < wanted {
                    self.clear_writable();
                }
                Ok(SendResult::Bytes(count))
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.clear_writable();
                Ok(SendResult::Blocked)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves at most `limit` bytes into `pipe` inside the kernel.
    pub fn splice_into(&self, pipe: &mut Pipe, limit: usize) -> Result<ReceiveResult> {
        let filled = match self.is_simulated() {
            false => pipe.fill_from(self, limit),
            true => self.fill_simulated(pipe, limit),
        };
        match filled {
            Ok(0) => Ok(ReceiveResult::End),
            Ok(count) => Ok(ReceiveResult::Bytes(count)),
            // If the pipe holds bytes, EAGAIN may mean that the pipe is full.
            Err(Errno::AGAIN) if pipe.held() > 0 => Ok(ReceiveResult::Full),
            Err(Errno::AGAIN | Errno::INTR) => {
                self.clear_readable();
                Ok(ReceiveResult::Blocked)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves the bytes in `pipe` to the socket inside the kernel.
    pub fn splice_from(&self, pipe: &mut Pipe, more: bool) -> Result<SendResult> {
        let wanted = pipe.held();
        let drained = match self.is_simulated() {
            false => pipe.drain_to(self, more),
            true => self.drain_simulated(pipe),
        };
        self.sent(drained, wanted)
    }

    /// Shuts down the sending direction (`SHUT_WR`).
    pub fn shutdown_write(&self) -> Result<()> {
        if self.is_simulated() {
            return self.simulated(|network, token| network.shutdown_write(token));
        }
        socket::shutdown_write(self)
    }

    /// Accepts one connection; `None` if the caller has to wait for one.
    pub fn accept(&self) -> Result<Option<(OwnedFd, Address)>> {
        loop {
            let accepted = match self.is_simulated() {
                false => socket::accept(self),
                true => self.simulated(|network, token| network.accept(token)),
            };
            match accepted {
                Ok(accepted) => return Ok(Some(accepted)),
                Err(Errno::AGAIN) => {
                    self.clear_readable();
                    return Ok(None);
                }
                // A connection aborted in the accept queue. Each iteration removes one.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Operations on a simulated network instead of the kernel.
impl Descriptor {
    #[inline]
    fn is_simulated(&self) -> bool {
        self.entry.has(SIMULATED)
    }

    #[inline]
    fn receive_raw(&self, space: &mut [u8]) -> Result<usize> {
        if self.is_simulated() {
            return self.simulated(|network, token| network.receive(token, space));
        }
        socket::receive(self, space)
    }

    #[cold]
    fn simulated<T>(&self, act: impl FnOnce(&dyn Network, u64) -> Result<T>) -> Result<T> {
        act(network().ok_or(Errno::BADF)?, self.entry.token())
    }

    /// Bytes pass through a real pipe, so that its contents and capacity are the real ones.
    #[cold]
    fn fill_simulated(&self, pipe: &mut Pipe, limit: usize) -> Result<usize> {
        let mut space = [0; SPLICED_AT_ONCE];
        let length = limit.min(SPLICED_AT_ONCE);
        let there = self.simulated(|network, token| network.peek(token, &mut space[..length]))?;
        if there == 0 {
            return Ok(0);
        }
        let filled = pipe.fill_with(&space[..there])?;
        self.simulated(|network, token| network.receive(token, &mut space[..filled]))
    }

    #[cold]
    fn drain_simulated(&self, pipe: &mut Pipe) -> Result<usize> {
        let mut space = [0; SPLICED_AT_ONCE];
        let mut moved = 0;
        while pipe.held() > 0 {
            // Bytes taken out of the pipe cannot go back, so take no more than the network accepts.
            let fits = match self.simulated(|network, token| network.room(token)) {
                Ok(fits) => fits.min(SPLICED_AT_ONCE),
                Err(_) if moved > 0 => break,
                Err(error) => return Err(error),
            };
            let taken = pipe.take(&mut space[..fits])?;
            let mut left = &space[..taken];
            while !left.is_empty() {
                let sent = self.simulated(|network, token| network.send(token, left))?;
                left = &left[sent..];
            }
            moved += taken;
        }
        Ok(moved)
    }
}

/// The simulated network of the current worker, if it has one.
#[inline]
fn network() -> Option<&'static dyn Network> {
    Worker::try_current()?.network.as_deref()
}

impl AsFd for Descriptor {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A descriptor's slot in the worker's table; dropping this frees it.
#[derive(Debug)]
struct DescriptorSlot(Rc<DescriptorState>);

/// The state of one descriptor. The table reuses it for the next one, so most need no allocation.
#[derive(Debug)]
struct DescriptorState {
    slot: u32,
    generation: Cell<u32>,
    known: Cell<u8>,
    owner: Cell<TaskKey>,
    /// The file descriptor number; [`UNUSED`] while the slot is free.
    number: Cell<i32>,
}

impl DescriptorSlot {
    /// The descriptor's token in the poller. Earlier descriptors in the same slot had another generation.
    fn token(&self) -> u64 {
        u64::from(self.0.generation.get()) << 32 | u64::from(self.0.slot)
    }

    #[inline]
    fn has(&self, bits: u8) -> bool {
        self.0.known.get() & bits != 0
    }

    fn set(&self, bits: u8) {
        self.0.known.set(self.0.known.get() | bits);
    }

    #[inline]
    fn clear(&self, bits: u8) {
        self.0.known.set(self.0.known.get() & !bits);
    }
}

impl Drop for DescriptorSlot {
    fn drop(&mut self) {
        if let (true, Some(network)) = (self.has(SIMULATED), network()) {
            network.close(self.token());
        }
        self.0.owner.set(TaskKey::NONE);
        self.0.number.set(UNUSED);
        // Events in transit carry the old generation and are ignored.
        self.0.generation.set(self.0.generation.get().wrapping_add(1) & GENERATION_MASK);
        if let Some(worker) = Worker::try_current() {
            worker.descriptors.give_back(&self.0);
        }
    }
}

/// The descriptors of one worker.
#[derive(Debug)]
pub(crate) struct DescriptorTable {
    states: RefCell<Vec<Rc<DescriptorState>>>,
    free: RefCell<Vec<u32>>,
    kept: DescriptorCache,
}

impl DescriptorTable {
    pub(crate) const fn new() -> Self {
        Self {
            states: RefCell::new(Vec::new()),
            free: RefCell::new(Vec::new()),
            kept: DescriptorCache::new(),
        }
    }

    fn take(&self) -> DescriptorSlot {
        let mut states = self.states.borrow_mut();
        let slot = self.free.borrow_mut().pop();
        let state = match slot.and_then(|slot| states.get(slot as usize)) {
            Some(state) => state.clone(),
            None => {
                // The kernel bounds how many descriptors are open, far below 2^32.
                let state = Rc::new(DescriptorState::new(states.len() as u32));
                states.push(state.clone());
                state
            }
        };
        state.known.set(READABLE | WRITABLE);
        DescriptorSlot(state)
    }

    fn give_back(&self, state: &Rc<DescriptorState>) {
        if self.has(state) {
            self.free.borrow_mut().push(state.slot);
        }
    }

    /// Whether `state` belongs to this worker. A descriptor that outlived its worker may be dropped on another one.
    fn has(&self, state: &Rc<DescriptorState>) -> bool {
        self.states.borrow().get(state.slot as usize).is_some_and(|known| Rc::ptr_eq(known, state))
    }

    /// Records an event. Returns the task to wake if the event adds readiness.
    #[inline]
    pub(crate) fn note(&self, token: u64, readiness: Readiness) -> Option<TaskKey> {
        let states = self.states.borrow();
        let state = states.get(token as u32 as usize)?;
        if state.generation.get() != (token >> 32) as u32 {
            return None;
        }
        let known = state.known.get();
        let now_known = known | bits_of(readiness);
        state.known.set(now_known);
        (now_known != known).then(|| state.owner.get())
    }
}

impl DescriptorState {
    fn new(slot: u32) -> Self {
        Self {
            slot,
            generation: Cell::new(0),
            known: Cell::new(0),
            owner: Cell::new(TaskKey::NONE),
            number: Cell::new(UNUSED),
        }
    }

    fn view(&self, worker: &Worker) -> DescriptorView {
        let has = |bits| self.known.get() & bits != 0;
        // SAFETY: a number is in the table as long as its descriptor is open: the entry is dropped before it is closed.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.number.get()) };
        DescriptorView {
            number: self.number.get(),
            owner: self.owner.get(),
            kind: worker.kind_of(self.owner.get()).map(|kind| kind.name),
            is_readable: has(READABLE),
            is_writable: has(WRITABLE),
            peer_closed: has(PEER_CLOSED),
            is_hung_up: has(HUNG_UP),
            has_error: has(ERROR),
            listens: option::is_listening(descriptor).unwrap_or(false),
            local: socket::local_address(descriptor).ok(),
            peer: socket::peer_address(descriptor).ok(),
        }
    }
}

#[inline]
fn bits_of(readiness: Readiness) -> u8 {
    let mut bits = 0;
    if readiness.contains(Readiness::IN) {
        bits |= READABLE;
    }
    if readiness.contains(Readiness::OUT) {
        bits |= WRITABLE;
    }
    if readiness.contains(Readiness::RDHUP) {
        bits |= READABLE | PEER_CLOSED;
    }
    // Try both directions: the attempt returns the end or the error.
    if readiness.contains(Readiness::HUP) {
        bits |= READABLE | WRITABLE | HUNG_UP;
    }
    if readiness.contains(Readiness::ERR) {
        bits |= READABLE | WRITABLE | ERROR;
    }
    bits
}

/// Marks an unused entry: not a valid descriptor number.
const UNUSED: i32 = -1;
const READABLE: u8 = 1;
const WRITABLE: u8 = 1 << 1;
const PEER_CLOSED: u8 = 1 << 2;
const HUNG_UP: u8 = 1 << 3;
const ERROR: u8 = 1 << 4;
/// Its bytes are carried by the worker's [`Network`].
const SIMULATED: u8 = 1 << 5;
/// How much of a simulated socket moves through a pipe at once: a page.
const SPLICED_AT_ONCE: usize = 4096;
/// One bit less than a word, so that no token is all ones.
const GENERATION_MASK: u32 = u32::MAX >> 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of closed descriptors are reused: the table is as long as the most that were open at once.
    #[test]
    fn descriptor_slots_are_reused() {
        let highest = crate::run(async {
            let slot_of_another = || {
                let (own, _peer) = std::os::unix::net::UnixStream::pair().expect("a pair");
                own.set_nonblocking(true).expect("a socket");
                Descriptor::register(own.into()).expect("a place").entry.0.slot
            };
            (0..100).map(|_| slot_of_another()).max()
        });
        assert_eq!(highest.expect("a worker").flatten(), Some(0));
    }

    #[test]
    fn poller_events_map_to_readable_and_writable_directions() {
        let both = READABLE | WRITABLE;
        for (readiness, expected) in [
            (Readiness::IN, READABLE),
            (Readiness::OUT, WRITABLE),
            (Readiness::RDHUP, READABLE | PEER_CLOSED),
            (Readiness::HUP, both | HUNG_UP),
            (Readiness::ERR, both | ERROR),
            (Readiness::IN | Readiness::OUT, both),
            (Readiness::IN | Readiness::RDHUP | Readiness::HUP, both | PEER_CLOSED | HUNG_UP),
        ] {
            assert_eq!(bits_of(readiness), expected, "{readiness:?}");
        }
    }
}
