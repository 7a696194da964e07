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
//! A permit is taken before a connection is accepted, so limits hold exactly whatever other workers do. Connections
//! without a permit stay in the kernel's queue, where another process may accept them, or this one later.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use weir_sched::{Descriptor, Tick, current, now, random, wait, worker_index, yield_now};
use weir_sys::{Address, Errno, pass, socket};

use crate::connection_limit::ConnectionLimit;

/// Admits connections, and takes over accepted ones.
pub trait Acceptor: 'static {
    /// The permit to accept one connection. Dropped unused, it goes to the next waiter.
    type Ticket;

    /// Whether connections are accepted at all.
    fn state(&self) -> AcceptorState;

    /// The time until which a rate limit blocks accepting. `None` below the limit.
    fn too_fast(&self) -> Option<Tick>;

    /// A permit for one connection, or the limit that is reached.
    fn admit(&self) -> Result<Self::Ticket, &ConnectionLimit>;

    /// Gives a permit that may have been offered to this task to another waiter.
    fn give_way(&self);

    /// Whether its connections are accepted even while memory is short, because operators need access.
    fn is_for_operators(&self) -> bool {
        false
    }

    /// Takes an accepted connection over.
    fn enter(&self, ticket: Self::Ticket, socket: OwnedFd, peer: Address);

    /// Called when no descriptor is left for a connection. Frees one that the process can do without, if any.
    fn make_room(&self) -> DescriptorRoom {
        DescriptorRoom::Missing
    }

    /// Reports that accepting failed for a reason not caused by the client. Called once until a connection is accepted again.
    fn exhausted(&self, errno: Errno);
}

/// Whether connections are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptorState {
    Open,
    /// Not accepting now. The caller that resumes it wakes the accept tasks.
    Paused,
    /// Closed for good. The caller that stops it wakes the accept tasks.
    Stopped,
}

/// Whether a descriptor was freed for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorRoom {
    Made,
    /// Requests to free one were sent to other workers, which take about this long.
    Requested(Duration),
    /// The process holds no descriptor to free.
    Missing,
}

/// Accepts from `listener` until `acceptor` is stopped. At most `batch` connections per scheduling round (`tune.maxaccept`).
pub async fn accept<D: Acceptor>(listener: Descriptor, acceptor: D, batch: u32) {
    listener.set_owner(current());
    // A connected socket is one end of a pair over which connections are passed. A socket that neither listens nor is
    // connected was paused before this task first ran.
    let passed = socket::is_listening(&listener) == Ok(false) && socket::peer_address(&listener).is_ok();
    let (mut complained, mut requested) = (false, false);
    loop {
        let until = match acceptor.state() {
            AcceptorState::Stopped => {
                take_the_last(&listener, passed, &acceptor);
                return acceptor.give_way();
            }
            AcceptorState::Paused => Tick::NEVER,
            AcceptorState::Open => match accept_some(&listener, passed, &acceptor, batch) {
                AcceptHalt::Drained => {
                    wait(Tick::NEVER).await;
                    continue;
                }
                AcceptHalt::Batch => {
                    complained = false;
                    yield_now().await;
                    continue;
                }
                AcceptHalt::Full(gate) => {
                    wait_for_room(gate, &acceptor).await;
                    continue;
                }
                AcceptHalt::Until(tick) => tick,
                // A listener that is being paused fails before its state changes. Try again soon.
                AcceptHalt::Failed(Errno::INVAL) => after(RETRY),
                AcceptHalt::Failed(errno) => {
                    // Before the error is reported, other workers get one request to free a descriptor.
                    let is_lack = errno == Errno::MFILE && !requested;
                    let room = if is_lack { acceptor.make_room() } else { DescriptorRoom::Missing };
                    requested = matches!(room, DescriptorRoom::Requested(_));
                    match room {
                        DescriptorRoom::Made => {
                            yield_now().await;
                            continue;
                        }
                        DescriptorRoom::Requested(wait) => after(wait),
                        DescriptorRoom::Missing => {
                            if !complained {
                                acceptor.exhausted(errno);
                                complained = true;
                            }
                            after(RETRY)
                        }
                    }
                }
            },
        };
        acceptor.give_way();
        wait(until).await;
    }
}

/// Accepts the connections that the kernel reported only to this process.
///
/// If another process shares the socket, closing it here leaves it open there, and still registered in this poller,
/// which would keep consuming events. So it is removed from the poller first. Earlier connections may have been reported
/// only here, and other processes would not accept them until the next one arrives.
fn take_the_last<D: Acceptor>(listener: &Descriptor, passed: bool, acceptor: &D) {
    listener.leave_poller();
    for _ in 0..LAST {
        let Ok(ticket) = acceptor.admit() else { return };
        let accepted = if passed { receive(listener).map(Some) } else { listener.accept() };
        let Ok(Some((accepted, peer))) = accepted else { return };
        acceptor.enter(ticket, accepted, peer);
    }
}

/// Why accepting stopped.
enum AcceptHalt<'a> {
    Drained,
    /// The batch is complete. Other tasks run first.
    Batch,
    /// A limit is reached.
    Full(&'a ConnectionLimit),
    /// A rate limit is reached.
    Until(Tick),
    /// A system call failed.
    Failed(Errno),
}

/// The next connection passed over a pair of sockets, without an address.
fn receive(listener: impl AsFd) -> weir_sys::Result<(OwnedFd, Address)> {
    pass::receive_connection(listener).map(|connection| (connection, Address::Unnamed))
}

fn accept_some<'a, D: Acceptor>(
    listener: &Descriptor,
    passed: bool,
    acceptor: &'a D,
    batch: u32,
) -> AcceptHalt<'a> {
    for _ in 0..batch.max(1) {
        if let Some(tick) = acceptor.too_fast() {
            return AcceptHalt::Until(tick);
        }
        if crate::shortage::is_short_still() && !acceptor.is_for_operators() {
            return AcceptHalt::Failed(Errno::NOMEM);
        }
        let ticket = match acceptor.admit() {
            Ok(ticket) => ticket,
            Err(gate) => return AcceptHalt::Full(gate),
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
            Ok(Some((socket, peer))) => acceptor.enter(ticket, socket, peer),
            Ok(None) => return AcceptHalt::Drained,
            Err(errno) => return AcceptHalt::Failed(errno),
        }
    }
    AcceptHalt::Batch
}

/// Waits until there may be room. The task enlists first, then tries again: see [`ConnectionLimit`].
async fn wait_for_room<D: Acceptor>(full: &ConnectionLimit, acceptor: &D) {
    let task = current();
    full.enlist(task);
    match acceptor.admit() {
        Err(gate) if std::ptr::eq(gate, full) => {
            wait(Tick::NEVER).await;
        }
        // There is room by now. The caller tries again at once, so a permit that was offered meanwhile is not lost.
        Ok(_) | Err(_) => {}
    }
    full.withdraw(task);
}

fn after(duration: Duration) -> Tick {
    now().after(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// The less loaded of this worker and one other, drawn at random from `workers`.
///
/// Comparing two random workers keeps the loads close together without comparing all (power of two choices). A connection that
/// moves loads its first bytes into another CPU's cache, so it moves only if the loads differ by more than chance.
pub fn less_loaded(workers: &[usize]) -> usize {
    let own = worker_index();
    if workers.len() < 2 {
        return workers.first().copied().unwrap_or(own);
    }
    let drawn = workers[(random() % workers.len() as u64) as usize];
    // This worker was drawn. Take the next one, so that there are always two to compare.
    let other = if drawn == own {
        let at = workers.iter().position(|&worker| worker == own).unwrap_or(0);
        workers[(at + 1) % workers.len()]
    } else {
        drawn
    };
    let load = weir_sched::load(own);
    if weir_sched::load(other).saturating_add(load / WORTH_A_MOVE) < load { other } else { own }
}

/// A connection moves to another worker if that worker's load is lower by more than this fraction (1/8).
const WORTH_A_MOVE: u32 = 8;
/// Delay after the system ran out of descriptors or memory. Long enough for connections to end, too short for a client
/// to notice.
const RETRY: Duration = Duration::from_millis(100);
/// Maximum connections accepted after a listener was stopped. More than arrive between two scheduling rounds.
const LAST: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_limit::Permit;
    use crate::endpoint::{Endpoint, Opener, SocketOptions};
    use std::cell::{Cell, RefCell};
    use std::net::{Ipv4Addr, TcpStream};
    use std::sync::Arc;
    use weir_sched::{Class, TaskKey, WorkKind};

    static KIND: WorkKind = WorkKind::new("test");

    thread_local! {
        static STATE: Cell<AcceptorState> = const { Cell::new(AcceptorState::Open) };
        static INSIDE: RefCell<Vec<(Permit, OwnedFd)>> = const { RefCell::new(Vec::new()) };
        static REFUSED_TICKETS: Cell<u32> = const { Cell::new(0) };
    }

    /// Allows two connections at a time.
    struct Small(Arc<ConnectionLimit>);

    impl Acceptor for Small {
        type Ticket = Permit;

        fn state(&self) -> AcceptorState {
            STATE.get()
        }

        fn too_fast(&self) -> Option<Tick> {
            None
        }

        fn admit(&self) -> Result<Permit, &ConnectionLimit> {
            Permit::enter(Arc::clone(&self.0), 2).ok_or_else(|| {
                REFUSED_TICKETS.set(REFUSED_TICKETS.get() + 1);
                &*self.0
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
        let (port, listener) = listener();
        (port, spawn(listener))
    }

    fn spawn(listener: Descriptor) -> TaskKey {
        weir_sched::spawn(&KIND, Class::Normal, accept(listener, Small(Arc::default()), 4))
    }

    fn listener() -> (u16, Descriptor) {
        let options = SocketOptions { backlog: 16, ..SocketOptions::default() };
        let any = Address::from((Ipv4Addr::LOCALHOST, 0));
        let opened = Opener::new().open(&Endpoint::Address(any), &options).expect("any port");
        (opened.address.port(), Descriptor::register(opened.socket).expect("a descriptor"))
    }

    async fn until(mut what: impl FnMut() -> bool) {
        // Bounded, so that a defect fails the test instead of hanging it.
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
    fn connections_above_the_limit_wait_in_the_kernel_backlog() {
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
    fn a_paused_acceptor_leaves_clients_in_the_backlog_and_a_stopped_one_ends() {
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

    #[test]
    fn a_socket_paused_before_its_task_first_runs_accepts_after_it_is_resumed() {
        weir_sched::run(async {
            let (_, listener) = listener();
            let kernel = listener.as_fd().try_clone_to_owned().expect("a descriptor");
            socket::shutdown_both(&kernel).expect("it listens");
            STATE.set(AcceptorState::Paused);
            let task = spawn(listener);
            yield_now().await;
            socket::listen(&kernel, 16).expect("any port");
            STATE.set(AcceptorState::Open);
            weir_sched::wake(task);
            let port = socket::local_address(&kernel).expect("an address").port();
            let _client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the kernel accepts");
            until(|| inside() == 1).await;
            STATE.set(AcceptorState::Stopped);
            weir_sched::wake(task);
            INSIDE.take();
        })
        .expect("a worker")
        .expect("the test came to its end");
    }
}
