//! Server connections that carry streams and have a task of their own: those to agents and to applications.
//!
//! ```text
//!   opened ──► greeting: the pool may lend it ──► streams
//!            └──► no greeting in time: closed
//!   over   ──► the connection failed, or neither the pool nor a stream uses it: a farewell, the peer's answer
//! ```

use std::rc::Rc;
use std::time::Duration;

use weir_mux::{GreetingProgress, ServedConnection, StreamConnector, TurnEnd};
use weir_net::ConnectionFault;
use weir_sched::{Class, Tick, WorkKind, wait, yield_now};

use super::carrier::Carrier;
use super::connect::ServerConnectError;
use super::retry::AttemptFailure;
use super::shared::{self, FirstUse, PoolPlace};
use crate::clock;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::stream::{Stream, StreamError};
use crate::upstream::Upstream;

/// Gives a new connection to the pool, with this stream as its first, and to a task of its own. `note` sees the connection when it begins,
/// after each round, and at its end.
pub(super) fn open<C: ServedConnection + 'static>(
    stream: &Stream,
    connection: &Rc<C>,
    (carrier, connector): (fn(Rc<C>) -> Carrier, StreamConnector),
    mut first: FirstUse,
    (kind, note): (&'static WorkKind, fn(&C, ServedMoment)),
) -> Upstream {
    let limit = connection.stream_limit();
    let lease = shared::keep(stream, || carrier(Rc::clone(connection)), limit, &mut first);
    let care = Care {
        place: PoolPlace::of(lease.as_ref(), limit),
        stuck: stream.backend.config.settings.timeouts.server,
        note,
    };
    let task = weir_sched::spawn(kind, Class::Normal, serve(Rc::clone(connection), care));
    connection.own(task);
    shared::upstream(connector, lease, first.upstream())
}

/// Waits for the greeting of a new connection. `timeout connect` and `timeout server` limit the wait. `note_fault` sees a failure.
pub(super) async fn await_greeting<C: ServedConnection>(
    stream: &mut Stream,
    connection: &Rc<C>,
    note_fault: impl Fn(&mut Stream, &C),
) -> Result<(), ServerConnectError> {
    let _pending = PendingGreeting(Rc::clone(connection));
    stream
        .drive(
            While::greeting(&stream.timeouts, weir_sched::now()),
            |stream, _| match connection.greeting() {
                GreetingProgress::Complete => Ok(DriveStep::Done(())),
                GreetingProgress::Awaited if stream.client_left() => {
                    Err(StreamError::close(By::Client, During::Connect).into())
                }
                GreetingProgress::Awaited => Ok(DriveStep::Wait(Waits::ONCE)),
                GreetingProgress::Failed => {
                    note_fault(stream, connection);
                    Err(ConnectionFault::Protocol.into())
                }
            },
            |_, _, _| Err(ServerConnectError::Failed(AttemptFailure::ConnectTimeout)),
        )
        .await
}

/// The wait for a greeting. However it ends, also with its stream, the pool lends no connection that lacks the greeting.
struct PendingGreeting<C: ServedConnection>(Rc<C>);

impl<C: ServedConnection> Drop for PendingGreeting<C> {
    fn drop(&mut self) {
        self.0.end_greeting();
    }
}

/// When a connection is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedMoment {
    Begun,
    AfterTurn,
    Over,
}

/// State of a connection's task.
struct Care<C> {
    place: PoolPlace,
    /// How long the owner waits for the peer without progress before the connection closes.
    stuck: Option<Duration>,
    note: fn(&C, ServedMoment),
}

/// Fails the streams of a connection when its task ends, on every path.
struct Owned<C: ServedConnection>(Rc<C>, fn(&C, ServedMoment));

impl<C: ServedConnection> Drop for Owned<C> {
    fn drop(&mut self) {
        (self.1)(&self.0, ServedMoment::Over);
        self.0.close();
    }
}

/// Runs the connection until it closes or is unused.
async fn serve<C: ServedConnection>(connection: Rc<C>, mut care: Care<C>) {
    (care.note)(&connection, ServedMoment::Begun);
    let owned = Owned(connection, care.note);
    let connection = &owned.0;
    // Set once the peer received the farewell.
    let mut leaves_at = Tick::NEVER;
    loop {
        let turn = connection.turn();
        care.place.record(connection.is_closing(), connection.stream_limit());
        (care.note)(connection, ServedMoment::AfterTurn);
        if turn == TurnEnd::Over || clock::passed(leaves_at) {
            break;
        }
        if leaves_at.is_never() && Rc::strong_count(connection) <= OWNER_ALONE {
            leaves_at = if connection.leave() { clock::after(FAREWELL) } else { weir_sched::now() };
            continue;
        }
        if turn != TurnEnd::Quiet {
            yield_now().await;
            continue;
        }
        let until = if connection.awaits_peer() { clock::after_some(care.stuck) } else { Tick::NEVER };
        let progress = connection.progress();
        wait(until.min(leaves_at)).await;
        if clock::passed(until) && connection.progress() == progress {
            break;
        }
    }
}

/// References to a connection that neither the pool nor a stream uses.
const OWNER_ALONE: usize = 1;
/// How long a peer may take to answer the farewell.
const FAREWELL: Duration = Duration::from_secs(1);
