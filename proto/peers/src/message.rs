//! Messages as they arrive: where one ends, and what it is.
//!
//! ```text
//!  class │ type │                        type below 128
//!  class │ type │ length │ body          from 128 on
//! ```

use crate::Fault;
use crate::definition::Definition;
use crate::integer::{self, Reader};

/// The class of messages that carry what a session needs.
pub(crate) const CONTROL: u8 = 0;
/// The class of last words.
pub(crate) const ERROR: u8 = 1;
/// The class of everything about tables.
pub(crate) const TABLES: u8 = 10;
/// From this type on, a message has a length and a body.
const WITH_BODY: u8 = 128;
/// No message is longer, its own first bytes included. A HAProxy sends none that does not fit into its buffer.
pub const MAX_LENGTH: usize = 32 * 1024;

/// Types of messages about tables.
pub(crate) mod table {
    pub const UPDATE: u8 = 128;
    pub const NEXT_UPDATE: u8 = 129;
    pub const DEFINITION: u8 = 130;
    pub const SWITCH: u8 = 131;
    pub const ACKNOWLEDGEMENT: u8 = 132;
    pub const TIMED_UPDATE: u8 = 133;
    pub const NEXT_TIMED_UPDATE: u8 = 134;
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'b> {
    /// What the session needs.
    Control(Control),
    /// The other side ends the session for what it was sent.
    Error(Fault),
    /// What an entry holds.
    Update(Update<'b>),
    /// Which table the next updates are about, and what they say.
    Definition(Definition<'b>),
    /// Which of the defined tables the next updates are about.
    Switch(u64),
    /// Updates of a table arrived, up to one.
    Acknowledgement {
        /// Our own number of the table.
        table: u64,
        /// The last update.
        update: u32,
    },
    /// A type that a later version may know.
    Unknown,
}

/// What a session needs besides tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Control {
    /// Asks for everything.
    ResyncRequest = 0,
    /// That was everything.
    ResyncFinished = 1,
    /// That was all that the sender knows, and the sender itself does not know everything.
    ResyncPartial = 2,
    /// One of these two arrived.
    ResyncConfirm = 3,
    /// Nothing but a sign of life.
    Heartbeat = 4,
}

/// What an entry holds; a [`Definition`] says how to read its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update<'b> {
    /// Its number; none for one more than the last.
    pub number: Option<u32>,
    /// Milliseconds until the entry expires; none for the table's whole time.
    pub expires_in_ms: Option<u32>,
    /// Key and data.
    pub body: &'b [u8],
}

/// The message at the beginning of these bytes, and how many bytes it has. None if more must come.
///
/// # Errors
/// A [`Fault`] ends the session.
pub fn next(bytes: &[u8]) -> Result<Option<(Message<'_>, usize)>, Fault> {
    let &[class, kind, ref rest @ ..] = bytes else { return Ok(None) };
    if kind < WITH_BODY {
        return Ok(Some((bare(class, kind), 2)));
    }
    let Some((length, taken)) = integer::read(rest)? else { return Ok(None) };
    let start = 2 + taken;
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_LENGTH - start);
    let end = start + length.ok_or(Fault::TooLong)?;
    let Some(body) = bytes.get(start..end) else { return Ok(None) };
    let message = if class == TABLES { about_tables(kind, Reader(body))? } else { Message::Unknown };
    Ok(Some((message, end)))
}

fn bare(class: u8, kind: u8) -> Message<'static> {
    match (class, kind) {
        (CONTROL, 0) => Message::Control(Control::ResyncRequest),
        (CONTROL, 1) => Message::Control(Control::ResyncFinished),
        (CONTROL, 2) => Message::Control(Control::ResyncPartial),
        (CONTROL, 3) => Message::Control(Control::ResyncConfirm),
        (CONTROL, 4) => Message::Control(Control::Heartbeat),
        (ERROR, 0) => Message::Error(Fault::Malformed),
        (ERROR, 1) => Message::Error(Fault::TooLong),
        _ => Message::Unknown,
    }
}

fn about_tables(kind: u8, mut body: Reader<'_>) -> Result<Message<'_>, Fault> {
    let is_numbered = matches!(kind, table::UPDATE | table::TIMED_UPDATE);
    let is_timed = matches!(kind, table::TIMED_UPDATE | table::NEXT_TIMED_UPDATE);
    Ok(match kind {
        table::UPDATE | table::NEXT_UPDATE | table::TIMED_UPDATE | table::NEXT_TIMED_UPDATE => {
            let number = if is_numbered { Some(body.four_bytes()?) } else { None };
            let expires_in_ms = if is_timed { Some(body.four_bytes()?) } else { None };
            Message::Update(Update { number, expires_in_ms, body: body.0 })
        }
        table::DEFINITION => Message::Definition(Definition::read(body)?),
        table::SWITCH => Message::Switch(body.integer()?),
        table::ACKNOWLEDGEMENT => {
            Message::Acknowledgement { table: body.integer()?, update: body.four_bytes()? }
        }
        _ => Message::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_error_messages_are_two_bytes() {
        use Control::*;
        for control in [ResyncRequest, ResyncFinished, ResyncPartial, ResyncConfirm, Heartbeat] {
            assert_eq!(next(&[0, control as u8, 9]), Ok(Some((Message::Control(control), 2))));
        }
        assert_eq!(next(&[1, 0]), Ok(Some((Message::Error(Fault::Malformed), 2))));
        assert_eq!(next(&[1, 1]), Ok(Some((Message::Error(Fault::TooLong), 2))));
        assert_eq!(next(&[0]), Ok(None));
    }

    #[test]
    fn what_is_not_known_is_passed_over() {
        assert_eq!(next(&[0, 99]), Ok(Some((Message::Unknown, 2))));
        assert_eq!(next(&[77, 200, 2, 1, 2, 3]), Ok(Some((Message::Unknown, 5))));
        assert_eq!(next(&[10, 150, 0]), Ok(Some((Message::Unknown, 3))));
    }

    #[test]
    fn every_kind_of_update_is_told_apart() {
        let update = |kind: u8, body: &[u8]| {
            let message = [&[10, kind, body.len() as u8], body].concat();
            match next(&message).expect("a message") {
                Some((Message::Update(Update { number, expires_in_ms, body }), _)) => {
                    (number, expires_in_ms, body.to_vec())
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(update(128, &[0, 0, 0, 7, 9]), (Some(7), None, vec![9]));
        assert_eq!(update(129, &[9]), (None, None, vec![9]));
        assert_eq!(update(133, &[0, 0, 0, 7, 0, 0, 1, 0, 9]), (Some(7), Some(256), vec![9]));
        assert_eq!(update(134, &[0, 0, 1, 0, 9]), (None, Some(256), vec![9]));
    }

    #[test]
    fn an_acknowledgement_names_table_and_update() {
        let message = [10, 132, 5, 9, 0, 0, 0, 0x67];
        let expected = Message::Acknowledgement { table: 9, update: 0x67 };
        assert_eq!(next(&message), Ok(Some((expected, 8))));
        for cut in 0..message.len() {
            assert_eq!(next(&message[..cut]), Ok(None));
        }
    }

    #[test]
    fn a_message_of_16_megabytes_is_refused_before_it_comes() {
        let mut message = vec![10, 128];
        integer::write(16 << 20, &mut message);
        assert_eq!(next(&message), Err(Fault::TooLong));
        let mut message = vec![200, 128];
        integer::write(u64::MAX, &mut message);
        assert_eq!(next(&message), Err(Fault::TooLong), "of a class that nobody knows, too");
    }

    #[test]
    fn a_short_body_is_a_fault() {
        assert_eq!(next(&[10, 128, 3, 0, 0, 0]), Err(Fault::Malformed));
        assert_eq!(next(&[10, 132, 2, 9, 0]), Err(Fault::Malformed));
        assert_eq!(next(&[10, 131, 0]), Err(Fault::Malformed));
    }
}
