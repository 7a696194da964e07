//! Trailers: the fields after a body (RFC 9113, 8.1; RFC 9110, 6.5).

use weir_hpack::{DecodedField, Token};
use weir_http::{KnownName, values};

/// Received trailers, as HTTP/1 field lines.
#[derive(Debug, Default)]
pub(crate) struct ReceivedTrailers {
    pub lines: Vec<u8>,
    /// They violate RFC 9113, 8.
    pub malformed: bool,
    /// They exceed the limit.
    pub too_large: bool,
}

impl ReceivedTrailers {
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.malformed = false;
        self.too_large = false;
    }

    pub(crate) fn field(&mut self, field: DecodedField<'_>, max: usize) {
        let Token::Field(known) = field.token else {
            self.malformed = true;
            return;
        };
        if field.defect.is_some() {
            self.malformed = true;
            return;
        }
        match known {
            KnownName::Connection
            | KnownName::KeepAlive
            | KnownName::ProxyConnection
            | KnownName::TransferEncoding
            | KnownName::Upgrade => self.malformed = true,
            // Fields for framing or routing are not allowed in trailers.
            KnownName::ContentLength
            | KnownName::Host
            | KnownName::Te
            | KnownName::Cookie
            | KnownName::Expect => {}
            _ if self.lines.len() + field.name.len() + field.value.len() + 4 > max => self.too_large = true,
            _ => {
                for part in [field.name, b": ", values::trim(field.value), b"\r\n"] {
                    self.lines.extend_from_slice(part);
                }
            }
        }
    }
}
