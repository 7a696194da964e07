//! Requests to FastCGI applications: their parameters, and what applications write to their error output (manual, 10; RFC 3875, 4.1).
//!
//! A server with `proto fcgi` gets the parameters in place of the request's head. Everything else of a stream is as with HTTP servers, so a
//! backend may have servers of both kinds: a field that is hidden from applications reaches HTTP servers.

mod errors;
mod parameters;

use weir_http::{HeadFlags, Method};
use weir_mux::ApplicationStream;

pub(crate) use errors::ErrorLog;

use crate::counters::CountedEvent;
use crate::ending::{By, During};
use crate::stream::{PhaseResult, Stream, StreamError};

/// Whether the backend's application begins only once the request's body is complete, or fills the buffer. Most applications give a whole
/// process to each request, so a few slow clients would hold all of them.
pub(crate) fn waits_for_body(stream: &Stream) -> bool {
    stream.backend.application.is_some() && stream.request.is_known() && !stream.request.body.is_complete()
}

/// Whether the request's body has an unknown length. An application needs the length before it begins.
pub(crate) fn needs_length(stream: &Stream) -> bool {
    waits_for_body(stream) && stream.request.message.head.content_length().is_none()
}

/// Writes the parameters that the application gets in place of the head. `kept` is the length of a body that is kept for a retry.
///
/// # Errors
/// 400 for a path that cannot be decoded safely, 502 for a request that opens a tunnel. Also if the client left.
#[inline(never)]
pub(crate) fn prepare(stream: &mut Stream, kept: Option<u64>) -> PhaseResult {
    // Applications cannot open a tunnel, and a request that ran anyway could not be taken back.
    let head = &stream.request.message.head;
    let is_extended = stream.client.shared().is_some() && head.flags().contains(HeadFlags::HAS_UPGRADE);
    if head.method() == Method::Connect || is_extended {
        stream.counts().count(CountedEvent::FailedResponse);
        return Err(StreamError::error(502, By::Proxy, During::Headers));
    }
    let body = &stream.request.body;
    let known = match kept {
        None if body.is_done() => Some(0),
        None => stream.request.message.head.content_length(),
        kept => kept,
    };
    // A body of unknown length was refused before the connection, unless it is complete.
    let known = known.or_else(|| body.is_complete().then(|| body.payload()));
    let Some(length) = known else { return Err(StreamError::close(By::Internal, During::Headers)) };
    // Applications do not send `100 Continue`.
    stream.inspection().send_continue()?;
    let mut params =
        request_of(stream).map(|request| std::mem::take(request.params_mut())).unwrap_or_default();
    parameters::write(stream, length, &mut params)?;
    if let Some(request) = request_of(stream) {
        *request.params_mut() = params;
    }
    Ok(())
}

/// The stream's request on a connection to an application.
fn request_of(stream: &mut Stream) -> Option<&mut ApplicationStream> {
    stream.server.upstream.as_mut()?.connector.application_mut()
}
