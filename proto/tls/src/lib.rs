//! What a TLS client says before anything is encrypted: its hello, read off the wire without taking part in the handshake.
//!
//! Two read it: rules that route by server name in TCP mode (manual 7.3.5, `req.ssl_*`), and a TLS listener that chooses a
//! certificate and its settings by it. Both want the same of bytes that may be cut anywhere or be no TLS at all.
//!
//! The crate refuses to know what becomes of the handshake: no keys, no state, no answer. It reads what is there, says what is
//! missing, and never looks beyond the first message. Begin with [`read`].

mod hello;

pub use hello::{CLIENT_HELLO, ClientHello, Message, Unread, read, sslv2_version};
