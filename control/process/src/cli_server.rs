//! Serves clients of the runtime API: accepts connections, passes input to a [`CliSession`], and sends its output.
//!
//! ```text
//!             bytes                        piece of an answer
//! listening ────────► run ─────────────────────────────────────► sending ──► run ...
//!     ▲                │ ├─ wants more input ──► listening          │
//!     │                │ ├─ requests to workers ► until they answer  │
//!     │                │ ├─ watches events ─────► until there are any │
//!     │                │ ├─ a script reads ─────► until input, or then │
//!     │                │ └─ `wait`, or a script ► until then         │
//!     └── silence ends it                           over: half-close ┘
//! ```

use std::os::fd::OwnedFd;
use std::sync::Arc;

use weir_assemble::traces;
use weir_cli::{CliSession, SessionSettings, TransportAction};
use weir_net::{
    Acceptor, AcceptorState, Connection, ConnectionLimit, DescriptorRoom, Permit, ReceiveOutcome,
    proxy_header,
};
use weir_observe::operators::Operator;
use weir_observe::{CliSettings, CliSocket, LiveProcess, LiveTarget, count_client};
use weir_sched::{Class, Descriptor, Tick, WorkKind, wait, yield_now};
use weir_sys::{Address, Errno};
use weir_tls::TlsSession;

use crate::handover;
use crate::lifecycle::Lifecycle;
use crate::listening::ListeningSockets;

/// Accepts clients on one socket of the runtime API. One per worker that accepts from this socket.
#[derive(Clone)]
pub struct CliAcceptor {
    /// The live objects for the commands.
    pub live: LiveProcess,
    pub socket: Arc<CliSocket>,
    /// The process, with the listening sockets that clients may receive.
    pub lifecycle: Arc<Lifecycle>,
}

/// Maximum number of clients accepted per round. Few clients connect, and traffic must not wait for them.
pub const BATCH: u32 = 4;

impl Acceptor for CliAcceptor {
    fn is_for_operators(&self) -> bool {
        true
    }

    type Ticket = (Permit, Permit);

    fn state(&self) -> AcceptorState {
        // A stopping process releases its addresses, including those of the runtime API.
        if self.live.instance.is_stopping() { AcceptorState::Stopped } else { AcceptorState::Open }
    }

    fn too_fast(&self) -> Option<Tick> {
        None
    }

    fn admit(&self) -> Result<Self::Ticket, &ConnectionLimit> {
        let all = &self.live.record.cli_connections;
        let place = Permit::enter(Arc::clone(all), self.live.record.cli_connections_limit).ok_or(&**all)?;
        let (of_socket, limit) = (&self.socket.connections, self.socket.settings.connections);
        let own = Permit::enter(Arc::clone(of_socket), limit.unwrap_or(u32::MAX)).ok_or(&**of_socket)?;
        Ok((place, own))
    }

    fn give_way(&self) {
        self.live.record.cli_connections.offer();
        self.socket.connections.offer();
    }

    fn enter(&self, ticket: Self::Ticket, socket: OwnedFd, peer: Address) {
        ticket.0.keep();
        ticket.1.keep();
        let CliAcceptor { live, socket: acceptor, lifecycle } = self.clone();
        weir_sched::spawn(&SESSION, Class::Urgent, async move {
            let _counted = ticket;
            if let Ok(descriptor) = Descriptor::register(socket) {
                descriptor.set_owner(weir_sched::current());
                let mut client = Connection::of_operator(descriptor);
                if let Some(peer) = greet(&acceptor, &live, &mut client, peer).await {
                    converse(live, &lifecycle.listening, &acceptor.settings, client, &peer).await;
                }
            }
        });
    }

    fn make_room(&self) -> DescriptorRoom {
        weir_stream::server::idle::request_room()
    }

    /// Clients wait in the backlog until descriptors are free again. The listeners of frontends report the shortage.
    fn exhausted(&self, _: Errno) {}
}

/// Reads the PROXY header (`accept-proxy`) and does the TLS handshake, if configured. `None` on failure.
async fn greet(
    socket: &CliSocket,
    live: &LiveProcess,
    client: &mut Connection,
    peer: Address,
) -> Option<Address> {
    let timeout = u64::try_from(socket.settings.timeout.as_millis()).ok().filter(|timeout| *timeout > 0);
    let deadline = weir_sched::now().after_some(timeout);
    let peer = match socket.accept_proxy {
        true => proxy_header::read(client, deadline, proxy_header::client).await.ok()?.unwrap_or(peer),
        false => peer,
    };
    if let Some(chooser) = &socket.tls {
        let shaken = client.shake_hands(TlsSession::server(Arc::clone(chooser)), deadline).await;
        shaken.ok()?;
        client.tls().into_iter().for_each(|facts| live.instance.count_tls_session(facts));
    }
    Some(peer)
}

/// Serves one client until it closes, exceeds the idle timeout, or its session ends.
pub async fn converse(
    live: LiveProcess,
    listening: &ListeningSockets,
    settings: &CliSettings,
    mut client: Connection,
    peer: &Address,
) {
    let _trace = traces::TracedSession::begin(&settings.address);
    let operator = Operator::enlist(&live, settings, peer, &client);
    count(&live);
    let mut session = CliSession::new(SessionSettings {
        level: settings.level,
        severity_output: settings.severity_output,
        timeout_ms: u64::try_from(settings.timeout.as_millis()).ok().filter(|&timeout| timeout > 0),
        longest_line: settings.longest_line,
        longest_payload: settings.longest_payload,
    });
    let ran = || operator.count_call();
    if answer(live, settings.exposes_listeners.then_some(listening), &mut session, &mut client, ran)
        .await
        .is_some()
    {
        leave(&mut client, session.is_refused()).await;
    }
}

/// Answers the input of a session until the session ends. `gives` contains the sockets that the client may receive. `ran` is
/// called after each run of the session. `None` if the client disconnected or exceeded the idle timeout.
pub async fn answer(
    live: LiveProcess,
    gives: Option<&ListeningSockets>,
    session: &mut CliSession,
    client: &mut Connection,
    ran: impl Fn(),
) -> Option<()> {
    let mut target = LiveTarget::new(&live, weir_sched::current());
    let mut out = Vec::new();
    loop {
        ran();
        let status = session.run(&mut target, weir_sched::now().as_ms(), PIECE, &mut out);
        client.send_all(&out, silence(session)).await?;
        count_sent(&live, out.len());
        out.clear();
        match status {
            TransportAction::NeedInput => listen(client, session).await?,
            TransportAction::More => make_more().await,
            TransportAction::Pending => await_answer(client, silence(session)).await?,
            TransportAction::Watch => watch(&live, client, session).await?,
            TransportAction::WaitUntil(at_ms) => pause(&live, client, Tick::from_ms(at_ms)).await?,
            TransportAction::NeedInputUntil(at_ms) => {
                listen_until(client, session, Tick::from_ms(at_ms)).await?;
            }
            TransportAction::HandOver => {
                // Descriptors cannot be passed over TLS.
                let gives = gives.filter(|_| client.is_plain());
                if let Some(listening) = gives {
                    handover::give(listening, client).await?;
                }
                session.handed_over(gives.is_some(), &mut target, &mut out);
            }
            TransportAction::Close => return Some(()),
        }
    }
}

/// Yields before the next piece of a long answer, as heavy work: one piece per round, however many clients dump (R44).
async fn make_more() {
    weir_sched::set_class(Class::Heavy);
    yield_now().await;
    weir_sched::set_class(Class::Urgent);
}

/// Counts a client in the process totals, but not in the rates used by limits.
fn count(live: &LiveProcess) {
    if let Some(counters) = live.instance.process_counters.get(weir_sched::worker_index()) {
        count_client(counters);
    }
}

fn count_sent(live: &LiveProcess, bytes: usize) {
    if let Some(counters) = live.instance.process_counters.get(weir_sched::worker_index()) {
        counters.bytes_out.add(bytes as u64);
    }
}

/// Waits for input and passes it to the session. `None` if the client disconnected or exceeded the idle timeout.
async fn listen(client: &mut Connection, session: &mut CliSession) -> Option<()> {
    let deadline = silence(session);
    while !pass_input(client, session)? {
        if weir_sched::now() >= deadline {
            return None;
        }
        wait(deadline).await;
    }
    Some(())
}

/// Waits for input for a command that reads, until `until`. A client that is silent for the idle timeout has ended its input. `None` if the
/// client disconnected.
async fn listen_until(client: &mut Connection, session: &mut CliSession, until: Tick) -> Option<()> {
    let deadline = silence(session);
    while !pass_input(client, session)? {
        if weir_sched::now() >= deadline {
            session.end_of_input();
            return Some(());
        }
        if weir_sched::now() >= until {
            return Some(());
        }
        wait(deadline.min(until)).await;
    }
    Some(())
}

/// Passes input, or its end, to a session with room. False before it arrives. `None` if the client disconnected.
fn pass_input(client: &mut Connection, session: &mut CliSession) -> Option<bool> {
    if client.input().is_empty() {
        match client.receive(usize::MAX) {
            ReceiveOutcome::Bytes(_) => {}
            ReceiveOutcome::End => {
                session.end_of_input();
                return Some(true);
            }
            ReceiveOutcome::Failed(_) => return None,
            ReceiveOutcome::Nothing | ReceiveOutcome::Full => return Some(false),
        }
    }
    feed(client, session);
    Some(true)
}

/// Passes received input to a session, up to its room.
fn feed(client: &mut Connection, session: &mut CliSession) {
    let taken = client.input().len().min(session.room());
    session.feed(&client.input()[..taken]);
    client.consume(taken);
}

/// Waits for another worker's reply. `None` if the client disconnected, or at the deadline.
async fn await_answer(client: &Connection, deadline: Tick) -> Option<()> {
    if client.is_broken() {
        return None;
    }
    wait(deadline).await;
    (weir_sched::now() < deadline).then_some(())
}

/// Waits until the session's task is woken, or until the deadline. `None` if the client disconnected.
async fn pause(live: &LiveProcess, client: &Connection, deadline: Tick) -> Option<()> {
    if client.is_broken() || (deadline == Tick::NEVER && live.instance.is_stopping()) {
        return None;
    }
    // A wait without an end must not delay the exit of a stopping process.
    wait(if deadline == Tick::NEVER { weir_sched::now().after(WATCH_MS) } else { deadline }).await;
    Some(())
}

/// Waits without a time limit until the session's task is woken or the client sends input. A half-closed client still receives
/// events. `None` if the client disconnected.
async fn watch(live: &LiveProcess, client: &mut Connection, session: &mut CliSession) -> Option<()> {
    // A watching client must not delay the exit of a stopping process.
    if client.is_broken() || live.instance.is_stopping() {
        return None;
    }
    if client.input().is_empty() {
        match client.receive(usize::MAX) {
            ReceiveOutcome::Bytes(_) => {}
            ReceiveOutcome::Failed(_) => return None,
            ReceiveOutcome::End | ReceiveOutcome::Nothing | ReceiveOutcome::Full => {
                wait(weir_sched::now().after(WATCH_MS)).await;
                return Some(());
            }
        }
    }
    feed(client, session);
    Some(())
}

/// Half-closes the connection. Reads and discards further input, because otherwise the kernel would reset the connection and the
/// answer could be lost. An interrupted client is likely to send more.
async fn leave(client: &mut Connection, interrupted: bool) {
    client.shut_write();
    let deadline = weir_sched::now().after(FAREWELL_MS);
    client.consume(usize::MAX);
    while weir_sched::now() < deadline {
        match client.receive(usize::MAX) {
            ReceiveOutcome::Bytes(_) => {
                client.consume(usize::MAX);
                yield_now().await;
            }
            ReceiveOutcome::Nothing if interrupted => {
                wait(deadline).await;
            }
            _ => return,
        }
    }
}

fn silence(session: &CliSession) -> Tick {
    weir_sched::now().after_some(session.timeout_ms())
}

static SESSION: WorkKind = WorkKind::new("cli session");
/// Approximate size of the pieces of an answer, so that a long answer does not block the worker or fill its memory.
const PIECE: usize = 16_384;
/// How often the task of a watching client checks whether the process is stopping, in milliseconds.
const WATCH_MS: u64 = 1_000;
/// Time limit for a client that keeps sending after its session, in milliseconds.
const FAREWELL_MS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::fixture::{CONFIGURATION, live, settings};

    /// All output received by a client that sends these bytes at once and then half-closes.
    fn talk(said: &'static [u8], settings: CliSettings) -> String {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        theirs.set_nonblocking(true).expect("a socket can be made so");
        let client = std::thread::spawn(move || {
            ours.write_all(said).expect("the other end takes it");
            ours.shutdown(Shutdown::Write).expect("the socket is open");
            let mut heard = String::new();
            ours.read_to_string(&mut heard).expect("answers are text");
            heard
        });
        weir_sched::run(async move {
            let descriptor = Descriptor::register(theirs.into()).expect("a descriptor");
            descriptor.set_owner(weir_sched::current());
            converse(
                live(CONFIGURATION),
                &ListeningSockets::default(),
                &settings,
                Connection::new(descriptor),
                &Address::Unnamed,
            )
            .await;
        })
        .expect("a worker")
        .expect("the test came to its end");
        client.join().expect("the client does not panic")
    }

    #[test]
    fn the_cli_answers_all_lines_sent_before_eof() {
        assert_eq!(talk(b"show backend\n", settings()), "# name\nbe\nemp\nbs\ntcp1\n\n");
        assert_eq!(
            talk(b"get weight be/s1; get weight be/s2\n", settings()),
            "10 (initial 10)\n\n20 (initial 20)\n\n"
        );
        assert_eq!(talk(b"", settings()), "");
    }

    #[test]
    fn a_cli_answer_larger_than_one_write_arrives_complete() {
        let heard = talk(b"show stat typed\n", settings());
        assert!(heard.len() > 2 * PIECE && heard.ends_with("\n\n"), "{} bytes", heard.len());
        assert_eq!(heard.lines().filter(|line| line.contains(".pxname.")).count(), 16);
    }

    #[test]
    fn unread_cli_input_does_not_discard_the_answer() {
        let long = [b"show backend\n".as_slice(), &[b'x'; 100_000]].concat();
        assert!(talk(long.leak(), settings()).starts_with("# name\nbe\n"));
    }

    #[test]
    fn a_cli_session_has_the_level_of_its_socket() {
        let settings = CliSettings { level: weir_cli::Level::User, ..settings() };
        assert_eq!(talk(b"disable server be/s1\n", settings), "Permission denied\n\n");
    }

    #[test]
    fn show_sess_lists_cli_clients_and_shutdown_session_ends_them() {
        let heard = talk(b"show sess;show sess older 9;show sess 0x1\n", settings());
        let answers: Vec<&str> = heard.split("\n\n").collect();
        let line =
            "0x1: proto=unix_stream src=unix:0 fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0 age=0s calls=2 ";
        assert!(answers[0].starts_with(line), "{heard}");
        // The session is less than nine seconds old, so only the empty line follows.
        assert!(answers[1].starts_with("\n0x1: [") && answers[1].contains("phase=command"), "{heard}");
        assert_eq!(talk(b"shutdown session 0x99\n", settings()), "No such session (use 'show sess').\n\n");
        // This client, which would stay.
        let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        theirs.set_nonblocking(true).expect("a socket can be made so");
        ours.write_all(b"prompt i\nshutdown session 0x3\n").expect("the other end takes it");
        let ended = weir_sched::run(async move {
            let descriptor = Descriptor::register(theirs.into()).expect("a descriptor");
            descriptor.set_owner(weir_sched::current());
            let client = Connection::new(descriptor);
            converse(
                live(CONFIGURATION),
                &ListeningSockets::default(),
                &settings(),
                client,
                &Address::Unnamed,
            )
            .await;
        });
        assert_eq!(ended, Ok(None), "it was killed");
    }

    #[test]
    fn the_cli_closes_a_silent_connection_after_its_timeout() {
        let (_ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        theirs.set_nonblocking(true).expect("a socket can be made so");
        let settings = CliSettings { timeout: Duration::from_millis(20), ..settings() };
        let ended = weir_sched::run(async move {
            let descriptor = Descriptor::register(theirs.into()).expect("a descriptor");
            descriptor.set_owner(weir_sched::current());
            converse(
                live(CONFIGURATION),
                &ListeningSockets::default(),
                &settings,
                Connection::new(descriptor),
                &Address::Unnamed,
            )
            .await;
        });
        assert_eq!(ended, Ok(Some(())));
    }
}
