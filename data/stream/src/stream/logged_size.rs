//! The size of a response in the log: HAProxy's own measure, not the bytes on the wire.
//!
//! HAProxy does not log the bytes sent. It logs the size of its internal form of a message: 21 bytes, then the parts of the start line
//! and of each field without separators. Operators compare logs, so this size equals HAProxy's. A server's own `Connection` options do
//! not count.

use weir_http::{HeadFlags, Version};
use weir_mux::Message;

/// The sizes of a stream's heads and reply for the log, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoggedSize {
    /// The heads sent to the client.
    pub heads: u32,
    /// The body of a local response, which the configuration or a buffer holds.
    pub reply: u32,
}

impl LoggedSize {
    /// Adds the size of a head. Call it before connection fields are added to the head. `of_server` if a server sent the head.
    pub fn add_head(&mut self, message: &Message, of_server: bool) {
        let (head, raw) = (&message.head, message.bytes());
        let fields: usize = head.fields(raw).map(|(name, value)| size_of_field(name, value, of_server)).sum();
        // An HTTP/2 server does not send `transfer-encoding`, but the internal form of its head has it.
        let added = match head.version() >= Version::HTTP_20 && head.flags().contains(HeadFlags::CHUNKED) {
            true => CHUNKED_SIZE,
            false => 0,
        };
        let size = (STATUS_LINE_SIZE + head.reason(raw).len() + fields).saturating_sub(added);
        self.heads = self.heads.saturating_add(size as u32);
    }

    /// Size of the heads and the reply together.
    #[inline]
    pub fn total(&self) -> u64 {
        u64::from(self.heads) + u64::from(self.reply)
    }
}

/// The size of a field for the log. For a server's `Connection` field, only end-to-end options count.
fn size_of_field(name: &[u8], value: &[u8], of_server: bool) -> usize {
    if !of_server || !name.eq_ignore_ascii_case(b"connection") {
        return name.len() + value.len();
    }
    let of_hop =
        |token: &[u8]| [&b"close"[..], b"keep-alive"].iter().any(|word| token.eq_ignore_ascii_case(word));
    let tokens = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let left = tokens.filter(|token| !of_hop(token)).map(|token| token.len() + SEPARATOR).sum::<usize>();
    if left == 0 { 0 } else { name.len() + left - SEPARATOR }
}

/// Version and status take 11 characters. HAProxy adds 21.
const STATUS_LINE_SIZE: usize = 21 + 11;

/// `transfer-encoding` and `chunked`, counted as a field.
const CHUNKED_SIZE: usize = 17 + 7;

/// The comma and space between two values of a list.
const SEPARATOR: usize = 2;

#[cfg(test)]
mod tests {
    use weir_http::Kind;

    use super::*;

    #[track_caller]
    fn check(head: &str, of_server: bool, fields: usize) {
        let mut message = Message::default();
        message.read_kept(Kind::Response, head.as_bytes()).expect("a head");
        let mut size = LoggedSize { heads: 0, reply: 5 };
        size.add_head(&message, of_server);
        assert_eq!(size.total(), (32 + "OK".len() + fields + 5) as u64, "{head}");
    }

    #[test]
    fn the_logged_size_excludes_field_separators() {
        check("HTTP/1.1 200 OK\r\n\r\n", true, 0);
        check("HTTP/1.1 200 OK\r\nA: bc\r\nDe:f\r\n\r\n", true, 3 + 3);
    }

    #[test]
    fn the_logged_size_excludes_connection_options_of_servers() {
        check("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", true, 0);
        check("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", false, 15);
        check("HTTP/1.1 200 OK\r\nConnection: Keep-Alive, x, yz\r\n\r\n", true, 10 + 5);
    }
}
