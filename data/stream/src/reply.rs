//! A response of this process, except its head.

use std::sync::Arc;

use weir_expr::scratch::Scratch;
use weir_mux::LocalService;

/// The part of a local response after its head.
#[derive(Debug, Default)]
pub struct LocalReply {
    pub body: ReplyBody,
    /// The connection closes after it, whatever the client requested.
    pub closes: bool,
    /// The status for logs and counters, if it differs from the client's: an `errorloc` redirects.
    pub logged_as: u16,
}

/// The body of a local response.
#[derive(Debug, Default)]
pub enum ReplyBody {
    /// Nothing.
    #[default]
    Empty,
    /// Text that the configuration holds.
    Shared(Arc<[u8]>),
    /// Text made for this response.
    Made(Scratch),
    /// The output of a service, of unknown length. Boxed, because every stream has the place for a reply.
    Streamed(Box<LocalService>),
}

impl ReplyBody {
    /// The bytes that are available as a whole.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            ReplyBody::Empty | ReplyBody::Streamed(_) => b"",
            ReplyBody::Shared(bytes) => bytes,
            ReplyBody::Made(bytes) => bytes,
        }
    }
}
