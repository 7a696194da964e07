//! The compression of a response for a client.

use std::rc::Rc;

use weir_mux::{Failed, Filter, FilterOutput, HeadContext, LengthChange, Message, More, Passed, Trailers};
use weir_sched::Tick;

use super::conditions;
use super::{CompressedBody, CompressionState};

/// Compresses the response of a stream.
pub(super) struct ResponseCompressor {
    state: Rc<CompressionState>,
    body: CompressedBody,
}

impl ResponseCompressor {
    pub(super) fn new(state: Rc<CompressionState>) -> Self {
        ResponseCompressor { state, body: CompressedBody::Untouched }
    }

    /// Whether the response may be compressed for this request (manual, "compression algo").
    fn is_wanted(&self, head: &Message, request: &Message, context: &HeadContext<'_>) -> bool {
        self.state.lists(head, context, |words| (&words.response_types, words.response_min_size))
            && conditions::may_request_get(request)
            && conditions::may_response_change(head)
    }
}

impl Filter for ResponseCompressor {
    fn head(&mut self, head: &mut Message, context: &HeadContext<'_>) -> Result<LengthChange, Failed> {
        self.body = CompressedBody::Untouched;
        let Some(request) = context.request else { return Ok(LengthChange::None) };
        let Some(algorithm) = self.state.accepted(request) else { return Ok(LengthChange::None) };
        if head.head.status() == 304 {
            conditions::weaken_matched_tag(head, request);
            return Ok(LengthChange::None);
        }
        if !self.is_wanted(head, request, context) {
            return Ok(LengthChange::None);
        }
        let body = CompressedBody::begin(&self.state, algorithm);
        if let CompressedBody::Encoded(_) = body {
            if !conditions::announce_response(head, algorithm) {
                return Ok(LengthChange::None);
            }
            self.state.used.set(Some(algorithm));
        }
        self.body = body;
        Ok(self.body.length_change())
    }

    fn ignores_body(&self) -> bool {
        matches!(self.body, CompressedBody::Untouched)
    }

    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        now: Tick,
        out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        self.body.payload(&self.state, bytes, now, out)
    }

    fn trailers(&mut self, trailers: &mut Trailers, _: Tick) {
        self.body.trailers(trailers);
    }

    fn idle(&mut self, _: Tick, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        self.body.flush(&self.state, out)
    }

    fn end(&mut self, _: Tick, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        let is_complete = self.body.end(&self.state, out)?;
        if is_complete && matches!(self.body, CompressedBody::Encoded(_)) {
            self.state.count_response();
        }
        Ok(is_complete)
    }
}
