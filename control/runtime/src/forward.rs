//! Forwards what is written to a ring to a log server over TCP (or a unix stream socket).
//!
//! ```text
//!              stands                     a message, whole or in part
//! connecting ─────────► reading the ring ─────────────────────────────► sending ─► reading ...
//!     ▲                        │ nothing: sleeps until the ring wakes it      │
//!     └── a pause ◄── closed by the server, failed, or it takes nothing ◄─────┘
//! ```
//! The reader's place in the ring is the only queue: while a server is slow or away, messages stay in the ring; when that
//! is full, new ones are dropped by who writes them, and counted. So no server ever delays anybody. A message that was
//! sent in part is sent again from its beginning on the next connection. What a server says is read and forgotten.

pub mod conversation;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_config::model::{Framing, SendProxy, ServerSettings};
use weir_net::{ConnectError, ConnectPlan, Connection, Greeting, Received, Sent, Target};
use weir_proxy::{Addresses, Command, Transport, V2};
use weir_sched::{Class, Kind, Tick, sleep_until, wait, yield_now};
use weir_stream::server::plan;
use weir_sync::ring::{Progress, RingReader, Seek, Wait};
use weir_sys::Address;

use crate::build::Forward;

/// Starts what this worker forwards: servers are spread over the workers.
pub fn start(forwards: &'static [Forward]) {
    let (worker, workers) = (weir_sched::worker_index(), weir_sched::worker_count().max(1));
    for forward in forwards.iter().skip(worker).step_by(workers) {
        weir_sched::spawn(&FORWARD, Class::Bulk, run(forward));
    }
}

/// Waits until everything that was written has left for the servers that take it, for a moment at most: the last lines of a
/// process that ends are not lost.
pub async fn drain(forwards: &[Forward]) {
    if forwards.is_empty() {
        return;
    }
    let deadline = weir_sched::now().after(LAST_MESSAGES_MS);
    loop {
        // First of all, so that who was just woken has begun.
        sleep_until(weir_sched::now().after(LOOK_MS)).await;
        if weir_sched::now() >= deadline || !forwards.iter().any(|forward| forward.behind.load(Relaxed)) {
            return;
        }
    }
}

async fn run(forward: &'static Forward) {
    let task = weir_sched::current();
    // Nobody else sends for it.
    let _ = forward.sender.set(task);
    let wake = move || weir_sched::wake(task);
    let Some(ring) = forward.sink.as_ring() else { return };
    // There are fewer servers than readers.
    let Ok(reader) = ring.attach(Seek::Oldest, Wait::Woken(Box::new(wake))) else { return };
    let mut sender = Sender { reader, outbox: Outbox::new(forward.settings.framing) };
    loop {
        let address = forward.address();
        let Some(to) = &*address else {
            // Nobody waits for what is in the ring: it may stay there for long.
            forward.behind.store(false, Relaxed);
            wait(Tick::NEVER).await;
            continue;
        };
        let moved = || !Arc::ptr_eq(&forward.address(), &address);
        let lasting = forward.conversation.begin();
        if let Some(mut connection) = connect(forward, to, &moved).await {
            forward.conversation.stands(connection.descriptor());
            sender.speak(&mut connection, forward, &moved).await;
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

/// A connection that comes from where the server's line says.
async fn connect(forward: &Forward, to: &Address, moved: &impl Fn() -> bool) -> Option<Connection> {
    let settings = &forward.settings;
    let header = header(settings)?;
    let plan = ConnectPlan {
        socks4: plan::socks4(settings),
        source: settings.source.as_deref().map(|said| plan::source(said, 0)).unwrap_or_default(),
        options: plan::options(Some(settings), forward.keep_alive.as_ref(), forward.no_linger),
        ..ConnectPlan::to(Target::Address(to.clone()))
    };
    let mut connecting = plan.begin().ok()?;
    let look = || if forward.conversation.goes_on() && !moved() { Ok(()) } else { Err(GivenUp) };
    let greeting = Greeting { bytes: &header, more: false };
    let deadline = after(forward.connect_timeout);
    connecting.stand(greeting, deadline, look).await.ok()?;
    let mut connection = connecting.into_connection();
    if let Some(tls) = forward.tls.get() {
        let session = tls.upstream.session(tls.server_name.as_deref(), None).ok()?;
        let secured = connection.shake_hands(session, deadline).await;
        weir_sched::set_class(Class::Bulk);
        secured.ok()?;
    }
    Some(connection)
}

/// There is no connection, whatever the reason: another is tried after a pause.
struct GivenUp;

impl From<ConnectError> for GivenUp {
    fn from(_: ConnectError) -> Self {
        GivenUp
    }
}

/// What a connection begins with: if the line asks for a PROXY header, one that says that it is on nobody's behalf. None if it
/// cannot be written.
fn header(settings: &ServerSettings) -> Option<Vec<u8>> {
    let mut header = Vec::new();
    match settings.send_proxy {
        None => {}
        Some(SendProxy::V1) => weir_proxy::write_v1(Addresses::Unknown, &mut header),
        Some(SendProxy::V2) => {
            let checksum = settings.proxy_v2.as_ref().is_some_and(|header| header.crc32c);
            let local = V2 {
                command: Command::Local,
                transport: Transport::Unspecified,
                addresses: Addresses::Unknown,
                tlvs: &[],
                checksum,
            };
            weir_proxy::write_v2(&local, &mut header).ok()?;
        }
    }
    Some(header)
}

fn after(timeout: Option<std::time::Duration>) -> Tick {
    let ms = timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()).filter(|ms| *ms > 0);
    weir_sched::now().after(ms.unwrap_or(DEFAULT_TIMEOUT_MS))
}

struct Sender {
    reader: RingReader,
    outbox: Outbox,
}

impl Sender {
    /// Sends until the connection ends, or the server is somewhere else.
    async fn speak(&mut self, connection: &mut Connection, forward: &Forward, moved: &impl Fn() -> bool) {
        self.outbox.rewind();
        loop {
            let goes_on = forward.conversation.goes_on() && listen(connection);
            if !goes_on || (self.outbox.is_empty() && moved()) {
                return;
            }
            if self.outbox.is_empty() {
                // What was encrypted has left the outbox before it left for the server.
                let left = connection.send_all(&[], after(forward.server_timeout)).await;
                if left.is_none() {
                    return;
                }
                match self.fill() {
                    Progress::Busy if self.outbox.is_empty() => yield_now().await,
                    Progress::End if self.outbox.is_empty() && self.reader.sleep() => {
                        forward.behind.store(false, Relaxed);
                        wait(Tick::NEVER).await;
                        forward.behind.store(true, Relaxed);
                    }
                    _ => {}
                }
                continue;
            }
            let deadline = after(forward.server_timeout);
            while !self.outbox.is_empty() {
                match connection.send(self.outbox.unsent(), false) {
                    Sent::All => {
                        self.outbox.sent(self.outbox.unsent().len());
                        forward.conversation.succeeded();
                    }
                    Sent::Part(count) if count > 0 => {
                        self.outbox.sent(count);
                        forward.conversation.succeeded();
                        break;
                    }
                    Sent::Part(_)
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

    /// Takes messages from the ring, as many as one send may take.
    fn fill(&mut self) -> Progress {
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

/// How much of what a server says is read at once.
const READ_AT_ONCE: usize = 1024;

/// Reads and forgets what the server says; false when it is gone.
fn listen(connection: &mut Connection) -> bool {
    for _ in 0..MOST_READS {
        match connection.receive(READ_AT_ONCE) {
            Received::Bytes(_) => {
                let length = connection.input().len();
                connection.consume(length);
            }
            Received::Nothing => return true,
            Received::End | Received::Full | Received::Failed(_) => return false,
        }
    }
    // Who talks without end is no log server.
    false
}

/// Messages on their way, framed.
struct Outbox {
    framing: Framing,
    bytes: Vec<u8>,
    /// How many of them have left.
    gone: usize,
    /// Where each message ends.
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

    /// The connection is a new one: begins with the first message that did not leave whole.
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

/// How long the end of the process waits for a slow log server.
const LAST_MESSAGES_MS: u64 = 1_000;
/// How often it looks.
const LOOK_MS: u64 = 10;
static FORWARD: Kind = Kind::new("log forward");
/// Messages are taken from the ring until there are about so many bytes.
const BATCH: usize = 16_384;
/// How long nobody tries after a connection ended or failed.
const PAUSE_MS: u64 = 1_000;
/// What a connection or a send may take when the section does not say: every wait ends.
const DEFAULT_TIMEOUT_MS: u64 = 10_000;
/// So many receives in a row are enough.
const MOST_READS: usize = 64;

#[cfg(test)]
mod tests;
