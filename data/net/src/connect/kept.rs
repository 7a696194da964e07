//! Connections on sockets that the worker reuses, for short and frequent exchanges that end with a reset.

use weir_sched::Descriptor;
use weir_sys::{Address, AddressFamily, option};

use super::{ConnectOptions, ConnectPlan, ConnectTarget, Connecting, ConnectionSource, GreetingEvent};
use crate::connection::Connection;
use crate::fault::ConnectionFault;

impl ConnectPlan<'_> {
    /// [`begin_now`](Self::begin_now) on the socket of a former connection, if its options suit the plan
    /// ([`kept_family`](Self::kept_family)). The user of the connection gives the socket back with [`keep`].
    ///
    /// # Errors
    /// As for [`begin_now`](Self::begin_now).
    pub fn begin_kept(&self) -> Result<Connecting, ConnectionFault> {
        let Some(peer) = self.plain_peer().filter(|_| self.kept_family().is_some()) else {
            return self.begin_now();
        };
        if crate::shortage::is_exhausted() {
            crate::shortage::count_refusal();
            return Err(ConnectionFault::Shortage);
        }
        let Some(begun) = Descriptor::connect_kept(peer) else {
            let socket = Self::open_plain(peer.family())?;
            let _ = option::set_no_delay(&socket, true);
            return Connecting::of(Descriptor::connect_now(socket, peer)?, GreetingEvent::Peer(None));
        };
        let (descriptor, stands) = begun?;
        descriptor.set_owner(weir_sched::current());
        let awaits = if stands { GreetingEvent::Nothing } else { GreetingEvent::Peer(None) };
        Ok(Connecting { connection: Connection::privileged(descriptor), awaits })
    }

    /// The address family of the kept sockets that the plan can use. `None` if each connection needs its own socket.
    pub fn kept_family(&self) -> Option<AddressFamily> {
        self.plain_peer().filter(|_| self.options.keep_alive.is_none()).map(Address::family)
    }

    /// The destination, if the plan needs no socket options but an abortive close and a delayed acknowledgement. Keep-alive
    /// probes are not considered.
    pub(super) fn plain_peer(&self) -> Option<&Address> {
        let ConnectTarget::Address(peer @ Address::Inet(_)) = &self.target else { return None };
        let plain = ConnectOptions {
            no_linger: true,
            delays_acknowledgement: true,
            keep_alive: self.options.keep_alive,
            ..ConnectOptions::default()
        };
        let is_plain = self.socks4.is_none()
            && self.source == ConnectionSource::default()
            && (self.mark, self.tos) == (None, None)
            && self.options == plain;
        is_plain.then_some(peer)
    }

    /// A socket with an abortive close and a delayed handshake acknowledgement, for any connection.
    pub(super) fn open_plain(family: AddressFamily) -> Result<std::os::fd::OwnedFd, ConnectionFault> {
        let socket = Descriptor::stream_socket(family)?;
        // If the kernel refuses an option, that only costs a packet.
        let _ = option::set_no_linger(&socket);
        // Delays the handshake's last packet, as `TCP_QUICKACK` does, but for each connection that the socket has.
        let _ = option::set_defer_accept(&socket, 1);
        Ok(socket)
    }
}

/// Ends a connection of [`begin_kept`](ConnectPlan::begin_kept) for a plan [of this family](ConnectPlan::kept_family). Its socket is
/// kept for another connection.
pub fn keep(connection: Connection, family: AddressFamily) {
    if connection.fault().is_none() {
        connection.into_parts().0.keep(family);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::fd::{AsFd, AsRawFd};

    use weir_sys::Errno;
    use weir_sys::option::KeepAlive;

    use super::*;

    fn plan(listener: &TcpListener) -> ConnectPlan<'static> {
        let options =
            ConnectOptions { no_linger: true, delays_acknowledgement: true, ..ConnectOptions::default() };
        let address = Address::Inet(listener.local_addr().expect("bound"));
        ConnectPlan { options, ..ConnectPlan::to(ConnectTarget::Address(address)) }
    }

    fn listen() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port")
    }

    #[test]
    fn a_closed_connections_socket_is_reused_for_the_next_connect() {
        let (listener, other) = (listen(), listen());
        weir_sched::run(async move {
            let connection = || {
                let mut connecting = plan(&listener).begin_kept().expect("a listener");
                assert!(connecting.advance(Default::default()).expect("no fault"));
                let connection = connecting.into_connection();
                let socket = connection.descriptor().as_fd();
                assert!(option::has_no_linger(socket).expect("a socket"));
                connection
            };
            let number = |connection: &Connection| connection.descriptor().as_fd().as_raw_fd();
            let first = connection();
            let kept = number(&first);
            assert_ne!(number(&connection()), kept, "it is in use");
            keep(first, AddressFamily::Inet);
            for _ in 0..50 {
                let next = connection();
                assert_eq!(number(&next), kept);
                keep(next, AddressFamily::Inet);
            }
            let address = other.local_addr();
            drop(other);
            let nowhere = ConnectPlan {
                target: ConnectTarget::Address(Address::Inet(address.expect("bound"))),
                ..plan(&listener)
            };
            let refused = nowhere.begin_kept().map(|_| ());
            assert_eq!(refused, Err(ConnectionFault::Io(Errno::CONNREFUSED)));
            drop(connection());
        })
        .expect("a worker");
    }

    #[test]
    fn connect_plans_with_options_do_not_reuse_sockets() {
        let listener = listen();
        let kept = |change: fn(&mut ConnectPlan<'_>)| {
            let mut plan = plan(&listener);
            change(&mut plan);
            plan.kept_family()
        };
        assert_eq!(kept(|_| {}), Some(AddressFamily::Inet));
        assert_eq!(kept(|plan| plan.options.keep_alive = Some(KeepAlive::default())), None);
        assert_eq!(kept(|plan| plan.options.delays_acknowledgement = false), None);
        assert_eq!(kept(|plan| plan.options.no_linger = false), None);
        assert_eq!(kept(|plan| plan.mark = Some(1)), None);
        assert_eq!(kept(|plan| plan.target = ConnectTarget::Pair(3)), None);
    }
}
