//! The trailers of a body, for filters.

use weir_http::is_token;

/// Trailers: lines that were validated when they were received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    /// The field lines, each with its line end.
    lines: Vec<u8>,
}

impl Trailers {
    /// Removes all fields.
    pub fn clear(&mut self) {
        self.lines.clear();
    }

    /// Whether the message ends without trailers.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines as on the wire, without the empty line that ends them.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.lines
    }

    /// Appends a part of the trailer section, as the decoder returned it.
    pub(crate) fn append(&mut self, part: &[u8]) {
        self.lines.extend_from_slice(part);
    }

    /// Names and values, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.split_inclusive(|byte| *byte == b'\n').filter_map(split)
    }

    /// Adds a field. False if the name or value is invalid.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> bool {
        let sound = is_token(name) && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        if sound {
            self.lines.extend([name, b": ", value, b"\r\n"].concat());
        }
        sound
    }

    /// Removes all fields with this name.
    pub fn remove(&mut self, name: &[u8]) {
        let kept = self
            .lines
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| split(line).is_none_or(|(other, _)| !other.eq_ignore_ascii_case(name)));
        self.lines = kept.collect::<Vec<_>>().concat();
    }
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_adds_and_removes_trailer_fields() {
        let mut trailers = Trailers::default();
        trailers.append(b"A: 1\r\nb:");
        trailers.append(b"  2 \r\n");
        let fields: Vec<_> = trailers.fields().collect();
        assert_eq!(fields, [(&b"A"[..], &b"1"[..]), (b"b", b"2")]);
        assert!(trailers.add(b"c", b"3"));
        for (name, value) in [(&b"d"[..], &b"x\r\nE: 1"[..]), (b"d:", b"1"), (b"", b"1"), (b"d", b"\0")] {
            assert!(!trailers.add(name, value), "{name:?}: {value:?}");
        }
        trailers.remove(b"B");
        assert_eq!(trailers.as_bytes(), b"A: 1\r\nc: 3\r\n");
    }
}
