//! Datagrams to one peer and back.

use std::net::SocketAddr;

use weir_sched::Descriptor;
use weir_sys::{Address, Errno, socket};

use crate::fault::ConnectionFault;

/// A socket that exchanges datagrams with one peer only. The kernel gives it a random port of its own.
#[derive(Debug)]
pub struct Datagram(Descriptor);

/// The result of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramOutcome {
    /// A datagram of this many bytes, cut to the size of the buffer.
    Bytes(usize),
    Nothing,
    /// The network reports that the peer cannot be reached now.
    Unreachable,
}

impl Datagram {
    /// A socket to `peer`. Its events wake the current task.
    ///
    /// # Errors
    /// When the process is out of descriptors, or the peer is unreachable.
    pub fn to(peer: SocketAddr) -> Result<Self, ConnectionFault> {
        let peer = Address::Inet(peer);
        let open = socket::datagram(peer.family())?;
        socket::connect(&open, &peer)?;
        let descriptor = Descriptor::register(open)?;
        descriptor.set_owner(weir_sched::current());
        Ok(Datagram(descriptor))
    }

    /// Sends one datagram: all of it or nothing.
    ///
    /// # Errors
    /// When the datagram was not sent.
    pub fn send(&self, bytes: &[u8]) -> Result<(), ConnectionFault> {
        match socket::send(&self.0, bytes, false) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives one datagram into `space`.
    ///
    /// # Errors
    /// When the socket failed.
    pub fn receive(&self, space: &mut [u8]) -> Result<DatagramOutcome, ConnectionFault> {
        match socket::receive(&self.0, space) {
            Ok(count) => Ok(DatagramOutcome::Bytes(count)),
            Err(Errno::AGAIN | Errno::INTR) => {
                self.0.clear_readable();
                Ok(DatagramOutcome::Nothing)
            }
            Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {
                Ok(DatagramOutcome::Unreachable)
            }
            Err(error) => Err(error.into()),
        }
    }
}
