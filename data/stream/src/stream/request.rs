//! The request of a stream: the message, its body, and their progress.

use weir_http::Method;
use weir_mux::{Message, Transfer};

use crate::recycle::Loan;

/// A stream's request, as changed by rules.
pub struct RequestPart {
    /// The head, as changed by rules.
    pub message: Loan<Message>,
    pub body: Transfer,
    pub progress: RequestProgress,
    /// The request has `Expect: 100-continue`, and `100 Continue` was not sent yet.
    pub expects_continue: bool,
    /// The client's method, before rules changed it.
    pub client_method: Method,
    /// The server connection does not accept more of the body.
    pub upload_refused: bool,
}

/// The progress of a request, in HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestProgress {
    /// No request yet. TCP mode stays in this state.
    #[default]
    Awaited,
    /// The request was invalid or missing. It was answered with an error, and its status is counted.
    Refused,
    /// The head is complete.
    Known,
}

impl RequestPart {
    /// No request yet.
    #[inline]
    pub fn new() -> Self {
        RequestPart {
            message: crate::recycle::message(),
            body: Transfer::done(),
            progress: RequestProgress::Awaited,
            expects_continue: false,
            client_method: Method::default(),
            upload_refused: false,
        }
    }

    /// Whether the head is complete.
    #[inline]
    pub fn is_known(&self) -> bool {
        self.progress == RequestProgress::Known
    }

    /// Whether the status of the response is counted.
    #[inline]
    pub fn counts(&self) -> bool {
        self.progress != RequestProgress::Awaited
    }

    /// Whether more of the body must be sent to the server.
    #[inline]
    pub fn flows(&self) -> bool {
        !self.body.is_done() && !self.upload_refused
    }

    /// Whether the response must not have a body.
    #[inline]
    pub fn head_only(&self) -> bool {
        self.client_method == Method::Head
    }

    /// Number of bytes in the client's input that belong to this request and are still unsent.
    #[inline]
    pub fn held(&self) -> usize {
        self.message.unconsumed() + self.body.ready()
    }
}

impl Default for RequestPart {
    fn default() -> Self {
        RequestPart::new()
    }
}

#[cfg(test)]
mod tests {
    use weir_mux::BodyFlow;

    use super::*;

    #[test]
    fn a_refused_request_is_counted_but_not_parsed() {
        let mut request = RequestPart::new();
        let mut of = |progress| {
            request.progress = progress;
            (request.is_known(), request.counts())
        };
        assert_eq!(of(RequestProgress::Awaited), (false, false));
        assert_eq!(of(RequestProgress::Refused), (false, true));
        assert_eq!(of(RequestProgress::Known), (true, true));
    }

    #[test]
    fn a_request_body_flows_until_it_is_complete_or_refused() {
        let mut request = RequestPart::new();
        assert!(!request.flows());
        request.body.begin(BodyFlow::tunnel());
        assert!(request.flows());
        request.upload_refused = true;
        assert!(!request.flows());
    }
}
