//! `use-service lua.<name>`: a script answers in place of a server.
//!
//! ```text
//!   rule ── begin ──► script: reads the request ─► start_response ─► http-response rules ─► reply
//!                                                                                            │
//!   client ◄── body ◄── ScriptOutput ◄── send ── script ◄──────────── ScriptService::drive ◄─┘
//! ```
//! Small pieces gather in the output until the script waits. A script that sends more waits until the client took it.

use std::cell::RefCell;
use std::rc::Rc;

use weir_config::rules::ActionContext;
use weir_config::scripts::ServiceKind;
use weir_config::words::{Parsed, Word, fault};
use weir_containers::PooledFuture;
use weir_expr::ScriptName;
use weir_expr::scratch::Scratch;
use weir_fingerprint::Canonical;
use weir_http::{BodySize, status};
use weir_model::{ActionFacts, RulesetKind};
use weir_mux::{BodyFlow, BodyProducer, FlowState, LocalService, ProducerStep, StreamConnector};
use weir_net::{ReceiveOutcome, shortage};
use weir_sched::Tick;
use weir_scripts::{ReceiveAmount, ScriptReply, ScriptResult, ScriptRun, ScriptStep};

use super::super::answers::FINAL;
use super::super::{ActionResult, RuleContext, StreamAction, Verdict};
use super::channel::settle_for_service;
use super::target::{YIELD, scripts};
use crate::clock;
use crate::deadlines::{Waits, While};
use crate::drive::{DriveStep, waits_until};
use crate::ending::{By, During, Ending};
use crate::limited_body::LimitedBody;
use crate::reply::{LocalReply, ReplyBody};
use crate::stream::response::{LocalName, ResponseProgress};
use crate::stream::{PhaseResult, Stream, StreamError};

/// `use-service lua.<name>`: a script responds.
#[derive(Debug, Canonical)]
pub(in crate::actions) struct UseScript {
    text: Box<str>,
    #[canonical(skip = "follows from the text")]
    name: ScriptName,
    #[canonical(skip = "follows from the ruleset")]
    kind: ServiceKind,
}

impl UseScript {
    /// Reads the name of the service.
    pub(in crate::actions) fn read(context: &ActionContext<'_, '_>, word: &Word) -> Parsed<Self> {
        let name = word.text();
        let kind = if context.kind.is_http() { ServiceKind::Http } else { ServiceKind::Tcp };
        if let Some(found) = context.script_service(name, kind) {
            return Ok(UseScript { text: name.into(), name: found, kind });
        }
        let other = kind.other().name();
        Err(fault(
            word.span(),
            match context.script_service(name, kind.other()) {
                Some(_) => format!(
                    "'{name}' is registered as a service of '{other}'; '{}' expects one of '{}'.",
                    context.kind.keyword(),
                    kind.name()
                ),
                None => format!("'{name}' unknown service name: no script registered it."),
            },
        ))
    }
}

impl StreamAction for UseScript {
    #[cold]
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        ActionResult::Await(PooledFuture::new(async move {
            Ok(match self.kind {
                ServiceKind::Http => serve_http(stream, self.name, rule).await,
                ServiceKind::Tcp => serve_tcp(stream, self.name, rule).await,
            })
        }))
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { answers: true, ..FINAL }
    }
}

/// A script that answers a client.
struct ScriptService {
    run: ScriptRun,
    kind: ServiceKind,
    wants: ClientWait,
    output: Rc<RefCell<ScriptOutput>>,
    /// There is output that the client's side did not see yet.
    has_news: bool,
    /// Others run before the script goes on.
    pauses: bool,
    /// The script failed after it had sent something.
    has_failed: bool,
    /// Bytes that were read for a call that timed out, and how many of them were taken since.
    held: Vec<u8>,
    held_taken: usize,
    /// How often the script has read nothing at the end.
    reads_at_end: u32,
    /// How many bytes of the announced length are left. `None` if it was not announced.
    left: Option<u64>,
    /// The head of the response has left.
    has_begun: bool,
    /// The response does not have a body: the output of the script is dropped.
    is_bodyless: bool,
}

impl std::fmt::Debug for ScriptService {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.run.fmt(out)
    }
}

/// A wait of the script for its client.
enum ClientWait {
    Nothing,
    Bytes { amount: ReceiveAmount, until: Tick, taken: Vec<u8> },
    Room { sent: usize },
}

/// The result of a step of the script.
enum ServiceEvent {
    /// There is new output, or its end.
    Output,
    Began(Box<ScriptReply>),
    /// The script failed.
    Failed,
    Rest(Waits),
}

/// The output of the script, for the client's side of the stream.
#[derive(Default)]
struct ScriptOutput {
    bytes: Vec<u8>,
    /// How many of them were taken.
    taken: usize,
    has_ended: bool,
}

struct OutputReader(Rc<RefCell<ScriptOutput>>);

impl BodyProducer for OutputReader {
    fn advance(&mut self, enough: usize, out: &mut Vec<u8>) -> ProducerStep {
        let mut output = self.0.borrow_mut();
        let piece = output.bytes.get(output.taken..).unwrap_or_default();
        let count = piece.len().min(enough);
        out.extend_from_slice(&piece[..count]);
        output.taken += count;
        let is_empty = output.taken == output.bytes.len();
        match count {
            _ if is_empty && output.has_ended => ProducerStep::Last,
            0 => ProducerStep::Later(Tick::NEVER),
            _ => ProducerStep::More,
        }
    }
}

impl ScriptOutput {
    fn is_taken(&self) -> bool {
        self.taken == self.bytes.len()
    }
}

/// Runs a service of HTTP, and sends its response.
async fn serve_http(stream: &mut Stream, name: ScriptName, rule: RuleContext<'_>) -> Verdict {
    rule.proxy.count_intercepted();
    let begun = begin_http(stream, name).await;
    let service = match begun {
        Ok(service) => service,
        Err(stop) => return Verdict::Stop(stop),
    };
    stream.response.progress = ResponseProgress::Known;
    stream.response_phase().begin_response_rules();
    if stream.as_response_phase().has_response_rules(RulesetKind::HttpResponse)
        && let Err(stop) = stream.response_phase().response_rules(RulesetKind::HttpResponse).await
    {
        return Verdict::Stop(stop);
    }
    let ending = Ending::new(By::Local, rule.during());
    let Some(service) = service else { return Verdict::Stop(StreamError::Reply(ending)) };
    if stream.session.admitted.subrequest_depth() > 0 {
        return Verdict::Stop(match service.collect(stream).await {
            Ok(()) => StreamError::Reply(ending),
            Err(stop) => stop,
        });
    }
    stream.ending = ending;
    Verdict::Stop(match service.answer(stream).await {
        Ok(()) => StreamError::Answered(ending),
        Err(failure) => StreamError::Close(failure),
    })
}

/// Runs a service of HTTP until its response begins, and prepares the head. `None` if the script fails: the response is the error message for
/// status 500.
async fn begin_http(stream: &mut Stream, name: ScriptName) -> PhaseResult<Option<ScriptService>> {
    let now = Some(stream.elapsed());
    (stream.timers.queue, stream.timers.connect) = (now, now);
    let Some(mut service) = ScriptService::new(stream, name, ServiceKind::Http) else {
        stream.reply_phase().prepare_error(500);
        return Ok(None);
    };
    stream.request.message.detach(&mut stream.client);
    let begun = stream
        .drive(
            While::body(&stream.timeouts, None, weir_sched::now()),
            |stream, _| {
                if stream.client.has_pending() {
                    // The rest of a `100 Continue`. A broken client is detected by its next read.
                    let _ = stream.client.flush(false);
                }
                match service.advance(stream)? {
                    ServiceEvent::Began(reply) => Ok(DriveStep::Done(Some(*reply))),
                    // A script that ends without a response has failed.
                    ServiceEvent::Failed | ServiceEvent::Output => Ok(DriveStep::Done(None)),
                    ServiceEvent::Rest(waits) => Ok(DriveStep::Wait(waits)),
                }
            },
            |_, by, _| Err(StreamError::error(408, by, During::Data)),
        )
        .await;
    stream.response.body.resume_at(None);
    let begun = begun?;
    // A script that takes the request before it reads the body wants the body.
    if begun.as_ref().is_some_and(|reply| reply.status < 400) && !stream.request.body.is_done() {
        stream.inspection().send_continue()?;
    }
    stream.timers.response = Some(stream.elapsed());
    let Some(length) = begun.and_then(|reply| stream.reply_phase().prepare_service(&reply)) else {
        stream.reply_phase().prepare_error(500);
        return Ok(None);
    };
    service.left = length;
    service.has_begun = true;
    service.run.began();
    Ok(Some(service))
}

/// Runs a service of TCP. The connection ends with it.
async fn serve_tcp(stream: &mut Stream, name: ScriptName, rule: RuleContext<'_>) -> Verdict {
    let earlier = settle_for_service(stream);
    let Some(service) = ScriptService::new(stream, name, ServiceKind::Tcp) else {
        return Verdict::Stop(StreamError::close(By::Internal, rule.during()));
    };
    service.output.borrow_mut().bytes = earlier;
    rule.proxy.count_intercepted();
    let now = Some(stream.elapsed());
    (stream.timers.queue, stream.timers.connect) = (now, now);
    stream.response.body.begin(BodyFlow::tunnel());
    let ended = service.drive(stream).await;
    Verdict::Stop(StreamError::Close(ended.err().unwrap_or(Ending::NORMAL)))
}

impl ScriptService {
    fn new(stream: &mut Stream, name: ScriptName, kind: ServiceKind) -> Option<Self> {
        let scripts = scripts(stream)?;
        let run = ScriptRun::of_service(&scripts, weir_sched::worker_index(), name, kind)?;
        stream.response.service = LocalName::Script;
        stream.captures.keep_service(name);
        Some(ScriptService {
            run,
            kind,
            wants: ClientWait::Nothing,
            output: Rc::default(),
            has_news: false,
            pauses: false,
            has_failed: false,
            held: Vec::new(),
            held_taken: 0,
            reads_at_end: 0,
            left: None,
            has_begun: false,
            is_bodyless: false,
        })
    }

    /// Sends the prepared head, and then the body.
    async fn answer(mut self, stream: &mut Stream) -> Result<(), Ending> {
        let size = self.left.map_or(BodySize::Unknown, BodySize::of_length);
        self.is_bodyless = stream.reply_phase().open_service(size).await;
        match self.whole_body(stream)? {
            Some(body) => stream.reply_phase().send_service(&body).await?,
            None => {
                stream.reply_phase().send_service_head().await?;
                self.drive(stream).await?;
            }
        }
        stream.reply_phase().close_service();
        Ok(())
    }

    /// The body of a script that does not wait and announced its length: it leaves together with the head.
    fn whole_body(&mut self, stream: &mut Stream) -> Result<Option<Vec<u8>>, Ending> {
        if self.left.is_none() || stream.response.body.is_filtered() {
            return Ok(None);
        }
        match self.advance(stream).map_err(|stop| stop.ending())? {
            ServiceEvent::Began(_) => self.run.refuse(BEGUN),
            ServiceEvent::Failed => self.has_failed = true,
            ServiceEvent::Output if self.output.borrow().has_ended => {
                return Ok(Some(self.output.take().bytes));
            }
            // The output stays, and the script rests again in the next step.
            ServiceEvent::Output | ServiceEvent::Rest(_) => {}
        }
        Ok(None)
    }

    /// Keeps the body as that of a reply: a sub-request does not have a client.
    async fn collect(mut self, stream: &mut Stream) -> PhaseResult {
        self.is_bodyless = status::is_bodyless(stream.response.message.head.status());
        let mut body = LimitedBody::kept(MOST_COLLECTED);
        let ended = stream
            .drive(
                While::until(Tick::NEVER),
                |stream, _| {
                    let advance = self.advance(stream)?;
                    let output = self.output.take();
                    body.add(&output.bytes);
                    if body.is_exceeded {
                        return Err(StreamError::error(500, By::Internal, During::Data));
                    }
                    match advance {
                        ServiceEvent::Output if !output.has_ended => Ok(DriveStep::Wait(YIELD)),
                        ServiceEvent::Rest(waits) => Ok(DriveStep::Wait(waits)),
                        ServiceEvent::Output if !body.is_exceeded => Ok(DriveStep::Done(())),
                        _ => Err(StreamError::error(500, By::Internal, During::Data)),
                    }
                },
                |_, by, _| Err(StreamError::error(500, by, During::Data)),
            )
            .await;
        stream.response.body.resume_at(None);
        ended?;
        let body = ReplyBody::Made(Scratch::from(body.whole().unwrap_or_default()));
        stream.response.reply = Some(LocalReply { body, closes: false, logged_as: 0 });
        Ok(())
    }

    /// Sends the body at the client's pace, until the script ends.
    async fn drive(mut self, stream: &mut Stream) -> Result<(), Ending> {
        let reader = OutputReader(Rc::clone(&self.output));
        let mut source = StreamConnector::from(LocalService::new(Box::new(reader)));
        let ended = stream
            .drive(
                While::Bodies,
                |stream, _| loop {
                    let flow = stream.response.body.advance(&mut source, &mut stream.client);
                    match flow {
                        FlowState::Done => return Ok(DriveStep::Done(())),
                        FlowState::Refused => return Err(Ending::new(By::Internal, During::Data)),
                        FlowState::AwaitSource => {}
                        // A filter holds the output back, so the script makes no more.
                        FlowState::Withheld if !stream.client.is_broken() => {
                            return Ok(DriveStep::Wait(Waits { withheld: true, ..Waits::default() }));
                        }
                        FlowState::AwaitSink if !stream.client.is_broken() => {
                            return Ok(DriveStep::Wait(Waits { client_takes: true, ..Waits::default() }));
                        }
                        FlowState::Yield if !stream.client.is_broken() => return Ok(DriveStep::Wait(YIELD)),
                        _ => return Err(ABORTED),
                    }
                    match self.advance(stream).map_err(|stop| stop.ending())? {
                        ServiceEvent::Output => {}
                        ServiceEvent::Rest(waits) => return Ok(DriveStep::Wait(waits)),
                        ServiceEvent::Began(_) => self.run.refuse(BEGUN),
                        ServiceEvent::Failed => return Err(Ending::new(By::Internal, During::Data)),
                    }
                },
                |_, by, _| Err(Ending::new(by, During::Data)),
            )
            .await;
        stream.response.body.resume_at(None);
        ended
    }

    /// Lets the script go on, until it has sent something, has ended, or waits.
    fn advance(&mut self, stream: &mut Stream) -> PhaseResult<ServiceEvent> {
        for _ in 0..MOST_STEPS {
            if self.has_failed {
                return Ok(ServiceEvent::Failed);
            }
            if std::mem::take(&mut self.pauses) {
                return Ok(self.rest(YIELD));
            }
            match std::mem::replace(&mut self.wants, ClientWait::Nothing) {
                ClientWait::Nothing => {}
                ClientWait::Room { sent } if self.output.borrow().is_taken() => self.run.sent(sent),
                wants @ ClientWait::Room { .. } => {
                    self.wants = wants;
                    return Ok(self.rest(Waits { client_takes: true, ..Waits::default() }));
                }
                ClientWait::Bytes { amount, until, taken } => {
                    if let Some(waits) = self.read(stream, amount, until, taken)? {
                        return Ok(self.rest(waits));
                    }
                }
            }
            match self.run.step(Some(stream)) {
                ScriptStep::Ended(result) => return Ok(self.end(&result)),
                ScriptStep::Pause => self.pauses = true,
                ScriptStep::Wait(at) => return Ok(self.rest(waits_until(stream, at, During::Data)?)),
                ScriptStep::Receive(amount, until) => self.begin_read(amount, until),
                ScriptStep::Send(bytes) => self.send(bytes),
                ScriptStep::Answer(reply) => return Ok(ServiceEvent::Began(reply)),
                ScriptStep::Channel(..) => self.run.refuse("a service has no channels"),
            }
        }
        // Its waits all ended at once. Others run before it goes on.
        self.pauses = true;
        Ok(self.rest(YIELD))
    }

    /// A rest of the script. Its output so far leaves first.
    fn rest(&mut self, waits: Waits) -> ServiceEvent {
        if std::mem::take(&mut self.has_news) { ServiceEvent::Output } else { ServiceEvent::Rest(waits) }
    }

    /// Adds bytes to the output.
    fn send(&mut self, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        if self.left.is_some_and(|left| left < length) {
            return self.run.refuse("the body would be longer than the content-length of the response");
        }
        self.left = self.left.map(|left| left - length);
        let sent = bytes.len();
        if self.is_bodyless {
            return self.run.sent(sent);
        }
        let mut output = self.output.borrow_mut();
        if output.is_taken() {
            *output = ScriptOutput { bytes, ..ScriptOutput::default() };
        } else {
            output.bytes.extend_from_slice(&bytes);
        }
        self.has_news = true;
        if output.bytes.len() - output.taken > ENOUGH {
            self.wants = ClientWait::Room { sent };
        } else {
            drop(output);
            self.run.sent(sent);
        }
    }

    fn begin_read(&mut self, amount: ReceiveAmount, until: Tick) {
        let mut taken = Vec::new();
        self.held_taken += take(amount, &mut taken, &self.held[self.held_taken..]);
        if self.held_taken == self.held.len() {
            (self.held, self.held_taken) = (Vec::new(), 0);
        }
        self.wants = ClientWait::Bytes { amount, until, taken };
    }

    fn end(&mut self, result: &ScriptResult) -> ServiceEvent {
        let is_short = self.left.is_some_and(|left| left > 0) && !self.is_bodyless;
        if *result == ScriptResult::Failed || is_short {
            // The earlier output leaves first, and then the connection is cut.
            return if std::mem::take(&mut self.has_news) { self.fail_later() } else { ServiceEvent::Failed };
        }
        self.output.borrow_mut().has_ended = true;
        ServiceEvent::Output
    }

    fn fail_later(&mut self) -> ServiceEvent {
        self.has_failed = true;
        ServiceEvent::Output
    }

    /// Reads from the client. `None` once the script got its bytes.
    fn read(
        &mut self,
        stream: &mut Stream,
        amount: ReceiveAmount,
        until: Tick,
        mut taken: Vec<u8>,
    ) -> PhaseResult<Option<Waits>> {
        let state = match self.kind {
            _ if amount.is_enough(&taken) => FlowState::AwaitSink,
            ServiceKind::Http => {
                // Behind the head of the response, it is too late for an interim one.
                if !self.has_begun {
                    stream.inspection().send_continue()?;
                }
                let mut take = |payload: &[u8]| take(amount, &mut taken, payload);
                stream.request.body.read_some(&mut stream.client, &mut take)
            }
            ServiceKind::Tcp => read_bytes(stream, amount, &mut taken),
        };
        if state == FlowState::Done && taken.is_empty() {
            self.reads_at_end += 1;
            if self.reads_at_end > MOST_READS_AT_END {
                self.run.refuse("the client has ended, and the script goes on to read");
                return Ok(None);
            }
        }
        if !self.run.holds(taken.len() + self.held.len()) {
            self.run.refuse("not enough memory");
            return Ok(None);
        }
        match state {
            FlowState::AwaitSource | FlowState::Yield | FlowState::AwaitSink if taken.len() > MOST_HELD => {
                self.run.refuse("the client sent more than a script may read at once");
                return Ok(None);
            }
            FlowState::Done | FlowState::AwaitSource if amount == ReceiveAmount::There => {
                // Nothing is there now.
                self.run.give((!taken.is_empty()).then_some(taken));
                return Ok(None);
            }
            FlowState::Done | FlowState::AwaitSink => {}
            FlowState::AwaitSource if amount.is_enough(&taken) => {}
            FlowState::AwaitSource if clock::passed(until) => {
                self.held = taken;
                self.run.give(None);
                return Ok(None);
            }
            FlowState::AwaitSource | FlowState::Yield => {
                self.wants = ClientWait::Bytes { amount, until, taken };
                let waits = match until {
                    Tick::NEVER => Waits { client_sends: true, ..Waits::default() },
                    until => waits_until(stream, until, During::Data)?,
                };
                return Ok(Some(if state == FlowState::Yield { YIELD } else { waits }));
            }
            FlowState::Malformed => {
                stream.counts().count_bad_request();
                return Err(StreamError::error(400, By::Proxy, During::Data));
            }
            _ => return Err(StreamError::error(400, By::Client, During::Data)),
        }
        self.run.give(Some(taken));
        Ok(None)
    }
}

/// Reads bytes of a client without HTTP. `Done` at the end.
fn read_bytes(stream: &mut Stream, amount: ReceiveAmount, taken: &mut Vec<u8>) -> FlowState {
    let limit = stream.frontend.instance().limits.buffer_size;
    for _ in 0..ROUNDS {
        let there = stream.client.input().len();
        let count = take(amount, taken, stream.client.input());
        stream.client.consume(count);
        if count < there || amount.is_enough(taken) {
            return FlowState::AwaitSink;
        }
        match stream.client.receive(limit) {
            ReceiveOutcome::Bytes(_) | ReceiveOutcome::Full => {}
            ReceiveOutcome::Nothing => return FlowState::AwaitSource,
            ReceiveOutcome::End => return FlowState::Done,
            ReceiveOutcome::Failed(fault) => {
                return FlowState::Failed(weir_mux::FlowSide::Source, fault);
            }
        }
    }
    FlowState::Yield
}

/// Takes the wanted part of the received bytes. Returns its length.
fn take(amount: ReceiveAmount, taken: &mut Vec<u8>, there: &[u8]) -> usize {
    let count = match amount {
        ReceiveAmount::All if taken.len() > MOST_HELD => 0,
        _ => amount.wanted(taken, there),
    };
    // Without memory, the bytes stay, and the budget of the scripts refuses the call.
    if !shortage::make_room(taken, count) {
        return 0;
    }
    taken.extend_from_slice(&there[..count]);
    count
}

/// The client closed while the response was being sent.
const ABORTED: Ending = Ending::new(By::Client, During::Data);
/// The most bytes that one call of a script reads.
const MOST_HELD: usize = 64 * 1024 * 1024;
/// The failure of a second response.
const BEGUN: &str = "the response has begun already";
/// The largest body for a sub-request.
const MOST_COLLECTED: usize = 1024 * 1024;
/// A script goes on while no more than this waits for the client.
const ENOUGH: usize = 16 * 1024;
/// The most waits of a script that end at once before others run.
const MOST_STEPS: u32 = 1_000;
/// How often a script may read nothing at the end of its client: one that does not look would read for ever.
const MOST_READS_AT_END: u32 = 1_000;
/// How often one call receives before other tasks run.
const ROUNDS: u32 = 16;
