//! CGI response heads: the fields at the front of STDOUT (RFC 3875, 6), and the HTTP/1.1 head that is made of them.

/// Finds the end of a CGI head in bytes that arrive piece by piece.
#[derive(Debug, Clone, Default)]
pub struct CgiHead {
    /// Where the line begins that is not complete.
    line: usize,
    /// How many bytes of it hold no LF.
    scanned: usize,
}

/// How far the head is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgiProgress {
    Incomplete,
    /// The head does not end within the limit.
    TooLarge,
    /// The head ends.
    Complete {
        /// Bytes of the head, its empty line included. The body follows.
        length: usize,
    },
}

impl CgiHead {
    /// A search at the first byte of STDOUT.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for the end of the head in `bytes`: all content of STDOUT so far, so those of the last call and more. The head
    /// ends with an empty line; lines end with LF or CRLF. The head may have `limit` bytes. The result does not depend on how the bytes were cut.
    pub fn find(&mut self, bytes: &[u8], limit: usize) -> CgiProgress {
        let window = &bytes[..bytes.len().min(limit)];
        while let Some(at) =
            window.get(self.line + self.scanned..).and_then(|rest| memchr::memchr(b'\n', rest))
        {
            let end = self.line + self.scanned + at;
            let is_empty = matches!(window[self.line..end], [] | [b'\r']);
            self.line = end + 1;
            self.scanned = 0;
            if is_empty {
                return CgiProgress::Complete { length: self.line };
            }
        }
        self.scanned = window.len().saturating_sub(self.line);
        if bytes.len() >= limit { CgiProgress::TooLarge } else { CgiProgress::Incomplete }
    }
}

/// Facts of a CGI head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgiFacts {
    /// 100 to 999.
    pub status: u16,
    /// Whether there is a `Date` field.
    pub has_date: bool,
    /// Whether there is a `Content-Length` or a `Transfer-Encoding` field.
    pub has_framing: bool,
}

/// Why no HTTP head can be made of a CGI head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgiFault {
    /// The status is not a number from 100 to 999, followed by nothing or a space.
    Status,
    /// An HTTP status line at the front: a script with non-parsed headers (RFC 3875, 5), which HAProxy refuses, too.
    StatusLine,
    /// A line without a colon.
    NoColon,
    /// A field without a name.
    NoName,
    /// A NUL byte.
    Nul,
    /// A line that continues the one before it (obsolete: RFC 9112, 5.2).
    Folded,
}

/// Appends the HTTP/1.1 head of a CGI head (`head` ends with its empty line, see [`CgiHead`]). Fields are copied in their order, except `Status`. Other
/// characters than NUL are not validated: the parser of HTTP/1 heads must read the result. Fields that concern a connection or framing
/// (`Connection`, `Transfer-Encoding`) are copied, too.
///
/// The status is that of the first `Status` field, else 302 if there is a `Location` field (RFC 3875, 6.2.4), else 200.
///
/// # Errors
/// The head is not valid. `out` is unchanged.
pub fn write_http(head: &[u8], out: &mut Vec<u8>) -> Result<CgiFacts, CgiFault> {
    if memchr::memchr(0, head).is_some() {
        return Err(CgiFault::Nul);
    }
    // A colon in its reason must not make a field of it, which a lenient parser drops.
    if head.starts_with(b"HTTP/") {
        return Err(CgiFault::StatusLine);
    }
    let summary = read_fields(head)?;
    let implied = if summary.has_location { FOUND } else { OK };
    let status = summary.status.unwrap_or(implied);
    out.reserve(STATUS_LINE_ROOM + status.reason.len() + head.len());
    write_status_line(status, out);
    for line in lines(head).filter(|line| !is_field(line, b"status")) {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    let FieldSummary { has_date, has_framing, .. } = summary;
    Ok(CgiFacts { status: status.code, has_date, has_framing })
}

#[derive(Debug, Clone, Copy)]
struct StatusLine<'a> {
    code: u16,
    reason: &'a [u8],
}

impl<'a> StatusLine<'a> {
    /// Reads `404 Not Found` or `404`, which gets the standard reason.
    fn read(text: &'a [u8]) -> Result<Self, CgiFault> {
        let (digits, rest) = text.split_first_chunk::<3>().ok_or(CgiFault::Status)?;
        let is_number = digits.iter().all(u8::is_ascii_digit) && digits[0] != b'0';
        if !is_number || !matches!(rest.first(), None | Some(b' ')) {
            return Err(CgiFault::Status);
        }
        let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
        let reason = match rest.trim_ascii() {
            b"" => standard_reason(code),
            reason => reason,
        };
        Ok(StatusLine { code, reason })
    }
}

struct FieldSummary<'a> {
    /// Of the first `Status` field.
    status: Option<StatusLine<'a>>,
    has_location: bool,
    has_date: bool,
    has_framing: bool,
}

/// Checks each line, and finds the fields that decide the status.
fn read_fields(fields: &[u8]) -> Result<FieldSummary<'_>, CgiFault> {
    let mut summary = FieldSummary { status: None, has_location: false, has_date: false, has_framing: false };
    for line in lines(fields) {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(CgiFault::Folded);
        }
        let (name, value) = split_field(line).ok_or(CgiFault::NoColon)?;
        if name.is_empty() {
            return Err(CgiFault::NoName);
        }
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            4 => summary.has_date |= is(b"date"),
            6 if is(b"status") => {
                let status = StatusLine::read(value.trim_ascii())?;
                summary.status.get_or_insert(status);
            }
            8 => summary.has_location |= is(b"location"),
            14 => summary.has_framing |= is(b"content-length"),
            17 => summary.has_framing |= is(b"transfer-encoding"),
            _ => {}
        }
    }
    Ok(summary)
}

/// The lines of a head before its empty one, without their ends.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take_while(|line| !line.is_empty())
}

fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b':', line)?;
    Some((&line[..at], &line[at + 1..]))
}

fn is_field(line: &[u8], name: &[u8]) -> bool {
    split_field(line).is_some_and(|(found, _)| found.eq_ignore_ascii_case(name))
}

fn write_status_line(status: StatusLine<'_>, out: &mut Vec<u8>) {
    let digit = |value: u16| b'0' + u8::try_from(value % 10).expect("a digit is below 10");
    let code = status.code;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(code / 100), digit(code / 10), digit(code), b' ']);
    out.extend_from_slice(status.reason);
    out.extend_from_slice(b"\r\n");
}

/// The reason of a status that applications write without one (RFC 9110, 15). Empty for a rare status.
fn standard_reason(code: u16) -> &'static [u8] {
    match code {
        200 => b"OK",
        201 => b"Created",
        202 => b"Accepted",
        204 => b"No Content",
        206 => b"Partial Content",
        301 => b"Moved Permanently",
        302 => b"Found",
        303 => b"See Other",
        304 => b"Not Modified",
        307 => b"Temporary Redirect",
        308 => b"Permanent Redirect",
        400 => b"Bad Request",
        401 => b"Unauthorized",
        403 => b"Forbidden",
        404 => b"Not Found",
        405 => b"Method Not Allowed",
        406 => b"Not Acceptable",
        408 => b"Request Timeout",
        409 => b"Conflict",
        410 => b"Gone",
        411 => b"Length Required",
        412 => b"Precondition Failed",
        413 => b"Content Too Large",
        415 => b"Unsupported Media Type",
        416 => b"Range Not Satisfiable",
        422 => b"Unprocessable Content",
        429 => b"Too Many Requests",
        500 => b"Internal Server Error",
        501 => b"Not Implemented",
        502 => b"Bad Gateway",
        503 => b"Service Unavailable",
        504 => b"Gateway Timeout",
        _ => b"",
    }
}

const OK: StatusLine<'static> = StatusLine { code: 200, reason: b"OK" };
const FOUND: StatusLine<'static> = StatusLine { code: 302, reason: b"Found" };

/// Bytes that a head can gain, the reason aside: a status line, and the CRs of about ten fields.
const STATUS_LINE_ROOM: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The end of the head, after pieces up to each of the cuts.
    fn find(bytes: &[u8], cuts: &[usize], limit: usize) -> CgiProgress {
        let mut head = CgiHead::new();
        for cut in cuts {
            let progress = head.find(&bytes[..*cut], limit);
            if progress != CgiProgress::Incomplete {
                return progress;
            }
        }
        head.find(bytes, limit)
    }

    #[track_caller]
    fn check_head(bytes: &[u8], limit: usize, expected: CgiProgress) {
        let every: Vec<_> = (0..bytes.len()).collect();
        assert_eq!(find(bytes, &every, limit), expected, "byte by byte");
        for cut in every {
            assert_eq!(find(bytes, &[cut], limit), expected, "cut at {cut}");
        }
    }

    #[test]
    fn the_head_ends_with_an_empty_line() {
        for (bytes, length) in [
            (&b"Status: 200\r\nA: b\r\n\r\nbody\n\n"[..], 21),
            (b"Status: 200\nA: b\n\nbody\r\n\r\n", 18),
            (b"A: b\n\r\nbody", 7),
            (b"A: b\r\n\nbody", 7),
            (b"A: b\r\r\n\n", 8),
            (b"A: b\n\r\r\n\n", 9),
            (b"\nbody", 1),
            (b"\r\nbody", 2),
        ] {
            check_head(bytes, 100, CgiProgress::Complete { length });
            check_head(&bytes[..length], length, CgiProgress::Complete { length });
            check_head(&bytes[..length - 1], 100, CgiProgress::Incomplete);
            check_head(bytes, length - 1, CgiProgress::TooLarge);
        }
        check_head(b"", 10, CgiProgress::Incomplete);
        check_head(b"0123456789", 10, CgiProgress::TooLarge);
        check_head(b"012345678", 10, CgiProgress::Incomplete);
    }

    #[test]
    fn the_search_does_not_start_anew() {
        let mut head = CgiHead::new();
        assert_eq!(head.find(b"A: b", 100), CgiProgress::Incomplete);
        assert_eq!((head.line, head.scanned), (0, 4));
        assert_eq!(head.find(b"A: b\nCD", 100), CgiProgress::Incomplete);
        assert_eq!((head.line, head.scanned), (5, 2));
    }

    #[track_caller]
    fn check(head: &str, status: u16, expected: &str) {
        for head in [head.to_owned(), head.replace('\n', "\r\n")] {
            let mut out = b"before".to_vec();
            let facts = write_http(head.as_bytes(), &mut out);
            assert_eq!(facts.map(|facts| facts.status), Ok(status), "{head:?}");
            let expected = format!("before{}", expected.replace('\n', "\r\n"));
            assert_eq!(String::from_utf8_lossy(&out), expected, "{head:?}");
        }
    }

    #[test]
    fn the_status_field_becomes_the_status_line() {
        check("Status: 404 Not There\nA: b\n\n", 404, "HTTP/1.1 404 Not There\nA: b\n\n");
        check("A: b\nsTATUS:404\nC: d\n\n", 404, "HTTP/1.1 404 Not Found\nA: b\nC: d\n\n");
        check("Status: \t503\t \n\n", 503, "HTTP/1.1 503 Service Unavailable\n\n");
        check("Status: 599\n\n", 599, "HTTP/1.1 599 \n\n");
        check("Status: 100\n\n", 100, "HTTP/1.1 100 \n\n");
        check("Status: 999 x\n\n", 999, "HTTP/1.1 999 x\n\n");
        check("Status: 304\nStatus: 200 OK\n\n", 304, "HTTP/1.1 304 Not Modified\n\n");
    }

    #[test]
    fn the_status_is_implied_without_a_status_field() {
        check("Content-Type: text/html\n\n", 200, "HTTP/1.1 200 OK\nContent-Type: text/html\n\n");
        check("location: /a\nA: b\n\n", 302, "HTTP/1.1 302 Found\nlocation: /a\nA: b\n\n");
        check("Location: /a\nStatus: 201\n\n", 201, "HTTP/1.1 201 Created\nLocation: /a\n\n");
        check("X-Location: /a\nStatus-X: 404\n\n", 200, "HTTP/1.1 200 OK\nX-Location: /a\nStatus-X: 404\n\n");
        check("\n", 200, "HTTP/1.1 200 OK\n\n");
    }

    #[test]
    fn fields_of_date_and_framing_are_noticed() {
        for (head, has_date, has_framing) in [
            ("dATE: x\nEtag: x\n\n", true, false),
            ("A: b\ncontent-LENGTH: 1\nX-Accel-Buffer: x\nX-Accel-Buffering: x\n\n", false, true),
            ("Transfer-Encoding: chunked\nX-Accel-Buffering: x\n\n", false, true),
            ("Transfer-Encoding: chunked\nDate:\n\n", true, true),
            (
                "Dato: x\nContent_Length: 1\nTransfer_Encoding: x\n\nDate: x\nContent-Length: 1\n",
                false,
                false,
            ),
        ] {
            let facts = CgiFacts { status: 200, has_date, has_framing };
            assert_eq!(write_http(head.as_bytes(), &mut Vec::new()), Ok(facts), "{head:?}");
        }
    }

    #[test]
    fn fields_are_copied_up_to_the_empty_line() {
        check("A:b : c\nA:\nB : \n\nNot: a field\n", 200, "HTTP/1.1 200 OK\nA:b : c\nA:\nB : \n\n");
    }

    #[test]
    fn malformed_heads_are_refused_and_leave_nothing() {
        for (head, fault) in [
            ("Status: 099\n\n", CgiFault::Status),
            ("Status: 1000\n\n", CgiFault::Status),
            ("Status: 20\n\n", CgiFault::Status),
            ("Status: 2x0\n\n", CgiFault::Status),
            ("Status: 200OK\n\n", CgiFault::Status),
            ("Status:\n\n", CgiFault::Status),
            ("Status: 200\nStatus: OK\n\n", CgiFault::Status),
            ("A: b\nHTTP/1.1 200 OK\n\n", CgiFault::NoColon),
            ("<html>\n\n", CgiFault::NoColon),
            (": b\n\n", CgiFault::NoName),
            ("A: b\n c\n\n", CgiFault::Folded),
            ("A: b\n\tc: d\n\n", CgiFault::Folded),
            ("A: \0\n\n", CgiFault::Nul),
        ] {
            let mut out = b"before".to_vec();
            assert_eq!(write_http(head.as_bytes(), &mut out), Err(fault), "{head:?}");
            assert_eq!(out, b"before");
        }
    }

    #[test]
    fn status_lines_are_refused_also_with_a_colon() {
        for head in [
            "HTTP/1.1 200 OK\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 a:b\nA: b\n\n",
            "HTTP/1.1: 200\n\n",
            "HTTP/1.0 404\nStatus: 200\n\n",
            "HTTP/\n\n",
        ] {
            let mut out = b"before".to_vec();
            assert_eq!(write_http(head.as_bytes(), &mut out), Err(CgiFault::StatusLine), "{head:?}");
            assert_eq!(out, b"before");
        }
        check("HTTP: a\n\n", 200, "HTTP/1.1 200 OK\nHTTP: a\n\n");
    }

    proptest! {
        #[test]
        fn heads_have_one_end_in_any_pieces(
            words in prop::collection::vec(prop::sample::select(vec!["\n", "\r", "a", ": "]), 0..40),
            cuts in prop::collection::vec(0_usize..40, 0..4),
            limit in 0_usize..60,
        ) {
            let bytes = words.concat().into_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let whole = find(&bytes, &[], limit);
            prop_assert_eq!(find(&bytes, &cuts, limit), whole);
            if let CgiProgress::Complete { length } = whole {
                prop_assert!(length <= limit && length <= bytes.len() && bytes[length - 1] == b'\n');
                let mut out = Vec::new();
                if write_http(&bytes[..length], &mut out).is_ok() {
                    prop_assert!(out.starts_with(b"HTTP/1.1 200 OK\r\n") && out.ends_with(b"\r\n\r\n"));
                }
            }
        }
    }
}
