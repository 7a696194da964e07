//! A response of our own, besides its head.

use std::sync::Arc;

use weir_expr::scratch::Scratch;
use weir_mux::LocalService;

/// What follows the head of a response of our own.
#[derive(Debug, Default)]
pub struct Reply {
    /// The body.
    pub body: Body,
    /// The connection closes after it, whatever the client asked for.
    pub closes: bool,
    /// The status that logs and counters show, if it is another than the client gets: an `errorloc` redirects.
    pub logged_as: u16,
}

/// The body of a response of our own.
#[derive(Debug, Default)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// Text that the configuration holds.
    Shared(Arc<[u8]>),
    /// Text made for this response.
    Made(Scratch),
    /// What a service makes while it leaves: nobody knows yet how long it is.
    Streamed(LocalService),
}

impl Body {
    /// What is there as a whole.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Body::Empty | Body::Streamed(_) => b"",
            Body::Shared(bytes) => bytes,
            Body::Made(bytes) => bytes,
        }
    }
}
