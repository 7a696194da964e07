//! What a TLS client says before anything is encrypted: its hello, read off the wire without taking part in the handshake.
//!
//! Two read it: rules that route by server name in TCP mode, and a TLS listener that chooses a certificate and its settings by
//! it. The crate refuses to know what becomes of the handshake: no keys, no state, no answer. Begin with [`read`].

mod hello;

pub use hello::{CLIENT_HELLO, ClientHello, Message, Unread, read, sslv2_version};
