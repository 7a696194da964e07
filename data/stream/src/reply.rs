//! A local response, except its head.

use std::sync::Arc;

use weir_expr::scratch::Scratch;
use weir_mux::LocalService;

/// The part of a local response after its head.
#[derive(Debug, Default)]
pub struct LocalReply {
    pub body: ReplyBody,
    /// The client connection closes after the response, even if the client requested keep-alive.
    pub closes: bool,
    /// The status for logs and counters. It differs from the client's if an `errorloc` redirects.
    pub logged_as: u16,
}

/// The body of a local response.
#[derive(Debug, Default)]
pub enum ReplyBody {
    /// Nothing.
    #[default]
    Empty,
    /// Text owned by the configuration.
    Shared(Arc<[u8]>),
    /// Text generated for this response.
    Made(Scratch),
    /// The output of a service, of unknown length. Boxed to keep this type small, because every stream contains one.
    Streamed(Box<LocalService>),
}

impl ReplyBody {
    /// The complete body. Empty for a streamed body.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            ReplyBody::Empty | ReplyBody::Streamed(_) => b"",
            ReplyBody::Shared(bytes) => bytes,
            ReplyBody::Made(bytes) => bytes,
        }
    }
}
