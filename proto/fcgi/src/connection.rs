//! The web server's end of a connection to an application.
//!
//! ```text
//!   AwaitValues ──GET_VALUES_RESULT, any other record──► Ready ──a fault──► Failed
//!        │                                                                    ▲
//!        └─────────── version, malformed values ──────────────────────────────┘
//! ```
//!
//! Without GET_VALUES a connection begins as Ready. A request lives from `begin` to its END_REQUEST record, an aborted one,
//! too.

use crate::params::{Params, pairs, pairs_within};
use crate::record::{
    FcgiRecordKind, HEADER_LENGTH, MAX_CONTENT, ProtocolStatus, RecordHeader, write, write_content,
};

/// Options of the connections to an application (HAProxy's manual, 10.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// Whether the connection begins with GET_VALUES, a query for the application's limits. Some applications close it then.
    pub get_values: bool,
    /// Whether requests have the flag `FCGI_KEEP_CONN`: the application keeps the connection open after them.
    pub keeps: bool,
    /// Whether requests may run at the same time. An answer to GET_VALUES overrides it.
    pub multiplexes: bool,
    /// How many, if they may; at least 1. An answer to GET_VALUES overrides it.
    pub max_requests: u16,
}

/// The engine of one connection. It does not know time: its driver bounds the wait for the answer to GET_VALUES and for
/// responses, those of aborted requests included.
///
/// Its memory is its output, bounded by the content that the driver queues, and one byte for each id: [`SPARE_IDS`] more than
/// the limit of requests.
#[derive(Debug)]
pub struct FcgiConnection {
    state: FcgiState,
    keeps: bool,
    multiplexes: bool,
    max_requests: u16,
    /// The state of the requests 1 and up: the first is at index 0.
    requests: Vec<RequestState>,
    /// The id of the request that began last. 0 before the first.
    last: usize,
    live: usize,
    /// Whether a request began, ever.
    has_begun: bool,
    reading: Reading,
    /// Stray records in a row: they belong to no request in progress.
    stray: u32,
    output: Vec<u8>,
    /// How much of `output` is flushed.
    flushed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FcgiState {
    AwaitValues,
    Ready,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    Free,
    Live,
    /// ABORT_REQUEST is queued or sent, and END_REQUEST is awaited.
    Aborted,
}

/// The part of a record that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Header,
    /// Content of STDOUT or STDERR; `left` bytes of it and the padding are not read.
    Stream {
        is_stderr: bool,
        id: u16,
        left: u16,
        padding: u8,
    },
    /// The content of GET_VALUES_RESULT or END_REQUEST, read at once.
    Whole(RecordHeader),
    /// Ignored bytes: padding and stray records.
    Skip(u32),
}

/// Records of the application, and its faults. Content is borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FcgiEvent<'i> {
    /// The application answered to GET_VALUES, or it sent something else: requests may begin.
    Ready,
    /// A part of the application's output: possibly less than a record; empty at the end of the output. Not reported for
    /// aborted requests.
    Stdout { id: u16, payload: &'i [u8] },
    /// A part of the application's errors. Never empty, and not reported for aborted requests.
    Stderr {
        id: u16,
        payload: &'i [u8],
        /// Whether this is the last part of its record.
        ends_record: bool,
    },
    /// The request ended, also an aborted one. Its id is free.
    Ended {
        id: u16,
        /// The exit status of the application, by its own convention.
        application_status: u32,
        status: ProtocolStatus,
    },
    /// The application broke the protocol. Requests in progress have failed, and the connection must be closed.
    Failed(FcgiFault),
}

/// How an application can break the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FcgiFault {
    /// A record of another version than 1: most likely not FastCGI.
    Version,
    /// An END_REQUEST record with less than 8 bytes of content.
    MalformedEnd,
    /// An answer to GET_VALUES with malformed pairs or more than [`MAX_VALUES`] bytes.
    MalformedValues,
    /// More than [`MAX_STRAY`] records in a row that belong to no request.
    StrayRecords,
    /// A management record (id 0) that is neither GET_VALUES_RESULT nor UNKNOWN_TYPE. HAProxy ends such connections, too.
    ManagementRecord,
}

impl FcgiConnection {
    /// Begins a connection. With `get_values` a GET_VALUES record is in the output.
    #[must_use]
    pub fn new(options: ConnectionOptions) -> Self {
        let ConnectionOptions { get_values, keeps, multiplexes, max_requests } = options;
        let mut output = Vec::new();
        if get_values {
            let mut names = Params::new();
            names.push(MAX_REQUESTS, b"");
            names.push(MULTIPLEXES, b"");
            write(FcgiRecordKind::GetValues, MANAGEMENT, names.bytes(), &mut output);
        }
        FcgiConnection {
            state: if get_values { FcgiState::AwaitValues } else { FcgiState::Ready },
            keeps,
            multiplexes,
            max_requests,
            requests: Vec::new(),
            last: 0,
            live: 0,
            has_begun: false,
            reading: Reading::Header,
            stray: 0,
            output,
            flushed: 0,
        }
    }

    /// Whether the limits are known and the application did not break the protocol. False while the answer to GET_VALUES is
    /// awaited.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == FcgiState::Ready
    }

    /// How many requests may be in progress at once: 1 without multiplexing.
    #[must_use]
    pub fn request_limit(&self) -> u16 {
        if self.multiplexes { self.max_requests.max(1) } else { 1 }
    }

    /// Whether no further request may begin: after a fault, and without `keeps` after the first request began.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.state == FcgiState::Failed || (self.has_begun && !self.keeps)
    }

    /// Requests in progress, aborted ones included.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// Whether the request is in progress and not aborted. The driver checks it before it sends content with
    /// [`Self::stdin_header`]: an application may end a request before its body.
    #[must_use]
    pub fn is_live(&self, id: u16) -> bool {
        self.request(id) == RequestState::Live
    }

    /// Begins a request: queues BEGIN_REQUEST, PARAMS of any length (the bytes of a [`Params`]) and, without a body,
    /// the end of STDIN. Returns its id, from 1 on. The id is free again after [`FcgiEvent::Ended`].
    ///
    /// PARAMS are cut between pairs where possible: applications are known that read each record on its own.
    ///
    /// `None`, without an effect, if the limit is reached, the connection is not ready, or it is closing.
    pub fn begin(&mut self, params: &[u8], has_body: bool) -> Option<u16> {
        if !self.is_ready() || self.is_closing() || self.live >= usize::from(self.request_limit()) {
            return None;
        }
        let id = self.take_id()?;
        let flags = if self.keeps { KEEP_CONNECTION } else { 0 };
        write(FcgiRecordKind::BeginRequest, id, &[0, RESPONDER, flags, 0, 0, 0, 0, 0], &mut self.output);
        self.write_params(id, params);
        if !has_body {
            write(FcgiRecordKind::Stdin, id, b"", &mut self.output);
        }
        Some(id)
    }

    /// Takes the next free id after that of the request that began last. Ids are small, because applications use them as indices,
    /// but at least [`SPARE_IDS`] other requests begin between two uses of an id: late output of an application must not
    /// belong to another request.
    fn take_id(&mut self) -> Option<u16> {
        let window = self.id_window();
        let is_free =
            |index: &usize| self.requests.get(*index).is_none_or(|state| *state == RequestState::Free);
        let start = self.last % window;
        let index = (start..window).chain(0..start).find(is_free)?;
        let id = u16::try_from(index + 1).ok()?;
        if self.requests.is_empty() {
            // All ids of a connection without multiplexing. Larger windows grow.
            self.requests.reserve_exact(1 + SPARE_IDS);
        }
        if index >= self.requests.len() {
            self.requests.resize(index + 1, RequestState::Free);
        }
        self.requests[index] = RequestState::Live;
        self.last = index + 1;
        self.live += 1;
        self.has_begun = true;
        Some(id)
    }

    /// The largest id that a request may have.
    fn id_window(&self) -> usize {
        (usize::from(self.request_limit()) + SPARE_IDS).min(usize::from(u16::MAX))
    }

    fn write_params(&mut self, id: u16, params: &[u8]) {
        let mut rest = params;
        while !rest.is_empty() {
            let (content, next) = rest.split_at(pairs_within(rest, MAX_CONTENT));
            write_content(FcgiRecordKind::Params, id, content, &mut self.output);
            rest = next;
        }
        write(FcgiRecordKind::Params, id, b"", &mut self.output);
    }

    /// Queues content of the request's body, and its end. Without an effect if the request is not in progress or aborted.
    pub fn stdin(&mut self, id: u16, payload: &[u8], ends: bool) {
        if !self.is_live(id) {
            return;
        }
        write_content(FcgiRecordKind::Stdin, id, payload, &mut self.output);
        if ends {
            write(FcgiRecordKind::Stdin, id, b"", &mut self.output);
        }
    }

    /// The header to send before `length` bytes of a request's body, after the output, to send content without a copy. Zero
    /// ends the body. Once a part of the record is sent, the rest must follow, whatever becomes of the request
    /// ([`Self::queue`]).
    #[must_use]
    pub fn stdin_header(id: u16, length: u16) -> [u8; HEADER_LENGTH] {
        RecordHeader { kind: FcgiRecordKind::Stdin, id, content_length: length, padding_length: 0 }.bytes()
    }

    /// Queues ABORT_REQUEST. The id stays taken until the application ends the request, and its content is skipped. Without an
    /// effect if the request is not in progress, or is aborted already.
    pub fn abort(&mut self, id: u16) {
        if self.is_live(id) {
            self.requests[usize::from(id) - 1] = RequestState::Aborted;
            write(FcgiRecordKind::AbortRequest, id, b"", &mut self.output);
        }
    }

    /// Reads records from the front of `input` up to the first event. Returns the number of bytes read, and the event. Without an
    /// event all was read that could be, and the caller keeps the rest: at most a header, or the content of
    /// END_REQUEST or of the answer to GET_VALUES ([`MAX_VALUES`]).
    ///
    /// Records for requests that do not exist, records of unknown types with an id, and GET_VALUES_RESULT and UNKNOWN_TYPE are
    /// skipped, up to [`MAX_STRAY`] in a row. After a fault, any input is read and ignored.
    pub fn receive<'i>(&mut self, input: &'i [u8]) -> (usize, Option<FcgiEvent<'i>>) {
        let mut consumed = 0;
        while self.state != FcgiState::Failed {
            let (length, step) = self.receive_part(&input[consumed..]);
            consumed += length;
            match step {
                Ok(RecordStep::Continue) => {}
                Ok(RecordStep::NeedsMore) => return (consumed, None),
                Ok(RecordStep::Event(event)) => return (consumed, Some(event)),
                Err(fault) => {
                    self.state = FcgiState::Failed;
                    return (input.len(), Some(FcgiEvent::Failed(fault)));
                }
            }
        }
        (input.len(), None)
    }

    /// Reads one part of a record. Returns the bytes read.
    fn receive_part<'i>(&mut self, input: &'i [u8]) -> (usize, Result<RecordStep<'i>, FcgiFault>) {
        match self.reading {
            Reading::Header => match input.first_chunk() {
                Some(header) => (HEADER_LENGTH, self.receive_header(*header)),
                None => (0, Ok(RecordStep::NeedsMore)),
            },
            Reading::Skip(0) => {
                self.reading = Reading::Header;
                (0, Ok(RecordStep::Continue))
            }
            _ if input.is_empty() => (0, Ok(RecordStep::NeedsMore)),
            Reading::Skip(left) => {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                // The length is at most `left`.
                self.reading = Reading::Skip(left - u32::try_from(length).unwrap_or(left));
                (length, Ok(RecordStep::Continue))
            }
            Reading::Stream { is_stderr, id, left, padding } => {
                let payload = &input[..input.len().min(usize::from(left))];
                let left = left - u16::try_from(payload.len()).unwrap_or(left);
                self.reading = match left {
                    0 => Reading::Skip(u32::from(padding)),
                    left => Reading::Stream { is_stderr, id, left, padding },
                };
                (payload.len(), Ok(self.stream_event(is_stderr, id, payload, left == 0)))
            }
            Reading::Whole(header) => self.receive_whole(header, input),
        }
    }

    fn stream_event<'i>(
        &self,
        is_stderr: bool,
        id: u16,
        payload: &'i [u8],
        ends_record: bool,
    ) -> RecordStep<'i> {
        match (self.is_live(id), is_stderr) {
            (false, _) => RecordStep::Continue,
            (true, false) => RecordStep::Event(FcgiEvent::Stdout { id, payload }),
            (true, true) => RecordStep::Event(FcgiEvent::Stderr { id, payload, ends_record }),
        }
    }

    fn receive_header(&mut self, bytes: [u8; HEADER_LENGTH]) -> Result<RecordStep<'static>, FcgiFault> {
        let header = RecordHeader::read(bytes).ok_or(FcgiFault::Version)?;
        let RecordHeader { kind, id, content_length, padding_length } = header;
        if self.state == FcgiState::AwaitValues {
            return self.receive_first_header(header);
        }
        self.reading = match kind {
            FcgiRecordKind::Stdout | FcgiRecordKind::Stderr if self.has_request(id) => Reading::Stream {
                is_stderr: kind == FcgiRecordKind::Stderr,
                id,
                left: content_length,
                padding: padding_length,
            },
            FcgiRecordKind::EndRequest if self.has_request(id) => {
                if usize::from(content_length) < END_LENGTH {
                    return Err(FcgiFault::MalformedEnd);
                }
                Reading::Whole(header)
            }
            _ => return self.skip_stray(header),
        };
        self.stray = 0;
        if content_length == 0 {
            self.reading = Reading::Skip(u32::from(padding_length));
            if kind == FcgiRecordKind::Stdout && self.is_live(id) {
                return Ok(RecordStep::Event(FcgiEvent::Stdout { id, payload: b"" }));
            }
        }
        Ok(RecordStep::Continue)
    }

    /// Reads the header of the record that answers GET_VALUES. Any other record means that the application does not know it:
    /// the configured limits stay.
    fn receive_first_header(&mut self, header: RecordHeader) -> Result<RecordStep<'static>, FcgiFault> {
        if (header.kind, header.id) == (FcgiRecordKind::GetValuesResult, MANAGEMENT) {
            if usize::from(header.content_length) > MAX_VALUES {
                return Err(FcgiFault::MalformedValues);
            }
            if header.content_length > 0 {
                self.reading = Reading::Whole(header);
                return Ok(RecordStep::Continue);
            }
        }
        self.state = FcgiState::Ready;
        self.reading = Reading::Skip(u32::from(header.content_length) + u32::from(header.padding_length));
        Ok(RecordStep::Event(FcgiEvent::Ready))
    }

    fn skip_stray(&mut self, header: RecordHeader) -> Result<RecordStep<'static>, FcgiFault> {
        let is_answer = matches!(header.kind, FcgiRecordKind::UnknownType | FcgiRecordKind::GetValuesResult);
        if header.id == MANAGEMENT && !is_answer {
            return Err(FcgiFault::ManagementRecord);
        }
        self.stray += 1;
        if self.stray > MAX_STRAY {
            return Err(FcgiFault::StrayRecords);
        }
        self.reading = Reading::Skip(u32::from(header.content_length) + u32::from(header.padding_length));
        Ok(RecordStep::Continue)
    }

    /// Reads content that is needed at once: all of GET_VALUES_RESULT, the front of END_REQUEST.
    fn receive_whole<'i>(
        &mut self,
        header: RecordHeader,
        input: &[u8],
    ) -> (usize, Result<RecordStep<'i>, FcgiFault>) {
        let content_length = usize::from(header.content_length);
        let needed = if self.state == FcgiState::AwaitValues { content_length } else { END_LENGTH };
        let Some(content) = input.get(..needed) else { return (0, Ok(RecordStep::NeedsMore)) };
        let rest = u32::from(header.content_length) + u32::from(header.padding_length);
        // At most the content.
        self.reading = Reading::Skip(rest - u32::try_from(needed).unwrap_or(rest));
        let event = match self.state {
            FcgiState::AwaitValues => self.receive_values(content),
            _ => self.receive_end(header.id, content),
        };
        (needed, event.map(RecordStep::Event))
    }

    /// Applies the application's limits. A configured limit stays if its value is missing or not a number.
    fn receive_values(&mut self, content: &[u8]) -> Result<FcgiEvent<'static>, FcgiFault> {
        for (name, value) in pairs(content).map_err(|_| FcgiFault::MalformedValues)? {
            match (name, number(value)) {
                (MAX_REQUESTS, Some(number)) => self.max_requests = number,
                (MULTIPLEXES, Some(number)) => self.multiplexes = number != 0,
                _ => {}
            }
        }
        self.state = FcgiState::Ready;
        Ok(FcgiEvent::Ready)
    }

    /// Ends a request. `content` has the first [`END_LENGTH`] bytes of END_REQUEST.
    fn receive_end(&mut self, id: u16, content: &[u8]) -> Result<FcgiEvent<'static>, FcgiFault> {
        let &[first, second, third, last, status, ..] = content else { return Err(FcgiFault::MalformedEnd) };
        let index = usize::from(id) - 1;
        self.requests[index] = RequestState::Free;
        self.live -= 1;
        Ok(FcgiEvent::Ended {
            id,
            application_status: u32::from_be_bytes([first, second, third, last]),
            status: ProtocolStatus::from_byte(status),
        })
    }

    /// Checks the engine's own state, for tests and simulations. It costs time for each request at once.
    ///
    /// # Panics
    /// The engine has a fault.
    pub fn check_invariants(&self) {
        let taken = self.requests.iter().filter(|request| **request != RequestState::Free).count();
        assert_eq!(self.live, taken, "the count of requests is that of the taken ids");
        assert!(self.live <= usize::from(self.request_limit()), "the limit holds");
        assert!(self.requests.len() <= self.id_window(), "ids stay in the window");
        assert!(self.last <= self.requests.len(), "the last id has a state");
        assert!(self.flushed <= self.output.len(), "only queued bytes are flushed");
        assert!(self.stray <= MAX_STRAY || self.state == FcgiState::Failed, "stray records are bounded");
    }

    fn has_request(&self, id: u16) -> bool {
        self.request(id) != RequestState::Free
    }

    fn request(&self, id: u16) -> RequestState {
        let index = usize::from(id).checked_sub(1);
        index.and_then(|index| self.requests.get(index)).copied().unwrap_or(RequestState::Free)
    }

    /// The bytes to send.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output[self.flushed..]
    }

    /// Removes the first `count` bytes from the output: they are sent.
    pub fn flushed(&mut self, count: usize) {
        self.flushed = self.flushed.saturating_add(count).min(self.output.len());
        if self.flushed == self.output.len() {
            self.output.clear();
            self.output.shrink_to(KEPT_OUTPUT);
            self.flushed = 0;
        } else if self.flushed > MAX_FLUSHED {
            self.output.drain(..self.flushed);
            self.flushed = 0;
        }
    }

    /// Queues bytes that a send with [`Self::stdin_header`] left over.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }
}

enum RecordStep<'i> {
    Continue,
    NeedsMore,
    Event(FcgiEvent<'i>),
}

/// A value of GET_VALUES_RESULT, at most 65,535. `None` if it is not a decimal number.
fn number(value: &[u8]) -> Option<u16> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        value
            .iter()
            .fold(0, |number: u16, digit| number.saturating_mul(10).saturating_add(u16::from(digit - b'0')))
    })
}

/// Ids beyond the limit of requests: at least that many other requests begin between two uses of an id, unless the limit is
/// close to the largest id.
pub const SPARE_IDS: usize = 63;

/// How many records in a row may belong to no request. Each costs time of the worker.
pub const MAX_STRAY: u32 = 100;

/// The largest answer to GET_VALUES, in bytes. The requested values need about 40.
pub const MAX_VALUES: usize = 1024;

/// How much memory an idle connection keeps for its output, in bytes: BEGIN_REQUEST and PARAMS of most requests fit.
const KEPT_OUTPUT: usize = 8 * 1024;

/// How many flushed bytes may stay in front of the output.
const MAX_FLUSHED: usize = 64 * 1024;

/// The id of records that concern the connection.
pub(crate) const MANAGEMENT: u16 = 0;

/// The role of an application that answers requests (FastCGI specification, 6.2).
pub(crate) const RESPONDER: u8 = 1;

/// The flag of BEGIN_REQUEST that keeps the connection open.
pub(crate) const KEEP_CONNECTION: u8 = 1;

/// Bytes of content of END_REQUEST: a status of the application, one of the protocol, three reserved bytes.
pub(crate) const END_LENGTH: usize = 8;

pub(crate) const MAX_REQUESTS: &[u8] = b"FCGI_MAX_REQS";
pub(crate) const MULTIPLEXES: &[u8] = b"FCGI_MPXS_CONNS";

#[cfg(test)]
mod tests;
