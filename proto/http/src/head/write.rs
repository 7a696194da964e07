//! Serializes a head, in the received field order and letter case.

use super::{Head, Kind};
use crate::case::CaseMap;
use crate::{Method, uri};

impl Head {
    /// Passes the head, piece by piece, to `put`: start line, fields, empty line. With a `case` map, names that
    /// are in it are written in its case.
    #[inline]
    fn pieces(&self, raw: &[u8], case: Option<&CaseMap>, put: &mut impl FnMut(&[u8])) {
        let [mut first, mut second, mut third] = self.start_line.map(|span| span.of(raw, &self.edits));
        if self.version.major >= 2 {
            match self.kind {
                Kind::Request => (second, third) = (self.target_for_http1(second), b"HTTP/1.1"),
                Kind::Response => first = b"HTTP/1.1",
            }
        }
        put(first);
        put(b" ");
        put(second);
        if !(self.kind == Kind::Request && third.is_empty()) {
            put(b" ");
            put(third);
        }
        put(b"\r\n");
        for field in &self.fields {
            let (name, value) = self.text(raw, field);
            put(case.and_then(|map| map.look_up(name)).unwrap_or(name));
            put(b": ");
            put(value);
            put(b"\r\n");
        }
        put(b"\r\n");
    }

    /// `target` without the scheme and the authority that `Host` repeats: the target for an HTTP/1 server, and the `:path` for
    /// HTTP/2 (RFC 9113, 8.3.1; RFC 9112, 3.2.1).
    #[cold]
    pub fn target_for_http1<'a>(&self, target: &'a [u8]) -> &'a [u8] {
        if uri::form(target) != uri::TargetForm::Absolute {
            return target;
        }
        match &target[uri::path_place(target).start..] {
            b"" if self.method == Method::Options => b"*",
            b"" => b"/",
            path => path,
        }
    }

    /// Appends the head to `out`, as HTTP/1 writes it. Correct for any head; needed only when [`Head::is_edited`].
    pub fn write(&self, raw: &[u8], out: &mut Vec<u8>) {
        self.write_adjusted(raw, None, out);
    }

    /// Like [`Head::write`], with names written in the case of the map (`h1-case-adjust`).
    pub fn write_adjusted(&self, raw: &[u8], case: Option<&CaseMap>, out: &mut Vec<u8>) {
        self.pieces(raw, case, &mut |piece| out.extend_from_slice(piece));
    }

    /// How many bytes [`Head::write`] would append.
    pub fn written_len(&self, raw: &[u8]) -> usize {
        let mut length = 0;
        self.pieces(raw, None, &mut |piece| length += piece.len());
        length
    }
}
