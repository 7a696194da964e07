//! Parses a message head at the front of a receive buffer.
//!
//! The parser searches for line ends and validates each complete line: a start line, then field lines, then an empty
//! line. It stores the offset at which it stopped, so that a head that arrives in many pieces is scanned once:
//!
//! ```text
//!   EmptyLines ──► StartLine ──► Fields ──(empty line)──► complete
//! ```
//!
//! `start_line` has the syntax of start lines, `field_line` the syntax of field lines, `meaning` the meaning of fields for the proxy,
//! and `judgment` the rules for a whole head.

mod field_line;
mod judgment;
mod meaning;
pub(crate) mod scan;
mod start_line;
#[cfg(test)]
mod tests;

use weir_http::{Head, HeadFlags, Kind, MessageSpan};

use crate::error::{HeadError, HeadErrorKind};
use meaning::Meaning;
use scan::find_control;

/// Protocol violations that the operator allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ParseOptions {
    /// `option accept-unsafe-violations-in-http-request` or `-response`, whichever the message is.
    pub accept_unsafe_violations: bool,
    /// A fragment after the target is accepted; the caller handles it.
    pub accept_fragment: bool,
    /// `h1-accept-payload-with-any-method`: HTTP/1.0 `GET`, `HEAD` and `DELETE` requests may have a body too.
    pub accept_payload_with_any_method: bool,
    /// `h1-do-not-close-on-insecure-transfer-encoding`: [`HeadFlags::INSECURE_FRAMING`] is not set.
    pub keep_insecure_transfer_encoding: bool,
}

/// The result of parsing the buffer so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadProgress {
    /// The head is incomplete. Call again with more bytes. The caller handles a full buffer.
    Incomplete,
    /// The head is complete; the body begins at `head_len`.
    Complete {
        /// The first byte after the empty line.
        head_len: usize,
    },
    /// The head is invalid.
    Error(HeadError),
}

/// An incremental parser of message heads. After [`HeadProgress::Complete`] or [`HeadProgress::Error`] it is ready for the next head.
#[derive(Clone, Debug, Default)]
pub struct HeadParser {
    awaiting: HeadPart,
    /// Offset of the current line.
    line: usize,
    /// Offset at which the search for the line end continues.
    at: usize,
    /// The start line has control characters.
    has_controls: bool,
    /// The current line has a line break inside: a folded field (RFC 9112, 5.2).
    folded: bool,
    meaning: Meaning,
}

/// The next part of the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum HeadPart {
    #[default]
    EmptyLines,
    StartLine,
    Fields,
}

/// Why a scan stopped before the end of the head.
#[derive(Clone, Copy, Debug)]
enum ScanStop {
    /// More bytes are needed.
    NeedMore,
    Wrong(HeadError),
}

impl HeadParser {
    /// Parses a request head at the start of `raw`. Between calls for one head, `raw` may only grow at its end and
    /// `head` must not change. The first call clears `head`.
    #[inline]
    pub fn request(&mut self, raw: &[u8], options: &ParseOptions, head: &mut Head) -> HeadProgress {
        self.parse(Kind::Request, raw, options, head)
    }

    /// Like [`HeadParser::request`], for a response head.
    #[inline]
    pub fn response(&mut self, raw: &[u8], options: &ParseOptions, head: &mut Head) -> HeadProgress {
        self.parse(Kind::Response, raw, options, head)
    }

    /// Whether the start line has begun, after any empty lines.
    pub fn has_begun(&self) -> bool {
        self.awaiting != HeadPart::EmptyLines
    }

    /// Whether the start line was read.
    pub fn has_start_line(&self) -> bool {
        self.awaiting == HeadPart::Fields
    }

    /// Discards a head that was begun.
    pub fn reset(&mut self) {
        *self = HeadParser::default();
    }

    fn parse(&mut self, kind: Kind, raw: &[u8], options: &ParseOptions, head: &mut Head) -> HeadProgress {
        if raw.len() > MessageSpan::MAX {
            return HeadProgress::Error(HeadError {
                kind: HeadErrorKind::TooLong,
                position: MessageSpan::MAX,
            });
        }
        match self.advance(kind, raw, options, head) {
            Ok(head_len) => {
                self.reset();
                HeadProgress::Complete { head_len }
            }
            Err(ScanStop::NeedMore) => HeadProgress::Incomplete,
            Err(ScanStop::Wrong(error)) => {
                self.reset();
                HeadProgress::Error(error)
            }
        }
    }

    fn advance(
        &mut self,
        kind: Kind,
        raw: &[u8],
        options: &ParseOptions,
        head: &mut Head,
    ) -> Result<usize, ScanStop> {
        if self.awaiting == HeadPart::EmptyLines {
            if self.at == 0 {
                head.clear();
            }
            self.empty_lines(kind, raw)?;
            self.awaiting = HeadPart::StartLine;
        }
        if self.awaiting == HeadPart::StartLine {
            let (end, next) = self.start_line_end(raw)?;

            let line = self.line..end;
            match kind {
                Kind::Request => start_line::request_line(raw, line, options, head)?,
                Kind::Response => start_line::status_line(raw, line, self.has_controls, options, head)?,
            }
            if next - end == 1 {
                head.note(HeadFlags::MUST_REWRITE);
            }
            self.awaiting = HeadPart::Fields;
            self.line = next;
            self.at = next;
        }
        let end = self.fields(raw, options, head)?;
        head.finish(end);
        judgment::judge(&self.meaning, raw, options, head)?;
        Ok(end)
    }

    /// Skips the empty lines that some clients send after a body (RFC 9112, 2.2).
    fn empty_lines(&mut self, kind: Kind, raw: &[u8]) -> Result<(), ScanStop> {
        loop {
            match raw.get(self.at) {
                None => return Err(ScanStop::NeedMore),
                Some(b'\n') => self.at += 1,
                Some(b'\r') => match raw.get(self.at + 1) {
                    None => return Err(ScanStop::NeedMore),
                    Some(b'\n') => self.at += 2,
                    Some(_) => return wrong(HeadErrorKind::BareCarriageReturn, self.at),
                },
                Some(&byte) => {
                    // Reported before the line is complete: a TLS client sends no line end and would wait for a response.
                    if !scan::is_token_byte(byte) {
                        let problem = match kind {
                            Kind::Request => HeadErrorKind::InvalidMethod,
                            Kind::Response => HeadErrorKind::NotHttp,
                        };
                        return wrong(problem, self.at);
                    }
                    self.line = self.at;
                    return Ok(());
                }
            }
        }
    }

    /// Offsets of the start line's end, and of the next line.
    fn start_line_end(&mut self, raw: &[u8]) -> Result<(usize, usize), ScanStop> {
        loop {
            let at = find_control(raw, self.at);
            self.at = at;
            match raw.get(at) {
                None => return Err(ScanStop::NeedMore),
                Some(b'\r') => return Ok((at, after_carriage_return(raw, at)?)),
                Some(b'\n') => return Ok((at, at + 1)),
                // Validated with the rest of the line: a reason phrase allows bytes that a target does not.
                Some(_) => {
                    self.has_controls = true;
                    self.at = at + 1;
                }
            }
        }
    }

    /// Parses field lines up to the empty line. Returns the offset of the body.
    fn fields(&mut self, raw: &[u8], options: &ParseOptions, head: &mut Head) -> Result<usize, ScanStop> {
        loop {
            let at = find_control(raw, self.at);
            let next = match raw.get(at) {
                None => {
                    self.at = at;
                    return Err(ScanStop::NeedMore);
                }
                Some(b'\r') => match after_carriage_return(raw, at) {
                    Ok(next) => next,
                    // With the option any byte is accepted in a name, since the field is dropped.
                    Err(ScanStop::Wrong(_)) if options.accept_unsafe_violations && self.in_name(raw, at) => {
                        self.at = at + 1;
                        continue;
                    }
                    Err(stop) => {
                        self.at = at;
                        return Err(stop);
                    }
                },
                Some(b'\n') => {
                    head.note(HeadFlags::MUST_REWRITE);
                    at + 1
                }
                Some(0) if !options.accept_unsafe_violations => {
                    return wrong(field_line::kind_of_nul(&raw[self.line..at]), at);
                }
                Some(control) => {
                    if *control == 0 {
                        head.note(HeadFlags::VIOLATION);
                    }
                    self.at = at + 1;
                    continue;
                }
            };
            if at == self.line {
                return Ok(next);
            }
            match raw.get(next) {
                // The next byte decides whether the line is continued.
                None => {
                    self.at = at;
                    return Err(ScanStop::NeedMore);
                }
                Some(b' ' | b'\t') => {
                    self.folded = true;
                    self.at = next;
                    continue;
                }
                Some(_) => {}
            }
            field_line::read(raw, self.line..at, self.folded, options, &mut self.meaning, head)?;
            self.folded = false;
            self.line = next;
            self.at = next;
        }
    }

    /// Whether `at` is before the colon of the current line. Scans the name again for each carriage return in it, so
    /// the length of such names is bounded.
    #[cold]
    fn in_name(&self, raw: &[u8], at: usize) -> bool {
        at - self.line <= MAX_ODD_NAME && memchr::memchr(b':', &raw[self.line..at]).is_none()
    }
}

/// Length limit in bytes of names with carriage returns, if invalid names are accepted.
const MAX_ODD_NAME: usize = 256;

/// The offset after `\r\n`, given the offset of `\r`.
#[inline]
fn after_carriage_return(raw: &[u8], at: usize) -> Result<usize, ScanStop> {
    match raw.get(at + 1) {
        Some(b'\n') => Ok(at + 2),
        Some(_) => wrong(HeadErrorKind::BareCarriageReturn, at),
        None => Err(ScanStop::NeedMore),
    }
}

#[cold]
fn wrong<T>(kind: HeadErrorKind, position: usize) -> Result<T, ScanStop> {
    Err(ScanStop::Wrong(HeadError { kind, position }))
}
