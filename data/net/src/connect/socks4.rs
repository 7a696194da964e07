//! A SOCKS4 client that requests a connection: one request, one answer (Ying-Da Lee, "SOCKS: A protocol for TCP proxy across
//! firewalls", CONNECT).
//!
//! ```text
//! request:  4  1  port, 2 bytes  IPv4 address, 4 bytes  user  0
//! answer:   0  code  6 bytes that mean nothing here
//! ```
//! Nothing is read beyond the answer, because later bytes come from the server.

use std::net::SocketAddrV4;

use weir_sched::{Descriptor, ReceiveResult, SendResult};

use crate::fault::ConnectionFault;

/// The progress of the handshake with the proxy.
#[derive(Debug)]
pub(super) struct Handshake {
    target: SocketAddrV4,
    /// How many bytes of the request were sent.
    sent: u8,
    answer: [u8; ANSWER],
    /// How many bytes of the answer were received.
    came: u8,
}

impl Handshake {
    /// A handshake that has not begun.
    pub(super) fn new(target: SocketAddrV4) -> Self {
        Handshake { target, sent: 0, answer: [0; ANSWER], came: 0 }
    }

    /// Continues as far as possible without blocking. True once the proxy granted the request.
    pub(super) fn advance(&mut self, proxy: &Descriptor) -> Result<bool, ConnectionFault> {
        let request = request(self.target);
        while usize::from(self.sent) < REQUEST {
            match proxy.send(&request[usize::from(self.sent)..], false)? {
                SendResult::Bytes(count) => self.sent += count as u8,
                SendResult::Blocked => return Ok(false),
            }
        }
        while usize::from(self.came) < ANSWER {
            match proxy.receive_into(&mut self.answer[usize::from(self.came)..]) {
                Ok(ReceiveResult::Bytes(count)) => self.came += count as u8,
                Ok(ReceiveResult::Blocked) => return Ok(false),
                Ok(ReceiveResult::End | ReceiveResult::Full) | Err(_) => {
                    return Err(ConnectionFault::SocksAborted);
                }
            }
        }
        match self.answer[1] {
            GRANTED => Ok(true),
            code => Err(ConnectionFault::SocksRefused(code)),
        }
    }
}

fn request(target: SocketAddrV4) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[..2].copy_from_slice(&[VERSION, CONNECT]);
    request[2..4].copy_from_slice(&target.port().to_be_bytes());
    request[4..8].copy_from_slice(&target.ip().octets());
    request[8..8 + USER.len()].copy_from_slice(USER);
    request
}

const VERSION: u8 = 4;
const CONNECT: u8 = 1;
/// The code of a granted request.
const GRANTED: u8 = 90;
/// The user name. A proxy's rules may contain it, so it equals HAProxy's.
const USER: &[u8; 7] = b"HAProxy";
/// The size of the request in bytes. A zero byte follows the user name.
const REQUEST: usize = 8 + USER.len() + 1;
const ANSWER: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socks4_request_contains_the_server_address_and_the_user() {
        let said = request("192.0.2.1:8080".parse().expect("an address"));
        assert_eq!(said, *b"\x04\x01\x1f\x90\xc0\x00\x02\x01HAProxy\x00");
    }
}
