//! The task of a client's connection, from accept to close.
//!
//! ```text
//!   Accepted ──► Admitting ──► Idle ◄──────────► Responding ──► end       (HTTP)
//!      │       (only if there      │ the next request's first byte
//!      │        are rules or a     └────────────────────────────► end
//!      │        PROXY header)
//!      ├───────► Admitting ──► Responding ─────────────────────► end       (TCP; a backend of HTTP leads to Idle)
//!      └───────► Admitting ──► Streaming ──────────────────────► end       (HTTP/2)
//! ```
//!
//! A hand-written future, for its size: an idle client has only this task and its [`ClientSession`], and there may be many idle
//! clients. It takes 104 bytes. As an async function it took 472, because async functions keep their arguments besides the values made
//! of them, and space for every phase. All larger phases are in recycled memory while they last.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use weir_containers::{PoolBox, PooledFuture};
use weir_net::{Connection, ReceiveOutcome};
use weir_sched::{Descriptor, Tick, Wait, wait};
use weir_sys::{Address, socket};

use crate::admission::Admission;
use crate::clock::{self, ClockReading};
use crate::deadlines;
use crate::http::FirstByteWait;
use crate::session::ClientSession;
use crate::stream::Stream;

/// The task of one accepted connection.
pub(crate) struct ConnectionTask {
    state: ConnectionState,
    /// `None` before the task runs for the first time.
    session: Option<Rc<ClientSession>>,
    /// Start of the next stream on the worker's clock: the accept, or the end of the previous stream.
    began_us: u64,
}

enum ConnectionState {
    /// The task has not run yet and holds no resources of its worker.
    Accepted {
        admitted: Admission,
        socket: OwnedFd,
        peer: Address,
    },
    /// Runs the connection's rules, reads its PROXY header, runs the session's rules.
    Admitting(PooledFuture<'static, Option<Connection>>),
    /// In HTTP mode: waits for a request's first byte.
    Idle {
        client: Connection,
        wait: Wait,
    },
    /// One request and its response, or all of a connection in TCP mode.
    Responding(PooledFuture<'static, Option<Connection>>),
    /// In HTTP/2: the whole connection.
    Streaming(PooledFuture<'static>),
    Ended,
}

impl ConnectionTask {
    /// The task of a connection just accepted from `peer`. `admitted` counts the connection until dropped. Only the worker chosen for it
    /// may run the task.
    pub(crate) fn new(admitted: Admission, socket: OwnedFd, peer: Address) -> ConnectionTask {
        ConnectionTask {
            state: ConnectionState::Accepted { admitted, socket, peer },
            session: None,
            began_us: 0,
        }
    }

    /// Registers the connection with its worker. Returns the state after `Accepted`, or `None` if registration fails.
    fn begin(&mut self, admitted: Admission, socket: OwnedFd, peer: Address) -> Option<ConnectionState> {
        let listener = admitted.listener();
        // The local address is stored only if the listener's address is a wildcard.
        let local = match listener.only_address() {
            Some(_) => None,
            None => Some(socket::local_address(&socket).ok()?),
        };
        admitted.frontend().instance().limits.client_sockets.apply(&socket);
        let descriptor = Descriptor::register(socket).ok()?;
        descriptor.set_owner(weir_sched::current());
        if listener.bind.options.nice != 0 {
            weir_sched::set_nice(listener.bind.options.nice);
        }
        let number = Stream::number_of(&descriptor);
        let session = ClientSession::new(admitted, peer, local, ClockReading::now(), number);
        session.task.set(weir_sched::current());
        crate::worker::enlist(&session);
        crate::trace::session_begins(&session);
        self.began_us = session.accepted.monotonic_us;
        self.session = Some(Rc::clone(&session));
        let client = Connection::new(descriptor);
        Some(match crate::accept::needs_admission(&session) {
            true => ConnectionState::Admitting(PooledFuture::new(crate::accept::admit(client, session))),
            false => {
                session.frontend().count_session(&session, &client);
                self.serve(client)
            }
        })
    }

    fn leave(&mut self) -> ConnectionState {
        std::mem::replace(&mut self.state, ConnectionState::Ended)
    }

    /// The next state after the admission, or after the last stream.
    fn serve(&self, client: Connection) -> ConnectionState {
        let Some(session) = &self.session else { return ConnectionState::Ended };
        if session.speaks_http() && session.is_http2(&client) {
            return self.multiplex(client);
        }
        if session.speaks_http() {
            return ConnectionState::Idle { client, wait: wait(idle_deadline(session)) };
        }
        let stream = PoolBox::new(Stream::new(Rc::clone(session), client, self.began_us));
        ConnectionState::Responding(PooledFuture::new(Stream::run_tcp(stream)))
    }

    /// The state of a connection with several streams.
    #[cold]
    fn multiplex(&self, client: Connection) -> ConnectionState {
        let Some(session) = &self.session else { return ConnectionState::Ended };
        ConnectionState::Streaming(PooledFuture::new(crate::multiplexed::serve(client, Rc::clone(session))))
    }

    /// The next state after the wait for a request's first byte. A close between requests is not logged.
    fn stream(&self, mut client: Connection, waited: FirstByteWait) -> ConnectionState {
        let Some(session) = &self.session else { return ConnectionState::Ended };
        let left = client.ended() || client.fault().is_some();
        let nothing = waited != FirstByteWait::Bytes || (left && client.input().is_empty());
        if session.requests.get() > 0 && nothing {
            client.say_goodbye();
            return ConnectionState::Ended;
        }
        if crate::multiplexed::is_upgrade(session, &client) {
            session.frontend().count_upgraded_session();
            return self.multiplex(client);
        }
        let stream = PoolBox::new(Stream::new(Rc::clone(session), client, self.began_us));
        ConnectionState::Responding(PooledFuture::new(Stream::run(stream, waited)))
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            crate::trace::session_ends(session);
        }
    }
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let task = self.get_mut();
        loop {
            match &mut task.state {
                ConnectionState::Responding(future) => {
                    let client = ready!(Pin::new(future).poll(context));
                    task.began_us = weir_sched::now_us();
                    task.state = client.map_or(ConnectionState::Ended, |client| task.serve(client));
                }
                ConnectionState::Idle { client, wait } => {
                    let waited = ready!(poll_idle(client, wait, task.session.as_deref(), context));
                    if let ConnectionState::Idle { client, .. } = task.leave() {
                        task.state = task.stream(client, waited);
                    }
                }
                ConnectionState::Admitting(future) => {
                    let client = ready!(Pin::new(future).poll(context));
                    task.state = client.map_or(ConnectionState::Ended, |client| task.serve(client));
                }
                ConnectionState::Streaming(future) => return Pin::new(future).poll(context),
                ConnectionState::Accepted { .. } => {
                    if let ConnectionState::Accepted { admitted, socket, peer } = task.leave() {
                        task.state = task.begin(admitted, socket, peer).unwrap_or(ConnectionState::Ended);
                    }
                }
                ConnectionState::Ended => return Poll::Ready(()),
            }
        }
    }
}

/// Waits for the first byte of a request, then receives. An idle client does not hold a buffer.
fn poll_idle(
    client: &mut Connection,
    waiting: &mut Wait,
    session: Option<&ClientSession>,
    context: &mut Context<'_>,
) -> Poll<FirstByteWait> {
    let Some(session) = session else { return Poll::Ready(FirstByteWait::Stopped) };
    let instance = session.frontend().instance();
    loop {
        if !client.input().is_empty()
            || client.receive(instance.limits.head_limit()) != ReceiveOutcome::Nothing
        {
            return Poll::Ready(FirstByteWait::Bytes);
        }
        if session.requests.get() > 0 && session.closes_idle() {
            // The poller may not have reported the bytes yet. A request that began before the stop is served.
            let begun = matches!(client.descriptor().peek(&mut [0]), Ok(weir_sched::ReceiveResult::Bytes(_)));
            return Poll::Ready(if begun { FirstByteWait::Bytes } else { FirstByteWait::Stopped });
        }
        if clock::passed(waiting.deadline()) {
            return Poll::Ready(FirstByteWait::TimedOut);
        }
        ready!(Pin::new(&mut *waiting).poll(context));
        *waiting = wait(waiting.deadline());
    }
}

/// The deadline for the first byte of the next request.
fn idle_deadline(session: &ClientSession) -> Tick {
    let timeouts = &session.frontend().config.settings.timeouts;
    clock::after_some(deadlines::next_request(timeouts, session.requests.get()))
}

// The size of an idle client's task must fit a small class of recycled blocks.
const _: () = assert!(size_of::<ConnectionTask>() <= 128);
