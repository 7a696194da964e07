//! Forwards the contents of rings to log servers over TCP or UNIX stream sockets.
//!
//! ```text
//!           established                   a message, whole or in part
//! connecting ─────────► reading the ring ─────────────────────────────► sending ─► reading ...
//!     ▲                        │ nothing: sleeps until the ring wakes it      │
//!     └── a pause ◄── closed by the server, failed, or a send timeout ◄───────┘
//! ```
//! The reader's position in the ring is the only queue. While a server is slow or down, messages stay in the ring. When the ring is
//! full, writers drop and count new messages, so a server never delays other work. A partly sent message is sent again from its
//! beginning on the next connection. Output of the server is read and discarded.

pub mod conversation;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_events::Sink;
use weir_model::Framing;
use weir_net::{
    ConnectError, ConnectOptions, ConnectPlan, ConnectTarget, Connection, Greeting, LinkTls, OwnedSource,
    ReceiveOutcome, SendOutcome,
};
use weir_sched::{Class, TaskKey, Tick, WorkKind, sleep_until, wait, yield_now};
use weir_sync::VersionCell;
use weir_sync::ring::{ReadEnd, ReaderWait, RingReader, Seek};
use weir_sys::Address;

use conversation::LogConversation;

/// A server that receives a copy of a ring's contents.
#[derive(Debug)]
pub struct Forward {
    pub sink: Arc<Sink>,
    pub server: Arc<str>,
    /// The server's address. `None` disables sending.
    address: VersionCell<Option<Address>>,
    /// The connection settings.
    pub line: ForwardLine,
    /// The TLS settings, if connections use TLS.
    pub tls: OnceLock<LinkTls>,
    /// Whether messages may be unsent.
    behind: AtomicBool,
    /// The state of the connection.
    pub conversation: LogConversation,
    /// The sending task, once started.
    sender: OnceLock<TaskKey>,
}

/// The settings of connections to a log server, and the framing of messages.
#[derive(Debug, Default)]
pub struct ForwardLine {
    /// The SOCKS4 proxy to connect through.
    pub socks4: Option<SocketAddr>,
    /// The source address of connections.
    pub source: OwnedSource,
    pub options: ConnectOptions,
    /// The PROXY protocol header to send first. Empty for none.
    pub header: Box<[u8]>,
    pub framing: Framing,
    pub connect_timeout: Option<Duration>,
    /// The timeout while the server accepts no bytes.
    pub server_timeout: Option<Duration>,
}

impl Forward {
    /// Creates a forward to this server.
    pub fn new(sink: Arc<Sink>, server: Arc<str>, address: Option<Address>, line: ForwardLine) -> Self {
        Forward {
            sink,
            server,
            address: VersionCell::new(address),
            line,
            tls: OnceLock::new(),
            behind: AtomicBool::new(false),
            conversation: LogConversation::default(),
            sender: OnceLock::new(),
        }
    }

    /// The current address. `None` while sending is disabled.
    pub fn address(&self) -> Arc<Option<Address>> {
        self.address.load_full()
    }

    /// Changes the address. `None` stops sending. The ring's contents are sent to the new address.
    pub fn send_to(&self, address: Option<Address>) {
        if **self.address.load() != address {
            self.address.publish(address);
            if let Some(sender) = self.sender.get() {
                weir_sched::wake(*sender);
            }
        }
    }
}

/// Starts this worker's forwards. Servers are distributed over the workers.
pub fn start(forwards: &[Arc<Forward>]) {
    let (worker, workers) = (weir_sched::worker_index(), weir_sched::worker_count().max(1));
    for forward in forwards.iter().skip(worker).step_by(workers) {
        weir_sched::spawn(&FORWARD, Class::Bulk, run(Arc::clone(forward)));
    }
}

/// Waits until the servers were sent everything written, for at most a second. So the last lines of a stopping process
/// are not lost.
pub async fn drain(forwards: &[Arc<Forward>]) {
    if forwards.is_empty() {
        return;
    }
    let deadline = weir_sched::now().after(LAST_MESSAGES_MS);
    loop {
        // Sleeps first, so that tasks that were just woken have run.
        sleep_until(weir_sched::now().after(LOOK_MS)).await;
        if weir_sched::now() >= deadline || !forwards.iter().any(|forward| forward.behind.load(Relaxed)) {
            return;
        }
    }
}

async fn run(forward: Arc<Forward>) {
    let task = weir_sched::current();
    // This task is the only sender of the forward.
    let _ = forward.sender.set(task);
    let wake = move || weir_sched::wake(task);
    let Some(ring) = forward.sink.as_ring() else { return };
    // The limit of readers exceeds the number of servers.
    let Ok(reader) = ring.attach(Seek::Oldest, ReaderWait::Woken(Box::new(wake))) else { return };
    let mut sender = Sender { reader, outbox: Outbox::new(forward.line.framing) };
    loop {
        let address = forward.address();
        let Some(to) = &*address else {
            // Sending is disabled, and the ring's contents may stay for long: the end of the process must not wait for them.
            forward.behind.store(false, Relaxed);
            wait(Tick::NEVER).await;
            continue;
        };
        let moved = || !Arc::ptr_eq(&forward.address(), &address);
        let lasting = forward.conversation.begin();
        if let Some(mut connection) = connect(&forward, to, &moved).await {
            forward.conversation.stands(connection.descriptor());
            sender.speak(&mut connection, &forward, &moved).await;
            connection.say_goodbye();
        }
        drop(lasting);
        if moved() {
            continue;
        }
        let nothing = sender.outbox.is_empty() && sender.reader.sleep();
        forward.behind.store(!nothing, Relaxed);
        sleep_until(weir_sched::now().after(PAUSE_MS)).await;
    }
}

/// Connects from the source address of the server's line.
async fn connect(forward: &Forward, to: &Address, moved: &impl Fn() -> bool) -> Option<Connection> {
    let line = &forward.line;
    let plan = ConnectPlan {
        socks4: line.socks4,
        source: line.source.as_source(),
        options: line.options,
        ..ConnectPlan::to(ConnectTarget::Address(to.clone()))
    };
    let mut connecting = plan.begin().ok()?;
    let look = || if forward.conversation.goes_on() && !moved() { Ok(()) } else { Err(GivenUp) };
    let greeting = Greeting { bytes: &line.header, more: false };
    let deadline = after(forward.line.connect_timeout);
    connecting.stand(greeting, deadline, look).await.ok()?;
    let mut connection = connecting.into_connection();
    if let Some(tls) = forward.tls.get() {
        let session = tls.upstream.session(tls.server_name.as_deref(), None).ok()?;
        connection.shake_hands(session, deadline).await.ok()?;
    }
    Some(connection)
}

/// The connection failed, for any reason. The next attempt follows after [`PAUSE_MS`].
struct GivenUp;

impl From<ConnectError> for GivenUp {
    fn from(_: ConnectError) -> Self {
        GivenUp
    }
}

fn after(timeout: Option<Duration>) -> Tick {
    let ms = timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()).filter(|ms| *ms > 0);
    weir_sched::now().after(ms.unwrap_or(DEFAULT_TIMEOUT_MS))
}

struct Sender {
    reader: RingReader,
    outbox: Outbox,
}

impl Sender {
    /// Sends until the connection closes or the server's address changes.
    async fn speak(&mut self, connection: &mut Connection, forward: &Forward, moved: &impl Fn() -> bool) {
        self.outbox.rewind();
        loop {
            let goes_on = forward.conversation.goes_on() && listen(connection);
            if !goes_on || (self.outbox.is_empty() && moved()) {
                return;
            }
            if self.outbox.is_empty() {
                // The outbox is empty, but encrypted bytes may still be unsent.
                let left = connection.send_all(&[], after(forward.line.server_timeout)).await;
                if left.is_none() {
                    return;
                }
                match self.fill() {
                    ReadEnd::Busy if self.outbox.is_empty() => yield_now().await,
                    ReadEnd::End if self.outbox.is_empty() && self.reader.sleep() => {
                        forward.behind.store(false, Relaxed);
                        wait(Tick::NEVER).await;
                        forward.behind.store(true, Relaxed);
                    }
                    _ => {}
                }
                continue;
            }
            let deadline = after(forward.line.server_timeout);
            while !self.outbox.is_empty() {
                match connection.send(self.outbox.unsent(), false) {
                    SendOutcome::All => {
                        self.outbox.sent(self.outbox.unsent().len());
                        forward.conversation.succeeded();
                    }
                    SendOutcome::Part(count) if count > 0 => {
                        self.outbox.sent(count);
                        forward.conversation.succeeded();
                        break;
                    }
                    SendOutcome::Part(_)
                        if weir_sched::now() < deadline
                            && forward.conversation.goes_on()
                            && !moved()
                            && listen(connection) =>
                    {
                        wait(deadline).await;
                    }
                    _ => return,
                }
            }
        }
    }

    /// Moves messages from the ring to the outbox, as many as fit one send.
    fn fill(&mut self) -> ReadEnd {
        let outbox = &mut self.outbox;
        self.reader.read(|message| {
            let room = outbox.bytes.len() < BATCH;
            if room {
                outbox.push(message.first, message.second);
            }
            room
        })
    }
}

/// The size of a read from a server, in bytes.
const READ_AT_ONCE: usize = 1024;

/// Reads and discards the server's output. False if the server closed the connection.
fn listen(connection: &mut Connection) -> bool {
    for _ in 0..MOST_READS {
        match connection.receive(READ_AT_ONCE) {
            ReceiveOutcome::Bytes(_) => {
                let length = connection.input().len();
                connection.consume(length);
            }
            ReceiveOutcome::Nothing => return true,
            ReceiveOutcome::End | ReceiveOutcome::Full | ReceiveOutcome::Failed(_) => return false,
        }
    }
    // A log server does not send this much: close the connection.
    false
}

/// Framed messages to be sent.
struct Outbox {
    framing: Framing,
    bytes: Vec<u8>,
    /// The number of bytes already sent.
    gone: usize,
    /// The end offset of each message in `bytes`.
    ends: Vec<usize>,
}

impl Outbox {
    fn new(framing: Framing) -> Self {
        Outbox { framing, bytes: Vec::new(), gone: 0, ends: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.gone == self.bytes.len()
    }

    fn unsent(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    fn push(&mut self, first: &[u8], second: &[u8]) {
        if self.framing == Framing::OctetCount {
            self.bytes.extend_from_slice((first.len() + second.len()).to_string().as_bytes());
            self.bytes.push(b' ');
        }
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        if self.framing == Framing::Legacy {
            self.bytes.push(b'\n');
        }
        self.ends.push(self.bytes.len());
    }

    fn sent(&mut self, count: usize) {
        self.gone += count;
        if self.is_empty() {
            self.bytes.clear();
            self.ends.clear();
            self.gone = 0;
        }
    }

    /// Prepares for a new connection: begins with the first message that was not sent completely.
    fn rewind(&mut self) {
        let whole = self.ends.iter().copied().take_while(|end| *end <= self.gone).last().unwrap_or(0);
        self.bytes.drain(..whole);
        self.ends.retain_mut(|end| {
            let left = *end > whole;
            *end = end.saturating_sub(whole);
            left
        });
        self.gone = 0;
    }
}

/// How long the end of the process waits for log servers, in milliseconds.
const LAST_MESSAGES_MS: u64 = 1_000;
/// The interval at which [`drain`] checks, in milliseconds.
const LOOK_MS: u64 = 10;
static FORWARD: WorkKind = WorkKind::new("log forward");
/// The target size of the outbox, in bytes. From this size on, it takes no further message from the ring.
const BATCH: usize = 16_384;
/// The pause before reconnecting, in milliseconds.
const PAUSE_MS: u64 = 1_000;
/// The default connect and send timeout, in milliseconds: every wait has a deadline.
const DEFAULT_TIMEOUT_MS: u64 = 10_000;
/// The limit of consecutive reads from a server.
const MOST_READS: usize = 64;

#[cfg(test)]
mod tests;
