//! The server side of a stream: the slot, the connection, and facts about a closed connection.

use std::os::fd::{AsFd as _, AsRawFd as _};

use weir_backend::Lease;
use weir_containers::PoolBox;
use weir_mux::StreamConnector;
use weir_sys::Address;

use super::Stream;
use crate::upstream::Upstream;
use weir_vocabulary::past::PastConnection;

/// The server's side of a stream.
#[derive(Default)]
pub struct ServerSide {
    /// The connection. `None` without one.
    pub upstream: Option<Upstream>,
    /// The slot of the chosen server.
    pub lease: Option<Lease>,
    /// State that a stream seldom needs while it waits for its server.
    aside: Option<PoolBox<ServerAside>>,
}

#[derive(Default)]
struct ServerAside {
    /// Facts for the log about a connection that failed or was closed.
    past: Option<PastConnection>,
    /// The packet marks for a new connection, if rules set any.
    marks: PacketMarks,
}

/// The marks of packets to a server, set by rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketMarks {
    /// `set-bc-mark`.
    pub mark: Option<u32>,
    /// `set-bc-tos`.
    pub tos: Option<u8>,
}

impl ServerSide {
    /// The packet marks for a new connection.
    pub(crate) fn marks(&self) -> PacketMarks {
        self.aside.as_ref().map_or_else(PacketMarks::default, |aside| aside.marks)
    }

    /// The packet marks for a new connection, mutable.
    pub(crate) fn marks_mut(&mut self) -> &mut PacketMarks {
        &mut self.aside_mut().marks
    }

    /// Facts about a connection that failed or was closed.
    pub fn past(&self) -> Option<&PastConnection> {
        self.aside.as_ref()?.past.as_ref()
    }

    fn aside_mut(&mut self) -> &mut ServerAside {
        self.aside.get_or_insert_with(|| PoolBox::new(ServerAside::default()))
    }

    /// Bytes received from the server and sent to it, on the current connection.
    #[inline]
    pub(crate) fn bytes(&self) -> (u64, u64) {
        self.upstream
            .as_ref()
            .map_or((0, 0), |upstream| (upstream.connector.received(), upstream.connector.sent()))
    }

    /// Whether the connection broke, or was closed by the server.
    pub(crate) fn is_broken(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| upstream.connector.is_broken())
    }

    /// Whether the stream uses an HTTP/2 connection.
    pub(crate) fn is_shared(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| upstream.connector.shared().is_some())
    }

    /// Bytes received from the server and not yet consumed.
    pub(crate) fn input(&self) -> &[u8] {
        self.upstream.as_ref().map_or(&[], |upstream| upstream.connector.input())
    }

    /// Whether the input buffer is larger than its contents.
    #[inline]
    pub(crate) fn has_slack(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| upstream.connector.has_slack())
    }

    /// Shrinks the input buffer to its contents.
    #[cold]
    pub(crate) fn shrink_input(&mut self) {
        if let Some(upstream) = &mut self.upstream {
            upstream.connector.shrink_input();
        }
    }

    /// The local address of the current or the last connection.
    pub(crate) fn own_address(&self) -> Option<Address> {
        match &self.upstream {
            Some(upstream) => upstream.connector.local_address(),
            None => self.past()?.own_address.clone(),
        }
    }

    /// The remote address of the current or the last connection, if the server's address can vary (reading it costs a system call). `None`
    /// if it is always the server's configured address.
    pub(crate) fn peer_address(&self) -> Option<Address> {
        match &self.upstream {
            Some(upstream) => self.moved_peer(&upstream.connector),
            None => self.past()?.peer.clone(),
        }
    }

    fn moved_peer(&self, connector: &StreamConnector) -> Option<Address> {
        let server = self.lease.as_ref()?.server();
        server.destination_varies().then(|| connector.peer_address())?
    }

    /// The connection's descriptor number. -1 without one.
    pub(crate) fn descriptor(&self) -> i32 {
        let Some(upstream) = &self.upstream else { return -1 };
        upstream.connector.with_descriptor(|descriptor| descriptor.as_fd().as_raw_fd()).unwrap_or(-1)
    }

    /// Keeps facts about a connection for the log.
    pub(crate) fn keep_facts(&mut self, past: PastConnection) {
        self.aside_mut().past = Some(past);
    }

    /// Closes the connection, keeping the facts for the log.
    pub(crate) fn close(&mut self) {
        if let Some(upstream) = self.upstream.take() {
            let peer = self.moved_peer(&upstream.connector);
            self.keep_facts(PastConnection {
                peer,
                ..PastConnection::of(&upstream.connector, true, upstream.reused)
            });
        }
    }
}

/// The remote address of the server connection, else the address of the chosen server.
pub(crate) fn reached_address(stream: &Stream) -> Option<Address> {
    // Over SOCKS4, the peer of the connection is the SOCKS proxy.
    let is_direct =
        || stream.as_server_phase().known_server().is_none_or(|known| known.settings.socks4.is_none());
    stream.server.peer_address().filter(|_| is_direct()).or_else(|| stream.as_server_phase().server_address())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_side_without_connection_is_empty_but_keeps_past_facts() {
        let mut side = ServerSide::default();
        assert_eq!((side.bytes(), side.input(), side.descriptor()), ((0, 0), &b""[..], -1));
        assert!(!side.is_broken() && !side.has_slack() && side.own_address().is_none());
        let own_address = Some(Address::Unnamed);
        side.keep_facts(PastConnection {
            own_address,
            peer: None,
            stood: false,
            reused: false,
            http2: false,
            secured: false,
            fault: None,
        });
        side.close();
        assert_eq!(side.own_address(), Some(Address::Unnamed));
        assert!(side.past().is_some_and(|past| !past.stood));
    }
}
