//! `filter comp-req`, `filter comp-res` and `filter compression`: compress messages (manual, 4.2 `compression` and 9.2).
//!
//! A `compression` setting of the backend applies. If it is not set there, the frontend's applies. Responses of servers and services are
//! compressed. Replies of rules do not pass the filters.

mod conditions;
mod pace;
mod request;
mod response;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weir_backend::counters::{BackendCounter, FrontendCounter, ProcessRate};
use weir_compression::{BodyEncoder, Goal};
use weir_config::proxy::{FilterContext, implied_filter};
use weir_config::words::{Parsed, Words, fault};
use weir_fingerprint::Canonical;
use weir_model::{Compression, CompressionAlgorithm, FilterArguments, FilterDirection, FilterFacts};
use weir_mux::{Failed, Filter, FilterOutput, HeadContext, LengthChange, Message, Passed, Trailers};
use weir_sched::Tick;

use self::request::RequestCompressor;
use self::response::ResponseCompressor;
use super::{FilterParts, Row, StreamFilter};
use crate::instance::{Proxy, ProxyRef};
use crate::stream::Stream;
use crate::stream::attached::Attachment;

pub(super) const ROWS: &[Row] = &[
    implied_filter(
        "COMP",
        "comp-req",
        "compress requests, as 'compression algo-req' says",
        |context, words| read(context, words, Some(FilterDirection::Request)),
        || CompressionFilter { direction: Some(FilterDirection::Request) }.into_arguments(),
    ),
    implied_filter(
        "COMP",
        "comp-res",
        "compress responses, as 'compression algo-res' says",
        |context, words| read(context, words, Some(FilterDirection::Response)),
        || CompressionFilter { direction: Some(FilterDirection::Response) }.into_arguments(),
    ),
    implied_filter(
        "COMP",
        "compression",
        "compress in the directions of 'compression direction'; deprecated, use 'comp-req' and 'comp-res'",
        |context, words| read(context, words, None),
        || CompressionFilter { direction: None }.into_arguments(),
    ),
];

/// Compresses messages.
#[derive(Debug, Canonical)]
pub(super) struct CompressionFilter {
    /// The direction. `None` for that of `compression direction`.
    pub direction: Option<FilterDirection>,
}

fn read(
    context: &mut FilterContext<'_, '_>,
    words: &mut Words<'_>,
    direction: Option<FilterDirection>,
) -> Parsed<Arc<dyn FilterArguments>> {
    let filter = CompressionFilter { direction };
    if let Some(word) = words.peek() {
        return Err(fault(word.span(), format!("'filter {}' : unknown keyword '{word}'.", context.word)));
    }
    let is_twice = |earlier: &weir_model::Filter| {
        let both = [FilterDirection::Request, FilterDirection::Response];
        earlier.facts().compresses && both.into_iter().any(|way| earlier.sees(way) && filter.sees(way))
    };
    if context.earlier().iter().any(is_twice) {
        let said =
            format!("'filter' : {}: Proxy supports only one compression filter", context.section_name());
        return Err(fault(context.word.span(), said));
    }
    Ok(filter.into_arguments())
}

impl StreamFilter for CompressionFilter {
    fn sees(&self, direction: FilterDirection) -> bool {
        self.direction.is_none_or(|own| own == direction)
    }

    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts { compresses: true, ..FilterFacts::NONE }
    }

    fn attach(&self, stream: &Stream, proxy: &Proxy) -> FilterParts {
        if !stream.speaks_http() {
            return FilterParts::default();
        }
        let direction = proxy.config.settings.compression.direction;
        let has_requests =
            self.direction.map_or(direction.has_requests(), |own| own == FilterDirection::Request);
        let has_responses =
            self.direction.map_or(direction.has_responses(), |own| own == FilterDirection::Response);
        let state = |is_there: bool| is_there.then(|| Rc::new(CompressionState::new(stream)));
        let states = CompressionStates { request: state(has_requests), response: state(has_responses) };
        FilterParts {
            request: states
                .request
                .clone()
                .map(|state| Box::new(RequestCompressor::new(state)) as Box<dyn Filter>),
            response: states
                .response
                .clone()
                .map(|state| Box::new(ResponseCompressor::new(state)) as Box<dyn Filter>),
            attachment: Some(Box::new(states)),
        }
    }
}

/// The state of compression in one direction of a stream.
struct CompressionState {
    frontend: ProxyRef,
    /// The frontend itself until a backend was chosen.
    backend: RefCell<ProxyRef>,
    /// The algorithm that the client accepts. `None` until it is computed.
    accepted: Cell<Option<Option<CompressionAlgorithm>>>,
    /// The algorithm of the response.
    used: Cell<Option<CompressionAlgorithm>>,
    /// Bytes of the body before and after compression.
    sizes: Cell<(u64, u64)>,
    /// [`CompressionState::saved`] when it was last counted.
    counted: Cell<u64>,
    /// Bytes since the level was last chosen.
    unpaced: Cell<usize>,
}

impl CompressionState {
    fn new(stream: &Stream) -> Self {
        CompressionState {
            frontend: stream.frontend.clone(),
            backend: RefCell::new(stream.backend.proxy().clone()),
            accepted: Cell::new(None),
            used: Cell::new(None),
            sizes: Cell::default(),
            counted: Cell::default(),
            unpaced: Cell::default(),
        }
    }

    /// Bytes that compression removed from the body.
    fn saved(&self) -> u64 {
        let (before, after) = self.sizes.get();
        before.saturating_sub(after)
    }

    /// Calls `read` with the words of the backend, then with those of the frontend, until it returns a value.
    fn setting<T>(&self, read: impl Fn(&Compression) -> Option<T>) -> Option<T> {
        let of = |proxy: &ProxyRef| read(&proxy.config.settings.compression);
        of(&self.backend.borrow()).or_else(|| of(&self.frontend))
    }

    /// Whether the message is delimited, of a listed type and large enough. `read` returns the words of its direction: types, and the
    /// smallest size.
    fn lists(
        &self,
        head: &Message,
        context: &HeadContext<'_>,
        read: impl Fn(&Compression) -> (&[Arc<str>], u64),
    ) -> bool {
        let has_type = self.setting(|words| {
            let (types, _) = read(words);
            (!types.is_empty()).then(|| conditions::has_type(head, types))
        });
        let min_size = self.setting(|words| Some(read(words).1).filter(|size| *size > 0));
        context.is_delimited
            && context.length.is_none_or(|length| length > 0 && length >= min_size.unwrap_or(0))
            && has_type.unwrap_or_else(|| conditions::has_type(head, &[]))
    }

    /// The algorithm for the response, by the request's Accept-Encoding when this is called first.
    fn accepted(&self, request: &Message) -> Option<CompressionAlgorithm> {
        if let Some(known) = self.accepted.get() {
            return known;
        }
        let accepted = self.setting(|words| {
            let algorithms = &words.response_algorithms;
            (!algorithms.is_empty()).then(|| conditions::accepted_algorithm(request, algorithms))
        });
        let accepted = accepted.flatten();
        self.accepted.set(Some(accepted));
        accepted
    }

    /// Counts the bytes of a step.
    fn count(&self, taken: usize, written: usize) {
        let (worker, now) = (weir_sched::worker_index(), weir_sched::now().as_ms());
        let (taken, written) = (taken as u64, written as u64);
        let (before, after) = self.sizes.get();
        self.sizes.set((before + taken, after + written));
        self.frontend.frontend_counters.add_all(
            worker,
            [(FrontendCounter::CompressedIn, taken), (FrontendCounter::CompressedOut, written)],
        );
        self.backend.borrow().backend_counters.add_all(
            worker,
            [(BackendCounter::CompressedIn, taken), (BackendCounter::CompressedOut, written)],
        );
        let rates = &self.frontend.instance().rates;
        rates.events(worker, ProcessRate::CompressedIn, taken, now);
        rates.events(worker, ProcessRate::CompressedOut, written, now);
    }

    /// Counts bytes that were not compressed for lack of memory, CPU or bandwidth.
    fn count_bypassed(&self, bytes: u64) {
        let worker = weir_sched::worker_index();
        self.frontend.frontend_counters.add(worker, FrontendCounter::CompressionBypassed, bytes);
        self.backend.borrow().backend_counters.add(worker, BackendCounter::CompressionBypassed, bytes);
    }

    fn count_response(&self) {
        let worker = weir_sched::worker_index();
        self.frontend.frontend_counters.increment(worker, FrontendCounter::CompressedResponses);
        self.backend.borrow().backend_counters.increment(worker, BackendCounter::CompressedResponses);
    }
}

/// The states of one filter on a stream.
struct CompressionStates {
    request: Option<Rc<CompressionState>>,
    response: Option<Rc<CompressionState>>,
}

impl Attachment for CompressionStates {
    fn backend_chosen(&self, stream: &Stream) {
        for state in self.request.iter().chain(&self.response) {
            *state.backend.borrow_mut() = stream.backend.proxy().clone();
        }
    }

    fn request_leaves(&self, request: &mut Message) {
        let Some(state) = &self.response else { return };
        if state.accepted(request).is_none() {
            return;
        }
        conditions::accept_strong_tags(request);
        if state.setting(|words| words.offload.then_some(())).is_some() {
            let (head, raw) = request.edit();
            head.remove(raw, b"accept-encoding");
        }
    }
}

/// The states of the filters that compress the response. There is one for each proxy with such a filter.
fn response_states(stream: &Stream) -> impl Iterator<Item = &CompressionState> {
    stream.attached.iter().flat_map(|attached| attached.iter()).filter_map(|attachment| {
        let attachment: &dyn Any = attachment;
        attachment.downcast_ref::<CompressionStates>()?.response.as_deref()
    })
}

/// The algorithm with which a stream's response is compressed: `res.comp_algo`.
pub(crate) fn response_algorithm(stream: &Stream) -> Option<CompressionAlgorithm> {
    response_states(stream).find_map(|state| state.used.get())
}

/// Bytes that compression removed from the response so far.
pub(crate) fn saved_bytes(stream: &Stream) -> u64 {
    response_states(stream).map(CompressionState::saved).sum()
}

/// Bytes that compression removed from the response since the last call. Counters of traffic and tables count the bytes of the server
/// (manual, "bytes_out_cnt").
pub(crate) fn take_saved_bytes(stream: &Stream) -> u64 {
    response_states(stream)
        .map(|state| state.saved().saturating_sub(state.counted.replace(state.saved())))
        .sum()
}

/// A message that is compressed, or would be but for a limit.
enum CompressedBody {
    /// Not compressed.
    Untouched,
    /// Not compressed because of a limit. Its bytes are counted.
    Bypassed,
    Encoded(Box<BodyEncoder>),
}

impl CompressedBody {
    /// Begins a body, with an algorithm and unless a limit is reached.
    fn begin(state: &CompressionState, algorithm: CompressionAlgorithm) -> CompressedBody {
        let instance = state.frontend.instance();
        let encoders = &instance.encoders;
        let encoder = match pace::is_limited(instance) {
            true => None,
            false => BodyEncoder::new(algorithm, encoders.tuning().level, encoders),
        };
        encoder.map_or(CompressedBody::Bypassed, |encoder| CompressedBody::Encoded(Box::new(encoder)))
    }

    /// The effect on the body's length.
    fn length_change(&self) -> LengthChange {
        match self {
            CompressedBody::Encoded(_) => LengthChange::Unknown,
            CompressedBody::Untouched | CompressedBody::Bypassed => LengthChange::None,
        }
    }

    fn payload(
        &mut self,
        state: &CompressionState,
        bytes: &[u8],
        now: Tick,
        out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        match self {
            CompressedBody::Untouched => Ok(Passed::all(bytes)),
            CompressedBody::Bypassed => {
                state.count_bypassed(bytes.len() as u64);
                Ok(Passed::all(bytes))
            }
            CompressedBody::Encoded(encoder) => {
                let (cost, most) = pace::cost(encoder);
                let part = &bytes[..bytes.len().min(most)];
                // A level changes behind a flush.
                let is_paced =
                    pace::may_adjust(state.frontend.instance()) && state.unpaced.get() >= PACED_BYTES;
                let goal = if is_paced { Goal::Flush } else { Goal::Continue };
                let (count, is_complete) = encode(encoder, state, part, goal, out)?;
                state.unpaced.set(state.unpaced.get() + count);
                if is_paced && is_complete {
                    pace::adjust(encoder, state.frontend.instance());
                    state.unpaced.set(0);
                }
                out.spend(cost * (count as u32).div_ceil(1024));
                let until = if count == bytes.len() { Tick::NEVER } else { now };
                Ok(Passed { count, replaced: true, until })
            }
        }
    }

    /// Removes digests of the bytes before compression.
    fn trailers(&self, trailers: &mut Trailers) {
        if let CompressedBody::Encoded(encoder) = self
            && encoder.algorithm() != CompressionAlgorithm::Identity
        {
            conditions::DIGESTS.iter().for_each(|name| trailers.remove(name));
        }
    }

    /// Puts out all bytes so far.
    fn flush(&mut self, state: &CompressionState, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        let CompressedBody::Encoded(encoder) = self else { return Ok(true) };
        let (_, is_complete) = encode(encoder, state, b"", Goal::Flush, out)?;
        if is_complete {
            pace::adjust(encoder, state.frontend.instance());
            encoder.pause();
        }
        Ok(is_complete)
    }

    fn end(&mut self, state: &CompressionState, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        let CompressedBody::Encoded(encoder) = self else { return Ok(true) };
        let (_, is_complete) = encode(encoder, state, b"", Goal::End, out)?;
        if is_complete && encoder.bypassed() > 0 {
            state.count_bypassed(encoder.bypassed());
        }
        Ok(is_complete)
    }
}

/// Bytes after which a limit may change the level.
const PACED_BYTES: usize = 64 * 1024;

/// Encodes into the room of `out`. Returns the bytes taken, and whether the goal is reached.
fn encode(
    encoder: &mut BodyEncoder,
    state: &CompressionState,
    bytes: &[u8],
    goal: Goal,
    out: &mut FilterOutput<'_>,
) -> Result<(usize, bool), Failed> {
    let mut done = (0, false);
    out.fill_with(|room| {
        let progress = encoder.encode(bytes, goal, room).map_err(|_| Failed)?;
        done = (progress.taken, progress.is_complete);
        if encoder.algorithm() != CompressionAlgorithm::Identity {
            state.count(progress.taken, progress.written);
        }
        Ok(progress.written)
    })?;
    Ok(done)
}
