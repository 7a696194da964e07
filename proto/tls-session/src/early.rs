//! A server session between a client's early data and the end of its handshake (RFC 8446, 2.3).
//!
//! Early data are encrypted with keys of an earlier session and can be replayed. rustls accepts them only with single-use tickets,
//! and rules can still see that they are early ([`Facts::early`](crate::Facts::early)). In this state rustls handles the records, in
//! both directions, until the handshake is over.

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::ConnectionState;

use crate::failure::{Alert, SessionFailure};
use crate::pump::{PumpEnd, encode, pump};
use crate::record::{MAX_CONTENT, MAX_OVERHEAD, announced};

/// Early data that were not read yet: at most as many bytes as the listener allows.
#[derive(Debug)]
pub(crate) struct Early(Vec<u8>);

impl Early {
    pub(crate) fn new(data: Vec<u8>) -> Early {
        Early(data)
    }

    pub(crate) fn is_holding(&self) -> bool {
        !self.0.is_empty()
    }

    /// Copies as much as fits into `room`.
    pub(crate) fn give(&mut self, room: &mut [u8]) -> usize {
        let count = self.0.len().min(room.len());
        room[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        count
    }

    /// Takes the remaining early data.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    /// Continues the handshake. Returns the number of used input bytes, and whether the client sent `close_notify`.
    pub(crate) fn take(
        &mut self,
        connection: &mut UnbufferedServerConnection,
        wire: &[u8],
        answer: &mut Vec<u8>,
    ) -> (usize, Result<bool, SessionFailure>) {
        // rustls decrypts in place; the bytes are early data and two short messages.
        let (mut wire, mut used) = (wire.to_vec(), 0);
        let pumped = pump(connection, &mut wire, &mut used, answer, &mut self.0, &mut false);
        let rest = &wire[used..];
        let is_cut = announced(rest).is_some_and(|length| rest.len() >= length);
        let result = match pumped {
            // The last messages of a handshake are short: no client splits them over records, and a partially decrypted record
            // could not be passed again.
            Ok(PumpEnd::Blocked) if is_cut => Err(SessionFailure::of(Alert::UnexpectedMessage)),
            other => other.map(|pumped| pumped == PumpEnd::Ended),
        };
        (used, result)
    }
}

/// Encrypts as [`TlsSession::seal`](crate::TlsSession::seal) does.
pub(crate) fn seal(
    connection: &mut UnbufferedServerConnection,
    bytes: &[u8],
    out: &mut [u8],
    largest: usize,
    answer: &mut Vec<u8>,
) -> Result<(usize, usize), SessionFailure> {
    let (mut taken, mut written) = (0, 0);
    while taken < bytes.len() && out.len() - written > MAX_OVERHEAD {
        let room = out.len() - written - MAX_OVERHEAD;
        let count = (bytes.len() - taken).min(largest.clamp(1, MAX_CONTENT)).min(room);
        match connection.process_tls_records(&mut []).state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                let sealed = traffic.encrypt(&bytes[taken..taken + count], &mut out[written..]);
                written += sealed.map_err(|_| SessionFailure::INTERNAL)?;
                taken += count;
            }
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, answer)?,
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(_) => return Err(SessionFailure::INTERNAL),
            Err(error) => return Err(SessionFailure::from_rustls(&error)),
        }
    }
    Ok((taken, written))
}

/// Appends `close_notify`.
pub(crate) fn close(connection: &mut UnbufferedServerConnection, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + ALERT + MAX_OVERHEAD, 0);
    let written = match connection.process_tls_records(&mut []).state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => traffic.queue_close_notify(&mut out[start..]).ok(),
        _ => None,
    };
    out.truncate(start + written.unwrap_or(0));
}

/// The length of an alert with its content type.
const ALERT: usize = 3;
