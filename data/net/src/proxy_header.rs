//! The PROXY header that precedes a connection's own bytes (`accept-proxy`), for every kind of listener.

use weir_proxy_protocol::{ClientAddresses, HeaderCommand, ProxyError, ProxyHeader};
use weir_sched::{Tick, wait};
use weir_sys::Address;

use crate::{Connection, ReceiveOutcome};

/// Reads the header at the beginning of a connection and calls `look` with it.
///
/// # Errors
/// The log text, if no header or an invalid one arrives until the deadline.
pub async fn read<R>(
    client: &mut Connection,
    deadline: Tick,
    look: impl FnOnce(&ProxyHeader<'_>) -> R,
) -> Result<R, &'static str> {
    loop {
        if !client.input().is_empty() {
            match weir_proxy_protocol::parse(client.input()) {
                Ok(Some(header)) => {
                    let (seen, length) = (look(&header), header.length);
                    client.consume(length);
                    return Ok(seen);
                }
                Ok(None) => {}
                Err(error) => return Err(in_words(error)),
            }
        }
        match client.receive(usize::MAX) {
            ReceiveOutcome::Bytes(_) => continue,
            ReceiveOutcome::Nothing => {}
            ReceiveOutcome::End => {
                return Err(none_came(client, "Connection closed while waiting for PROXY protocol header"));
            }
            ReceiveOutcome::Full | ReceiveOutcome::Failed(_) => {
                return Err(none_came(client, "Connection error while waiting for PROXY protocol header"));
            }
        }
        if deadline <= weir_sched::now() {
            return Err(none_came(client, "Timeout while waiting for PROXY protocol header"));
        }
        wait(deadline).await;
    }
}

/// The log text for a missing or incomplete header. These and the following messages are listed in the manual under
/// `fc_err_str`; the case for each was observed in logs of HAProxy 2.6.
fn none_came(client: &Connection, why: &'static str) -> &'static str {
    if client.input().is_empty() { why } else { "Truncated PROXY protocol header received" }
}

/// The log text for an invalid header.
fn in_words(error: ProxyError) -> &'static str {
    match error {
        ProxyError::NotProxy | ProxyError::UnsupportedVersion => {
            "Received something which does not look like a PROXY protocol header"
        }
        ProxyError::UnknownProtocol => "Received an unhandled protocol in the PROXY protocol header",
        _ => "Received an invalid PROXY protocol header",
    }
}

/// The client address in a header. `None` for the sender's own connections (LOCAL), and for addresses other than IP.
pub fn client(header: &ProxyHeader<'_>) -> Option<Address> {
    match header.addresses {
        ClientAddresses::Inet { source, .. } if header.command == HeaderCommand::Proxy => Some(source.into()),
        _ => None,
    }
}
