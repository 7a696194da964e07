//! Connections to agents (SPOP): servers of a backend in mode `spop`. Each begins with HAPROXY-HELLO and AGENT-HELLO.

use weir_mux::AgentMultiplexer;
use weir_net::Connection;
use weir_sched::WorkKind;

use super::carrier::Carrier;
use super::connect::ServerConnectError;
use super::served::{self, ServedMoment};
use super::shared::FirstUse;
use crate::process_counters;
use crate::stream::Stream;
use crate::stream::engines;
use crate::upstream::Upstream;

/// Opens the dialogue on a new connection to an agent, and waits for the agent's hello.
pub(super) async fn greet(
    stream: &mut Stream,
    connection: Connection,
    first: FirstUse,
) -> Result<Upstream, ServerConnectError> {
    let connection = AgentMultiplexer::new(
        connection,
        engines::connection_limits(stream),
        stream.trace().server_identity(),
    );
    let upstream = served::open(
        stream,
        &connection,
        (Carrier::Agent, connection.stream().into()),
        first,
        (&CONNECTION, note),
    );
    served::await_greeting(stream, &connection, |stream, connection| {
        if let Some(fault) = connection.fault() {
            engines::note_fault(stream, fault);
        }
    })
    .await?;
    Ok(upstream)
}

/// Counts the connection, and answers that came too late.
fn note(connection: &AgentMultiplexer, moment: ServedMoment) {
    process_counters::count(|counters| match moment {
        ServedMoment::Begun => counters.agent_connections.increment(),
        ServedMoment::AfterTurn => counters.late_agent_answers.add(connection.take_late()),
        ServedMoment::Over => counters.agent_connections.decrement(),
    });
}

static CONNECTION: WorkKind = WorkKind::new("connection to an agent");
