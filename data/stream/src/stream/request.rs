//! The request's part of a stream: the message, its body on its way, and how far both are.

use weir_http::Method;
use weir_mux::{Message, Transfer};

use crate::recycle::Lent;

/// What the client asks.
pub struct RequestPart {
    /// The head, with what rules made of it.
    pub message: Lent<Message>,
    /// The body on its way.
    pub body: Transfer,
    /// How much of a request there is.
    pub progress: RequestProgress,
    /// The request came with `Expect: 100-continue`, and its client was not told to go on yet.
    pub expects_continue: bool,
    /// The method that the client asked with, whatever rules made of it.
    pub client_method: Method,
    /// The server's connection takes no more of the body.
    pub upload_refused: bool,
}

/// How much of a request there is, in HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestProgress {
    /// Nothing that counts; in TCP mode there is never more.
    #[default]
    Awaited,
    /// Something came, or did not come in time: it was answered, and counts among the statuses.
    Refused,
    /// The head.
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

    /// Whether its head is there.
    #[inline]
    pub fn is_known(&self) -> bool {
        self.progress == RequestProgress::Known
    }

    /// Whether the stream counts among the statuses.
    #[inline]
    pub fn counts(&self) -> bool {
        self.progress != RequestProgress::Awaited
    }

    /// Whether more of the body is to go to the server.
    #[inline]
    pub fn flows(&self) -> bool {
        !self.body.is_done() && !self.upload_refused
    }

    /// Whether what answers it must not have a body.
    #[inline]
    pub fn head_only(&self) -> bool {
        self.client_method == Method::Head
    }

    /// How many bytes of what the client sent are this request's, and did not leave yet.
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
    fn what_was_refused_counts_but_is_not_known() {
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
    fn a_body_flows_until_it_is_done_or_refused() {
        let mut request = RequestPart::new();
        assert!(!request.flows());
        request.body.begin(BodyFlow::tunnel());
        assert!(request.flows());
        request.upload_refused = true;
        assert!(!request.flows());
    }
}
