//! Reads the bytes of a message.

use crate::name::Name;

/// A position in a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageReader<'m> {
    message: &'m [u8],
    at: usize,
}

/// The bytes of a name, in a fixed buffer, so that unused names need no allocation.
pub(crate) struct NameBytes {
    bytes: [u8; Name::LONGEST],
    length: usize,
}

impl NameBytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(crate) fn to_name(&self) -> Name {
        Name::from_wire(self.as_slice())
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.length.checked_add(bytes.len())?;
        self.bytes.get_mut(self.length..end)?.copy_from_slice(bytes);
        self.length = end;
        Some(())
    }
}

impl<'m> MessageReader<'m> {
    pub(crate) fn new(message: &'m [u8]) -> Self {
        MessageReader { message, at: 0 }
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'m [u8]> {
        let taken = self.message.get(self.at..)?.get(..count)?;
        self.at += count;
        Some(taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// A reader of the next `count` bytes; names in it may point to bytes before them.
    pub(crate) fn part(&mut self, count: usize) -> Option<MessageReader<'m>> {
        let end = self.at.checked_add(count)?;
        let part = MessageReader { message: self.message.get(..end)?, at: self.at };
        self.at = end;
        Some(part)
    }

    /// Whether the end of the message or part is reached.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.message.len()
    }

    /// A name. Each pointer must lead to before the start of the current part of the name, so a loop is impossible (RFC
    /// 1035, 4.1.4).
    pub(crate) fn name(&mut self) -> Option<NameBytes> {
        let mut name = NameBytes { bytes: [0; Name::LONGEST], length: 0 };
        let mut begin = self.at;
        let mut at = self.at;
        let mut has_jumped = false;
        loop {
            let length = *self.message.get(at)?;
            match length >> 6 {
                0b00 => {
                    let label = self.message.get(at..)?.get(..1 + usize::from(length))?;
                    name.push(label)?;
                    at += label.len();
                    if !has_jumped {
                        self.at = at;
                    }
                    if length == 0 {
                        return Some(name);
                    }
                }
                0b11 => {
                    let low = *self.message.get(at + 1)?;
                    let target = usize::from(length & 0x3f) << 8 | usize::from(low);
                    if target >= begin {
                        return None;
                    }
                    if !has_jumped {
                        self.at = at + 2;
                        has_jumped = true;
                    }
                    begin = target;
                    at = target;
                }
                // Extended labels are obsolete (RFC 6891, 5).
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &[u8], at: usize, expected: Option<(&str, usize)>) {
        let mut reader = MessageReader { message, at };
        let found = reader.name().map(|name| (name.to_name().to_string(), reader.at));
        assert_eq!(found, expected.map(|(name, end)| (name.to_owned(), end)));
    }

    #[test]
    fn follows_compression_pointers_in_dns_names() {
        let message = b"\x01a\x01b\x00\x01c\xc0\x02\xc0\x05";
        check(message, 0, Some(("a.b", 5)));
        check(message, 2, Some(("b", 5)));
        check(message, 5, Some(("c.b", 9)));
        check(message, 9, Some(("c.b", 11)));
        check(message, 4, Some(("", 5)));
    }

    #[test]
    fn rejects_malformed_dns_names() {
        // To itself, forwards, from one to the other.
        check(b"\xc0\x00", 0, None);
        check(b"\x01a\xc0\x00", 0, None);
        check(b"\x01a\xc0\x06\x00\x00\x00", 0, None);
        check(b"\xc0\x02\xc0\x00", 2, None);
        // Cut, or of a form that does not exist.
        check(b"\x01", 0, None);
        check(b"\x01a", 0, None);
        check(b"\x05a", 0, None);
        check(b"\xc0", 0, None);
        check(b"\x40a\x00", 0, None);
        check(b"\x80a\x00", 0, None);
        check(b"", 0, None);
    }

    #[test]
    fn rejects_compressed_names_above_the_length_limit() {
        // Labels of 63 bytes, each followed by a pointer to the one before.
        let mut message = b"\x00".to_vec();
        let mut target = 0;
        for _ in 0..4 {
            let at = message.len();
            message.push(63);
            message.extend_from_slice(&[b'a'; 63]);
            message.extend_from_slice(&[0xc0 | (target >> 8) as u8, target as u8]);
            target = at;
        }
        let third = target - 66;
        assert!(MessageReader { message: &message, at: third }.name().is_some());
        assert!(MessageReader { message: &message, at: target }.name().is_none());
    }
}
