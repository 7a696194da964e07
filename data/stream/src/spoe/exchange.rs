//! One exchange with an agent: a stream of its own that sends a NOTIFY and waits for its ACK.
//!
//! Like a sub-request (`subrequest.rs`) it lacks a client's connection, and below its client side everything is the code of other streams:
//! rules of the backend, balancing, queues, pooled connections, TLS, timeouts, counters. It runs inside the task of its parent, because the
//! parent waits for it anyway: a task of its own would cost two wake-ups. The rules of the backend see the parent's variables.
//!
//! ```text
//!   parent ── variables lent ──► content rules ─► server ─► NOTIFY ─► ACK ─── variables back ──► parent
//!     │                              ▲                │
//!     │                              └─ nothing sent ─┘ another attempt
//!     └─ the client left, `timeout processing`: the exchange is dropped where it waits
//! ```

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use weir_backend::Observation;
use weir_containers::{PoolBox, PooledFuture, RcRef};
use weir_mux::LocalService;
use weir_mux::agent::Notified;
use weir_spop::StatusCode;

use super::Failure;
use crate::clock;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During, Ending};
use crate::errors::MessageDirection;
use crate::instance::engine::AgentEngine;
use crate::instance::{ProxyRef, WorkerInstance};
use crate::recycle::Loan;
use crate::session::ClientSession;
use crate::stream::attached::Attached;
use crate::stream::engines::{AgentCall, LentScopes, call, note_fault};
use crate::stream::stream_variables::StreamVariables;
use crate::stream::{PhaseResult, ProxySide, Stream, StreamError};
use crate::subrequest::{NoClient, Subrequest};
use crate::upstream::VisitedBackend;

/// Sends messages to the agent of an engine. Returns the actions of its answer, at most until `timeout processing`. The outer error is that
/// of the stream, which ended meanwhile.
pub(super) async fn run(
    stream: &mut Stream,
    engine: &RcRef<WorkerInstance, AgentEngine>,
    messages: &[u8],
) -> PhaseResult<Result<AckActions, Failure>> {
    let deadline = clock::after_some(engine.config.agent.processing_timeout);
    let Some(mut child) = begin(stream, engine) else { return Ok(Err(Failure::Resource)) };
    let mut asking = PooledFuture::new(ask(&mut child, messages));
    let until_gone = poll_fn(|context| match Pin::new(&mut asking).poll(context) {
        Poll::Ready(asked) => Poll::Ready(Ok(asked)),
        Poll::Pending => still_wanted(stream).map_or_else(|stop| Poll::Ready(Err(stop)), |()| Poll::Pending),
    });
    let asked = clock::within(deadline, until_gone).await.unwrap_or(Ok(Err(Failure::TimedOut)));
    drop(asking);
    stream.entry.resumed();
    end(&mut child, &asked);
    if let Some(call) = child.attached.as_mut().and_then(|attached| attached.call.as_mut()) {
        stream.variables = std::mem::take(&mut call.parent.variables);
    }
    asked
}

/// Fails if the parent need not wait any more: an administrator ended it, or its client left.
fn still_wanted(stream: &mut Stream) -> PhaseResult {
    stream.check_alive()?;
    if stream.client.peer_closed() && stream.inspection().has_client_left() {
        return Err(StreamError::close(By::Client, stream.phase));
    }
    Ok(())
}

/// The stream of an exchange. `None` if exchanges are nested too deeply.
fn begin(stream: &mut Stream, engine: &RcRef<WorkerInstance, AgentEngine>) -> Option<PoolBox<Stream>> {
    let backend = stream.frontend.sibling(engine.backend)?;
    let session = Subrequest::session(stream)?;
    let parent = LentScopes {
        session: Rc::clone(&stream.session),
        variables: std::mem::take(&mut stream.variables),
        processed: stream.rules.processed,
    };
    let mut child = child(session, engine, parent, false);
    child.request_phase().enter_backend(backend);
    Some(child)
}

fn child(
    session: Rc<ClientSession>,
    engine: &RcRef<WorkerInstance, AgentEngine>,
    parent: LentScopes,
    is_warming: bool,
) -> PoolBox<Stream> {
    let client = LocalService::new(Box::new(NoClient));
    let mut child = PoolBox::new(Stream::new(session, client, weir_sched::now_us()));
    Attached::of_stream(&mut child).call =
        Some(PoolBox::new(AgentCall { engine: engine.clone(), parent, fault: Cell::new(None), is_warming }));
    child.begin_view();
    let now = Some(child.elapsed());
    (child.timers.first_byte, child.timers.request) = (now, now);
    child
}

/// Opens a connection to an agent before the first exchange. `None` if it failed, or took longer than [`WARMING`].
pub(super) async fn open(
    proxy: &ProxyRef,
    engine: &RcRef<WorkerInstance, AgentEngine>,
) -> Option<PoolBox<Stream>> {
    let backend = proxy.sibling(engine.backend)?;
    let session = Subrequest::session_of_process(proxy);
    let parent = LentScopes {
        session: Rc::clone(&session),
        variables: StreamVariables::default(),
        processed: MessageDirection::Request,
    };
    let mut child = child(session, engine, parent, true);
    // The backend does not count it as a session.
    child.backend = VisitedBackend::enter(backend);
    let timeouts = child.backend.timeouts;
    child.timeouts.enter_backend(&timeouts);
    child.attempts.allow_by_rule(0);
    let reached = clock::within(clock::after(WARMING), PooledFuture::new(reach(&mut child))).await;
    match reached {
        Some(Ok(())) => Some(child),
        _ => {
            close(child);
            None
        }
    }
}

async fn reach(child: &mut Stream) -> PhaseResult {
    child.server_phase().reach_server().await
}

/// Ends the stream of a connection that was opened before the first exchange. The pool keeps the connection.
pub(super) fn close(mut child: PoolBox<Stream>) {
    if let Some(lease) = &mut child.server.lease {
        lease.give_back();
    }
    child.backend.end();
    child.server.upstream = None;
    child.end_view();
}

async fn ask(child: &mut Stream, messages: &[u8]) -> Result<AckActions, Failure> {
    let asked = converse(child, messages).await;
    asked.map_err(|stop| match stop {
        Stop::Failed(failure) => failure,
        Stop::Ended(ending) => failure_of(child, &ending),
    })
}

/// The actions of an ACK.
type AckActions = Loan<Vec<u8>>;

/// Why an exchange stopped.
enum Stop {
    Failed(Failure),
    Ended(StreamError),
}

impl From<StreamError> for Stop {
    fn from(stop: StreamError) -> Self {
        Stop::Ended(stop)
    }
}

async fn converse(child: &mut Stream, messages: &[u8]) -> Result<AckActions, Stop> {
    child.inspection().content_rules(ProxySide::Backend).await?;
    loop {
        child.server_phase().reach_server().await?;
        child.enter(During::Headers);
        let Some(agent) = child.server.upstream.as_mut().and_then(|upstream| upstream.connector.agent_mut())
        else {
            return Err(Stop::Failed(Failure::from(StatusCode::Unknown)));
        };
        match agent.notify(messages) {
            Notified::Sent => break,
            Notified::TooLarge => return Err(Stop::Failed(Failure::from(StatusCode::FrameTooBig))),
            // The agent closed an idle connection just now.
            Notified::Failed(fault) => {
                note_fault(child, fault);
                child.server_phase().close_server();
                let failure = crate::server::AttemptFailure::Refused(None);
                child.server_phase().retry_after(failure).await?;
            }
        }
    }
    let mut actions = crate::recycle::bytes();
    child
        .drive(
            While::acknowledgement(&child.timeouts, weir_sched::now()),
            |child, _| {
                let connector = child.server.upstream.as_mut().map(|upstream| &mut upstream.connector);
                match connector.and_then(|connector| connector.agent_mut()?.answer(&mut actions)) {
                    None => Ok(DriveStep::Wait(Waits::ONCE)),
                    Some(Ok(())) => Ok(DriveStep::Done(())),
                    Some(Err(fault)) => Err(Stop::Failed(fault.into())),
                }
            },
            |_, by, _| Err(Stop::Ended(StreamError::error(504, by, During::Headers))),
        )
        .await?;
    child.response_phase().begin_response_rules();
    child.inspection().response_content_rules().await?;
    Ok(actions)
}

/// The failure of an exchange after the end of its stream.
fn failure_of(child: &mut Stream, stop: &StreamError) -> Failure {
    child.ending = stop.ending();
    let fault = call(child).and_then(|call| call.fault.get());
    match (child.ending.by, fault) {
        (By::Resource, _) => Failure::Resource,
        (By::Killed | By::Down | By::Up, _) => Failure::Interrupted,
        (_, Some(fault)) => fault.into(),
        _ => StatusCode::Io.into(),
    }
}

/// Ends the stream of an exchange.
fn end(child: &mut Stream, asked: &PhaseResult<Result<AckActions, Failure>>) {
    let by = match asked {
        Ok(Ok(_)) => By::Nobody,
        Ok(Err(Failure::TimedOut)) | Err(_) => By::Client,
        Ok(Err(_)) => By::Server,
    };
    let observation = match asked {
        Ok(Ok(_)) => Some(Observation::Responded),
        Ok(Err(Failure::TimedOut)) if child.phase == During::Headers => Some(Observation::NoResponse),
        Ok(Err(failure)) if child.phase == During::Headers && *failure == StatusCode::Io.into() => {
            Some(Observation::BrokenConnection)
        }
        Ok(Err(Failure::Protocol(_))) if child.phase == During::Headers => Some(Observation::WrongResponse),
        _ => None,
    };
    child.as_server_phase().observe(observation);
    if by == By::Nobody {
        child.timers.response = Some(child.elapsed());
    } else if child.ending.is_normal() {
        child.ending = Ending::new(by, child.phase);
    }
    child.subrequest_phase().conclude_exchange();
    // The connection goes back to the pool. Without an answer it waits for one, or leaves.
    child.server.upstream = None;
    child.end_view();
}

/// How long a connection may take to be opened before the first exchange.
const WARMING: std::time::Duration = std::time::Duration::from_secs(1);
