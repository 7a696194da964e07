//! Parsing of received messages.
//!
//! ```text
//!  class │ type │                        type below 128
//!  class │ type │ length │ body          from 128 on
//! ```

use crate::SessionFault;
use crate::definition::Definition;
use crate::integer::{self, ByteReader};

/// The class of control messages.
pub(crate) const CONTROL: u8 = 0;
/// The class of error messages, which end a session.
pub(crate) const ERROR: u8 = 1;
/// The class of messages about tables.
pub(crate) const TABLES: u8 = 10;
/// The lowest type of a message with a length and a body.
const WITH_BODY: u8 = 128;
/// The longest message in bytes, including its header. A HAProxy message always fits into one buffer.
pub const MAX_LENGTH: usize = 32 * 1024;

/// Types of messages about tables.
pub(crate) mod table {
    pub(crate) const UPDATE: u8 = 128;
    pub(crate) const NEXT_UPDATE: u8 = 129;
    pub(crate) const DEFINITION: u8 = 130;
    pub(crate) const SWITCH: u8 = 131;
    pub(crate) const ACKNOWLEDGEMENT: u8 = 132;
    pub(crate) const TIMED_UPDATE: u8 = 133;
    pub(crate) const NEXT_TIMED_UPDATE: u8 = 134;
    /// Sent only between two instances that sum their counts.
    pub(crate) const AGGREGATE_DEFINITION: u8 = 140;
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerMessage<'b> {
    Control(Control),
    /// The other side ends the session because of an error.
    Error(SessionFault),
    /// The data of an entry.
    Update(EntryUpdate<'b>),
    /// The table of the next updates, and its definition.
    Definition(Definition<'b>),
    /// The number of the table of the next updates.
    Switch(u64),
    /// Updates of a table were received, up to this one.
    Acknowledgement {
        /// The number that this side gave the table.
        table: u64,
        update: u32,
    },
    /// A message of an unknown type, from a later version.
    Unknown,
}

/// Control messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Control {
    ResyncRequest = 0,
    /// All entries were sent.
    ResyncFinished = 1,
    /// All entries of the sender were sent, but the sender itself is not in sync.
    ResyncPartial = 2,
    /// Confirms `ResyncFinished` or `ResyncPartial`.
    ResyncConfirm = 3,
    /// A keep-alive.
    Heartbeat = 4,
    /// The sender has tables with counts that are sums. Only weir sends this; other peers ignore it.
    CountsTogether = 126,
    /// Like `CountsTogether`, and the sender does not know the other side's counts.
    WantsShares = 127,
}

/// An update of an entry; a [`Definition`] describes its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryUpdate<'b> {
    /// The number of the update. `None` for the last number plus one.
    pub number: Option<u32>,
    /// Milliseconds until the entry expires; `None` for the table's full lifetime.
    pub expires_in_ms: Option<u32>,
    pub body: &'b [u8],
}

/// The message at the beginning of these bytes, and its length in bytes. `None` if it is not complete.
///
/// # Errors
/// A [`SessionFault`] ends the session.
pub fn next(bytes: &[u8]) -> Result<Option<(PeerMessage<'_>, usize)>, SessionFault> {
    let &[class, kind, ref rest @ ..] = bytes else { return Ok(None) };
    if kind < WITH_BODY {
        return Ok(Some((bare(class, kind), 2)));
    }
    let Some((length, taken)) = integer::read(rest)? else { return Ok(None) };
    let start = 2 + taken;
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_LENGTH - start);
    let end = start + length.ok_or(SessionFault::TooLong)?;
    let Some(body) = bytes.get(start..end) else { return Ok(None) };
    let message = if class == TABLES { about_tables(kind, ByteReader(body))? } else { PeerMessage::Unknown };
    Ok(Some((message, end)))
}

fn bare(class: u8, kind: u8) -> PeerMessage<'static> {
    match (class, kind) {
        (CONTROL, 0) => PeerMessage::Control(Control::ResyncRequest),
        (CONTROL, 1) => PeerMessage::Control(Control::ResyncFinished),
        (CONTROL, 2) => PeerMessage::Control(Control::ResyncPartial),
        (CONTROL, 3) => PeerMessage::Control(Control::ResyncConfirm),
        (CONTROL, 4) => PeerMessage::Control(Control::Heartbeat),
        (CONTROL, 126) => PeerMessage::Control(Control::CountsTogether),
        (CONTROL, 127) => PeerMessage::Control(Control::WantsShares),
        (ERROR, 0) => PeerMessage::Error(SessionFault::Malformed),
        (ERROR, 1) => PeerMessage::Error(SessionFault::TooLong),
        _ => PeerMessage::Unknown,
    }
}

fn about_tables(kind: u8, mut body: ByteReader<'_>) -> Result<PeerMessage<'_>, SessionFault> {
    let is_numbered = matches!(kind, table::UPDATE | table::TIMED_UPDATE);
    let is_timed = matches!(kind, table::TIMED_UPDATE | table::NEXT_TIMED_UPDATE);
    Ok(match kind {
        table::UPDATE | table::NEXT_UPDATE | table::TIMED_UPDATE | table::NEXT_TIMED_UPDATE => {
            let number = if is_numbered { Some(body.four_bytes()?) } else { None };
            let expires_in_ms = if is_timed { Some(body.four_bytes()?) } else { None };
            PeerMessage::Update(EntryUpdate { number, expires_in_ms, body: body.0 })
        }
        table::DEFINITION => PeerMessage::Definition(Definition::read(body)?),
        table::AGGREGATE_DEFINITION => {
            PeerMessage::Definition(Definition { is_aggregate: true, ..Definition::read(body)? })
        }
        table::SWITCH => PeerMessage::Switch(body.integer()?),
        table::ACKNOWLEDGEMENT => {
            PeerMessage::Acknowledgement { table: body.integer()?, update: body.four_bytes()? }
        }
        _ => PeerMessage::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_error_messages_are_two_bytes() {
        use Control::*;
        for control in [
            ResyncRequest,
            ResyncFinished,
            ResyncPartial,
            ResyncConfirm,
            Heartbeat,
            CountsTogether,
            WantsShares,
        ] {
            assert_eq!(next(&[0, control as u8, 9]), Ok(Some((PeerMessage::Control(control), 2))));
        }
        assert_eq!(next(&[1, 0]), Ok(Some((PeerMessage::Error(SessionFault::Malformed), 2))));
        assert_eq!(next(&[1, 1]), Ok(Some((PeerMessage::Error(SessionFault::TooLong), 2))));
        assert_eq!(next(&[0]), Ok(None));
    }

    #[test]
    fn unknown_peer_messages_are_skipped() {
        assert_eq!(next(&[0, 99]), Ok(Some((PeerMessage::Unknown, 2))));
        assert_eq!(next(&[77, 200, 2, 1, 2, 3]), Ok(Some((PeerMessage::Unknown, 5))));
        assert_eq!(next(&[10, 150, 0]), Ok(Some((PeerMessage::Unknown, 3))));
    }

    #[test]
    fn parses_every_kind_of_update_message() {
        let update = |kind: u8, body: &[u8]| {
            let message = [&[10, kind, body.len() as u8], body].concat();
            match next(&message).expect("a message") {
                Some((PeerMessage::Update(EntryUpdate { number, expires_in_ms, body }), _)) => {
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
        let expected = PeerMessage::Acknowledgement { table: 9, update: 0x67 };
        assert_eq!(next(&message), Ok(Some((expected, 8))));
        for cut in 0..message.len() {
            assert_eq!(next(&message[..cut]), Ok(None));
        }
    }

    #[test]
    fn a_message_of_16_megabytes_is_refused_by_its_announced_length() {
        let mut message = vec![10, 128];
        integer::write(16 << 20, &mut message);
        assert_eq!(next(&message), Err(SessionFault::TooLong));
        let mut message = vec![200, 128];
        integer::write(u64::MAX, &mut message);
        assert_eq!(next(&message), Err(SessionFault::TooLong), "of a class that nobody knows, too");
    }

    #[test]
    fn a_message_with_a_short_body_is_malformed() {
        assert_eq!(next(&[10, 128, 3, 0, 0, 0]), Err(SessionFault::Malformed));
        assert_eq!(next(&[10, 132, 2, 9, 0]), Err(SessionFault::Malformed));
        assert_eq!(next(&[10, 131, 0]), Err(SessionFault::Malformed));
    }
}
