//! Encoding of messages.

use crate::SessionFault;
use crate::definition::Definition;
use crate::integer;
use crate::message::{CONTROL, Control, ERROR, TABLES, table};

/// Appends a control message.
pub fn control(message: Control, out: &mut Vec<u8>) {
    out.extend_from_slice(&[CONTROL, message as u8]);
}

/// Appends an error message, which ends the session.
pub fn error(fault: SessionFault, out: &mut Vec<u8>) {
    let kind = match fault {
        SessionFault::Malformed => 0,
        SessionFault::TooLong => 1,
    };
    out.extend_from_slice(&[ERROR, kind]);
}

/// Appends the definition of a table. Updates of it may follow.
pub fn definition(definition: &Definition<'_>, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    definition.write(&mut body);
    let kind = if definition.is_aggregate { table::AGGREGATE_DEFINITION } else { table::DEFINITION };
    with_body(kind, &[&body], out);
}

/// Appends an acknowledgement of the other side's updates of a table, up to this one.
pub fn acknowledgement(table: u64, update: u32, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    integer::write(table, &mut body);
    body.extend_from_slice(&update.to_be_bytes());
    with_body(table::ACKNOWLEDGEMENT, &[&body], out);
}

/// Appends an update. `number` may be left out directly after the update of the same table with the number before.
pub fn update(number: Option<u32>, expires_in_ms: Option<u32>, body: &[u8], out: &mut Vec<u8>) {
    let kind = match (number, expires_in_ms) {
        (Some(_), None) => table::UPDATE,
        (None, None) => table::NEXT_UPDATE,
        (Some(_), Some(_)) => table::TIMED_UPDATE,
        (None, Some(_)) => table::NEXT_TIMED_UPDATE,
    };
    let number = number.map(u32::to_be_bytes);
    let expires = expires_in_ms.map(u32::to_be_bytes);
    with_body(
        kind,
        &[number.as_ref().map_or(&[], |four| four), expires.as_ref().map_or(&[], |four| four), body],
        out,
    );
}

fn with_body(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(&[TABLES, kind]);
    integer::write(parts.iter().map(|part| part.len() as u64).sum(), out);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{EntryUpdate, PeerMessage, next};

    #[test]
    fn update_messages_survive_a_round_trip() {
        for number in [None, Some(7)] {
            for expires_in_ms in [None, Some(600_000)] {
                let mut out = Vec::new();
                update(number, expires_in_ms, b"body", &mut out);
                let expected = PeerMessage::Update(EntryUpdate { number, expires_in_ms, body: b"body" });
                assert_eq!(next(&out), Ok(Some((expected, out.len()))));
            }
        }
    }

    #[test]
    fn an_acknowledgement_is_written_like_haproxys() {
        let mut out = Vec::new();
        acknowledgement(9, 0x67, &mut out);
        assert_eq!(out, [10, 132, 5, 9, 0, 0, 0, 0x67]);
    }

    #[test]
    fn control_and_error_messages_are_written_as_two_bytes() {
        let mut out = Vec::new();
        control(Control::Heartbeat, &mut out);
        error(SessionFault::TooLong, &mut out);
        assert_eq!(out, [0, 4, 1, 1]);
    }
}
