//! Connections to agents (SPOP): servers of a backend in mode `spop`.
//!
//! ```text
//!   opened ──► HAPROXY-HELLO ──► AGENT-HELLO: the pool may lend it ──► exchanges
//!            └──► no AGENT-HELLO in time: closed
//!   over   ──► the connection failed, or neither the pool nor a stream uses it: HAPROXY-DISCONNECT, the agent's answer
//! ```

use std::rc::Rc;
use std::time::Duration;

use weir_backend::InUse;
use weir_mux::agent::AgentGreeting;
use weir_mux::{AgentMultiplexer, TurnEnd};
use weir_net::{Connection, ConnectionFault};
use weir_sched::{Class, Tick, WorkKind, wait, yield_now};

use super::carrier::Carrier;
use super::connect::ServerConnectError;
use super::retry::AttemptFailure;
use super::shared::{self, PoolPlace};
use crate::clock;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::stream::engines;
use crate::stream::{Stream, StreamError};
use crate::upstream::Upstream;

/// Opens the dialogue on a new connection to an agent, and waits for the agent's hello. `timeout connect` and `timeout server` limit the wait.
pub(super) async fn greet(
    stream: &mut Stream,
    connection: Connection,
    key: u64,
    private: bool,
    in_use: Option<InUse>,
) -> Result<Upstream, ServerConnectError> {
    let connection = AgentMultiplexer::new(connection, engines::connection_limits(stream));
    let _pending = PendingHello(Rc::clone(&connection));
    let upstream = open(stream, Rc::clone(&connection), key, private, in_use);
    let greeted = stream
        .drive(
            While::greeting(&stream.timeouts, weir_sched::now()),
            |stream, _| match connection.greeting() {
                AgentGreeting::Complete => Ok(DriveStep::Done(())),
                AgentGreeting::Awaited if stream.client_left() => {
                    Err(StreamError::close(By::Client, During::Connect).into())
                }
                AgentGreeting::Awaited => Ok(DriveStep::Wait(Waits::ONCE)),
                AgentGreeting::Failed(fault) => {
                    engines::note_fault(stream, fault);
                    Err(ConnectionFault::Protocol.into())
                }
            },
            |_, _, _| Err(ServerConnectError::Failed(AttemptFailure::ConnectTimeout)),
        )
        .await;
    greeted.map(|()| upstream)
}

/// Turns a new connection into one that carries exchanges, with this stream's as the first.
fn open(
    stream: &Stream,
    connection: Rc<AgentMultiplexer>,
    key: u64,
    private: bool,
    in_use: Option<InUse>,
) -> Upstream {
    let limit = connection.stream_limit();
    let lease = shared::keep(stream, || Carrier::Agent(Rc::clone(&connection)), key, limit, private);
    let care = Care {
        place: PoolPlace::of(lease.as_ref(), limit),
        stuck: stream.backend.config.settings.timeouts.server,
    };
    let connector = connection.stream().into();
    let task = weir_sched::spawn(&CONNECTION, Class::Normal, serve(Rc::clone(&connection), care));
    connection.own(task);
    shared::upstream(connector, lease, Upstream { private, in_use, ..Upstream::new(key) })
}

/// The wait for an agent's hello. However it ends, also with its stream, the pool lends no connection that lacks the hello.
struct PendingHello(Rc<AgentMultiplexer>);

impl Drop for PendingHello {
    fn drop(&mut self) {
        self.0.end_greeting();
    }
}

/// State of a connection's task.
struct Care {
    place: PoolPlace,
    /// How long the agent may leave frames unread before the connection closes.
    stuck: Option<Duration>,
}

/// Fails the exchanges of a connection when its task ends, on every path.
struct Owned(Rc<AgentMultiplexer>);

impl Drop for Owned {
    fn drop(&mut self) {
        crate::process_counters::count(|counters| counters.agent_connections.decrement());
        self.0.close();
    }
}

/// Runs the connection until it closes or is unused.
async fn serve(connection: Rc<AgentMultiplexer>, mut care: Care) {
    crate::process_counters::count(|counters| counters.agent_connections.increment());
    let owned = Owned(connection);
    let connection = &owned.0;
    // Set once the agent received HAPROXY-DISCONNECT.
    let mut leaves_at = Tick::NEVER;
    loop {
        let turn = connection.turn();
        care.place.record(connection.is_closing(), connection.stream_limit());
        crate::process_counters::count(|counters| counters.late_agent_answers.add(connection.take_late()));
        if turn == TurnEnd::Over || clock::passed(leaves_at) {
            break;
        }
        if leaves_at.is_never() && !connection.is_wanted() {
            connection.leave();
            // An agent that does not answer exchanges is not waited for: such connections would pile up.
            leaves_at = if connection.has_abandoned() { weir_sched::now() } else { clock::after(FAREWELL) };
            continue;
        }
        if turn != TurnEnd::Quiet {
            yield_now().await;
            continue;
        }
        let stuck = connection.has_output();
        let until = if stuck { clock::after_some(care.stuck) } else { Tick::NEVER };
        let sent = connection.bytes_sent();
        wait(until.min(leaves_at)).await;
        if clock::passed(until) && connection.bytes_sent() == sent {
            break;
        }
    }
}

static CONNECTION: WorkKind = WorkKind::new("connection to an agent");
/// How long an agent may take to answer the farewell.
const FAREWELL: Duration = Duration::from_secs(1);
