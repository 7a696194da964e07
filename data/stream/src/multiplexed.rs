//! A client's connection of HTTP/2: its task, from the preface to the last stream.
//!
//! Each stream is a task of its own and runs what a request of HTTP/1 runs, with its own timeouts and its own log line. This one
//! takes in what comes, begins the streams and sends what they produce.

use std::rc::Rc;
use std::time::Duration;

use weir_containers::PoolBox;
use weir_mux::{Closing, Multiplexer, StreamConnector, Turn};
use weir_net::Connection;
use weir_sched::{Class, Kind, Tick, wait, yield_now};

use crate::clock;
use crate::deadlines;
use crate::http::Waited;
use crate::session::Session;
use crate::stream::Stream;

mod oddities;

use oddities::Oddities;

/// Whether the client begins with the preface of HTTP/2 where HTTP/1 was expected. Only the first request may.
pub(crate) fn is_upgrade(session: &Session, client: &Connection) -> bool {
    session.requests.get() == 0
        && client.input().len() >= LEAST_PREFACE
        && weir_mux::is_preface(client.input())
        && session.listener.bind.options.protocol.is_none()
        && !session.frontend.config.settings.options.disable_h2_upgrade
}

/// Serves the streams of the connection until it ends.
pub(crate) async fn serve(client: Connection, session: Rc<Session>) {
    let limits = &session.frontend.instance().limits;
    let multiplexer = Multiplexer::new(client, limits.h2, limits.h2_pace);
    // Streams learn of the end however this ends.
    let connection = Closing(Rc::clone(&multiplexer));
    let mut deadline = idle_deadline(&session);
    let mut was_busy = false;
    let mut oddities = Oddities::default();
    loop {
        let turn = multiplexer.turn();
        oddities.tell(&multiplexer, &session);
        for id in multiplexer.started() {
            begin(&multiplexer, &session, id);
        }
        match turn {
            Turn::Over => break,
            Turn::More => {
                yield_now().await;
                continue;
            }
            Turn::Late => {
                weir_sched::set_class(Class::Bulk);
                yield_now().await;
                weir_sched::set_class(Class::Normal);
                continue;
            }
            Turn::Quiet => {}
        }
        let busy = multiplexer.live() > 0;
        if session.closes() && (busy || session.closes_idle()) && !multiplexer.is_leaving() {
            multiplexer.leave();
            continue;
        }
        if busy != was_busy {
            was_busy = busy;
            deadline = if busy { Tick::NEVER } else { idle_deadline(&session) };
            if !busy {
                multiplexer.shrink();
            }
        }
        // Streams have their own timeouts; what nobody takes is the connection's matter.
        let stuck = busy && multiplexer.is_stuck();
        let until = if stuck {
            clock::after_some(session.frontend.config.settings.timeouts.client)
        } else {
            deadline
        };
        let sent = multiplexer.bytes_sent();
        wait(until).await;
        if clock::passed(until) && multiplexer.bytes_sent() == sent && multiplexer.is_idle_or_stuck() {
            multiplexer.leave();
            multiplexer.turn();
            break;
        }
    }
    drop(connection);
    let end = clock::after(LINGER);
    while multiplexer.drain() && !clock::passed(end) {
        wait(end).await;
    }
}

/// A stream begins.
fn begin(multiplexer: &Rc<Multiplexer>, session: &Rc<Session>, id: u32) {
    let client = StreamConnector::from(multiplexer.stream(id));
    let stream = PoolBox::new(Stream::new(Rc::clone(session), client, weir_sched::now_us()));
    let nice = session.listener.bind.options.nice;
    let task = weir_sched::spawn(&STREAM, Class::Normal, async move {
        if nice != 0 {
            weir_sched::set_nice(nice);
        }
        let _ = Stream::run(stream, Waited::Bytes).await;
    });
    multiplexer.begin(id, task);
}

/// Until when a stream may begin while there is none.
fn idle_deadline(session: &Session) -> Tick {
    let timeouts = &session.frontend.config.settings.timeouts;
    clock::after_some(deadlines::next_request(timeouts, session.requests.get()))
}

static STREAM: Kind = Kind::new("stream");
/// So many bytes tell the preface from a request of HTTP/1: no method of it is `PRI`.
const LEAST_PREFACE: usize = 4;
/// How long a connection that ends is read from, so that its client reads our last bytes.
const LINGER: Duration = Duration::from_secs(1);
