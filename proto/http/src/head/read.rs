//! Reading a head.

use super::{Field, Head, Kind};
use crate::values::ListMembers;
use crate::{HeadFlags, KnownName, MessageSpan, Method, Version, is_token, uri};

impl Head {
    /// Whether it is a request or a response.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The flags that the parser set.
    #[inline]
    pub fn flags(&self) -> HeadFlags {
        self.flags
    }

    /// Whether the head must be written again instead of forwarded as raw bytes.
    #[inline]
    pub fn is_edited(&self) -> bool {
        self.edited || self.flags.contains(HeadFlags::MUST_REWRITE)
    }

    /// The head as received, from the start line to the empty line.
    #[inline]
    pub fn raw_bytes<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        raw.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Offset of the head's end in the raw bytes, which is the body's first byte. 0 while the head is incomplete.
    #[inline]
    pub fn end(&self) -> usize {
        self.end as usize
    }

    /// Offset of the start line in the raw bytes, after any empty lines.
    #[inline]
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// The method as an enum.
    #[inline]
    pub fn method(&self) -> Method {
        self.method
    }

    /// The method's text.
    #[inline]
    pub fn method_text<'a>(&'a self, raw: &'a [u8]) -> &'a [u8] {
        self.request_part(0, raw)
    }

    /// The request target, verbatim from the request line.
    #[inline]
    pub fn uri<'a>(&'a self, raw: &'a [u8]) -> &'a [u8] {
        self.request_part(1, raw)
    }

    /// The path, without scheme, authority and query. Empty for the asterisk and authority forms. A fragment before the query,
    /// accepted only by option, is part of it.
    #[inline]
    pub fn path<'a>(&'a self, raw: &'a [u8]) -> &'a [u8] {
        uri::path(self.uri(raw))
    }

    /// The target from the path to its end, so with a query and a fragment. Empty for the asterisk and authority forms.
    #[inline]
    pub fn path_and_query<'a>(&'a self, raw: &'a [u8]) -> &'a [u8] {
        uri::path_and_query(self.uri(raw))
    }

    /// The part after the first `?` of the target; `None` without one.
    #[inline]
    pub fn query<'a>(&'a self, raw: &'a [u8]) -> Option<&'a [u8]> {
        uri::query(self.uri(raw))
    }

    /// The version of the message.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The status code; 0 in a request.
    #[inline]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason phrase of a response, possibly empty.
    #[inline]
    pub fn reason<'a>(&'a self, raw: &'a [u8]) -> &'a [u8] {
        match self.kind {
            Kind::Request => &[],
            Kind::Response => self.start_line[2].of(raw, &self.edits),
        }
    }

    /// The value of `Content-Length` in bytes. `None` without one, or if `Transfer-Encoding` overrides it.
    #[inline]
    pub fn content_length(&self) -> Option<u64> {
        self.flags.contains(HeadFlags::HAS_CONTENT_LENGTH).then_some(self.content_length)
    }

    /// Number of received `Host` fields.
    #[inline]
    pub fn host_count(&self) -> usize {
        usize::from(self.host_count)
    }

    /// Number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether the list of fields is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The index entries, in message order.
    #[inline]
    pub fn index(&self) -> &[Field] {
        &self.fields
    }

    /// The name and the value of an index entry of this head.
    #[inline]
    pub fn text<'a>(&'a self, raw: &'a [u8], field: &Field) -> (&'a [u8], &'a [u8]) {
        (field.name.of(raw, &self.edits), field.value.of(raw, &self.edits))
    }

    /// The bytes of a span that belongs to this head.
    #[inline]
    pub fn span_text<'a>(&'a self, raw: &'a [u8], span: MessageSpan) -> &'a [u8] {
        span.of(raw, &self.edits)
    }

    /// The name of field number `index`.
    #[inline]
    pub fn field_name<'a>(&'a self, raw: &'a [u8], index: usize) -> Option<&'a [u8]> {
        Some(self.fields.get(index)?.name.of(raw, &self.edits))
    }

    /// The value of field number `index`.
    #[inline]
    pub fn field_value<'a>(&'a self, raw: &'a [u8], index: usize) -> Option<&'a [u8]> {
        Some(self.fields.get(index)?.value.of(raw, &self.edits))
    }

    /// Names and values in message order.
    #[inline]
    pub fn fields<'a>(&'a self, raw: &'a [u8]) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> {
        self.fields.iter().map(move |field| self.text(raw, field))
    }

    /// Positions in [`Head::index`] of the fields with this name, in any case. An empty name means all of them.
    #[inline]
    pub fn positions<'a>(
        &'a self,
        raw: &'a [u8],
        name: &'a [u8],
    ) -> impl DoubleEndedIterator<Item = usize> + 'a {
        let known = KnownName::from_bytes(name);
        self.fields
            .iter()
            .enumerate()
            .filter_map(move |(position, field)| self.matches(raw, field, name, known).then_some(position))
    }

    /// The first of [`Head::positions`] at or after `from`. Earlier fields are not compared, so a caller that continues
    /// from the last result scans the fields once. `known` is [`KnownName::from_bytes`] of `name`, computed once by the
    /// caller.
    #[inline]
    pub fn position_from(&self, raw: &[u8], name: &[u8], known: KnownName, from: usize) -> Option<usize> {
        let rest = self.fields.get(from..)?;
        rest.iter().position(|field| self.matches(raw, field, name, known)).map(|ahead| from + ahead)
    }

    /// Full values of the fields with this name (as `fhdr` does: commas do not separate).
    #[inline]
    pub fn lines<'a>(
        &'a self,
        raw: &'a [u8],
        name: &'a [u8],
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + 'a {
        let known = KnownName::from_bytes(name);
        self.fields
            .iter()
            .filter(move |field| self.matches(raw, field, name, known))
            .map(move |field| field.value.of(raw, &self.edits))
    }

    /// Comma-separated values of the fields with this name (as `hdr` does), each without the white space around
    /// it; commas inside quotes do not separate.
    #[inline]
    pub fn values<'a>(&'a self, raw: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.lines(raw, name).flat_map(ListMembers::new)
    }

    /// The protocol of a request's `Connection: upgrade`: the first of `Upgrade`, if an HTTP/2 CONNECT can name it (RFC
    /// 8441, 4). That leaves out `h2c`, and protocols with a version.
    pub fn upgrade<'a>(&'a self, raw: &'a [u8]) -> Option<&'a [u8]> {
        if !self.flags().contains(HeadFlags::CONNECTION_UPGRADE | HeadFlags::HAS_UPGRADE) {
            return None;
        }
        let first = ListMembers::new(self.find_known(raw, KnownName::Upgrade)?).next()?;
        (is_token(first) && !first.eq_ignore_ascii_case(b"h2c")).then_some(first)
    }

    /// The value of the first field with this known name.
    #[inline]
    pub fn find_known<'a>(&'a self, raw: &'a [u8], known: KnownName) -> Option<&'a [u8]> {
        let field = self.fields.iter().find(|field| field.known == known)?;
        Some(field.value.of(raw, &self.edits))
    }

    /// The full value of one occurrence of a field: 1 is the first, -1 the last; 0 means the last as well.
    pub fn find_line<'a>(&'a self, raw: &'a [u8], name: &'a [u8], occurrence: i32) -> Option<&'a [u8]> {
        if occurrence > 0 {
            self.lines(raw, name).nth(occurrence as usize - 1)
        } else {
            self.lines(raw, name).nth_back(from_the_back(occurrence))
        }
    }

    /// One occurrence among the comma-separated values of a field: 1 is the first, -1 the last; 0 means the last
    /// as well.
    pub fn find<'a>(&'a self, raw: &'a [u8], name: &'a [u8], occurrence: i32) -> Option<&'a [u8]> {
        if occurrence > 0 {
            return self.values(raw, name).nth(occurrence as usize - 1);
        }
        // Quotes can only be parsed forwards, so count first.
        let count = self.values(raw, name).count();
        let back = from_the_back(occurrence);
        (back < count).then(|| self.values(raw, name).nth(count - 1 - back)).flatten()
    }

    /// Number of comma-separated values in the fields with this name.
    pub fn count_values(&self, raw: &[u8], name: &[u8]) -> usize {
        self.values(raw, name).count()
    }

    /// Number of fields with this name.
    pub fn count_lines(&self, raw: &[u8], name: &[u8]) -> usize {
        self.lines(raw, name).count()
    }

    /// Whether a field has this name.
    pub fn has(&self, raw: &[u8], name: &[u8]) -> bool {
        self.lines(raw, name).next().is_some()
    }

    #[inline]
    pub(super) fn matches(&self, raw: &[u8], field: &Field, name: &[u8], known: KnownName) -> bool {
        if name.is_empty() {
            return true;
        }
        field.known == known
            && (known != KnownName::Other || field.name.of(raw, &self.edits).eq_ignore_ascii_case(name))
    }

    #[inline]
    fn request_part<'a>(&'a self, part: usize, raw: &'a [u8]) -> &'a [u8] {
        match self.kind {
            Kind::Request => self.start_line[part].of(raw, &self.edits),
            Kind::Response => &[],
        }
    }
}

/// Full values of the fields with this name in a head's raw bytes ([`Head::raw_bytes`]), before edits.
pub fn received_lines<'a>(bytes: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', bytes).filter_map(move |end| {
        let line = &bytes[std::mem::replace(&mut start, end + 1)..end];
        let (field, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":").filter(|_| field.eq_ignore_ascii_case(name))?;
        Some(value.trim_ascii())
    })
}

fn from_the_back(occurrence: i32) -> usize {
    (occurrence.unsigned_abs() as usize).saturating_sub(1)
}
