//! Shared server connections, which carry several streams at once: HTTP/2 here, those to agents and applications in `served.rs`.
//!
//! Each stream on a shared connection holds a [`SharedLease`]. The pool counts the leases and keeps the connection idle after the last
//! one ends ([`weir_backend::IdlePool`]). The connection has its own task:
//!
//! ```text
//!   opened ──► the task receives, sends the streams' output, and reports to the pool: the limit of streams (SETTINGS),
//!              and the end of new streams (GOAWAY, the end)
//!   over   ──► the connection failed or ended, or neither the pool nor a stream uses it: GOAWAY
//! ```

use std::rc::Rc;
use std::time::Duration;

use weir_backend::{InUse, PoolSettings, ReuseScope, SharedId};
use weir_model::Protocol;
use weir_model::Reuse;
use weir_mux::{Multiplexer, OwnerHandle, StreamConnector, TurnEnd};
use weir_net::Connection;
use weir_sched::{Class, Tick, WorkKind, wait, yield_now};

use super::carrier::Carrier;
use super::idle::{self, PoolKey, with_pool, with_pool_of};
use crate::clock;
use crate::http2_counters::ConnectionCount;
use crate::silence::{Rest, Silence};
use crate::stream::Stream;
use crate::upstream::Upstream;

/// A stream's slot on a pooled connection.
pub(super) struct SharedLease {
    pool_key: PoolKey,
    id: SharedId,
}

impl Drop for SharedLease {
    fn drop(&mut self) {
        // Connections to a server that is down or removed are not kept.
        let nothing = PoolSettings { purge_delay_ms: 0, ..PoolSettings::default() };
        let settings = self.pool_key.settings().unwrap_or(nothing);
        let worker = weir_sched::worker_index();
        // A connection removed from the pool is closed after the borrow ends.
        let gone = with_pool(self.pool_key, |pool| pool.end_stream(worker, self.id, &settings));
        drop(gone);
        idle::kept();
    }
}

/// Opens a stream on one of this worker's shared connections with a free slot.
pub(super) fn take(stream: &Stream, key: u64, scope: ReuseScope) -> Option<Upstream> {
    let server = stream.server.lease.as_ref()?.server();
    let settings = server.settings().pool;
    let worker = weir_sched::worker_index();
    let (id, requests, connector) = with_pool_of(stream.backend.index, server, |pool| {
        let lent = pool.begin_stream(worker, key, scope, &settings)?;
        Some((lent.id, lent.requests, lent.connection.unopened()))
    })??;
    // The pool's count includes this request. Other counts include only earlier ones.
    let requests = requests.saturating_sub(1);
    Some(upstream(
        connector,
        Some(SharedLease { pool_key: PoolKey::new(stream.backend.index, server), id }),
        Upstream::reused(requests, key),
    ))
}

pub(super) fn upstream(mut connector: StreamConnector, lease: Option<SharedLease>, of: Upstream) -> Upstream {
    if let Some(lease) = lease {
        connector.hold(Box::new(lease));
    }
    Upstream { connector, ..of }
}

/// Whether the leased server speaks HTTP/2 on this connection: forced by `proto`, or negotiated.
pub(super) fn is_negotiated(protocol: Option<Protocol>, connection: &Connection) -> bool {
    match protocol {
        None => connection.tls().is_some_and(|facts| facts.protocol.as_deref() == Some(b"h2")),
        forced => forced == Some(Protocol::H2),
    }
}

/// Turns a new connection into a shared one, with this stream as its first. With `private`, only its client may use it.
pub(super) fn open(stream: &Stream, connection: Connection, mut first: FirstUse) -> Upstream {
    let limits = &stream.frontend.instance().limits;
    let multiplexer = Multiplexer::to_server(
        connection,
        limits.h2_server,
        limits.h2_server_pace,
        stream.trace().server_identity(),
    );
    let limit = multiplexer.stream_limit();
    first.private |= are_private(stream);
    let lease = keep(stream, || Carrier::Http2(Rc::clone(&multiplexer)), limit, &mut first);
    let place = PoolPlace::of(lease.as_ref(), limit);
    let known = stream.as_server_phase().known_server();
    let care = Care {
        place,
        ping: known.and_then(|known| known.settings.idle_ping),
        stuck: stream.backend.config.settings.timeouts.server,
        counted: ConnectionCount::of_server(stream.backend.proxy()),
    };
    let connector = multiplexer.unopened().into();
    let task = weir_sched::spawn(&CONNECTION, Class::Normal, serve(Rc::clone(&multiplexer), care));
    multiplexer.own(task);
    upstream(connector, lease, first.upstream())
}

/// Whether each connection to the backend's servers serves only its first client (`http-reuse never`). The pool would never lend it.
pub(super) fn are_private(stream: &Stream) -> bool {
    stream.backend.servers().settings().http_reuse == Reuse::Never
}

/// Gives a new connection to the pool, with this stream as its first. `None` for a connection that only its client may use.
pub(super) fn keep(
    stream: &Stream,
    carrier: impl FnOnce() -> Carrier,
    limit: u32,
    first: &mut FirstUse,
) -> Option<SharedLease> {
    let server = stream.server.lease.as_ref()?.server();
    if first.private {
        return None;
    }
    // The pool itself counts pooled connections. One never counts twice, because the maximum is kept (`used_max`).
    first.in_use = None;
    let (worker, key) = (weir_sched::worker_index(), first.key);
    let open = |pool: &mut idle::ServerPool| pool.open_shared(worker, carrier(), key, limit);
    let id = with_pool_of(stream.backend.index, server, open)??;
    Some(SharedLease { pool_key: PoolKey::new(stream.backend.index, server), id })
}

/// The use of a connection by its first stream.
pub(super) struct FirstUse {
    /// The reuse key.
    pub(super) key: u64,
    /// Whether only this client may use the connection.
    pub(super) private: bool,
    /// Counts the connection as in use, until the pool does.
    pub(super) in_use: Option<InUse>,
}

impl FirstUse {
    /// An upstream without a connector.
    pub(super) fn upstream(self) -> Upstream {
        let FirstUse { key, private, in_use } = self;
        Upstream { private, in_use, ..Upstream::new(key) }
    }
}

/// The place of a connection in its pool, and its last report to the pool.
pub(super) struct PoolPlace {
    /// `None` for a connection outside the pool, and after its last report.
    place: Option<(PoolKey, SharedId)>,
    /// The stream limit last reported to the pool.
    limit: u32,
}

impl PoolPlace {
    pub(super) fn of(lease: Option<&SharedLease>, limit: u32) -> Self {
        PoolPlace { place: lease.map(|lease| (lease.pool_key, lease.id)), limit }
    }

    /// Reports the server's stream limit, or the end of new streams, to the pool.
    pub(super) fn record(&mut self, is_closing: bool, limit: u32) {
        let Some((pool_key, id)) = self.place else { return };
        if is_closing {
            self.place = None;
            drop(with_pool(pool_key, |pool| pool.retire(id)));
            return;
        }
        if limit != std::mem::replace(&mut self.limit, limit) {
            with_pool(pool_key, |pool| pool.limit_streams(id, limit));
        }
    }
}

/// State of a connection's task.
struct Care {
    place: PoolPlace,
    /// The interval of PINGs without streams (`idle-ping`).
    ping: Option<Duration>,
    /// How long the server may leave pending output unread before the connection closes.
    stuck: Option<Duration>,
    counted: ConnectionCount,
}

/// Runs the connection until it closes or is unused.
async fn serve(multiplexer: Rc<Multiplexer>, mut care: Care) {
    // Dropping this handle ends the streams on every exit path.
    let connection = OwnerHandle(multiplexer);
    let multiplexer = &connection.0;
    let mut silence = Silence::default();
    let mut rest = Rest::default();
    loop {
        let turn = multiplexer.turn();
        care.counted.record(multiplexer);
        care.place.record(multiplexer.is_closing(), multiplexer.stream_limit());
        match turn {
            TurnEnd::Over => break,
            TurnEnd::More | TurnEnd::Late => {
                yield_now().await;
                continue;
            }
            TurnEnd::Quiet => {}
        }
        if !multiplexer.is_wanted() {
            multiplexer.leave();
            multiplexer.turn();
            break;
        }
        let idle = multiplexer.live() == 0;
        let stuck = multiplexer.has_output();
        let until = match (stuck, care.ping) {
            (true, _) => clock::after_some(care.stuck),
            (false, Some(delay)) if idle => silence.until(multiplexer.frames(), delay),
            _ => {
                silence = Silence::default();
                Tick::NEVER
            }
        };
        let sent = multiplexer.bytes_sent();
        wait(until.min(rest.at(multiplexer.frames(), idle))).await;
        rest.take(multiplexer);
        if !clock::passed(until) {
            continue;
        }
        if stuck && multiplexer.bytes_sent() == sent {
            break;
        }
        if !stuck && idle && !silence.probe(multiplexer) {
            break;
        }
    }
}

static CONNECTION: WorkKind = WorkKind::new("server connection");
