//! The compression of a request for a server.

use std::rc::Rc;

use weir_model::CompressionAlgorithm;
use weir_mux::{Failed, Filter, FilterOutput, HeadContext, LengthChange, Message, More, Passed, Trailers};
use weir_sched::Tick;

use super::conditions;
use super::{CompressedBody, CompressionState};

/// Compresses the request of a stream.
pub(super) struct RequestCompressor {
    state: Rc<CompressionState>,
    body: CompressedBody,
}

impl RequestCompressor {
    pub(super) fn new(state: Rc<CompressionState>) -> Self {
        RequestCompressor { state, body: CompressedBody::Untouched }
    }

    /// The algorithm for this request. `None` if it is not to be compressed.
    fn algorithm(&self, head: &Message, context: &HeadContext<'_>) -> Option<CompressionAlgorithm> {
        let algorithm = self.state.setting(|words| words.request_algorithm)?;
        let is_listed =
            self.state.lists(head, context, |words| (&words.request_types, words.request_min_size));
        (is_listed && conditions::may_request_change(head)).then_some(algorithm)
    }
}

impl Filter for RequestCompressor {
    fn head(&mut self, head: &mut Message, context: &HeadContext<'_>) -> Result<LengthChange, Failed> {
        self.body = CompressedBody::Untouched;
        let Some(algorithm) = self.algorithm(head, context) else { return Ok(LengthChange::None) };
        let body = CompressedBody::begin(&self.state, algorithm);
        if let CompressedBody::Encoded(_) = body
            && !conditions::announce_request(head, algorithm)
        {
            return Ok(LengthChange::None);
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
        self.body.end(&self.state, out)
    }

    fn restart(&mut self) {
        if let CompressedBody::Encoded(encoder) = &mut self.body {
            encoder.restart();
        }
    }
}
