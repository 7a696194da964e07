//! A message head: the received bytes, and an index over them.
//!
//! [`Head`] holds no bytes of the message. The owner of the receive buffer passes it as `raw` to every call, always
//! from the same first byte. A parser fills the index ([`Head::begin_request`], [`Head::push_field`]...); rules read it
//! and edit it; [`Head::write`] serializes the head after an edit. A head is reused from one message to the next:
//! [`Head::clear`] keeps its memory.

mod edit;
mod read;
mod write;

#[cfg(test)]
mod tests;

use crate::{HeadFlags, KnownName, MessageSpan, Method, Version};

pub use edit::{NoRoom, ValueEdit};
pub use read::received_lines;

/// The index over a message head, and the edits made to it.
#[derive(Clone, Debug)]
pub struct Head {
    kind: Kind,
    method: Method,
    version: Version,
    status: u16,
    flags: HeadFlags,
    edited: bool,
    /// Request: method, target, version. Response: version, status, reason.
    start_line: [MessageSpan; 3],
    /// Range of the head in the raw bytes, without the empty lines before it.
    start: u32,
    end: u32,
    content_length: u64,
    host_count: u16,
    max_fields: u16,
    max_edits: u32,
    /// Maximum length that edits may give the head, in bytes. Reset by [`Head::clear`].
    max_length: u32,
    /// Current length in bytes. 0 if not measured since the limit was set.
    length: u32,
    fields: Vec<Field>,
    edits: Vec<u8>,
}

/// The kind of message that a head belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// From the client.
    #[default]
    Request,
    Response,
}

/// One field line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The name, in its received case.
    pub name: MessageSpan,
    /// The value, without the white space around it.
    pub value: MessageSpan,
    /// The name as an enum; [`KnownName::Other`] if the proxy does not use it.
    pub known: KnownName,
}

/// The head has more fields than `tune.http.maxhdr` - 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyFields;

impl Head {
    /// The default limit of fields: one less than the default of `tune.http.maxhdr`, which counts the start line too.
    pub const DEFAULT_MAX_FIELDS: u16 = 100;

    /// The default limit of edits in bytes: the size of a default buffer.
    pub const DEFAULT_MAX_EDITS: u32 = 16384;

    /// An empty head that accepts [`Head::DEFAULT_MAX_FIELDS`].
    pub fn new() -> Head {
        Head::with_limits(Head::DEFAULT_MAX_FIELDS, Head::DEFAULT_MAX_EDITS)
    }

    /// An empty head that accepts `max_fields` fields and `max_edits` bytes of edits. Nothing is allocated yet.
    pub fn with_limits(max_fields: u16, max_edits: u32) -> Head {
        Head {
            kind: Kind::Request,
            method: Method::Other,
            version: Version::HTTP_11,
            status: 0,
            flags: HeadFlags::NONE,
            edited: false,
            start_line: [MessageSpan::EMPTY; 3],
            start: 0,
            end: 0,
            content_length: 0,
            host_count: 0,
            max_fields,
            max_edits,
            max_length: u32::MAX,
            length: 0,
            fields: Vec::new(),
            edits: Vec::new(),
        }
    }

    /// Clears the message and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.kind = Kind::Request;
        self.method = Method::Other;
        self.version = Version::HTTP_11;
        self.status = 0;
        self.flags = HeadFlags::NONE;
        self.edited = false;
        self.start_line = [MessageSpan::EMPTY; 3];
        self.start = 0;
        self.end = 0;
        self.content_length = 0;
        self.host_count = 0;
        self.max_length = u32::MAX;
        self.length = 0;
        self.fields.clear();
        self.edits.clear();
    }

    /// Bytes of memory that a cleared head keeps.
    pub fn capacity(&self) -> usize {
        self.fields.capacity() * size_of::<Field>() + self.edits.capacity()
    }

    /// Frees unused capacity of the index and the edits.
    pub fn shrink_to_fit(&mut self) {
        self.fields.shrink_to_fit();
        self.edits.shrink_to_fit();
    }

    /// Clears the message and frees the memory: for a connection that goes idle.
    pub fn shrink(&mut self) {
        self.clear();
        self.fields = Vec::new();
        self.edits = Vec::new();
    }

    /// Parser: a request line was read. `start` is where it begins in the raw bytes.
    #[inline]
    pub fn begin_request(
        &mut self,
        start: usize,
        method: MessageSpan,
        target: MessageSpan,
        version_text: MessageSpan,
    ) {
        self.kind = Kind::Request;
        self.start = start as u32;
        self.start_line = [method, target, version_text];
    }

    /// Parser: a status line was read. `start` is where it begins in the raw bytes.
    #[inline]
    pub fn begin_response(
        &mut self,
        start: usize,
        version_text: MessageSpan,
        status_text: MessageSpan,
        reason: MessageSpan,
    ) {
        self.kind = Kind::Response;
        self.start = start as u32;
        self.start_line = [version_text, status_text, reason];
    }

    /// Parser: sets the method.
    #[inline]
    pub fn note_method(&mut self, method: Method) {
        self.method = method;
    }

    /// Parser: sets the version.
    #[inline]
    pub fn note_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Parser: sets the status.
    #[inline]
    pub fn note_status(&mut self, status: u16) {
        self.status = status;
    }

    /// Parser: appends a field found in the raw bytes.
    #[inline]
    pub fn push_field(&mut self, field: Field) -> Result<(), TooManyFields> {
        if self.fields.len() >= usize::from(self.max_fields) {
            return Err(TooManyFields);
        }
        self.fields.push(field);
        Ok(())
    }

    /// Parser: the head is complete, its last byte is before `end`.
    #[inline]
    pub fn finish(&mut self, end: usize) {
        self.end = end as u32;
    }

    /// Parser: sets flags of the head.
    #[inline]
    pub fn note(&mut self, flags: HeadFlags) {
        self.flags.insert(flags);
    }

    /// Parser: clears flags of the head.
    #[inline]
    pub fn unnote(&mut self, flags: HeadFlags) {
        self.flags.remove(flags);
    }

    /// Parser: sets the body's announced length.
    #[inline]
    pub fn note_content_length(&mut self, length: u64) {
        self.content_length = length;
        self.flags.insert(HeadFlags::HAS_CONTENT_LENGTH);
    }

    /// Parser: counts a `Host` field.
    #[inline]
    pub fn note_host(&mut self) {
        self.host_count = self.host_count.saturating_add(1);
        self.flags.insert(HeadFlags::HAS_HOST);
    }
}

impl Default for Head {
    fn default() -> Head {
        Head::new()
    }
}
