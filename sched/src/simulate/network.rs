//! A network in memory, with delays, cuts and faults derived from a seed.
//!
//! ```text
//!   worker ── Descriptor ──┐                          ┌── Peer, Service ── script (a task of the same worker)
//!                          ▼                          ▼
//!                         end ══ pieces on their way ══ end        one connection
//!                          │
//!                       Wire: all connections, the next event, the time
//! ```
//! The worker under test uses its descriptors unchanged. Each has a real socket as a placeholder, never connected, so
//! that its number and options work. The bytes go over the [`wire`]. Scripts have the other ends: a [`SimulatedPeer`]
//! for a connection, a [`SimulatedService`] for a listening address.
//!
//! The network gives the guarantees of the kernel and no more. Bytes keep their order and arrive in pieces of any size.
//! Events are edge-triggered, may be late or merged, and show the state at the time of the report. A close with unread
//! bytes is a reset. Bytes that arrived before a reset can still be read.
//!
//! Time moves when no task is runnable. If no event can ever happen again while the main task waits, the run ends with
//! the outcome [`UnfinishedReason::Stuck`].

mod peer;
mod wire;

pub use peer::{SimulatedPeer, SimulatedService};
pub use wire::Conditions;

use super::random::SeededRandom;
use super::{START_NS, VirtualClock};
use crate::driver::{Network, Poller, WorkerBell};
use crate::policy::SchedulerTuning;
use crate::runtime::{StopOnDrop, shared_sides};
use crate::worker::{Worker, WorkerParts};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;
use weir_sync::atomic::AtomicBool;
use weir_sys::poll::Readiness;
use weir_sys::{Address, AddressFamily, Errno, Result, option, socket};
use wire::{SimulatedOwner, SimulatedWire};

/// The result of a run.
#[derive(Debug)]
pub struct SimulationResult<T> {
    /// The output of the main task, or the reason why it did not finish.
    pub outcome: std::result::Result<T, UnfinishedReason>,
    /// A hash of all events. Two runs have the same digest only if their events are the same.
    pub digest: u64,
    /// Virtual time of the run in milliseconds.
    pub took_ms: u64,
}

/// Why a main task did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfinishedReason {
    /// The task waited, and no event was left.
    Stuck,
    /// It ran for longer than [`Conditions::limit_ms`].
    TooLong,
    /// It panicked, or the worker was stopped.
    Ended,
}

/// Runs `main` as the first task of a worker with a simulated network. Tasks that are still alive when it ends are
/// dropped.
pub fn run<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    conditions: Conditions,
    main: impl FnOnce(SimulatedNetwork) -> F,
) -> Result<SimulationResult<T>> {
    static MAIN: crate::WorkKind = crate::WorkKind::new("main");
    let time = Rc::new(Cell::new(START_NS));
    let mut random = SeededRandom::new(seed);
    let worker_seed = random.next();
    let clock = VirtualClock::new(time.clone());
    let wire = Rc::new(RefCell::new(SimulatedWire::new(time.clone(), random, conditions)));
    let network = SimulatedNetwork {
        wire,
        wall_offset_ns: Rc::clone(&clock.wall_offset_ns),
        receives: Rc::default(),
        sends: Rc::default(),
    };
    let tuning = SchedulerTuning::default();
    let (peers, commons, mut memberships) =
        shared_sides(1, tuning, || Ok(WorkerBell::Simulated(AtomicBool::new(false))))?;
    let parts = WorkerParts {
        index: 0,
        peers,
        commons,
        membership: memberships.pop().expect("one worker, one membership"),
        tuning,
        poller: Box::new(NetworkPoller { network: network.clone() }),
        network: Some(Rc::new(network.clone())),
        clock: Box::new(clock),
        seed: worker_seed,
    };
    let result = Rc::new(RefCell::new(None));
    let future = main(network.clone());
    let (place, handle) = (result.clone(), network.clone());
    let worker = NonNull::from(Worker::install(parts)?);
    crate::spawn(&MAIN, crate::Class::Normal, async move {
        // Stops the worker even if the future panics. Otherwise the run would go on.
        let _stop = StopOnDrop;
        let value = future.await;
        *place.borrow_mut() = Some((value, handle.digest()));
    });
    {
        // SAFETY: the worker was leaked when it was installed on this thread, and is freed below only.
        let worker = unsafe { worker.as_ref() };
        worker.run();
        worker.uninstall();
    }
    let why = network.wire.borrow().unfinished;
    // SAFETY: the worker was a box that `install` leaked, and `uninstall` took it off this thread; this crate never lends
    // parts of a worker beyond one call.
    drop(unsafe { Box::from_raw(worker.as_ptr()) });
    let took_ms = (time.get() - START_NS) / 1_000_000;
    let (outcome, digest) = match result.take() {
        Some((value, digest)) => (Ok(value), digest),
        None => (Err(why.unwrap_or(UnfinishedReason::Ended)), network.digest()),
    };
    Ok(SimulationResult { outcome, digest, took_ms })
}

/// The network of a run. All copies are the same network.
#[derive(Clone)]
pub struct SimulatedNetwork {
    wire: Rc<RefCell<SimulatedWire>>,
    wall_offset_ns: Rc<Cell<u64>>,
    receives: Rc<Cell<u64>>,
    sends: Rc<Cell<u64>>,
}

impl SimulatedNetwork {
    /// Makes a listening socket for the worker under test, which registers it.
    pub fn listener(&self, address: &Address) -> Result<OwnedFd> {
        // The placeholder listens on a real port, because some code queries the kernel. The port is not used.
        let placeholder = socket::stream(AddressFamily::Inet)?;
        socket::bind(&placeholder, &Address::from((std::net::Ipv4Addr::LOCALHOST, 0)))?;
        socket::listen(&placeholder, 1)?;
        self.wire.borrow_mut().listen(address, SimulatedOwner::Transit, Some(placeholder.as_raw_fd()))?;
        Ok(placeholder)
    }

    /// Listens for a script.
    ///
    /// # Errors
    /// When the address is already in use.
    pub fn listen(&self, address: &Address) -> Result<SimulatedService> {
        SimulatedService::open(self.clone(), address)
    }

    /// Starts to connect a script. The far end sees `from` as the source address.
    pub fn connect(&self, from: &Address, to: &Address) -> SimulatedPeer {
        SimulatedPeer::connect(self.clone(), from, to)
    }

    /// Number of open sockets of the worker under test.
    pub fn held(&self) -> usize {
        self.wire.borrow_mut().held()
    }

    /// Number of receives of the worker under test that returned bytes.
    pub fn receives(&self) -> u64 {
        self.receives.get()
    }

    /// Number of sends of the worker under test. A vectored send counts once.
    pub fn sends(&self) -> u64 {
        self.sends.get()
    }

    /// Changes the conditions from now on.
    pub fn change(&self, change: impl FnOnce(&mut Conditions)) {
        change(&mut self.wire.borrow_mut().conditions);
    }

    /// A seeded random number below `bound`.
    pub fn random(&self, bound: u64) -> u64 {
        self.wire.borrow_mut().random.below(bound)
    }

    /// A hash of all events so far.
    pub fn digest(&self) -> u64 {
        self.wire.borrow().digest()
    }

    /// Prints a line in the trace, if tracing is on.
    pub fn note(&self, text: &dyn std::fmt::Display) {
        self.wire.borrow_mut().note(text);
    }

    /// Sets the wall clock forth or back; it does not go below 1970.
    pub fn shift_wall_clock(&self, by_ms: i64) {
        let offset_ns = self.wall_offset_ns.get().saturating_add_signed(by_ms.saturating_mul(1_000_000));
        self.wall_offset_ns.set(offset_ns);
    }

    /// Suspends the worker for `ms` milliseconds, while clocks and peers go on.
    pub fn stand_still(&self, ms: u64) {
        self.wire.borrow_mut().skip(ms);
    }

    fn wire<R>(&self, act: impl FnOnce(&mut SimulatedWire) -> R) -> R {
        let result = act(&mut self.wire.borrow_mut());
        self.wake_scripts();
        result
    }

    /// Wakes scripts outside the borrow, because they may use the network at once.
    fn wake_scripts(&self) {
        let woken = std::mem::take(&mut self.wire.borrow_mut().woken);
        woken.into_iter().for_each(crate::wake);
    }
}

impl std::fmt::Debug for SimulatedNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimulatedNetwork")
    }
}

impl Network for SimulatedNetwork {
    fn may_open(&self) -> Result<()> {
        self.wire(SimulatedWire::may_open)
    }

    fn connect(&self, socket: BorrowedFd<'_>, address: &Address) -> Result<bool> {
        self.wire(|wire| wire.connect_descriptor(socket.as_raw_fd(), address)).map(|()| false)
    }

    fn adopt(&self, socket: BorrowedFd<'_>, token: u64) -> bool {
        self.wire(|wire| wire.adopt(socket.as_raw_fd(), token))
    }

    fn release(&self, token: u64) {
        self.wire(|wire| wire.release(token));
    }

    fn close(&self, token: u64) {
        self.wire(|wire| {
            let Some(id) = wire.of_token(token) else { return };
            let resets = wire.descriptor_of(id).is_some_and(|number| {
                // SAFETY: a registered descriptor reports its close while it is still open.
                let socket = unsafe { BorrowedFd::borrow_raw(number) };
                option::has_no_linger(socket).unwrap_or(false)
            });
            wire.close(id, resets);
        });
    }

    fn receive(&self, token: u64, space: &mut [u8]) -> Result<usize> {
        let result = self.wire(|wire| wire.receive(wire.known(token)?, space));
        self.receives.set(self.receives.get() + u64::from(result.is_ok_and(|count| count > 0)));
        result
    }

    fn peek(&self, token: u64, space: &mut [u8]) -> Result<usize> {
        self.wire(|wire| wire.peek(wire.known(token)?, space))
    }

    fn send(&self, token: u64, bytes: &[u8]) -> Result<usize> {
        let result = self.wire(|wire| wire.send(wire.known(token)?, bytes));
        self.sends.set(self.sends.get() + u64::from(result.is_ok_and(|count| count > 0)));
        result
    }

    fn room(&self, token: u64) -> Result<usize> {
        self.wire(|wire| wire.room(wire.known(token)?))
    }

    fn shutdown_write(&self, token: u64) -> Result<()> {
        self.wire(|wire| wire.shutdown_write(wire.known(token)?))
    }

    fn take_error(&self, token: u64) -> Result<()> {
        self.wire(|wire| wire.take_error(wire.known(token)?))
    }

    fn accept(&self, token: u64) -> Result<(OwnedFd, Address)> {
        self.wire(|wire| {
            let listener = wire.known(token)?;
            wire.may_open()?;
            let (end, peer) = wire.accept(listener)?;
            let placeholder = socket::stream(AddressFamily::Inet)?;
            wire.hand_out(end, placeholder.as_raw_fd());
            Ok((placeholder, peer))
        })
    }
}

/// Reports the network's events, and advances the time when the network is idle.
struct NetworkPoller {
    network: SimulatedNetwork,
}

impl Poller for NetworkPoller {
    /// Only simulated sockets exist here.
    fn watch(&mut self, _: BorrowedFd<'_>, _: u64) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }

    fn watch_level(&mut self, _: BorrowedFd<'_>, _: u64) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }

    fn forget(&mut self, _: BorrowedFd<'_>) -> Result<()> {
        Err(Errno::NOENT)
    }

    fn wait(&mut self, timeout_ms: Option<u64>, report: &mut dyn FnMut(u64, Readiness)) -> Result<usize> {
        let reports = {
            let mut wire = self.network.wire.borrow_mut();
            wire.pass(timeout_ms);
            wire.take_reports()
        };
        self.network.wake_scripts();
        for (token, readiness) in &reports {
            report(*token, *readiness);
        }
        if self.network.wire.borrow().unfinished.is_some() {
            crate::stop();
        }
        Ok(reports.len())
    }
}
