//! Traces of bodies, and of all bytes in TCP mode: received bytes on the receiving side, sent bytes on the other side.
//!
//! Traces do not need counters: a flow stores its progress, and how much of it was traced. So bytes that arrived before a trace point
//! are shown there.

use std::io::Write as _;

use weir_events::trace::{TraceLevel, TraceSource};
use weir_mux::{BodyDelta, BodyProgress, FlowSide as End, FlowState};

use super::{
    H1, PT, PT_RX_DATA, PT_TX_DATA, RX_BODY, RX_EOI, RX_ERR, RX_TRAILERS, TX_BODY, TX_EOI, TX_TRAILERS,
    TracedSide,
};
use crate::errors::MessageDirection;
use crate::stream::phases::StreamTrace;

/// A trace source for transferred bytes, and its events.
pub(crate) struct Layer {
    pub(crate) source: &'static TraceSource,
    received: usize,
    sent: usize,
    trailers_received: Option<usize>,
    trailers_sent: Option<usize>,
    completed: Option<usize>,
    finished: Option<usize>,
}

/// HTTP messages, and tunnels that began as one.
pub(crate) static OF_H1: Layer = Layer {
    source: &H1,
    received: RX_BODY,
    sent: TX_BODY,
    trailers_received: Some(RX_TRAILERS),
    trailers_sent: Some(TX_TRAILERS),
    completed: Some(RX_EOI),
    finished: Some(TX_EOI),
};

/// TCP mode.
pub(crate) static OF_PT: Layer = Layer {
    source: &PT,
    received: PT_RX_DATA,
    sent: PT_TX_DATA,
    trailers_received: None,
    trailers_sent: None,
    completed: None,
    finished: None,
};

/// One line: the event, the bytes now (`None` for an end), the total bytes, and the path.
type BodyLine = (Option<usize>, TracedSide, Option<u64>, u64, &'static str);

impl StreamTrace {
    /// Traces the moved bytes of a message's body, and the result.
    #[inline]
    pub(crate) fn trace_body(&mut self, direction: MessageDirection, flow: FlowState) {
        if H1.is_active() {
            self.emit_body(direction, flow);
        }
    }

    /// Traces a validated coding. `is_right` is the result.
    #[inline]
    pub(crate) fn trace_coding(&mut self, direction: MessageDirection, is_right: bool) {
        if H1.is_active() {
            self.emit_body(direction, if is_right { FlowState::AwaitSource } else { FlowState::Malformed });
        }
    }

    /// Traces a body sent from memory as a whole after its head: a local reply, or a retried request.
    #[inline]
    pub(crate) fn trace_sent(&self, direction: MessageDirection, bytes: usize, ends_sink: bool) {
        if H1.is_active() {
            self.emit_sent(direction, bytes as u64, ends_sink);
        }
    }

    #[cold]
    fn emit_sent(&self, direction: MessageDirection, bytes: u64, ends_sink: bool) {
        let now = BodyProgress { sent: bytes, ..BodyProgress::default() };
        let finished = bytes > 0;
        let step =
            BodyDelta { sent: bytes, finished, with_head: true, ends_sink, now, ..BodyDelta::default() };
        self.emit_step(&OF_H1, direction, &step, "");
    }

    #[cold]
    fn emit_body(&mut self, direction: MessageDirection, flow: FlowState) {
        self.emit_moved(&OF_H1, direction);
        if matches!(flow, FlowState::Malformed | FlowState::Truncated | FlowState::Failed(End::Source, _)) {
            self.emit_h1(RX_ERR, TraceLevel::Error, direction, |_, line| {
                // Writing to memory does not fail.
                let _ = write!(line, ": body {flow:?}");
            });
        }
    }

    /// Traces the bytes of the body moved in one direction since the last call.
    #[cold]
    pub(crate) fn emit_moved(&mut self, layer: &Layer, direction: MessageDirection) {
        let body = match direction {
            MessageDirection::Request => &mut self.stream.request.body,
            MessageDirection::Response => &mut self.stream.response.body,
        };
        let (step, way) = (body.step(), if body.piped() > 0 { " how=pipe" } else { "" });
        self.emit_step(layer, direction, &step, way);
    }

    /// Traces the bytes moved in one direction. `way` names the path if it is unusual.
    #[cold]
    pub(crate) fn emit_step(
        &self,
        layer: &Layer,
        direction: MessageDirection,
        step: &BodyDelta,
        way: &'static str,
    ) {
        let (comes, goes) = match direction {
            MessageDirection::Request => (TracedSide::Front, TracedSide::Back),
            MessageDirection::Response => (TracedSide::Back, TracedSide::Front),
        };
        let now = &step.now;
        let head = if step.with_head { " how=head" } else { way };
        let fin = if step.ends_sink { " how=fin" } else { "" };
        let lines: [BodyLine; 6] = [
            (Some(layer.received), comes, Some(step.received), now.received, way),
            (layer.trailers_received, comes, Some(step.trailers_received), now.trailers_received, ""),
            (layer.completed.filter(|_| step.completed), comes, None, now.received, ""),
            (Some(layer.sent), goes, Some(step.sent), now.sent, head),
            (layer.trailers_sent, goes, Some(step.trailers_sent), now.trailers_sent, ""),
            (layer.finished.filter(|_| step.finished), goes, None, now.sent, fin),
        ];
        for (event, side, bytes, total, how) in lines {
            let Some(event) = event.filter(|_| bytes != Some(0)) else { continue };
            let level = if bytes.is_some() { TraceLevel::Data } else { TraceLevel::Proto };
            self.emit_message(layer.source, (event, level), direction, side, |_, line| {
                // Writing to memory does not fail.
                let _ = match bytes {
                    Some(bytes) => write!(line, ": bytes={bytes} total={total}{how}"),
                    None => write!(line, ": total={total}{how}"),
                };
            });
        }
    }
}
