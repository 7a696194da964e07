//! Whether a connection lives on after an exchange, and the `Connection` field that says so (RFC 9112, 9.3).

use weir_http::{Head, NoRoom};

use crate::framing::BodyFraming;

/// How connections are to be used (`option http-keep-alive`, `http-server-close`, `httpclose`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Both sides stay open when both agree.
    #[default]
    KeepAlive,
    /// The client side stays open, the server side closes.
    ServerClose,
    /// Both sides close.
    Close,
}

/// What a `Connection` field is to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announce {
    /// `close`
    Close,
    /// `keep-alive`, needed with HTTP/1.0 only.
    KeepAlive,
    /// Nothing: what the version says by itself.
    Nothing,
}

/// Whether the sender of this message leaves its connection open after it, as far as the message says.
pub fn wants_persistence(head: &Head) -> bool {
    let _ = head;
    false
}

/// Whether the client's connection may serve another request after this exchange.
pub fn client_persists(request: &Head, response: &Head, response_framing: BodyFraming, mode: Mode) -> bool {
    let _ = (request, response, response_framing, mode);
    false
}

/// Whether the server's connection may serve another request after this exchange.
pub fn server_persists(request: &Head, response: &Head, response_framing: BodyFraming, mode: Mode) -> bool {
    let _ = (request, response, response_framing, mode);
    false
}

/// Makes the head say `announce`: adds or removes the tokens `close` and `keep-alive`, leaves the other ones. Does
/// not touch (and so does not edit) a head that says it already.
pub fn announce(head: &mut Head, raw: &[u8], announce: Announce) -> Result<(), NoRoom> {
    let _ = (head, raw, announce);
    Ok(())
}
