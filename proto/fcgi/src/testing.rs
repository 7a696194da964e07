//! The application's side of the wire, for scripted applications in tests.
//!
//! [`read_record`] reads the web server's records; [`ScriptedApplication`] gathers them to requests.

use std::collections::{BTreeMap, BTreeSet};

use crate::connection::{END_LENGTH, KEEP_CONNECTION, MANAGEMENT, RESPONDER};
use crate::params::{Params, pairs};
use crate::record::{FcgiRecordKind, HEADER_LENGTH, ProtocolStatus, RecordHeader};

/// Appends one record of any type, with padding. The content must not exceed 65,535 bytes.
///
/// # Panics
/// The content is longer.
pub fn write_record(kind: FcgiRecordKind, id: u16, content: &[u8], padding_length: u8, out: &mut Vec<u8>) {
    let content_length = u16::try_from(content.len()).expect("the content of a record fits into 16 bits");
    out.extend_from_slice(&RecordHeader { kind, id, content_length, padding_length }.bytes());
    out.extend_from_slice(content);
    out.extend(std::iter::repeat_n(b'#', usize::from(padding_length)));
}

/// Appends STDOUT. Empty content ends the stream.
pub fn write_stdout(id: u16, content: &[u8], out: &mut Vec<u8>) {
    write_record(FcgiRecordKind::Stdout, id, content, 0, out);
}

/// Appends STDERR. Empty content ends the stream.
pub fn write_stderr(id: u16, content: &[u8], out: &mut Vec<u8>) {
    write_record(FcgiRecordKind::Stderr, id, content, 0, out);
}

/// Appends END_REQUEST.
pub fn write_end(id: u16, application_status: u32, status: ProtocolStatus, out: &mut Vec<u8>) {
    let mut content = [0; END_LENGTH];
    content[..4].copy_from_slice(&application_status.to_be_bytes());
    content[4] = status.byte();
    write_record(FcgiRecordKind::EndRequest, id, &content, 0, out);
}

/// Appends an answer to GET_VALUES.
pub fn write_values(values: &[(&str, &str)], out: &mut Vec<u8>) {
    let mut content = Params::new();
    values.iter().for_each(|(name, value)| content.push(name.as_bytes(), value.as_bytes()));
    write_record(FcgiRecordKind::GetValuesResult, MANAGEMENT, content.bytes(), 0, out);
}

/// Appends UNKNOWN_TYPE: the answer of an application that does not know a management record.
pub fn write_unknown_type(kind: u8, out: &mut Vec<u8>) {
    write_record(FcgiRecordKind::UnknownType, MANAGEMENT, &[kind, 0, 0, 0, 0, 0, 0, 0], 0, out);
}

/// Reads one whole record from the front of `input`: its header, its content and its length with padding. `None` if it is
/// not complete.
///
/// # Panics
/// The version is not 1.
#[must_use]
pub fn read_record(input: &[u8]) -> Option<(RecordHeader, &[u8], usize)> {
    let header = RecordHeader::read(*input.first_chunk()?).expect("records have version 1");
    let content = input[HEADER_LENGTH..].get(..usize::from(header.content_length))?;
    let length = HEADER_LENGTH + content.len() + usize::from(header.padding_length);
    (input.len() >= length).then_some((header, content, length))
}

/// A request as the application sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationRequest {
    /// Whether the connection must stay open after it.
    pub keeps: bool,
    /// Encoded pairs; complete if `has_params`.
    pub params: Vec<u8>,
    pub has_params: bool,
    /// The body so far; complete if `has_stdin`.
    pub stdin: Vec<u8>,
    pub has_stdin: bool,
    pub is_aborted: bool,
}

impl ApplicationRequest {
    /// The value of the last parameter with this name.
    ///
    /// # Panics
    /// The parameters are malformed.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&[u8]> {
        let pairs = pairs(&self.params).expect("parameters are well-formed");
        pairs.filter(|pair| pair.0 == name.as_bytes()).last().map(|pair| pair.1)
    }
}

/// Gathers the records of a web server. Tests write the answers with the functions of this module.
///
/// It panics on whatever a web server must not send: ids that never began, other roles, content after the end of a stream.
#[derive(Debug, Default)]
pub struct ScriptedApplication {
    input: Vec<u8>,
    /// Requests by their ids. A test removes those that it ends; their later records are ignored.
    pub requests: BTreeMap<u16, ApplicationRequest>,
    /// The ids of all requests so far.
    began: BTreeSet<u16>,
    /// How many GET_VALUES records were received.
    pub value_queries: usize,
}

impl ScriptedApplication {
    /// An application on a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads bytes of the web server: whole records and the front of one.
    ///
    /// # Panics
    /// The web server broke the protocol.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Some((header, content, length)) = read_record(rest) {
            self.receive_record(header, content);
            rest = &rest[length..];
        }
        self.input = rest.to_vec();
    }

    fn receive_record(&mut self, header: RecordHeader, content: &[u8]) {
        let id = header.id;
        match header.kind {
            FcgiRecordKind::GetValues => {
                assert_eq!(id, MANAGEMENT);
                self.value_queries += 1;
            }
            FcgiRecordKind::BeginRequest => {
                assert_ne!(id, MANAGEMENT);
                assert_eq!((content.len(), &content[..2]), (8, &[0, RESPONDER][..]));
                let keeps = content[2] & KEEP_CONNECTION != 0;
                let request = ApplicationRequest { keeps, ..ApplicationRequest::default() };
                assert_eq!(self.requests.insert(id, request), None, "request {id} began twice");
                self.began.insert(id);
            }
            kind => {
                assert!(self.began.contains(&id), "request {id} did not begin");
                let Some(request) = self.requests.get_mut(&id) else { return };
                match kind {
                    FcgiRecordKind::AbortRequest => request.is_aborted = true,
                    FcgiRecordKind::Params => extend(&mut request.params, &mut request.has_params, content),
                    FcgiRecordKind::Stdin => extend(&mut request.stdin, &mut request.has_stdin, content),
                    kind => panic!("a web server sends no {kind:?}"),
                }
            }
        }
    }
}

/// Adds the content of a record of a stream, which an empty one ends.
fn extend(stream: &mut Vec<u8>, is_complete: &mut bool, content: &[u8]) {
    assert!(!*is_complete, "content after the end of a stream");
    stream.extend_from_slice(content);
    *is_complete = content.is_empty();
}
