//! The encoding of check requests for a protocol: HTTP/1 text, or a message for an HTTP/2 stream.

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

/// Initial buffer size. Most check requests are shorter.
const FIRST_ROOM: usize = 256;
