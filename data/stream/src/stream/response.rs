//! The response of a stream: the message, its body, and their sizes for the log.

use weir_http::{BodySize, Version};
use weir_mux::{BodyFlow, Message, StreamConnector, Transfer};

use crate::recycle::Loan;
use crate::reply::LocalReply;
use crate::stream::logged_size::LoggedSize;

/// A stream's response, from the server or from weir itself.
pub struct ResponsePart {
    /// The head, as changed by rules.
    pub message: Loan<Message>,
    pub body: Transfer,
    /// The size of the body from the server, before rules change the response.
    pub size: BodySize,
    /// The body of a local response, if there is one.
    pub reply: Option<LocalReply>,
    pub progress: ResponseProgress,
    /// The status sent to the client. 0 before a response.
    pub status: u16,
    /// The status that the server sent, before rules changed it.
    pub server_status: u16,
    /// Rules or filters examined the body before the response was sent.
    pub body_begun: bool,
    /// A body that must not reach the client. It is read and dropped so that the server connection can be reused.
    pub unwanted: Option<Box<BodyFlow>>,
    /// The response opens a tunnel. Bytes flow both ways until a side closes.
    pub is_tunnel: bool,
    /// The service that made the response.
    pub service: LocalName,
    /// The size of the response in the log.
    pub logged: LoggedSize,
    /// A 103 response, while rules add fields to it.
    pub early_hints: Option<Box<Message>>,
}

/// The service that responds in place of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalName {
    /// None: a server, or a rule.
    #[default]
    None,
    /// The statistics page, or `monitor-uri`.
    Statistics,
    /// The exporter for Prometheus.
    Metrics,
    /// A script: [`CapturedValues::service`](crate::stream::captures::CapturedValues::service).
    Script,
}

impl LocalName {
    /// The text in the log in place of the server's name.
    pub fn logged(self) -> &'static [u8] {
        match self {
            LocalName::None => b"<NOSRV>",
            LocalName::Statistics => b"<STATS>",
            LocalName::Metrics => b"<PROMEX>",
            LocalName::Script => b"<lua>",
        }
    }
}

/// The progress of a response, in HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseProgress {
    /// No response yet. TCP mode stays in this state.
    #[default]
    Awaited,
    /// The head of the final response was received. Rules can read it.
    Known,
    /// Sending to the client has begun. No other response can replace this one.
    Leaving,
}

impl ResponsePart {
    /// No response yet.
    #[inline]
    pub fn new() -> Self {
        ResponsePart {
            message: crate::recycle::message(),
            body: Transfer::done(),
            size: BodySize::None,
            reply: None,
            progress: ResponseProgress::Awaited,
            status: 0,
            server_status: 0,
            body_begun: false,
            unwanted: None,
            is_tunnel: false,
            service: LocalName::None,
            logged: LoggedSize::default(),
            early_hints: None,
        }
    }

    /// Whether the head of the final response was received.
    #[inline]
    pub fn is_known(&self) -> bool {
        self.progress != ResponseProgress::Awaited
    }

    /// Whether the client may have received the first bytes.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.progress == ResponseProgress::Leaving
    }

    /// Starts the transfer of the body, unless it was started before.
    #[inline]
    pub fn begin_body(&mut self, source: &StreamConnector, size: BodySize) {
        if !std::mem::replace(&mut self.body_begun, true) {
            self.body.begin(BodyFlow::behind(source, &self.message.head, size));
        }
    }

    /// Bytes of the response sent so far, counted as in the log. `head_only` if the request forbids a body.
    pub fn logged_bytes(&self, head_only: bool) -> u64 {
        // The log counts one byte for the end of a chunked coding, which HTTP/2 lacks.
        let coded = self.body.is_delimited() && self.message.head.version() < Version::HTTP_20;
        let end = coded && !head_only && self.body.is_complete();
        self.logged.total() + self.body.payload() + u64::from(end)
    }
}

impl Default for ResponsePart {
    fn default() -> Self {
        ResponsePart::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaving_response_is_also_known() {
        let mut response = ResponsePart::new();
        let mut of = |progress| {
            response.progress = progress;
            (response.is_known(), response.is_leaving())
        };
        assert_eq!(of(ResponseProgress::Awaited), (false, false));
        assert_eq!(of(ResponseProgress::Known), (true, false));
        assert_eq!(of(ResponseProgress::Leaving), (true, true));
    }

    #[test]
    fn the_logged_bytes_include_local_replies() {
        let mut response = ResponsePart::new();
        assert_eq!(response.logged_bytes(false), 0);
        response.logged.reply = 7;
        assert_eq!(response.logged_bytes(true), 7);
    }
}
