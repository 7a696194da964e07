//! A transfer forwards one direction of a stream, through filters or a pipe if it has them.
//!
//! ```text
//!   source ──► buffer ──────────────────────────────► sink     BodyFlow: nothing is copied
//!   source ──► buffer ──► payload ──► filters ──────► sink     filters
//!   source ──► pipe ────────────────────────────────► sink     `option splice-*`, inside the kernel
//! ```
//!
//! Only bytes in transit are kept here. Bytes that a filter holds back stay at the source, which applies
//! backpressure.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use weir_containers::LocalArc;
use weir_http::Head;
use weir_net::{ReceiveOutcome, SendOutcome};
use weir_sched::Tick;
use weir_sys::Errno;

use crate::body::{BodyFlow, BodyRemainder, FlowSide, FlowState, KeptBody};
use crate::connector::{Indirect, StreamConnector};
use crate::filter::{Failed, Filter, FilterChain, HeadContext, HeadPassage, LengthChange};
use crate::message::Message;
use crate::pipes::Pipes;
use crate::progress::{BodyDelta, BodyProgress};
use crate::service::LocalService;
use crate::spliced::SplicedBody;
use crate::trailers::Trailers;
use crate::way::Tail;

/// Forwards one body, or one direction of a tunnel.
#[derive(Debug)]
pub struct Transfer {
    flow: BodyFlow,
    /// Boxed, because every stream has two transfers.
    aside: Option<Box<Aside>>,
}

/// State that only few bodies need.
#[derive(Debug, Default)]
struct Aside {
    detour: Option<Detour>,
    /// When the source continues, if it is a service that waits.
    resumes: Option<Tick>,
    /// The progress last traced.
    reported: Option<BodyProgress>,
}

/// The path of bytes that do not go straight from the source's buffer to the sink.
#[derive(Debug)]
enum Detour {
    Filters(FilteredBytes),
    Pipe(SplicedBody),
}

impl Transfer {
    /// A transfer without a body and without filters.
    pub fn done() -> Self {
        Transfer { flow: BodyFlow::done(), aside: None }
    }

    /// Starts another body. The filters stay.
    #[inline]
    pub fn begin(&mut self, flow: BodyFlow) {
        self.flow = flow;
        if self.aside.is_some() {
            self.begin_again();
        }
    }

    #[cold]
    fn begin_again(&mut self) {
        match self.aside.as_deref_mut() {
            Some(Aside { detour: Some(Detour::Filters(filtered)), reported, resumes }) => {
                (*reported, *resumes) = (None, None);
                filtered.begin(&self.flow);
            }
            _ => self.aside = None,
        }
    }

    /// Adds a filter after the others. Call it before any byte was forwarded. Up to `limit` bytes are held for a filter that waits for more.
    pub fn add(&mut self, filter: Box<dyn Filter>, limit: usize) {
        self.begin_filters(limit);
        if let Some(filtered) = self.filtered() {
            filtered.chain.push(filter);
        }
    }

    /// Adds a filter before the others, so that it sees the unchanged body. Otherwise like [`add`](Self::add).
    pub fn add_first(&mut self, filter: Box<dyn Filter>, limit: usize) {
        self.begin_filters(limit);
        if let Some(filtered) = self.filtered() {
            filtered.chain.push_first(filter);
        }
    }

    fn begin_filters(&mut self, limit: usize) {
        if self.filtered().is_none() {
            let mut filtered = FilteredBytes::new(limit);
            filtered.begin(&self.flow);
            self.aside.get_or_insert_default().detour = Some(Detour::Filters(filtered));
        }
    }

    #[inline]
    fn detour(&self) -> Option<&Detour> {
        self.aside.as_ref()?.detour.as_ref()
    }

    fn filtered(&mut self) -> Option<&mut FilteredBytes> {
        match &mut self.aside.as_mut()?.detour {
            Some(Detour::Filters(filtered)) => Some(filtered),
            Some(Detour::Pipe(_)) | None => None,
        }
    }

    /// Whether there are filters.
    #[inline]
    pub fn is_filtered(&self) -> bool {
        matches!(self.detour(), Some(Detour::Filters(_)))
    }

    /// Lets the rest of this body pass through one of these pipes after the first 16 kB, unless it is filtered. Chunked
    /// and short bodies always pass through the buffer.
    pub fn allow_pipe(&mut self, pipes: &LocalArc<Pipes>) {
        if self.detour().is_none() && self.flow.is_worth_a_pipe() {
            self.aside.get_or_insert_default().detour = Some(Detour::Pipe(SplicedBody::new(pipes.clone())));
        }
    }

    /// Bytes of this body that passed through a pipe.
    pub fn piped(&self) -> u64 {
        self.pipe().map_or(0, SplicedBody::bytes)
    }

    fn pipe(&self) -> Option<&SplicedBody> {
        match self.detour() {
            Some(Detour::Pipe(spliced)) => Some(spliced),
            Some(Detour::Filters(_)) | None => None,
        }
    }

    /// Passes the head of this body to the filters. `request` is the request of a response. If a filter changes the body's length, the head
    /// must not announce the old one. Filters that all ignore the body are removed.
    pub fn head(&mut self, head: &mut Message, request: Option<&Message>) -> Result<HeadPassage, Failed> {
        let (length, is_delimited) =
            (self.flow.framing.whole(self.flow.payload()), !self.flow.ends_with_source());
        let Some(filtered) = self.filtered() else { return Ok(HeadPassage::Passed(LengthChange::None)) };
        let now = weir_sched::now();
        let context = HeadContext { request, length, is_delimited, now };
        let progress = filtered.chain.head(head, &context, filtered.ended)?;
        if !filtered.ended
            && progress != HeadPassage::AwaitsStream
            && filtered.chain.ignores_body()
            && let Some(aside) = &mut self.aside
        {
            aside.detour = None;
        }
        Ok(progress)
    }

    /// Restarts a kept body for another server. The body passes the filters again.
    pub fn repeat(&mut self, body: &Rc<KeptBody>) {
        self.flow = BodyFlow::made();
        let flow = &self.flow;
        if let Some(Detour::Filters(filtered)) = self.aside.as_mut().and_then(|aside| aside.detour.as_mut()) {
            filtered.begin(flow);
            filtered.chain.restart();
            filtered.kept = Some(Repeat { body: Rc::clone(body), taken: 0 });
        }
    }

    /// Chooses the body's framing, once the sink and its head are known.
    #[inline]
    pub fn aim(&mut self, sink: &StreamConnector, head: &Head) {
        let is_filtered = self.is_filtered();
        self.flow.aim(sink, head, is_filtered);
    }

    /// Takes the flow out, and leaves an empty one.
    pub fn take_flow(&mut self) -> BodyFlow {
        std::mem::replace(&mut self.flow, BodyFlow::done())
    }

    /// See [`BodyFlow::send_behind`]. With filters, the head is sent alone, because the body has to pass them first.
    pub fn send_behind(
        &mut self,
        message: &mut Message,
        (source, sink): (&mut StreamConnector, &mut StreamConnector),
        scratch: &mut Vec<u8>,
        closes: bool,
        waits: bool,
    ) -> SendOutcome {
        match self.is_filtered() {
            true => message.send(sink, scratch, waits),
            false => self.flow.send_behind(message, (source, sink), scratch, closes, waits),
        }
    }

    /// Whether the last byte was received and sent.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.flow.is_done()
            && match self.detour() {
                None => true,
                Some(Detour::Filters(filtered)) => filtered.is_done(),
                Some(Detour::Pipe(spliced)) => spliced.held() == 0,
            }
    }

    /// When a filter lets more pass, after [`FlowState::Withheld`], or a service continues. [`Tick::NEVER`] if only a peer is awaited.
    #[inline]
    pub fn wake_at(&self) -> Tick {
        let filters = match self.detour() {
            Some(Detour::Filters(filtered)) => filtered.wake_at(),
            Some(Detour::Pipe(_)) | None => Tick::NEVER,
        };
        filters.min(self.aside.as_ref().and_then(|aside| aside.resumes).unwrap_or(Tick::NEVER))
    }

    /// Whether a filter needs the stream ([`Filter::awaits_stream`]).
    #[inline]
    pub fn awaits_stream(&self) -> bool {
        matches!(self.detour(), Some(Detour::Filters(filtered)) if filtered.chain.awaits_stream())
    }

    /// Sets when the source, a service, continues. `None` if it does not wait.
    pub fn resume_at(&mut self, at: Option<Tick>) {
        if at.is_some() || self.aside.is_some() {
            self.aside.get_or_insert_default().resumes = at;
        }
    }

    /// Forwards as many bytes as possible without blocking.
    #[inline]
    pub fn advance(&mut self, source: &mut StreamConnector, sink: &mut StreamConnector) -> FlowState {
        let detour = self.aside.as_mut().and_then(|aside| aside.detour.as_mut());
        match detour {
            None => self.flow.advance(source, sink),
            Some(Detour::Filters(filtered)) => filtered.advance(&mut self.flow, source, sink),
            Some(Detour::Pipe(spliced)) => spliced.advance(&mut self.flow, source, sink),
        }
    }

    /// The changes since the last call, for traces. Empty for a message without a body.
    pub fn step(&mut self) -> BodyDelta {
        let held = self.pipe().map_or(0, SplicedBody::held);
        self.flow.step(&mut self.aside.get_or_insert_default().reported, held)
    }
}

impl Deref for Transfer {
    type Target = BodyFlow;

    #[inline]
    fn deref(&self) -> &BodyFlow {
        &self.flow
    }
}

impl DerefMut for Transfer {
    #[inline]
    fn deref_mut(&mut self) -> &mut BodyFlow {
        &mut self.flow
    }
}

/// A kept body that replaces the source's bytes in a retry.
#[derive(Debug)]
struct Repeat {
    body: Rc<KeptBody>,
    taken: usize,
}

/// The filters, and the bytes in transit through them.
#[derive(Debug)]
struct FilteredBytes {
    chain: FilterChain,
    kept: Option<Repeat>,
    trailers: Trailers,
    /// Filtered payload, up to one output limit of each filter. The first `sent` bytes were sent.
    staged: Vec<u8>,
    sent: usize,
    /// Whether the end of the body has passed all filters.
    ended: bool,
    limit: usize,
}

impl FilteredBytes {
    fn new(limit: usize) -> Self {
        FilteredBytes {
            chain: FilterChain::new(limit),
            kept: None,
            trailers: Trailers::default(),
            staged: Vec::new(),
            sent: 0,
            ended: false,
            limit,
        }
    }

    fn begin(&mut self, flow: &BodyFlow) {
        self.chain.begin();
        self.kept = None;
        self.trailers.clear();
        self.staged.clear();
        self.sent = 0;
        self.ended = flow.is_done();
    }

    fn is_done(&self) -> bool {
        self.ended && self.staged.is_empty()
    }

    /// When a filter is to be called. Never while output waits for the sink: the filters are called again once it has left.
    fn wake_at(&self) -> Tick {
        match self.staged.is_empty() {
            true => self.chain.wake_at().min(self.chain.wakes_at()),
            false => Tick::NEVER,
        }
    }

    #[cold]
    fn advance(
        &mut self,
        flow: &mut BodyFlow,
        source: &mut StreamConnector,
        sink: &mut StreamConnector,
    ) -> FlowState {
        if matches!(
            sink,
            StreamConnector::Indirect(Indirect::Agent(_) | Indirect::Local(_) | Indirect::Closed)
        ) {
            return FlowState::Failed(FlowSide::Sink, weir_net::ConnectionFault::Io(Errno::PIPE));
        }
        let now = weir_sched::now();
        self.chain.begin_turn();
        for _ in 0..ROUNDS {
            // Small output waits for more: a filter that compresses makes little of each piece.
            if (self.staged.len() >= self.limit || self.sent > 0 || self.ended)
                && let Some(stop) = self.send(flow, sink)
            {
                return stop;
            }
            if self.chain.spent_us() > LONGEST_TURN_US {
                break;
            }
            match self.filter(flow, source, now) {
                Ok(true) => {}
                Ok(false) => return FlowState::Malformed,
                Err(Failed) => return FlowState::Refused,
            }
            if self.staged.len() >= self.limit || self.ended {
                continue;
            }
            let wake = self.chain.wake_at();
            if wake <= now {
                continue;
            }
            // A head that is still queued leaves together with the first output.
            if !self.staged.is_empty()
                && sink.has_pending()
                && let Some(stop) = self.send(flow, sink)
            {
                return stop;
            }
            // A kept body is complete, so only filters can hold it back.
            let waits = match wake.is_never() && self.kept.is_none() && !self.chain.awaits_stream() {
                true => self.receive(flow, source, sink),
                false => Some(FlowState::Withheld),
            };
            let Some(waits) = waits else { continue };
            if matches!(waits, FlowState::AwaitSource | FlowState::Withheld)
                && self.chain.idle(now, &mut self.staged).is_err()
            {
                return FlowState::Refused;
            }
            if self.staged.is_empty() {
                self.staged = Vec::new();
                return waits;
            }
            if let Some(stop) = self.send(flow, sink) {
                return stop;
            }
            if !matches!(waits, FlowState::AwaitSource | FlowState::Withheld) {
                return waits;
            }
        }
        self.send(flow, sink).unwrap_or(FlowState::Yield)
    }

    /// Receives the next bytes of the body. `None` after bytes or the body's end, otherwise the reason to stop.
    fn receive(
        &mut self,
        flow: &mut BodyFlow,
        source: &mut StreamConnector,
        sink: &mut StreamConnector,
    ) -> Option<FlowState> {
        // Nothing is received while a head is still queued.
        if sink.has_pending() {
            match sink.flush(false) {
                SendOutcome::All => {}
                SendOutcome::Part(_) => return Some(FlowState::AwaitSink),
                SendOutcome::Failed(fault) => return Some(FlowState::Failed(FlowSide::Sink, fault)),
            }
        }
        let received = match source {
            StreamConnector::Own(own) => own.receive_piece(),
            StreamConnector::Indirect(other) => other.receive(self.limit),
        };
        match received {
            ReceiveOutcome::Bytes(count) => flow.count_made(source, count),
            ReceiveOutcome::Nothing => return Some(FlowState::AwaitSource),
            ReceiveOutcome::End
                if matches!(flow.framing, BodyRemainder::UntilClose | BodyRemainder::UntilEnd) =>
            {
                flow.framing = BodyRemainder::Done;
            }
            ReceiveOutcome::End => return Some(FlowState::Truncated),
            ReceiveOutcome::Full => return Some(FlowState::Malformed),
            ReceiveOutcome::Failed(fault) => return Some(FlowState::Failed(FlowSide::Source, fault)),
        }
        None
    }

    /// Passes the available bytes through the filters. False if the chunked coding is invalid.
    fn filter(
        &mut self,
        flow: &mut BodyFlow,
        source: &mut StreamConnector,
        now: Tick,
    ) -> Result<bool, Failed> {
        if self.kept.is_some() {
            return self.take_kept(flow, now).map(|()| true);
        }
        match source {
            StreamConnector::Own(_)
            | StreamConnector::Indirect(Indirect::Shared(_) | Indirect::Application(_)) => {
                self.take(flow, source, now)
            }
            StreamConnector::Indirect(Indirect::Local(service)) => {
                self.take_made(flow, service, now).map(|()| true)
            }
            StreamConnector::Indirect(Indirect::Agent(_) | Indirect::Closed) => Ok(true),
        }
    }

    /// Sends the filtered bytes. `None` if there is room for more.
    fn send(&mut self, flow: &mut BodyFlow, sink: &mut StreamConnector) -> Option<FlowState> {
        let closes = self.ended && flow.closes_sink();
        if !self.staged.is_empty() {
            let tail = Tail { ends: self.ended && self.trailers.is_empty(), closes };
            match sink.send_body(&mut flow.ready.way, &self.staged[self.sent..], tail) {
                SendOutcome::All => {
                    self.staged.clear();
                    self.sent = 0;
                }
                SendOutcome::Part(count) => {
                    self.sent += count;
                    return Some(FlowState::AwaitSink);
                }
                SendOutcome::Failed(fault) => return Some(FlowState::Failed(FlowSide::Sink, fault)),
            }
        }
        if !self.ended {
            return None;
        }
        self.staged = Vec::new();
        flow.ready.end_sent = true;
        Some(match sink.finish_body(&mut flow.ready.way, self.trailers.as_bytes(), closes) {
            SendOutcome::All => FlowState::Done,
            SendOutcome::Part(_) => FlowState::AwaitSink,
            SendOutcome::Failed(fault) => FlowState::Failed(FlowSide::Sink, fault),
        })
    }

    /// Passes the available bytes from a connection through the filters. False if the chunked coding is invalid.
    fn take(&mut self, flow: &mut BodyFlow, source: &mut StreamConnector, now: Tick) -> Result<bool, Failed> {
        if flow.ready.leaving() == 0
            && source.input().len() > flow.ready()
            && !flow.is_complete()
            && !flow.inspect(source)
        {
            return Ok(false);
        }
        let taken = self.feed(flow.waiting(source), flow.is_complete(), now)?;
        source.consume(taken);
        flow.ready.left(taken);
        if flow.is_complete() && flow.ready.leaving() == 0 {
            let (count, go_on) = flow.ready.trailers();
            if go_on {
                self.trailers.append(&source.input()[..count]);
            }
            source.consume(count);
            flow.ready.left(count);
            self.finish(now)?;
        }
        Ok(true)
    }

    /// [`take`](Self::take) for the output of a service.
    fn take_made(
        &mut self,
        flow: &mut BodyFlow,
        service: &mut LocalService,
        now: Tick,
    ) -> Result<(), Failed> {
        let taken = self.feed(service.output(), service.ended(), now)?;
        service.consume(taken);
        if service.ended() && service.output().is_empty() {
            flow.framing = BodyRemainder::Done;
            self.finish(now)?;
        }
        Ok(())
    }

    /// [`take`](Self::take) for a kept body.
    fn take_kept(&mut self, flow: &mut BodyFlow, now: Tick) -> Result<(), Failed> {
        let Some(Repeat { body, taken: before }) = &self.kept else { return Ok(()) };
        let (body, before) = (Rc::clone(body), *before);
        let taken = before + self.feed(&body.payload()[before..], true, now)?;
        if let Some(kept) = &mut self.kept {
            kept.taken = taken;
        }
        if taken == body.payload().len() {
            if !flow.is_complete() {
                flow.framing = BodyRemainder::Done;
                self.trailers.append(body.trailers());
            }
            self.finish(now)?;
        }
        Ok(())
    }

    /// Offers payload to the filters, the last of the body if `last`. Returns the number of bytes taken.
    fn feed(&mut self, payload: &[u8], last: bool, now: Tick) -> Result<usize, Failed> {
        let FilteredBytes { chain, staged, limit, .. } = self;
        let mut at = 0;
        while at < payload.len() && staged.len() < *limit {
            let taken = chain.offer(&payload[at..], last, now, staged)?;
            at += taken;
            if taken == 0 {
                break;
            }
        }
        // Filters resume at their time, even without new bytes.
        if payload.is_empty() {
            chain.offer(b"", last, now, staged)?;
        }
        Ok(at)
    }

    /// Signals the end of the body to the filters.
    fn finish(&mut self, now: Tick) -> Result<(), Failed> {
        if !self.ended {
            let FilteredBytes { chain, staged, trailers, .. } = self;
            self.ended = chain.end(trailers, now, staged)?;
        }
        Ok(())
    }
}

/// Maximum receives in one call, before other tasks run. Higher than in [`BodyFlow`], because pieces are small.
const ROUNDS: usize = 32;
/// Estimated CPU time of the filters after which other tasks run, in microseconds.
const LONGEST_TURN_US: u32 = 500;

#[cfg(test)]
mod tests;
