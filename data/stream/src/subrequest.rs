//! Requests of the process itself, sent to a backend on behalf of a client's request.
//!
//! A sub-request is a stream like any other below its client side: the rules, the balancing, the queues, the connections and the
//! counters of the backend apply. It has a task of its own. In place of a client's connection it has a service that sends nothing and
//! never ends ([`NoClient`]). Its frontend is `Instance::subrequests`, which is not shown and logs nothing.
//!
//! ```text
//!   rule ── Subrequest::send ──► PendingSubrequest ── poll ──► SubrequestOutcome
//!                │                    └── drop ──► the sub-request ends
//!                └─ own task: rules, server, answer ─► report ─► rest of the body, counters
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use weir_containers::PoolBox;
use weir_http::Kind;
use weir_mux::{BodyProducer, KeptBody, LocalService, Message, ProducerStep};
use weir_sched::{Class, TaskKey, Tick, WorkKind};
use weir_sys::Address;

use crate::admission::Admission;
use crate::clock::{self, ClockReading};
use crate::ending::By;
use crate::entry::StreamHandle;
use crate::instance::ProxyRef;
use crate::limited_body::LimitedBody;
use crate::recycle::{self, Loan};
use crate::session::ClientSession;
use crate::stream::{Stream, StreamError};

/// A request that was not sent yet.
pub(crate) struct Subrequest {
    stream: PoolBox<Stream>,
    backend: ProxyRef,
    body: Option<KeptBody>,
    deadline: Tick,
}

/// The answer to a sub-request.
pub(crate) struct SubrequestAnswer {
    /// The head.
    pub(crate) message: Loan<Message>,
    /// The body. `None` if it was not wanted or exceeds its limit.
    pub(crate) body: Option<Vec<u8>>,
}

/// The outcome of a sub-request.
pub(crate) enum SubrequestOutcome {
    Answered(SubrequestAnswer),
    /// Without an answer: the status that a client would have got, and the party at fault.
    Failed(u16, By),
}

impl Subrequest {
    /// The session of a sub-request on behalf of `parent`. `None` if nested sub-requests exceed [`MAX_DEPTH`].
    pub(crate) fn session(parent: &Stream) -> Option<Rc<ClientSession>> {
        let (of, depth) = (&parent.session, parent.session.admitted.subrequest_depth());
        (depth < MAX_DEPTH).then(|| {
            let frontend = ProxyRef::of_subrequests(parent.frontend.instance());
            let admitted = Admission::of_subrequest(frontend, depth + 1);
            let (source, destination) = (parent.source().clone(), parent.destination().clone());
            let session = ClientSession::new(admitted, source, Some(destination), of.accepted, -1);
            // With one request, `http-reuse safe` would not use idle connections. A sub-request is not the first of a client.
            session.requests.set(2);
            session
        })
    }

    /// The session of an exchange that the process begins by itself.
    pub(crate) fn session_of_process(proxy: &ProxyRef) -> Rc<ClientSession> {
        let frontend = ProxyRef::of_subrequests(proxy.instance());
        let admitted = Admission::of_subrequest(frontend, 1);
        ClientSession::new(admitted, Address::Unnamed, None, ClockReading::now(), -1)
    }

    /// A request with this head, of HTTP/1, to a backend. `None` if the head is invalid, or the backend disabled or not published. The time until the
    /// end of the answer is limited.
    pub(crate) fn new(
        session: Rc<ClientSession>,
        backend: ProxyRef,
        head: &[u8],
        timeout: Duration,
    ) -> Option<Self> {
        if backend.config.settings.disabled || !backend.is_published() {
            return None;
        }
        let client = LocalService::new(Box::new(NoClient));
        let mut stream = PoolBox::new(Stream::new(session, client, weir_sched::now_us()));
        if stream.request.message.read_kept(Kind::Request, head) != Some(head.len()) {
            return None;
        }
        Some(Subrequest { stream, backend, body: None, deadline: clock::after(timeout) })
    }

    /// Adds a body, which the head announces.
    pub(crate) fn with_body(mut self, body: Vec<u8>) -> Self {
        self.body = Some(KeptBody::new(body, Vec::new()));
        self
    }

    /// Sends the request. The answer's body is kept up to `limit` bytes unless the status is 2xx.
    pub(crate) fn send(self, limit: usize) -> PendingSubrequest {
        let slot = Rc::new(AnswerSlot {
            waiter: weir_sched::current(),
            outcome: RefCell::new(None),
            is_abandoned: Cell::new(false),
        });
        let stream = self.stream.entry.handle(self.stream.serial);
        let reporter = OutcomeReporter(Rc::clone(&slot));
        weir_sched::spawn(&SUBREQUEST, Class::Normal, self.run(Some((reporter, limit))));
        PendingSubrequest { slot, stream }
    }

    /// Sends the request and drops its answer. `guard` is dropped at the end.
    pub(crate) fn send_only(self, guard: impl Sized + 'static) {
        weir_sched::spawn(&SUBREQUEST, Class::Normal, async move {
            self.run(None).await;
            drop(guard);
        });
    }

    async fn run(self, report: Option<(OutcomeReporter, usize)>) {
        let Subrequest { mut stream, backend, body, deadline } = self;
        let is_awaited = report.is_some();
        if report.as_ref().is_some_and(|(reporter, _)| reporter.0.is_abandoned.get()) {
            return;
        }
        stream.begin_view();
        let asked = stream.subrequest_phase().ask(backend, body, deadline).await;
        let outcome = match asked {
            Ok(()) => finish_answer(&mut stream, report, deadline).await,
            Err(StreamError::Reply(ending)) => {
                stream.ending = ending;
                if let Some((reporter, limit)) = report {
                    let answer = SubrequestAnswer::of_rule(&mut stream, limit);
                    reporter.report(SubrequestOutcome::Answered(answer));
                }
                Ok(())
            }
            Err(stop) => {
                if let Some((reporter, _)) = report {
                    reporter.report(SubrequestOutcome::failed(&stop));
                }
                Err(stop)
            }
        };
        if let Err(stop) = outcome {
            stream.ending = stop.ending();
            if let StreamError::Error(status, _) = stop
                && !stream.response.is_known()
            {
                stream.response.status = status;
            }
        }
        stream.subrequest_phase().conclude(is_awaited);
        stream.end_phase().settle_server();
        stream.end_view();
    }
}

/// Reports the answer of a server, and reads the rest of its body, so that the connection can be reused.
async fn finish_answer(
    stream: &mut Stream,
    report: Option<(OutcomeReporter, usize)>,
    deadline: Tick,
) -> Result<(), StreamError> {
    let mut flow = stream.subrequest_phase().take_answer_body();
    let (reporter, limit) = report.unzip();
    let is_refusal = !(200..300).contains(&stream.response.status);
    let Some(limit) = limit.filter(|_| is_refusal) else {
        // The verdict does not wait for the body.
        if let Some(reporter) = reporter {
            reporter.report(SubrequestOutcome::Answered(SubrequestAnswer::new(stream, None)));
        }
        let mut rest = LimitedBody::dropped(MOST_DROPPED);
        return stream.subrequest_phase().read_answer(&mut flow, &mut rest, deadline).await;
    };
    let mut body = LimitedBody::kept(limit);
    let read = stream.subrequest_phase().read_answer(&mut flow, &mut body, deadline).await;
    if let Some(reporter) = reporter {
        reporter.report(match &read {
            Ok(()) => SubrequestOutcome::Answered(SubrequestAnswer::new(stream, body.whole())),
            Err(stop) => SubrequestOutcome::failed(stop),
        });
    }
    read
}

impl SubrequestAnswer {
    fn new(stream: &mut Stream, body: Option<Vec<u8>>) -> Self {
        let message = std::mem::replace(&mut stream.response.message, recycle::message());
        SubrequestAnswer { message, body }
    }

    /// The answer of a rule of the backend.
    fn of_rule(stream: &mut Stream, limit: usize) -> Self {
        let reply = stream.response.reply.take().unwrap_or_default();
        let body = Some(reply.body.bytes()).filter(|body| body.len() <= limit).map(<[u8]>::to_vec);
        SubrequestAnswer::new(stream, body)
    }
}

impl SubrequestOutcome {
    fn failed(stop: &StreamError) -> Self {
        let status = if let StreamError::Error(status, _) = stop { *status } else { 502 };
        SubrequestOutcome::Failed(status, stop.ending().by)
    }
}

/// The place where a sub-request leaves its outcome.
struct AnswerSlot {
    waiter: TaskKey,
    outcome: RefCell<Option<SubrequestOutcome>>,
    /// The waiter does not want the outcome any more.
    is_abandoned: Cell<bool>,
}

/// A sub-request in progress. Dropping it ends the sub-request, unless its outcome was taken.
pub(crate) struct PendingSubrequest {
    slot: Rc<AnswerSlot>,
    stream: StreamHandle,
}

impl PendingSubrequest {
    /// The outcome, once known. The task that sent the request is woken then.
    pub(crate) fn poll(&self) -> Option<SubrequestOutcome> {
        let outcome = self.slot.outcome.take()?;
        self.slot.is_abandoned.set(true);
        Some(outcome)
    }
}

impl Drop for PendingSubrequest {
    fn drop(&mut self) {
        if !self.slot.is_abandoned.replace(true) {
            self.stream.end(By::Client);
        }
    }
}

/// Leaves the outcome in its slot. A failure if it is dropped before, as when the task is killed.
struct OutcomeReporter(Rc<AnswerSlot>);

impl OutcomeReporter {
    fn report(self, outcome: SubrequestOutcome) {
        self.0.outcome.replace(Some(outcome));
    }
}

impl Drop for OutcomeReporter {
    fn drop(&mut self) {
        self.0.outcome.borrow_mut().get_or_insert(SubrequestOutcome::Failed(503, By::Internal));
        weir_sched::wake(self.0.waiter);
    }
}

/// The client side of a sub-request: sends nothing, and never ends.
pub(crate) struct NoClient;

impl BodyProducer for NoClient {
    fn advance(&mut self, _: usize, _: &mut Vec<u8>) -> ProducerStep {
        ProducerStep::Later(Tick::NEVER)
    }
}

static SUBREQUEST: WorkKind = WorkKind::new("sub-request");
/// How deep sub-requests may be nested: the backend of one may have a rule that starts another.
const MAX_DEPTH: u16 = 2;
/// Maximum bytes of an unwanted body that are read and dropped so that the connection can be reused.
const MOST_DROPPED: usize = 256 * 1024;
