//! Accepting: one task for each listening socket and each worker that accepts from it.
//!
//! ```text
//!             ┌── no connection: until one comes ◄──┐
//!             │                                     │
//!   open ─► admitted ─► accepted ─► handed to the less loaded of two workers
//!     ▲       │
//!     │       └── a limit is reached: until a connection ends ([`ConnectionLimit`])
//!     ├── paused: until it is resumed
//!     ├── too fast, or no descriptors or memory left: for some milliseconds
//!     └── stopped: the end
//! ```
//!
//! A place is taken before a connection is accepted, so limits hold exactly whatever other workers do, and connections
//! that find no place stay in the kernel's queue, where another process or a later moment can serve them.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use weir_sched::{Descriptor, Tick, current, now, random, wait, worker_index, yield_now};
use weir_sys::{Address, Errno, pass, socket};

use crate::connection_limit::ConnectionLimit;

/// Who decides whether a connection may come in, and takes it.
pub trait Acceptor: 'static {
    /// The right to accept one connection. Dropped unused, it goes to whoever waits.
    type Ticket;

    /// Whether connections are accepted at all.
    fn state(&self) -> AcceptorState;

    /// Until when no more may be accepted, because there were too many in this second; none for now.
    fn too_fast(&self) -> Option<Tick>;

    /// The right to accept one connection, or the limit that is reached.
    fn admit(&self) -> Result<Self::Ticket, &'static ConnectionLimit>;

    /// A place that may have been offered to this task is not taken: whoever else waits may have it.
    fn give_way(&self);

    /// Whether its connections are accepted even where memory is short: operators have to look what is wrong.
    fn is_for_operators(&self) -> bool {
        false
    }

    /// Takes an accepted connection.
    fn enter(&self, ticket: Self::Ticket, socket: OwnedFd, peer: Address);

    /// Nothing can be accepted, for a reason that is none of the client's; said once until something was accepted again.
    fn exhausted(&self, errno: Errno);
}

/// Whether connections are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptorState {
    /// They are.
    Open,
    /// Not now. Whoever opens it again wakes the accept tasks.
    Paused,
    /// Never again. Whoever stops it wakes the accept tasks.
    Stopped,
}

/// Accepts from `listener` until `door` is stopped; at most `batch` connections in one turn (`tune.maxaccept`).
pub async fn accept<D: Acceptor>(listener: Descriptor, door: D, batch: u32) {
    listener.set_owner(current());
    // One that does not listen is an end of a pair over which connections are passed.
    let passed = socket::is_listening(&listener) == Ok(false);
    let mut complained = false;
    loop {
        let until = match door.state() {
            AcceptorState::Stopped => {
                take_the_last(&listener, passed, &door);
                return door.give_way();
            }
            AcceptorState::Paused => Tick::NEVER,
            AcceptorState::Open => match accept_some(&listener, passed, &door, batch) {
                Halt::Drained => {
                    wait(Tick::NEVER).await;
                    continue;
                }
                Halt::Batch => {
                    complained = false;
                    yield_now().await;
                    continue;
                }
                Halt::Full(gate) => {
                    wait_for_room(gate, &door).await;
                    continue;
                }
                Halt::Until(tick) => tick,
                // A listener that is being paused says so before its state does: look again soon.
                Halt::Failed(Errno::INVAL) => after(RETRY),
                Halt::Failed(errno) => {
                    if !complained {
                        door.exhausted(errno);
                        complained = true;
                    }
                    after(RETRY)
                }
            },
        };
        door.give_way();
        wait(until).await;
    }
}

/// Takes the connections that were reported to this process and to no other.
///
/// A socket that another process has too stays open there when it is closed here, and so does its place in this poller,
/// which would go on to swallow reports: so it leaves the poller first.
/// What came before that may have been reported here alone; nobody else would look until the next one comes.
fn take_the_last<D: Acceptor>(listener: &Descriptor, passed: bool, door: &D) {
    listener.leave_poller();
    for _ in 0..LAST {
        let Ok(ticket) = door.admit() else { return };
        let accepted = if passed { receive(listener).map(Some) } else { listener.accept() };
        let Ok(Some((accepted, peer))) = accepted else { return };
        door.enter(ticket, accepted, peer);
    }
}

/// Why accepting made a halt.
enum Halt {
    /// No connection waits.
    Drained,
    /// Others have their turn first.
    Batch,
    /// A limit is reached.
    Full(&'static ConnectionLimit),
    /// Too many came in this second.
    Until(Tick),
    /// The system refuses.
    Failed(Errno),
}

/// The next connection that was passed over a pair of sockets; it has no address.
fn receive(listener: impl AsFd) -> weir_sys::Result<(OwnedFd, Address)> {
    pass::receive_connection(listener).map(|connection| (connection, Address::Unnamed))
}

fn accept_some<D: Acceptor>(listener: &Descriptor, passed: bool, door: &D, batch: u32) -> Halt {
    for _ in 0..batch.max(1) {
        if let Some(tick) = door.too_fast() {
            return Halt::Until(tick);
        }
        if crate::shortage::is_short_still() && !door.is_for_operators() {
            return Halt::Failed(Errno::NOMEM);
        }
        let ticket = match door.admit() {
            Ok(ticket) => ticket,
            Err(gate) => return Halt::Full(gate),
        };
        let accepted = match passed {
            false => listener.accept(),
            true => match receive(listener) {
                Err(Errno::AGAIN) => {
                    listener.clear_readable();
                    Ok(None)
                }
                other => other.map(Some),
            },
        };
        match accepted {
            Ok(Some((socket, peer))) => door.enter(ticket, socket, peer),
            Ok(None) => return Halt::Drained,
            Err(errno) => return Halt::Failed(errno),
        }
    }
    Halt::Batch
}

/// Waits until a place may be free. On the list first, then another try: see [`ConnectionLimit`].
async fn wait_for_room<D: Acceptor>(full: &'static ConnectionLimit, door: &D) {
    let task = current();
    full.enlist(task);
    match door.admit() {
        Err(gate) if std::ptr::eq(gate, full) => {
            wait(Tick::NEVER).await;
        }
        // There is room here by now. The caller tries again at once, so a place that was offered meanwhile is not lost.
        Ok(_) | Err(_) => {}
    }
    full.withdraw(task);
}

fn after(duration: Duration) -> Tick {
    now().after(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// The less loaded of this worker and one other, drawn at random from `workers`.
///
/// Looking at two and taking the better one keeps the loads close together without anybody looking at all of them. A
/// connection that moves costs its first bytes a trip to another processor's cache, so it moves only where the loads differ by
/// more than chance makes them.
pub fn less_loaded(workers: &[usize]) -> usize {
    let own = worker_index();
    if workers.len() < 2 {
        return workers.first().copied().unwrap_or(own);
    }
    let drawn = workers[(random() % workers.len() as u64) as usize];
    // Itself drawn: the next one, so that there are always two to compare.
    let other = if drawn == own {
        let at = workers.iter().position(|&worker| worker == own).unwrap_or(0);
        workers[(at + 1) % workers.len()]
    } else {
        drawn
    };
    let load = weir_sched::load(own);
    if weir_sched::load(other).saturating_add(load / WORTH_A_MOVE) < load { other } else { own }
}

/// A connection moves to a worker whose load is less by more than this part.
const WORTH_A_MOVE: u32 = 8;
/// How long to wait for descriptors or memory when the system has none left: long enough for connections to end, short
/// enough to go unnoticed by a client.
const RETRY: Duration = Duration::from_millis(100);
/// How many connections are accepted at most once a listener was stopped: more than come between two turns.
const LAST: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_limit::Permit;
    use crate::endpoint::{Endpoint, Opener, SocketOptions};
    use std::cell::{Cell, RefCell};
    use std::net::{Ipv4Addr, TcpStream};
    use weir_sched::{Class, Kind, TaskKey};

    static KIND: Kind = Kind::new("test");

    thread_local! {
        static STATE: Cell<AcceptorState> = const { Cell::new(AcceptorState::Open) };
        static INSIDE: RefCell<Vec<(Permit, OwnedFd)>> = const { RefCell::new(Vec::new()) };
        static REFUSED_TICKETS: Cell<u32> = const { Cell::new(0) };
    }

    /// Lets two in at a time.
    struct Small(&'static ConnectionLimit);

    impl Acceptor for Small {
        type Ticket = Permit;

        fn state(&self) -> AcceptorState {
            STATE.get()
        }

        fn too_fast(&self) -> Option<Tick> {
            None
        }

        fn admit(&self) -> Result<Permit, &'static ConnectionLimit> {
            self.0.enter(2).ok_or_else(|| {
                REFUSED_TICKETS.set(REFUSED_TICKETS.get() + 1);
                self.0
            })
        }

        fn give_way(&self) {
            self.0.offer();
        }

        fn enter(&self, ticket: Permit, socket: OwnedFd, _: Address) {
            INSIDE.with_borrow_mut(|inside| inside.push((ticket, socket)));
        }

        fn exhausted(&self, _: Errno) {}
    }

    fn start() -> (u16, TaskKey) {
        let options = SocketOptions { backlog: 16, ..SocketOptions::default() };
        let any = Address::from((Ipv4Addr::LOCALHOST, 0));
        let opened = Opener::new().open(&Endpoint::Address(any), &options).expect("any port");
        let listener = Descriptor::register(opened.socket).expect("a descriptor");
        let door = Small(Box::leak(Box::default()));
        let task = weir_sched::spawn(&KIND, Class::Normal, accept(listener, door, 4));
        (opened.address.port(), task)
    }

    async fn until(mut what: impl FnMut() -> bool) {
        // Bounded, so that a fault is a failure and no endless test.
        for _ in 0..10_000 {
            if what() {
                return;
            }
            yield_now().await;
        }
        panic!("it never happens");
    }

    fn inside() -> usize {
        INSIDE.with_borrow(Vec::len)
    }

    #[test]
    fn who_finds_no_place_waits_in_the_queue() {
        weir_sched::run(async {
            let (port, _) = start();
            let clients: Vec<_> = (0..3)
                .map(|_| {
                    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the kernel's queue has room")
                })
                .collect();
            until(|| REFUSED_TICKETS.get() >= 2).await;
            assert_eq!(inside(), 2);
            INSIDE.with_borrow_mut(|inside| drop(inside.pop()));
            until(|| inside() == 2).await;
            drop(clients);
            INSIDE.take();
        })
        .expect("a worker")
        .expect("the test came to its end");
    }

    #[test]
    fn a_paused_door_keeps_them_waiting_and_a_stopped_one_ends() {
        weir_sched::run(async {
            let (port, task) = start();
            STATE.set(AcceptorState::Paused);
            weir_sched::wake(task);
            let _client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the kernel accepts");
            for _ in 0..100 {
                yield_now().await;
            }
            assert_eq!(inside(), 0);
            STATE.set(AcceptorState::Open);
            weir_sched::wake(task);
            until(|| inside() == 1).await;
            STATE.set(AcceptorState::Stopped);
            weir_sched::wake(task);
            until(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()).await;
            INSIDE.take();
        })
        .expect("a worker")
        .expect("the test came to its end");
    }
}
