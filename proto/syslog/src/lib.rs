//! Received syslog: the end of a message in a stream (RFC 6587) and the parts of its header (RFC 3164, RFC 5424).
//!
//! Most messages sent to port 514 do not conform to any RFC. So an unknown header is not an error: it is text, and the
//! text is kept to the last byte. Only a stream that cannot be cut into messages any more is refused, because its
//! remaining bytes could be anything.
//!
//! The crate must not know sockets, clocks and targets: bytes come in, borrowed parts of them go out.
//!
//! Begin with [`Framer::next`] for streams and [`SyslogMessage::parse`] for messages.

pub mod framing;
pub mod message;
pub mod stamp;

pub use framing::{FrameScan, Framer, FramingFault};
pub use message::{HeaderShape, SyslogMessage};
pub use stamp::Stamp;
