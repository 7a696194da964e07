//! The sockets of scripts (`core.tcp`).
//!
//! ```text
//!   a Lua object ── number ──► the table of its worker ──► ScriptSocket: new ─► connecting [TLS] ─► connected
//!                                  ▲                                                 └──► failed ◄──┘
//!   ConnectJob, ReceiveJob, SendJob┘ advance in the tasks of runs
//! ```
//! A socket belongs to the worker that made it. It ends when it is closed, when Lua collects its object, and with the worker. A number is
//! never used again, so an object of an ended socket finds none.

mod jobs;
mod socket;

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_sched::{Class, TaskKey, Tick, WorkKind};

pub(crate) use jobs::{CLOSED, ConnectJob, ReceiveJob, ReceivePattern, SendJob};
pub(crate) use socket::ScriptSocket;

/// The number of a socket: that of its worker, and one that no other socket of the process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketNumber(i64);

/// Why no socket was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSocket {
    /// The thread is not a worker that serves.
    NoWorker,
    /// The worker has [`MOST_SOCKETS`].
    TooMany,
}

/// A socket of another worker was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherWorker;

/// The sockets of one worker.
#[derive(Debug, Default)]
struct SocketTable {
    worker: Option<usize>,
    /// Sockets that scripts made, without those that they closed.
    balance: i64,
    sockets: HashMap<SocketNumber, ScriptSocket>,
}

thread_local! {
    static SOCKETS: RefCell<ManuallyDrop<SocketTable>> = RefCell::default();
}

static NEXT_SERIAL: AtomicU64 = AtomicU64::new(0);

impl SocketNumber {
    fn new(worker: usize) -> Self {
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed) & ((1 << WORKER_SHIFT) - 1);
        SocketNumber(((worker as i64) << WORKER_SHIFT) | serial as i64)
    }

    /// The number in an object.
    pub(crate) fn of_object(number: i64) -> Self {
        SocketNumber(number)
    }

    /// The number for an object.
    pub(crate) fn for_object(self) -> i64 {
        self.0
    }

    fn worker(self) -> usize {
        (self.0 >> WORKER_SHIFT) as usize
    }
}

/// Lets scripts of this worker make sockets. They end with the worker.
pub(crate) fn start(worker: usize) {
    SOCKETS.with_borrow_mut(|table| table.worker = Some(worker));
    weir_sched::spawn(&KEEPER, Class::Bulk, async move {
        let _end = EndWithWorker;
        loop {
            weir_sched::wait(Tick::NEVER).await;
        }
    });
}

/// Closes all sockets of this worker when it is dropped.
struct EndWithWorker;

impl Drop for EndWithWorker {
    fn drop(&mut self) {
        let table = SOCKETS.with_borrow_mut(|table| std::mem::take(&mut **table));
        drop(table);
    }
}

/// Makes a socket.
pub(crate) fn open() -> Result<SocketNumber, NoSocket> {
    SOCKETS.with_borrow_mut(|table| {
        let number = SocketNumber::new(table.worker.ok_or(NoSocket::NoWorker)?);
        if table.sockets.len() >= MOST_SOCKETS {
            return Err(NoSocket::TooMany);
        }
        table.sockets.insert(number, ScriptSocket::default());
        table.balance += 1;
        Ok(number)
    })
}

/// Calls `act` with a socket. `None` if it was closed.
pub(crate) fn with<R>(
    number: SocketNumber,
    act: impl FnOnce(&mut ScriptSocket) -> R,
) -> Result<Option<R>, OtherWorker> {
    SOCKETS.with_borrow_mut(|table| {
        if table.worker != Some(number.worker()) {
            return Err(OtherWorker);
        }
        Ok(table.sockets.get_mut(&number).map(act))
    })
}

/// How many sockets scripts of this worker made and did not close.
pub(crate) fn balance() -> i64 {
    SOCKETS.with_borrow(|table| table.balance)
}

/// A script closes a socket.
pub(crate) fn close(number: SocketNumber) {
    let closed = SOCKETS.with_borrow_mut(|table| {
        let closed = table.sockets.remove(&number);
        table.balance -= i64::from(closed.is_some());
        closed
    });
    closed.into_iter().for_each(ScriptSocket::close);
}

/// Closes the socket of an object that was collected, from any thread.
pub(crate) fn discard(number: SocketNumber) {
    let taken = SOCKETS.with_borrow_mut(|table| {
        let worker = table.worker?;
        if worker == number.worker() { table.sockets.remove(&number).map(Ok) } else { Some(Err(OtherWorker)) }
    });
    match taken {
        Some(Ok(socket)) => socket.close(),
        // A worker that has ended has closed its sockets.
        Some(Err(OtherWorker)) => _ = weir_sched::send_to(number.worker(), move || discard(number)),
        None => {}
    }
}

/// The use of a socket by the task that waits for it, which the events of the socket wake. It ends with the drop.
#[derive(Debug)]
struct SocketUse {
    number: SocketNumber,
    /// [`TaskKey::NONE`] until the first attempt.
    task: TaskKey,
}

impl SocketUse {
    fn new(number: SocketNumber) -> Self {
        SocketUse { number, task: TaskKey::NONE }
    }

    /// Calls `act` with the socket, in the task that waits. `None` if it was closed.
    fn attempt<R>(&mut self, act: impl FnOnce(&mut ScriptSocket) -> R) -> Option<R> {
        self.task = weir_sched::current();
        with(self.number, |socket| {
            let acted = act(socket);
            socket.wait(self.task);
            acted
        })
        .ok()?
    }
}

impl Drop for SocketUse {
    fn drop(&mut self) {
        let _ = with(self.number, |socket| socket.leave(self.task));
    }
}

static KEEPER: WorkKind = WorkKind::new("Lua sockets");
/// The most sockets of the scripts of one worker.
pub(crate) const MOST_SOCKETS: usize = 4096;
/// The bits of a serial number.
const WORKER_SHIFT: u32 = 48;
