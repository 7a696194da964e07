//! A client's connection from its acceptance to its end: the task of the connection.
//!
//! ```text
//!   Accepted ──► Admitting ──► Idle ◄──────────► Exchanging ──► end       (HTTP)
//!      │       (only if there      │ the next request's first byte
//!      │        are rules or a     └────────────────────────────► end
//!      │        PROXY header)
//!      └───────► Admitting ──► Streaming ──────────────────────► end       (TCP, HTTP/2)
//! ```
//!
//! Written by hand because of its size: while a client is idle nothing but this and its [`Session`] exists, and there
//! may be many idle clients. It has 104 bytes; as an async function it had 472, because those keep their arguments
//! beside what was made of them, and room for every phase in each. All phases that are larger live in recycled memory
//! while they last.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use weir_containers::{PoolBox, PooledFuture};
use weir_net::{Connection, Received};
use weir_sched::{Descriptor, Tick, Wait, wait};
use weir_sys::{Address, socket};

use crate::admission::Admitted;
use crate::clock::{self, Moment};
use crate::deadlines;
use crate::http::Waited;
use crate::session::Session;
use crate::stream::Stream;

/// The life of one accepted connection.
pub struct ConnectionTask {
    state: ConnectionState,
    /// None before the task runs for the first time.
    session: Option<Rc<Session>>,
    /// The worker's clock when the next stream begins: at the acceptance, or at the end of the previous one.
    began_us: u64,
}

enum ConnectionState {
    /// The task did not run yet: nothing of its worker was touched.
    Accepted {
        admitted: Admitted,
        socket: OwnedFd,
        peer: Address,
    },
    /// The connection's rules, its PROXY header, the session's rules.
    Admitting(PooledFuture<'static, Option<Connection>>),
    /// In HTTP mode: until a request's first byte comes.
    Idle {
        client: Connection,
        wait: Wait,
    },
    /// One request and its response.
    Exchanging(PooledFuture<'static, Option<Connection>>),
    /// In TCP mode and in HTTP/2: all there is.
    Streaming(PooledFuture<'static>),
    Ended,
}

impl ConnectionTask {
    /// The life of a connection that was just accepted from `peer`; it counts as long. To be run by the worker that was
    /// chosen for it.
    pub fn new(admitted: Admitted, socket: OwnedFd, peer: Address) -> ConnectionTask {
        ConnectionTask {
            state: ConnectionState::Accepted { admitted, socket, peer },
            session: None,
            began_us: 0,
        }
    }

    /// Registers the connection with its worker; the first state of what it is to go through.
    fn begin(&mut self, admitted: Admitted, socket: OwnedFd, peer: Address) -> Option<ConnectionState> {
        let listener = admitted.listener();
        // An address that is the listener's own is not kept again for each connection.
        let local = match listener.only_address() {
            Some(_) => None,
            None => Some(socket::local_address(&socket).ok()?),
        };
        listener.proxy().instance().limits.client_sockets.apply(&socket);
        let descriptor = Descriptor::register(socket).ok()?;
        descriptor.set_owner(weir_sched::current());
        if listener.bind.options.nice != 0 {
            weir_sched::set_nice(listener.bind.options.nice);
        }
        let number = Stream::number_of(&descriptor);
        let session = Session::new(admitted, peer, local, Moment::now(), number);
        session.task.set(weir_sched::current());
        crate::worker::enlist(&session);
        crate::trace::session_begins(&session);
        self.began_us = session.accepted.monotonic_us;
        self.session = Some(Rc::clone(&session));
        let client = Connection::new(descriptor);
        Some(match crate::accept::needs_admission(&session) {
            true => ConnectionState::Admitting(PooledFuture::new(crate::accept::admit(client, session))),
            false => {
                session.frontend.count_session(&session, &client);
                self.serve(client)
            }
        })
    }

    fn leave(&mut self) -> ConnectionState {
        std::mem::replace(&mut self.state, ConnectionState::Ended)
    }

    /// The connection was admitted, or its last stream ended.
    fn serve(&self, client: Connection) -> ConnectionState {
        let Some(session) = &self.session else { return ConnectionState::Ended };
        if session.frontend.is_http() && session.is_http2(&client) {
            return self.multiplex(client);
        }
        if session.frontend.is_http() {
            return ConnectionState::Idle { client, wait: wait(idle_deadline(session)) };
        }
        let stream = PoolBox::new(Stream::new(Rc::clone(session), client, self.began_us));
        ConnectionState::Streaming(PooledFuture::new(Stream::run_tcp(stream)))
    }

    /// The connection carries several streams.
    #[cold]
    fn multiplex(&self, client: Connection) -> ConnectionState {
        let Some(session) = &self.session else { return ConnectionState::Ended };
        ConnectionState::Streaming(PooledFuture::new(crate::multiplexed::serve(client, Rc::clone(session))))
    }

    /// A request begins, or will not come. Between requests an end is no event.
    fn stream(&self, mut client: Connection, waited: Waited) -> ConnectionState {
        let Some(session) = &self.session else { return ConnectionState::Ended };
        let left = client.ended() || client.fault().is_some();
        let nothing = waited != Waited::Bytes || (left && client.input().is_empty());
        if session.requests.get() > 0 && nothing {
            client.say_goodbye();
            return ConnectionState::Ended;
        }
        if crate::multiplexed::is_upgrade(session, &client) {
            session.frontend.count_upgraded_session();
            return self.multiplex(client);
        }
        let stream = PoolBox::new(Stream::new(Rc::clone(session), client, self.began_us));
        ConnectionState::Exchanging(PooledFuture::new(Stream::run(stream, waited)))
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
                ConnectionState::Exchanging(future) => {
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

/// Waits for the first byte of a request, and takes in what came: an idle client holds no buffer.
fn poll_idle(
    client: &mut Connection,
    waiting: &mut Wait,
    session: Option<&Session>,
    context: &mut Context<'_>,
) -> Poll<Waited> {
    let Some(session) = session else { return Poll::Ready(Waited::Stopped) };
    let instance = session.frontend.instance();
    loop {
        if !client.input().is_empty() || client.receive(instance.limits.head_limit()) != Received::Nothing {
            return Poll::Ready(Waited::Bytes);
        }
        if session.requests.get() > 0 && session.closes_idle() {
            // The poller may not have told yet: a request that was begun before the stop is served.
            let begun = matches!(client.descriptor().peek(&mut [0]), Ok(weir_sched::Received::Bytes(_)));
            return Poll::Ready(if begun { Waited::Bytes } else { Waited::Stopped });
        }
        if clock::passed(waiting.deadline()) {
            return Poll::Ready(Waited::TimedOut);
        }
        ready!(Pin::new(&mut *waiting).poll(context));
        *waiting = wait(waiting.deadline());
    }
}

/// Until when a request may begin.
fn idle_deadline(session: &Session) -> Tick {
    let timeouts = &session.frontend.config.settings.timeouts;
    clock::after_some(deadlines::next_request(timeouts, session.requests.get()))
}

// An idle client's share, in the smallest class of recycled blocks that it fits.
const _: () = assert!(size_of::<ConnectionTask>() <= 128);
