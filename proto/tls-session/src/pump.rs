//! Drives a rustls handshake from received bytes to bytes to send.

use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, ReadEarlyData, UnbufferedStatus};

use crate::failure::{Alert, SessionFailure};

/// The rustls connection of either side. The two differ only in a type.
pub(crate) trait Engine {
    type Data;
    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn has_to_say(&self) -> bool;
    fn is_handshaking(&self) -> bool;
    /// Appends the early data of a client to `plain`.
    fn read_early(
        early: ReadEarlyData<'_, '_, Self::Data>,
        plain: &mut Vec<u8>,
    ) -> Result<(), SessionFailure>;
}

impl Engine for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(wire)
    }
    fn has_to_say(&self) -> bool {
        self.wants_write()
    }
    fn is_handshaking(&self) -> bool {
        CommonState::is_handshaking(self)
    }
    fn read_early(
        mut early: ReadEarlyData<'_, '_, Self::Data>,
        plain: &mut Vec<u8>,
    ) -> Result<(), SessionFailure> {
        while let Some(record) = early.next_record() {
            let record = record.map_err(|error| SessionFailure::from_rustls(&error))?;
            plain.extend_from_slice(record.payload);
        }
        Ok(())
    }
}

impl Engine for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(wire)
    }
    fn has_to_say(&self) -> bool {
        self.wants_write()
    }
    fn is_handshaking(&self) -> bool {
        CommonState::is_handshaking(self)
    }
    fn read_early(_: ReadEarlyData<'_, '_, Self::Data>, _: &mut Vec<u8>) -> Result<(), SessionFailure> {
        // Servers send no early data.
        Err(SessionFailure::INTERNAL)
    }
}

/// How a call of [`pump`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PumpEnd {
    /// rustls needs more input.
    Blocked,
    /// The handshake is complete and this side sent its last message. Later input was not read.
    Over,
    /// The peer sent `close_notify`.
    Ended,
}

/// Runs rustls until it needs more input or the handshake is complete. Application data received so far is appended to
/// `plain`, and `early` is set if some of it is early data.
pub(crate) fn pump<E: Engine>(
    engine: &mut E,
    wire: &mut [u8],
    used: &mut usize,
    answer: &mut Vec<u8>,
    plain: &mut Vec<u8>,
    early: &mut bool,
) -> Result<PumpEnd, SessionFailure> {
    let mut pumped = PumpEnd::Blocked;
    loop {
        let UnbufferedStatus { discard, state } = engine.process(&mut wire[*used..]);
        *used += discard;
        match state {
            Ok(ConnectionState::EncodeTlsData(data)) => {
                encode(data, answer)?;
                if !engine.is_handshaking() && !engine.has_to_say() {
                    return Ok(PumpEnd::Over);
                }
            }
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(|error| SessionFailure::from_rustls(&error))?;
                    plain.extend_from_slice(record.payload);
                    *used += record.discard;
                }
            }
            Ok(ConnectionState::ReadEarlyData(data)) => {
                *early = true;
                E::read_early(data, plain)?;
            }
            Ok(ConnectionState::PeerClosed) => pumped = PumpEnd::Ended,
            Ok(_) => return Ok(pumped),
            Err(error) => {
                let written = write_alert(engine, &mut wire[*used..], answer);
                let failure = SessionFailure::from_rustls(&error);
                return Err(SessionFailure { alert: failure.alert.or(written), ..failure });
            }
        }
    }
}

pub(crate) fn encode<D>(mut data: EncodeTlsData<'_, D>, answer: &mut Vec<u8>) -> Result<(), SessionFailure> {
    let start = answer.len();
    loop {
        match data.encode(&mut answer[start..]) {
            Ok(written) => {
                answer.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) => answer.resize(start + size.required_size, 0),
            Err(EncodeError::AlreadyEncoded) => return Err(SessionFailure::INTERNAL),
        }
    }
}

/// Appends the alert of a failed handshake, and returns it if it is not encrypted. `wire` is the unused input, which
/// the engine ignores while output remains.
fn write_alert(engine: &mut impl Engine, wire: &mut [u8], answer: &mut Vec<u8>) -> Option<Alert> {
    let start = answer.len();
    while engine.has_to_say() {
        let Ok(ConnectionState::EncodeTlsData(data)) = engine.process(wire).state else { break };
        encode(data, answer).ok()?;
    }
    match answer[start..] {
        [21, _, _, 0, 2, _, code] => Some(Alert::from(code)),
        _ => None,
    }
}
