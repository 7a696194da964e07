//! The HTTP/1 engine: heads, framing and chunked coding to RFC 9112.
//!
//! Input is slices, output is spans. Nothing here owns a buffer, reads a socket or knows the time. The parts:
//!
//! - [`HeadParser`] cuts a request or response head out of a receive buffer and fills a [`weir_http::Head`];
//! - [`BodyFraming`] is how the end of the following body is found;
//! - [`ChunkDecoder`] validates chunked bodies or takes out their framing, [`chunk_encoder`] makes them;
//! - [`connection`] decides whether a connection persists, and edits the `Connection` field.
//!
//! Messages that RFC 9112 calls unsafe are rejected with a variant of [`HeadErrorKind`], or normalized by an edit of
//! the head. Begin with [`HeadParser`].

pub mod chunk_decoder;
pub mod chunk_encoder;
pub mod connection;
pub mod error;
pub mod framing;
pub mod parser;

pub use chunk_decoder::{Advance, ChunkDecoder, ChunkError};
pub use error::{HeadError, HeadErrorKind};
pub use framing::{BodyFraming, request_framing, response_framing, restate};
pub use parser::{HeadParser, HeadProgress, ParseOptions};
