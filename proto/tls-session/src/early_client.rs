//! A client session that sends early data (RFC 8446, 2.3): between its hello and the end of its handshake.
//!
//! Data written in this state are encrypted with keys of an earlier session and sent, up to the server's limit. The
//! rest is kept until the handshake is complete. If the server rejects early data, they are sent again as the first
//! data of the new session (RFC 8470, 3). rustls handles the records of this state.

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::ConnectionState;

use crate::failure::SessionFailure;
use crate::pump::{PumpEnd, encode, pump};
use crate::record::{HEADER, MAX_CONTENT, MAX_OVERHEAD, MAX_RECORD, announced};

/// A client session between its ClientHello and the end of its handshake.
pub(crate) struct EarlyClient {
    pub connection: UnbufferedClientConnection,
    /// Received bytes that rustls has not used yet. They are stored here, because rustls decrypts in place.
    wire: Vec<u8>,
    /// Plaintext received together with the end of the handshake.
    plain: Vec<u8>,
    /// The data sent early.
    sent: Vec<u8>,
    /// Data to send after the handshake.
    later: Vec<u8>,
    /// Whether early data can no longer be sent.
    is_over: bool,
    is_accepted: bool,
    has_ended: bool,
}

/// The result when the handshake is over.
pub(crate) struct HandshakeEnd {
    pub connection: UnbufferedClientConnection,
    /// Whether the server sent `close_notify`.
    pub has_ended: bool,
    /// Plaintext received from the server.
    pub plain: Vec<u8>,
    /// Data to send to the server after the handshake.
    pub unsent: Vec<u8>,
    /// Number of received bytes not used yet.
    pub unused: usize,
}

/// Appends the ClientHello to `answer`. Returns whether early data may follow it.
pub(crate) fn begin(
    connection: &mut UnbufferedClientConnection,
    answer: &mut Vec<u8>,
) -> Result<bool, SessionFailure> {
    loop {
        match connection.process_tls_records(&mut []).state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, answer)?,
            Ok(ConnectionState::TransmitTlsData(mut data)) => {
                let possible = data.may_encrypt_early_data().is_some();
                if !possible {
                    data.done();
                }
                return Ok(possible);
            }
            Ok(_) => return Ok(false),
            Err(error) => return Err(SessionFailure::from_rustls(&error)),
        }
    }
}

impl EarlyClient {
    pub(crate) fn new(connection: UnbufferedClientConnection) -> EarlyClient {
        EarlyClient {
            connection,
            wire: Vec::new(),
            plain: Vec::new(),
            sent: Vec::new(),
            later: Vec::new(),
            is_over: false,
            is_accepted: false,
            has_ended: false,
        }
    }

    /// Encrypts as [`TlsSession::seal`](crate::TlsSession::seal) does. Takes all of `bytes` that fits: data that may not be
    /// sent early are kept.
    pub(crate) fn seal(
        &mut self,
        bytes: &[u8],
        out: &mut [u8],
        largest: usize,
    ) -> Result<(usize, usize), SessionFailure> {
        let (mut taken, mut written) = (0, 0);
        while !self.is_over && taken < bytes.len() && out.len() - written > MAX_OVERHEAD {
            let room = out.len() - written - MAX_OVERHEAD;
            let count = (bytes.len() - taken).min(largest.clamp(1, MAX_CONTENT)).min(room);
            let piece = &bytes[taken..taken + count];
            let sealed = self.encrypt(piece, &mut out[written..])?;
            let accepted = sealed.saturating_sub(OVERHEAD).min(count);
            self.sent.extend_from_slice(&piece[..accepted]);
            // The server's limit of early data is reached.
            self.is_over |= accepted < count;
            (taken, written) = (taken + accepted, written + sealed);
        }
        if self.is_over {
            self.later.extend_from_slice(&bytes[taken..]);
            taken = bytes.len();
            if self.later.len() > MAX_LATER {
                return Err(SessionFailure::INTERNAL);
            }
        }
        Ok((taken, written))
    }

    fn encrypt(&mut self, piece: &[u8], out: &mut [u8]) -> Result<usize, SessionFailure> {
        match self.connection.process_tls_records(&mut []).state {
            Ok(ConnectionState::TransmitTlsData(mut data)) => {
                let Some(mut early) = data.may_encrypt_early_data() else { return Ok(0) };
                early.encrypt(piece, out).map_err(|_| SessionFailure::INTERNAL)
            }
            Ok(_) => Ok(0),
            Err(error) => Err(SessionFailure::from_rustls(&error)),
        }
    }

    /// Continues the handshake with all of `wire`. Returns whether it is complete. Output is appended to `answer`.
    pub(crate) fn take(&mut self, wire: &[u8], answer: &mut Vec<u8>) -> Result<bool, SessionFailure> {
        self.is_over = true;
        self.wire.extend_from_slice(wire);
        let (mut used, said) = (0, answer.len());
        let (wire, plain) = (&mut self.wire, &mut self.plain);
        let pumped = pump(&mut self.connection, wire, &mut used, answer, plain, &mut false);
        self.wire.drain(..used);
        self.is_accepted |= ends_early_data(&answer[said..]);
        let pumped = pumped?;
        self.has_ended |= pumped == PumpEnd::Ended;
        if self.wire.len() > MAX_WIRE {
            return Err(SessionFailure::INTERNAL);
        }
        // If a message spans records, rustls has decrypted a part of it and still needs the rest.
        let is_whole = announced(&self.wire).is_some_and(|length| self.wire.len() >= length);
        Ok(!self.connection.is_handshaking() && (self.has_ended || pumped == PumpEnd::Over || !is_whole))
    }

    /// The handshake is over.
    pub(crate) fn settle(mut self) -> HandshakeEnd {
        let mut unsent = if self.is_accepted { Vec::new() } else { self.sent };
        unsent.append(&mut self.later);
        HandshakeEnd {
            connection: self.connection,
            has_ended: self.has_ended,
            plain: self.plain,
            unsent,
            unused: self.wire.len(),
        }
    }
}

/// Whether these records of a client contain `EndOfEarlyData` (RFC 8446, 4.5), sent only if the server accepted early
/// data. The message is empty and has its own key, so it is alone in its record, and no other client message is as
/// short. rustls does not report the acceptance otherwise.
fn ends_early_data(mut records: &[u8]) -> bool {
    while let Some(length) = announced(records)
        && let Some(rest) = records.get(length..)
    {
        if records[0] == APPLICATION_DATA && length == HEADER + MESSAGE_HEADER + PROTECTION {
            return true;
        }
        records = rest;
    }
    false
}

/// The content type of every encrypted record.
const APPLICATION_DATA: u8 = 23;
/// Length of a handshake message header in bytes.
const MESSAGE_HEADER: usize = 4;
/// Bytes of content type and tag in a TLS 1.3 record. All its ciphers have 16-byte tags.
const PROTECTION: usize = 1 + 16;
/// Bytes of a record besides its content.
const OVERHEAD: usize = HEADER + PROTECTION;
/// Limit in bytes of data kept until the end of the handshake. In this state, callers send one head, which fits a buffer.
const MAX_LATER: usize = 1 << 20;
/// Limit of unused handshake input in bytes: the largest message of rustls in full records, and one more record.
const MAX_WIRE: usize = (1 << 16) + 5 * MAX_RECORD;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_early_data_record_is_recognized_by_its_length() {
        let record = |kind: u8, length: usize| {
            let mut record = vec![kind, 3, 3];
            record.extend_from_slice(&u16::try_from(length).expect("a record").to_be_bytes());
            record.resize(HEADER + length, 0);
            record
        };
        let (change, end, finished) = (record(20, 1), record(23, 21), record(23, 53));
        assert!(ends_early_data(&[&change[..], &end, &finished].concat()));
        assert!(!ends_early_data(&[&change[..], &finished].concat()));
        assert!(!ends_early_data(&end[..end.len() - 1]));
        assert!(!ends_early_data(&[]));
    }
}
