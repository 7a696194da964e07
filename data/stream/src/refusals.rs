//! Keeps messages for `show errors` that are refused, or accepted only because of an option.

use weir_mux::{HeadError, HeadErrorKind};

use crate::errors::{MessageDirection, RefusedMessage};
use crate::stream::Stream;

/// Keeps a refused request.
#[cold]
pub(crate) fn keep_request(stream: &Stream, error: HeadError) {
    let message = describe(stream, MessageDirection::Request, error, stream.client.input());
    stream.frontend.instance().refused.keep(stream.frontend.index, message);
}

/// Keeps a refused response.
#[cold]
pub(crate) fn keep_response(stream: &Stream, error: HeadError) {
    let Some(upstream) = &stream.server.upstream else { return };
    let message = describe(stream, MessageDirection::Response, error, upstream.connector.input());
    stream.frontend.instance().refused.keep(stream.backend.index, message);
}

/// Keeps a request with a head too large for its buffer.
#[cold]
pub(crate) fn keep_long_request(stream: &Stream) {
    let position = stream.client.input().len();
    keep_request(stream, HeadError { kind: HeadErrorKind::TooLong, position });
}

/// Keeps a response with a head too large for its buffer.
#[cold]
pub(crate) fn keep_long_response(stream: &Stream) {
    let position = stream.server.input().len();
    keep_response(stream, HeadError { kind: HeadErrorKind::TooLong, position });
}

/// Keeps a request that is only accepted because of an option (manual, "option accept-unsafe-violations-in-http-request").
#[cold]
pub(crate) fn keep_tolerated_request(stream: &Stream) {
    if let Some(error) = stream.request.message.violation() {
        keep_request(stream, error);
    }
}

/// Keeps a response that is only accepted because of an option.
#[cold]
pub(crate) fn keep_tolerated_response(stream: &Stream) {
    if let Some(error) = stream.response.message.violation() {
        keep_response(stream, error);
    }
}

fn describe(stream: &Stream, direction: MessageDirection, error: HeadError, bytes: &[u8]) -> RefusedMessage {
    RefusedMessage {
        number: 0,
        at_us: weir_sched::wall_us(),
        direction,
        frontend: stream.frontend.index,
        backend: stream.backend.has_begun().then_some(stream.backend.index),
        server: stream.server.lease.as_ref().map(|lease| lease.server().name().into()),
        source: stream.source().to_string().into(),
        stream: stream.serial,
        reason: format!("{:?}", error.kind).into(),
        position: error.position,
        bytes: bytes.into(),
    }
}
