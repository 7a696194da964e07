//! A dictionary of names (server names, `server_key`) in a session: each is sent once, then referred to by a number.
//!
//! Each side numbers the names that it sends, from 1. A number may be reused for another name, which is then sent with it.

use std::sync::Arc;

use crate::SessionFault;
use crate::integer::{self, ByteReader};

/// The capacity of the dictionary in each direction.
pub const CAPACITY: usize = 128;

/// A reference to a name in an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mention<'b> {
    Nothing,
    /// The name with this number, which was sent before.
    Known(u64),
    /// A name that has this number from now on.
    New(u64, &'b [u8]),
}

impl<'b> Mention<'b> {
    /// Reads a reference, which begins with its length.
    pub(crate) fn read(body: &mut ByteReader<'b>) -> Result<Mention<'b>, SessionFault> {
        let mut blob = ByteReader(body.counted_bytes()?);
        if blob.0.is_empty() {
            return Ok(Mention::Nothing);
        }
        let number = blob.integer()?;
        if number == 0 || number > CAPACITY as u64 {
            return Err(SessionFault::Malformed);
        }
        if blob.0.is_empty() {
            return Ok(Mention::Known(number));
        }
        Ok(Mention::New(number, blob.counted_bytes()?))
    }

    fn write(self, out: &mut Vec<u8>) {
        let mut blob = Vec::new();
        match self {
            Mention::Nothing => {}
            Mention::Known(number) => integer::write(number, &mut blob),
            Mention::New(number, name) => {
                integer::write(number, &mut blob);
                integer::write(name.len() as u64, &mut blob);
                blob.extend_from_slice(name);
            }
        }
        integer::write(blob.len() as u64, out);
        out.extend_from_slice(&blob);
    }
}

/// The names that the other side sent.
#[derive(Debug, Default)]
pub struct LearnedNames(Vec<Option<Arc<str>>>);

impl LearnedNames {
    /// The name behind a mention; `None` without one, or if it is not UTF-8.
    pub fn resolve(&mut self, mention: Mention<'_>) -> Option<Arc<str>> {
        match mention {
            Mention::Nothing => None,
            Mention::Known(number) => self.0.get(position(number)?)?.clone(),
            Mention::New(number, name) => {
                let position = position(number)?;
                let name: Option<Arc<str>> = std::str::from_utf8(name).ok().map(Into::into);
                if self.0.len() <= position {
                    self.0.resize(position + 1, None);
                }
                self.0[position] = name.clone();
                name
            }
        }
    }

    /// All names that are known, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        listed(&self.0)
    }
}

/// The names that were sent to the other side.
#[derive(Debug, Default)]
pub struct SentNames {
    names: Vec<Option<Arc<str>>>,
    /// The index that is assigned next.
    next: usize,
}

impl SentNames {
    /// Appends a reference to a name.
    pub fn write(&mut self, name: Option<&str>, out: &mut Vec<u8>) {
        let Some(name) = name else { return Mention::Nothing.write(out) };
        let is_it = |known: &Option<Arc<str>>| known.as_deref() == Some(name);
        if let Some(position) = self.names.iter().position(is_it) {
            return Mention::Known(position as u64 + 1).write(out);
        }
        let position = self.next;
        self.next = (position + 1) % CAPACITY;
        match self.names.get_mut(position) {
            Some(room) => *room = Some(name.into()),
            None => self.names.push(Some(name.into())),
        }
        Mention::New(position as u64 + 1, name.as_bytes()).write(out);
    }

    /// All names that were sent, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        listed(&self.names)
    }
}

fn listed(names: &[Option<Arc<str>>]) -> impl Iterator<Item = (u64, &str)> {
    names.iter().enumerate().filter_map(|(position, name)| Some((position as u64 + 1, name.as_deref()?)))
}

fn position(number: u64) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1).filter(|position| *position < CAPACITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn transfer(sent: &mut SentNames, learned: &mut LearnedNames, name: Option<&str>) -> usize {
        let mut out = Vec::new();
        sent.write(name, &mut out);
        let mut reader = ByteReader(&out);
        let mention = Mention::read(&mut reader).expect("a mention");
        assert_eq!(reader.0, []);
        assert_eq!(learned.resolve(mention).as_deref(), name);
        out.len()
    }

    #[test]
    fn a_server_name_is_sent_once_and_then_by_number() {
        let mut sent = SentNames::default();
        let mut out = Vec::new();
        sent.write(Some("s1"), &mut out);
        sent.write(Some("s1"), &mut out);
        sent.write(None, &mut out);
        assert_eq!(out, [4, 1, 2, b's', b'1', 1, 1, 0]);
    }

    #[test]
    fn name_numbers_are_reused_when_all_are_taken() {
        let (mut sent, mut learned) = (SentNames::default(), LearnedNames::default());
        for round in 0..3 {
            for number in 0..CAPACITY + 5 {
                transfer(&mut sent, &mut learned, Some(&format!("server-{number}")));
            }
            assert_eq!(sent.iter().count(), CAPACITY, "{round}");
            assert!(sent.iter().eq(learned.iter()));
        }
        assert_eq!(transfer(&mut sent, &mut learned, Some("server-132")), 2, "the last one is known");
    }

    #[test]
    fn name_numbers_beyond_the_capacity_are_malformed() {
        let read = |bytes: &[u8]| Mention::read(&mut ByteReader(bytes)).err();
        assert_eq!(read(&[1, 0]), Some(SessionFault::Malformed));
        assert_eq!(read(&[1, 129]), Some(SessionFault::Malformed));
        assert_eq!(read(&[3, 1, 9, b'x']), Some(SessionFault::Malformed));
        assert_eq!(read(&[1, 128]), None);
    }
}
