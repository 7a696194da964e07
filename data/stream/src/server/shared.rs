//! Connections to servers that carry several streams at once: HTTP/2.
//!
//! The stream that opened one, and those that find room on it, hold a [`Lease`] each; the pool counts them, and keeps the connection
//! when the last one is over ([`weir_backend::IdlePool`]). A task owns the connection, whoever's streams it carries:
//!
//! ```text
//!   opened ──► the task takes in what comes and sends what the streams produce, and tells the pool what the server says:
//!              how many streams it takes (SETTINGS), and that it takes no more (GOAWAY, the end)
//!   over   ──► the connection failed or ended, or neither the pool nor a stream has use for it: GOAWAY
//! ```

use std::rc::Rc;
use std::time::Duration;

use weir_backend::{HttpReuse, InUse, PoolSettings, ReuseScope, SharedId};
use weir_config::model::Protocol;
use weir_mux::{Closing, Multiplexer, SharedStream, StreamConnector, Turn};
use weir_net::Connection;
use weir_sched::{Class, Kind, Tick, wait, yield_now};

use super::carrier::Carrier;
use super::idle::{self, Whose, with_pool};
use crate::clock;
use crate::stream::Stream;
use crate::upstream::Upstream;

/// A stream's place on a connection of the pool.
struct Lease {
    whose: Whose,
    id: SharedId,
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Of a server that is down or gone nothing is kept.
        let nothing = PoolSettings { purge_delay_ms: 0, ..PoolSettings::default() };
        let settings = self.whose.settings().unwrap_or(nothing);
        let worker = weir_sched::worker_index();
        // What goes is closed outside of the borrow.
        let gone = with_pool(self.whose, |pool| pool.end_stream(worker, self.id, &settings));
        drop(gone);
        idle::kept();
    }
}

/// Takes a stream of a connection of this worker that has one free.
pub(super) fn take(stream: &Stream, key: u64, scope: ReuseScope) -> Option<Upstream> {
    let whose = Whose::of(stream)?;
    let settings = stream.server.lease.as_ref()?.server().settings().pool;
    let worker = weir_sched::worker_index();
    let (id, requests, shared) = with_pool(whose, |pool| {
        let lent = pool.begin_stream(worker, key, scope, &settings)?;
        Some((lent.id, lent.requests, lent.connection.0.unopened()))
    })??;
    // It counts the request that it is used for, where others count those before.
    let requests = requests.saturating_sub(1);
    Some(upstream(shared, Some(Lease { whose, id }), Upstream::reused(requests, key)))
}

fn upstream(mut shared: SharedStream, lease: Option<Lease>, of: Upstream) -> Upstream {
    if let Some(lease) = lease {
        shared.hold(Box::new(lease));
    }
    Upstream { connector: StreamConnector::from(shared), ..of }
}

/// Whether the leased server speaks HTTP/2 on this connection: forced by `proto`, or negotiated.
pub(super) fn is_negotiated(protocol: Option<Protocol>, connection: &Connection) -> bool {
    match protocol {
        None => connection.tls().is_some_and(|facts| facts.protocol.as_deref() == Some(b"h2")),
        forced => forced == Some(Protocol::H2),
    }
}

/// Makes a new connection one that carries several streams, this one's first. With `private` only its client may use it.
pub(super) fn open(
    stream: &Stream,
    connection: Connection,
    key: u64,
    private: bool,
    in_use: Option<InUse>,
) -> Upstream {
    let limits = &stream.instance.limits;
    let multiplexer = Multiplexer::to_server(connection, limits.h2_server, limits.h2_server_pace);
    let never = stream.backend.servers().settings().http_reuse == HttpReuse::Never;
    let whose = Whose::of(stream).filter(|_| !private && !never);
    let limit = multiplexer.stream_limit();
    let worker = weir_sched::worker_index();
    let lease = whose.and_then(|whose| {
        let carrier = Carrier(Rc::clone(&multiplexer));
        let id = with_pool(whose, |pool| pool.open_shared(worker, carrier, key, limit))??;
        Some(Lease { whose, id })
    });
    // The pool counts those that it knows.
    let in_use = in_use.filter(|_| lease.is_none());
    let place = lease.as_ref().map(|lease| (lease.whose, lease.id));
    let known = stream.known_server();
    let care = Care {
        place,
        limit,
        ping: known.and_then(|known| known.settings.idle_ping),
        stuck: stream.backend.config.settings.timeouts.server,
    };
    let shared = multiplexer.unopened();
    let task = weir_sched::spawn(&CONNECTION, Class::Normal, serve(Rc::clone(&multiplexer), care));
    multiplexer.own(task);
    let of = Upstream { private: private || never, in_use, reused: false, ..Upstream::reused(0, key) };
    upstream(shared, lease, of)
}

/// What the task of a connection has to see to.
struct Care {
    /// Where its pool has it.
    place: Option<(Whose, SharedId)>,
    /// How many streams the pool was told that it takes.
    limit: u32,
    /// How often the server is asked whether it is there, while there are no streams (`idle-ping`).
    ping: Option<Duration>,
    /// How long the server may take nothing of what is there for it.
    stuck: Option<Duration>,
}

impl Care {
    /// Tells the pool what the server said.
    fn tell(&mut self, multiplexer: &Multiplexer) {
        let Some((whose, id)) = self.place else { return };
        if multiplexer.is_closing() {
            self.place = None;
            drop(with_pool(whose, |pool| pool.retire(id)));
            return;
        }
        let limit = multiplexer.stream_limit();
        if limit != std::mem::replace(&mut self.limit, limit) {
            with_pool(whose, |pool| pool.limit_streams(id, limit));
        }
    }
}

/// Carries streams until the connection ends, or nobody has use for it.
async fn serve(multiplexer: Rc<Multiplexer>, mut care: Care) {
    // Streams learn of the end however this ends.
    let connection = Closing(multiplexer);
    let multiplexer = &connection.0;
    let mut silence = Silence::default();
    loop {
        let turn = multiplexer.turn();
        care.tell(multiplexer);
        match turn {
            Turn::Over => break,
            Turn::More | Turn::Late => {
                yield_now().await;
                continue;
            }
            Turn::Quiet => {}
        }
        if !multiplexer.is_wanted() {
            multiplexer.leave();
            multiplexer.turn();
            break;
        }
        let idle = multiplexer.live() == 0;
        if idle {
            multiplexer.shrink();
        }
        let stuck = multiplexer.is_stuck();
        let until = match (stuck, care.ping) {
            (true, _) => clock::after_some(care.stuck),
            (false, Some(delay)) if idle => silence.until(multiplexer.frames(), delay),
            _ => {
                silence = Silence::default();
                Tick::NEVER
            }
        };
        let sent = multiplexer.bytes_sent();
        wait(until).await;
        if !clock::passed(until) {
            continue;
        }
        if stuck && multiplexer.bytes_sent() == sent {
            break;
        }
        if !stuck && idle && !silence.ask(multiplexer) {
            break;
        }
    }
}

/// How long a server said nothing.
struct Silence {
    until: Tick,
    frames: u64,
    asked: bool,
}

impl Default for Silence {
    fn default() -> Self {
        Silence { until: Tick::NEVER, frames: u64::MAX, asked: false }
    }
}

impl Silence {
    /// Until when it may go on. Each frame that came ends it.
    fn until(&mut self, frames: u64, delay: Duration) -> Tick {
        if frames != self.frames || self.until.is_never() {
            *self = Silence { until: clock::after(delay), frames, asked: false };
        } else if clock::passed(self.until) {
            self.until = clock::after(delay);
        }
        self.until
    }

    /// It went on for so long: the server is asked whether it is there. False if it was asked before.
    fn ask(&mut self, multiplexer: &Multiplexer) -> bool {
        if multiplexer.frames() == self.frames {
            if std::mem::replace(&mut self.asked, true) {
                return false;
            }
            multiplexer.ping();
        }
        true
    }
}

static CONNECTION: Kind = Kind::new("server connection");
