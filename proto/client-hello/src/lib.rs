//! The unencrypted first message of a TLS client, its hello, parsed without taking part in the handshake.
//!
//! It has two users: rules that route by server name in TCP mode (manual 7.3.5, `req.ssl_*`), and a TLS listener that chooses a
//! certificate and its settings by it. For both, the bytes may be cut anywhere or not be TLS at all.
//!
//! The crate must not know the rest of the handshake: no keys, no state, no answer. It reads the available bytes,
//! reports missing ones, and never reads beyond the first message. Begin with [`read`].

mod hello;

pub use hello::{
    CLIENT_HELLO, ClientHello, HandshakeMessage, Unread, listed, read, server_extensions, sslv2_version,
};
