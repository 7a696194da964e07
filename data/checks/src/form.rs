//! The encoding of check requests for a protocol: HTTP/1 text, or a message for a stream over HTTP/2 or FastCGI.

use weir_http::Version;
use weir_mux::{Message, StreamConnector};
use weir_net::{ConnectionFault, SendOutcome};

/// A request for a protocol.
pub(crate) trait RequestForm {
    /// Begins the request with the first line.
    fn begin(&mut self, method: &[u8], uri: &[u8], version: &[u8]);
    /// Adds a header field.
    fn field(&mut self, name: &[u8], value: &[u8]);
    /// Ends the head and adds the body.
    fn end(&mut self, body: &[u8]);
}

/// HTTP/1 text.
impl RequestForm for Vec<u8> {
    fn begin(&mut self, method: &[u8], uri: &[u8], version: &[u8]) {
        self.reserve(FIRST_ROOM);
        [method, b" ", uri, b" ", version, b"\r\n"].iter().for_each(|part| self.extend_from_slice(part));
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| self.extend_from_slice(part));
    }

    fn end(&mut self, body: &[u8]) {
        self.extend_from_slice(b"\r\n");
        self.extend_from_slice(body);
    }
}

/// A request for a stream of a connection that carries messages.
#[derive(Default)]
pub(crate) struct MessageRequest {
    pub(crate) message: Message,
    pub(crate) body: Vec<u8>,
    /// Whether the head is larger than any server accepts.
    is_too_large: bool,
}

impl MessageRequest {
    /// Sends the request on an unused stream.
    ///
    /// # Errors
    /// If the request is too large, or the connection cannot send.
    pub(crate) fn send(mut self, stream: &mut StreamConnector) -> Result<(), ConnectionFault> {
        if self.is_too_large {
            return Err(ConnectionFault::Protocol);
        }
        // Bytes beyond the flow control windows of HTTP/2 remain queued.
        match self.message.send_whole(stream, &self.body, &mut Vec::new(), false) {
            SendOutcome::Failed(fault) => Err(fault),
            SendOutcome::All | SendOutcome::Part(_) => Ok(()),
        }
    }
}

impl RequestForm for MessageRequest {
    fn begin(&mut self, method: &[u8], uri: &[u8], version: &[u8]) {
        // HTTP/2 frames carry no version.
        let version = Version::from_bytes(version).unwrap_or(Version::HTTP_10);
        self.is_too_large = self.message.head.start_request(method, uri, version).is_err();
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.is_too_large |= self.message.head.add(name, value).is_err();
    }

    fn end(&mut self, body: &[u8]) {
        if !body.is_empty() {
            self.message.head.note_content_length(body.len() as u64);
        }
        self.body.extend_from_slice(body);
    }
}

/// Initial buffer size. Most check requests are shorter.
const FIRST_ROOM: usize = 256;
