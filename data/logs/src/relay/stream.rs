//! Messages over connections.
//!
//! ```text
//!             PROXY header, TLS, if configured       a piece        all complete messages are sent
//! accepted ───────────────────────────────────► waiting ──► cutting ───────────────────────► waiting ...
//!                                                  │            │ the framing is invalid
//!                ended, idle timeout, process stops ▼            ▼
//!                                                 closed ◄───────┘
//! ```
//! An incomplete message is dropped when its connection closes.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weir_containers::BufferPool;
use weir_net::{Acceptor, AcceptorState, Connection, ConnectionLimit, Permit, ReceiveOutcome, proxy_header};
use weir_sched::{Class, Descriptor, TaskKey, Tick, WorkKind, wait, yield_now};
use weir_sys::{Address, Errno};
use weir_syslog::{FrameScan, Framer, FramingFault};
use weir_tls::{ChooseServer, TlsSession};

use super::delivery::Sender;
use super::{ForwardListener, Relays};

/// The acceptor of one `bind` line, on each worker that accepts from it.
#[derive(Clone, Debug)]
pub struct StreamAcceptor {
    /// State shared by all sections.
    pub relays: Arc<Relays>,
    /// The `bind` line.
    pub listener: Arc<ForwardListener>,
}

/// The connection limits that a connection counts towards.
#[derive(Debug)]
pub struct Permits {
    process: Permit,
    section: Permit,
    listener: Permit,
}

impl Acceptor for StreamAcceptor {
    type Ticket = Permits;

    fn state(&self) -> AcceptorState {
        self.relays.state()
    }

    fn too_fast(&self) -> Option<Tick> {
        None
    }

    fn admit(&self) -> Result<Permits, &ConnectionLimit> {
        let (relays, listener, relay) = (&self.relays, &self.listener, &self.listener.relay);
        Ok(Permits {
            process: Permit::enter(Arc::clone(&relays.connections), relays.may_hold())
                .ok_or(&*relays.connections)?,
            section: Permit::enter(Arc::clone(&relay.connections), relay.connections_limit)
                .ok_or(&*relay.connections)?,
            listener: Permit::enter(Arc::clone(&listener.connections), listener.connections_limit)
                .ok_or(&*listener.connections)?,
        })
    }

    fn give_way(&self) {
        self.relays.connections.offer();
        self.listener.relay.connections.offer();
        self.listener.connections.offer();
    }

    fn enter(&self, ticket: Permits, socket: OwnedFd, peer: Address) {
        ticket.process.keep();
        ticket.section.keep();
        ticket.listener.keep();
        let acceptor = self.clone();
        weir_sched::spawn(&SESSION, Class::Bulk, async move {
            let _counted = ticket;
            let _listed = ListedTask::new();
            (acceptor.relays.on_connection)();
            if let Ok(descriptor) = Descriptor::register(socket) {
                descriptor.set_owner(weir_sched::current());
                acceptor.converse(Connection::new(descriptor), &peer).await;
            }
        });
    }

    /// Senders stay in the listen queue until descriptors are available again. The listeners of frontends report the shortage.
    fn exhausted(&self, _: Errno) {}
}

impl StreamAcceptor {
    async fn converse(&self, mut connection: Connection, peer: &Address) {
        let mut sender = Sender::of(peer);
        if self.listener.accept_proxy && self.read_proxy_header(&mut connection, &mut sender).await.is_none()
        {
            return;
        }
        if let Some(chooser) = &self.listener.tls
            && self.shake_hands(&mut connection, Arc::clone(chooser)).await.is_none()
        {
            return;
        }
        let mut framer = Framer::new(longest_message(), self.listener.relay.lines_only);
        loop {
            if self.cut(&mut framer, &mut connection, sender).is_err() {
                return;
            }
            if self.listen(&mut connection).await.is_none() {
                return;
            }
        }
    }

    /// Delivers every complete message in the receive buffer.
    fn cut(
        &self,
        framer: &mut Framer,
        connection: &mut Connection,
        sender: Sender,
    ) -> Result<(), FramingFault> {
        let input = connection.input();
        let mut used = 0;
        loop {
            match framer.next(&input[used..]) {
                FrameScan::Message { body, used: more } => {
                    let body = used + body.start..used + body.end;
                    self.listener.relay.deliver(&self.relays, &input[body], sender);
                    used += more;
                }
                FrameScan::Nothing(more) => used += more,
                FrameScan::Incomplete => break,
                FrameScan::Refused(why) => return Err(why),
            }
        }
        connection.consume(used);
        Ok(())
    }

    async fn shake_hands(&self, connection: &mut Connection, chooser: Arc<dyn ChooseServer>) -> Option<()> {
        connection.shake_hands(TlsSession::server(chooser), self.deadline()).await.ok()?;
        connection.tls().into_iter().for_each(|facts| (self.relays.on_secured)(facts));
        Some(())
    }

    /// The idle deadline of a sender.
    fn deadline(&self) -> Tick {
        let timeout = self.listener.relay.client_timeout;
        let timeout = timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok());
        timeout.map_or(Tick::NEVER, |timeout| weir_sched::now().after(timeout))
    }

    /// Waits for more bytes. `None` at EOF, at the idle timeout, or when the process stops.
    async fn listen(&self, connection: &mut Connection) -> Option<()> {
        let deadline = self.deadline();
        loop {
            match connection.receive(usize::MAX) {
                ReceiveOutcome::Bytes(_) => {
                    // Yields, because a flood of messages is bulk work.
                    yield_now().await;
                    return Some(());
                }
                // The remaining bytes are not a complete message: the framer has already checked lengths.
                ReceiveOutcome::End | ReceiveOutcome::Full | ReceiveOutcome::Failed(_) => return None,
                ReceiveOutcome::Nothing => {}
            }
            let leaving = self.relays.state() == AcceptorState::Stopped && has_nothing(connection);
            if leaving || weir_sched::now() >= deadline {
                return None;
            }
            wait(deadline).await;
        }
    }

    /// Reads the PROXY header, which contains the sender's address (`accept-proxy`). A LOCAL header does not change the sender.
    async fn read_proxy_header(&self, connection: &mut Connection, sender: &mut Sender) -> Option<()> {
        loop {
            if let Some(header) = weir_proxy_protocol::parse(connection.input()).ok()? {
                if let Some(client) = proxy_header::client(&header) {
                    *sender = Sender::of(&client);
                }
                let length = header.length;
                connection.consume(length);
                return Some(());
            }
            self.listen(connection).await?;
        }
    }
}

/// Whether neither buffer nor socket holds bytes of the sender. The poller may not yet have reported bytes in the socket.
fn has_nothing(connection: &Connection) -> bool {
    let arrived = connection.descriptor().peek(&mut [0]);
    connection.input().is_empty() && !matches!(arrived, Ok(weir_sched::ReceiveResult::Bytes(_)))
}

/// The longest accepted message, in bytes: a buffer must hold it with its frame.
fn longest_message() -> usize {
    let frame = Framer::most_held(0);
    BufferPool::buffer_size().saturating_sub(frame).max(1)
}

thread_local! {
    /// The tasks of this worker's connections.
    static SESSIONS: RefCell<ManuallyDrop<Vec<TaskKey>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Wakes the connections of this worker, so that idle ones notice that the process stops.
pub fn wake_sessions() {
    SESSIONS.with_borrow(|sessions| sessions.iter().for_each(|task| weir_sched::wake(*task)));
}

/// Registers the current task in `SESSIONS` until dropped.
struct ListedTask(TaskKey);

impl ListedTask {
    fn new() -> Self {
        let task = weir_sched::current();
        SESSIONS.with_borrow_mut(|sessions| sessions.push(task));
        ListedTask(task)
    }
}

impl Drop for ListedTask {
    fn drop(&mut self) {
        // At the end of a worker, tasks are dropped after thread-local variables.
        let _ = SESSIONS.try_with(|sessions| sessions.borrow_mut().retain(|task| *task != self.0));
    }
}

static SESSION: WorkKind = WorkKind::new("log sender");
