//! The task of a client's HTTP/2 connection, from the preface to the last stream.
//!
//! Each stream is a separate task and runs the same code as an HTTP/1 request, with its own timeouts and log line. The connection's
//! task receives frames, starts streams and sends their output.

use std::rc::Rc;
use std::time::Duration;

use weir_containers::PoolBox;
use weir_mux::{Multiplexer, OwnerHandle, StreamConnector, TurnEnd};
use weir_net::Connection;
use weir_sched::{Class, Tick, WorkKind, wait, yield_now};

use crate::clock;
use crate::deadlines;
use crate::http::FirstByteWait;
use crate::http2_counters::ConnectionCount;
use crate::session::ClientSession;
use crate::silence::{Rest, Silence};
use crate::stream::Stream;

mod oddities;

use oddities::Oddities;

/// Whether the client sends the HTTP/2 preface where HTTP/1 was expected. Allowed only before the first request.
pub(crate) fn is_upgrade(session: &ClientSession, client: &Connection) -> bool {
    session.requests.get() == 0
        && client.input().len() >= LEAST_PREFACE
        && weir_mux::is_preface(client.input())
        && session.protocol().is_none()
        && !session.frontend().config.settings.options.disable_h2_upgrade
}

/// Serves the streams of the connection until it closes.
///
/// Not an async function: that would store the connection twice while it runs.
pub(crate) fn serve(client: Connection, session: Rc<ClientSession>) -> impl Future<Output = ()> {
    let limits = &session.frontend().instance().limits;
    let identity = crate::trace::identity(&session);
    let multiplexer = Multiplexer::new(client, limits.h2, limits.h2_pace, identity);
    carry(multiplexer, session)
}

async fn carry(multiplexer: Rc<Multiplexer>, session: Rc<ClientSession>) {
    // Dropping this handle ends the streams on every exit path.
    let connection = OwnerHandle(Rc::clone(&multiplexer));
    let mut deadline = idle_deadline(&session);
    let mut was_busy = false;
    let mut rest = Rest::default();
    let mut oddities = Oddities::default();
    let mut counted = ConnectionCount::of_client(session.frontend());
    let mut silence = Silence::default();
    let mut heard = 0;
    loop {
        let turn = multiplexer.turn();
        oddities.record(&multiplexer, &session);
        counted.record(&multiplexer);
        while let Some(id) = multiplexer.next_started() {
            begin(&multiplexer, &session, id);
        }
        match turn {
            TurnEnd::Over => break,
            TurnEnd::More => {
                yield_now().await;
                continue;
            }
            TurnEnd::Late => {
                weir_sched::set_class(Class::Bulk);
                yield_now().await;
                weir_sched::set_class(Class::Normal);
                continue;
            }
            TurnEnd::Quiet => {}
        }
        let busy = multiplexer.live() > 0;
        if session.closes() && (busy || session.closes_idle()) && !multiplexer.is_leaving() {
            multiplexer.leave();
            continue;
        }
        if busy != was_busy {
            was_busy = busy;
            deadline = if busy { Tick::NEVER } else { idle_deadline(&session) };
        }
        let ping = session.listener().bind.options.idle_ping.filter(|_| !busy);
        if ping.is_some() && std::mem::replace(&mut heard, multiplexer.frames()) != multiplexer.frames() {
            deadline = deadline_of_answer(&session, deadline);
        }
        // Streams have their own timeouts. The connection's timeout covers output that the peer does not read.
        let stuck = busy && multiplexer.has_output();
        let until = match ping {
            _ if stuck => clock::after_some(session.frontend().config.settings.timeouts.client),
            Some(delay) => deadline.min(silence.until(multiplexer.frames(), delay)),
            None => deadline,
        };
        let sent = multiplexer.bytes_sent();
        wait(until.min(rest.at(multiplexer.frames(), !busy))).await;
        rest.take(&multiplexer);
        if ping.is_some() && clock::passed(until) && !clock::passed(deadline) {
            if !silence.probe(&multiplexer) {
                break;
            }
            continue;
        }
        if clock::passed(until) && multiplexer.bytes_sent() == sent && multiplexer.is_idle_or_has_output() {
            multiplexer.leave();
            multiplexer.turn();
            break;
        }
    }
    drop(connection);
    let end = clock::after(LINGER);
    let mut most = LINGER_BYTES;
    while !clock::passed(end) {
        match multiplexer.drain(&mut most) {
            TurnEnd::Over => break,
            TurnEnd::Quiet => {
                wait(end).await;
            }
            TurnEnd::More | TurnEnd::Late => yield_now().await,
        }
    }
}

/// Starts a stream.
fn begin(multiplexer: &Rc<Multiplexer>, session: &Rc<ClientSession>, id: u32) {
    let client = StreamConnector::from(multiplexer.stream(id));
    let stream = PoolBox::new(Stream::new(Rc::clone(session), client, weir_sched::now_us()));
    let serial = stream.serial + 1;
    let nice = session.listener().bind.options.nice;
    let task = weir_sched::spawn(&STREAM, Class::Normal, async move {
        if nice != 0 {
            weir_sched::set_nice(nice);
        }
        let _ = Stream::run(stream, FirstByteWait::Bytes).await;
    });
    multiplexer.begin(id, task, serial);
}

/// The deadline for the next stream on a connection without streams.
fn idle_deadline(session: &ClientSession) -> Tick {
    let timeouts = &session.frontend().config.settings.timeouts;
    clock::after_some(deadlines::next_request(timeouts, session.requests.get()))
}

/// The idle deadline after a client's PING ACK. `timeout client` restarts. The timeouts of requests do not (manual, "idle-ping").
fn deadline_of_answer(session: &ClientSession, before: Tick) -> Tick {
    let timeouts = &session.frontend().config.settings.timeouts;
    match timeouts.http_keep_alive.or(timeouts.http_request) {
        Some(_) => before,
        None => idle_deadline(session),
    }
}

static STREAM: WorkKind = WorkKind::new("stream");
/// Number of bytes that distinguish the preface from an HTTP/1 request: `PRI` is not a method.
const LEAST_PREFACE: usize = 4;
/// Maximum duration of reading from a closing connection, so that its client can read the last bytes sent.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum bytes read from a closing connection.
const LINGER_BYTES: usize = 1 << 20;
