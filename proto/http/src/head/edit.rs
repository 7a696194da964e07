//! Editing a head. New text is appended to the edit arena. The raw bytes are not changed.

use super::{Field, Head, Kind};
use crate::{HeadFlags, KnownName, MessageSpan, Method, Version, uri};

/// The edit would exceed a limit of the head. The head is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

/// The edit of a field's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueEdit {
    Keep,
    /// The field is removed.
    Remove,
    /// Another value takes its place.
    Replace(Vec<u8>),
}

/// Maximum fields of a head, edits included. Fields without text use no edit bytes, so this limit bounds them.
const MAX_FIELDS: usize = u16::MAX as usize;

/// Bytes of `: ` and `\r\n` in a field line.
const FRAMING: usize = 4;

impl Head {
    /// Makes this head a new request without raw bytes. All its text is in the edits. For requests that the proxy generates.
    pub fn start_request(&mut self, method: &[u8], target: &[u8], version: Version) -> Result<(), NoRoom> {
        self.clear();
        self.edited = true;
        self.kind = Kind::Request;
        self.set_method(method)?;
        self.set_uri(target)?;
        self.set_version(version)
    }

    /// Makes this head a new response without raw bytes. All its text is in the edits. For responses that the proxy
    /// generates.
    pub fn start_response(&mut self, version: Version, status: u16, reason: &[u8]) -> Result<(), NoRoom> {
        self.clear();
        self.edited = true;
        self.kind = Kind::Response;
        self.set_version(version)?;
        self.set_status(status)?;
        self.set_reason(reason)
    }

    /// Marks the head as edited, so that it is written again although its index is unchanged.
    pub fn touch(&mut self) {
        self.edited = true;
    }

    /// Changes the method.
    pub fn set_method(&mut self, method: &[u8]) -> Result<(), NoRoom> {
        self.set_part(Kind::Request, 0, method)?;
        self.method = Method::from_bytes(method);
        Ok(())
    }

    /// Changes the whole request target.
    pub fn set_uri(&mut self, target: &[u8]) -> Result<(), NoRoom> {
        self.set_part(Kind::Request, 1, target)
    }

    /// Changes the path; scheme, authority and query stay. A target in another form lacks a path, and is replaced.
    pub fn set_path(&mut self, raw: &[u8], path: &[u8]) -> Result<(), NoRoom> {
        let target = self.start_line[1].of(raw, &self.edits);
        let place = if uri::has_path(target) { uri::path_place(target) } else { 0..target.len() };
        self.splice_path(raw, place.start, place.end, path)
    }

    /// Changes the path and the query; scheme and authority stay.
    pub fn set_path_and_query(&mut self, raw: &[u8], text: &[u8]) -> Result<(), NoRoom> {
        let target = self.start_line[1].of(raw, &self.edits);
        let from = if uri::has_path(target) { uri::path_place(target).start } else { 0 };
        self.splice_path(raw, from, target.len(), text)
    }

    /// Replaces the path at `from..to` of the request target. After an authority, a missing leading slash is added, so
    /// that `text` cannot become part of the host.
    fn splice_path(&mut self, raw: &[u8], from: usize, to: usize, text: &[u8]) -> Result<(), NoRoom> {
        let absolute = uri::form(self.start_line[1].of(raw, &self.edits)) == uri::TargetForm::Absolute;
        self.splice_uri(raw, from, to, text)?;
        if absolute && !text.starts_with(b"/") {
            self.splice_uri(raw, from, from, b"/")?;
        }
        Ok(())
    }

    /// Changes the query string. `query` excludes the `?`. With an empty `query`, an existing `?` stays.
    pub fn set_query(&mut self, raw: &[u8], query: &[u8]) -> Result<(), NoRoom> {
        let old = self.start_line[1];
        let target = old.of(raw, &self.edits);
        let from = uri::path_place(target).end;
        let marked = !query.is_empty() || target.len() > from;
        let mark: &[u8] = if marked { b"?" } else { b"" };
        let start = self.edits.len();
        self.reserve(from + mark.len() + query.len(), old.len())?;
        self.copy(raw, old, 0, from);
        self.edits.extend_from_slice(mark);
        self.edits.extend_from_slice(query);
        self.start_line[1] = MessageSpan::edited(start, self.edits.len());
        self.resized(old.len(), self.start_line[1].len());
        self.edited = true;
        Ok(())
    }

    /// Changes the version in the start line.
    pub fn set_version(&mut self, version: Version) -> Result<(), NoRoom> {
        let part = if self.kind == Kind::Request { 2 } else { 0 };
        self.set_part(self.kind, part, &version.wire())?;
        self.version = version;
        Ok(())
    }

    /// Changes the status code; the reason stays. Codes outside 100..=999 are clamped.
    pub fn set_status(&mut self, status: u16) -> Result<(), NoRoom> {
        let status = status.clamp(100, 999);
        let digits =
            [b'0' + (status / 100) as u8, b'0' + (status / 10 % 10) as u8, b'0' + (status % 10) as u8];
        self.set_part(Kind::Response, 1, &digits)?;
        self.status = status;
        Ok(())
    }

    /// Changes the reason phrase.
    pub fn set_reason(&mut self, reason: &[u8]) -> Result<(), NoRoom> {
        self.set_part(Kind::Response, 2, reason)
    }

    /// Appends a field. The limit `max_fields` applies to received fields only. The limit of edit bytes bounds this call.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), NoRoom> {
        self.reserve_field(name, value, 0)?;
        self.push(name, value);
        Ok(())
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        let field =
            Field { name: self.append(name), value: self.append(value), known: KnownName::from_bytes(name) };
        self.fields.push(field);
        self.resized(0, name.len() + value.len() + FRAMING);
        self.edited = true;
    }

    /// Inserts a field at `position` of the index, or at its end if `position` is larger.
    pub fn insert(&mut self, position: usize, name: &[u8], value: &[u8]) -> Result<(), NoRoom> {
        self.add(name, value)?;
        if position < self.fields.len() {
            self.fields[position..].rotate_right(1);
        }
        Ok(())
    }

    /// Replaces all fields with this name by one field at the end. On [`NoRoom`], the head is unchanged.
    pub fn set(&mut self, raw: &[u8], name: &[u8], value: &[u8]) -> Result<(), NoRoom> {
        if self.reserve_field(name, value, 0).is_err() {
            let lines = self.lines(raw, name).map(|value| name.len() + value.len() + FRAMING).sum();
            self.reserve_field(name, value, lines)?;
        }
        self.remove(raw, name);
        self.push(name, value);
        Ok(())
    }

    /// Removes every field with this name; returns how many there were.
    pub fn remove(&mut self, raw: &[u8], name: &[u8]) -> usize {
        let known = KnownName::from_bytes(name);
        if known != KnownName::Other {
            return self.remove_known(known);
        }
        self.remove_matching(raw, |candidate| candidate.eq_ignore_ascii_case(name))
    }

    /// Removes every field with this known name; returns how many there were.
    pub fn remove_known(&mut self, known: KnownName) -> usize {
        let before = self.fields.len();
        self.fields.retain(|field| field.known != known);
        self.removed_since(before)
    }

    /// Removes every field with a name that `matches` accepts; returns their number.
    pub fn remove_matching(&mut self, raw: &[u8], mut matches: impl FnMut(&[u8]) -> bool) -> usize {
        let before = self.fields.len();
        let edits = &self.edits;
        self.fields.retain(|field| !matches(field.name.of(raw, edits)));
        self.removed_since(before)
    }

    /// Removes field number `position`.
    pub fn remove_at(&mut self, position: usize) {
        if position < self.fields.len() {
            let field = self.fields.remove(position);
            self.resized(field.name.len() + field.value.len() + FRAMING, 0);
            self.edited = true;
        }
    }

    /// Edits the values of all fields with this known name, in one pass. On [`NoRoom`], the edits of earlier fields are kept.
    pub fn edit_values(
        &mut self,
        raw: &[u8],
        known: KnownName,
        mut edit: impl FnMut(&[u8]) -> ValueEdit,
    ) -> Result<(), NoRoom> {
        if !self.fields.iter().any(|field| field.known == known) {
            return Ok(());
        }
        // Measured now, because the index is inconsistent while fields are moved.
        self.length = self.measure();
        let mut outcome = Ok(());
        let mut kept = 0;
        for position in 0..self.fields.len() {
            let field = self.fields[position];
            if field.known == known && outcome.is_ok() {
                match edit(field.value.of(raw, &self.edits)) {
                    ValueEdit::Keep => {}
                    ValueEdit::Remove => {
                        self.resized(field.name.len() + field.value.len() + FRAMING, 0);
                        self.edited = true;
                        continue;
                    }
                    ValueEdit::Replace(value) => outcome = self.replace_value(position, &value),
                }
            }
            self.fields[kept] = self.fields[position];
            kept += 1;
        }
        self.fields.truncate(kept);
        outcome
    }

    /// Gives field number `position` another value.
    pub fn replace_value(&mut self, position: usize, value: &[u8]) -> Result<(), NoRoom> {
        self.reserve(value.len(), self.fields.get(position).map_or(0, |field| field.value.len()))?;
        let span = self.append(value);
        if let Some(field) = self.fields.get_mut(position) {
            let before = std::mem::replace(&mut field.value, span);
            self.resized(before.len(), span.len());
            self.edited = true;
        }
        Ok(())
    }

    /// Gives field number `position` another name.
    pub fn rename(&mut self, position: usize, name: &[u8]) -> Result<(), NoRoom> {
        self.reserve(name.len(), self.fields.get(position).map_or(0, |field| field.name.len()))?;
        let span = self.append(name);
        if let Some(field) = self.fields.get_mut(position) {
            let before = std::mem::replace(&mut field.name, span);
            field.known = KnownName::from_bytes(name);
            self.resized(before.len(), span.len());
            self.edited = true;
        }
        Ok(())
    }

    /// Truncates the value of field number `position` to its first `length` bytes.
    pub fn narrow_value(&mut self, position: usize, length: usize) {
        if let Some(field) = self.fields.get_mut(position) {
            let before = field.value;
            field.value = before.narrowed(length);
            let after = field.value.len();
            self.resized(before.len(), after);
            self.edited = true;
        }
    }

    /// Replaces, in field number `position`, the part `from..to` of its value.
    pub fn splice_value(
        &mut self,
        raw: &[u8],
        position: usize,
        from: usize,
        to: usize,
        text: &[u8],
    ) -> Result<(), NoRoom> {
        let Some(field) = self.fields.get(position) else { return Ok(()) };
        let old = field.value;
        let to = to.min(old.len());
        let from = from.min(to);
        self.reserve(old.len() - (to - from) + text.len(), old.len())?;
        let start = self.edits.len();
        self.copy(raw, old, 0, from);
        self.put(text);
        self.copy(raw, old, to, old.len());
        let new = MessageSpan::edited(start, self.edits.len());
        self.fields[position].value = new;
        self.resized(old.len(), new.len());
        self.edited = true;
        Ok(())
    }

    /// Parser: appends text to the edit arena, with `change` applied to each byte, for the next pushed field.
    pub fn store_with(&mut self, text: &[u8], change: impl Fn(u8) -> u8) -> Result<MessageSpan, NoRoom> {
        self.reserve(text.len(), 0)?;
        let start = self.edits.len();
        self.edits.extend(text.iter().map(|byte| change(*byte)));
        self.edited = true;
        Ok(MessageSpan::edited(start, self.edits.len()))
    }

    /// Sets the limit of edits in bytes.
    pub fn limit_edits(&mut self, max_edits: u32) {
        self.max_edits = max_edits.min(MessageSpan::MAX as u32);
    }

    /// Sets the maximum length in bytes that edits may give the head, until it is cleared. A longer head may still shrink.
    pub fn limit_length(&mut self, max_length: usize) {
        self.max_length = u32::try_from(max_length).unwrap_or(u32::MAX);
        self.length = 0;
    }

    /// Replaces the part `from..to` of the request target.
    pub fn splice_uri(&mut self, raw: &[u8], from: usize, to: usize, text: &[u8]) -> Result<(), NoRoom> {
        let old = self.start_line[1];
        let to = to.min(old.len());
        let from = from.min(to);
        let start = self.edits.len();
        self.reserve(from + text.len() + (old.len() - to), old.len())?;
        self.copy(raw, old, 0, from);
        self.put(text);
        self.copy(raw, old, to, old.len());
        let new = MessageSpan::edited(start, self.edits.len());
        self.start_line[1] = new;
        self.resized(old.len(), new.len());
        self.edited = true;
        Ok(())
    }

    fn set_part(&mut self, kind: Kind, part: usize, text: &[u8]) -> Result<(), NoRoom> {
        if self.kind != kind {
            return Ok(());
        }
        let before = self.start_line[part].len();
        self.reserve(text.len(), before)?;
        self.start_line[part] = self.append(text);
        self.resized(before, text.len());
        self.edited = true;
        Ok(())
    }

    /// Appends part of an old span to the arena. The caller has reserved the bytes.
    fn copy(&mut self, raw: &[u8], old: MessageSpan, from: usize, to: usize) {
        if old.is_edited() {
            self.edits.extend_from_within(old.start() + from..old.start() + to);
        } else if let Some(bytes) = raw.get(old.start() + from..old.start() + to) {
            self.edits.extend_from_slice(bytes);
        }
    }

    fn append(&mut self, text: &[u8]) -> MessageSpan {
        let start = self.edits.len();
        self.put(text);
        MessageSpan::edited(start, self.edits.len())
    }

    /// Appends text to the arena. CR, LF and NUL become blanks, so that no value can add a line to the head (RFC
    /// 9110, 5.5).
    fn put(&mut self, text: &[u8]) {
        let blanked = |byte: &u8| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte };
        self.edits.extend(text.iter().map(blanked));
    }

    /// Checks that a new field fits after `freed` bytes are removed.
    #[inline]
    fn reserve_field(&mut self, name: &[u8], value: &[u8], freed: usize) -> Result<(), NoRoom> {
        let text = name.len() + value.len();
        if self.fields.len() >= MAX_FIELDS {
            return Err(NoRoom);
        }
        self.reserve_edits(text)?;
        self.reserve_length(text + FRAMING, freed)
    }

    /// Checks that `text` bytes fit in place of `freed` bytes.
    #[inline]
    fn reserve(&mut self, text: usize, freed: usize) -> Result<(), NoRoom> {
        self.reserve_edits(text)?;
        self.reserve_length(text, freed)
    }

    #[inline]
    fn reserve_edits(&self, text: usize) -> Result<(), NoRoom> {
        if self.edits.len() + text > self.max_edits as usize { Err(NoRoom) } else { Ok(()) }
    }

    #[inline]
    fn reserve_length(&mut self, more: usize, freed: usize) -> Result<(), NoRoom> {
        let max_length = self.max_length as usize;
        // Received bytes and all edits together are an upper bound of the length, so measuring is rarely needed. The
        // end is unknown while a head is being parsed, but the parser's edits never exceed the replaced text.
        let received = self.end.saturating_sub(self.start) as usize;
        let most = received + self.edits.len() + FRAMING * self.fields.len() + more;
        if most <= max_length {
            return Ok(());
        }
        if self.length == 0 {
            self.length = self.measure();
        }
        if self.length as usize + more > max_length + freed { Err(NoRoom) } else { Ok(()) }
    }

    /// Updates the measured length, if known, so that many edits of a long head measure it once.
    fn resized(&mut self, before: usize, after: usize) {
        if self.length != 0 {
            self.length = (self.length as usize + after).saturating_sub(before) as u32;
        }
    }

    /// Computes the current length of the head in bytes from all its fields.
    fn measure(&self) -> u32 {
        #[cfg(test)]
        MEASURED.with(|count| count.set(count.get() + 1));
        let start_line = self.start_line.iter().map(|part| part.len() + 1).sum::<usize>();
        let fields = self.fields.iter().map(|field| field.name.len() + field.value.len() + FRAMING);
        // The start line has two blanks and a line end, and an empty line ends the head.
        u32::try_from(start_line + fields.sum::<usize>() + 3).unwrap_or(u32::MAX)
    }

    fn removed_since(&mut self, before: usize) -> usize {
        let removed = before - self.fields.len();
        self.edited |= removed > 0;
        self.length = 0;
        removed
    }

    /// Clears the announced length, after an edit that removed the field.
    pub fn forget_content_length(&mut self) {
        self.content_length = 0;
        self.flags.remove(HeadFlags::HAS_CONTENT_LENGTH);
    }
}

#[cfg(test)]
thread_local! {
    /// How often a head was measured.
    pub(super) static MEASURED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
