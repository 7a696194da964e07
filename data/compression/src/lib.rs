//! Content codings (RFC 9110, 8.4): which one a client prefers, and the encoders.
//!
//! ```text
//!   Accept-Encoding ──► preferred_algorithm
//!   payload ──► BodyEncoder ──► compressed payload
//!                  │ takes an encoder for a part of the body, and gives it back
//!                  ▼
//!              EncoderPool    one for each worker; EncoderMemory bounds their bytes together
//! ```
//!
//! Memory has a bound ([`EncoderMemory`]). A body that gets no encoder is sent uncompressed, inside the coding that its head announced.
//! The crate knows no messages and no connections.

mod body;
mod encoder;
mod negotiation;
mod pool;
mod progress;
mod stored;

pub use body::BodyEncoder;
pub use encoder::EncodeError;
pub use negotiation::preferred_algorithm;
pub use pool::{EncoderMemory, EncoderPool};
pub use progress::{Goal, Progress};
