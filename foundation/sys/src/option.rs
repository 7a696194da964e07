//! Socket options of `bind`, `server` and `global` lines.

use crate::{AddressFamily, Errno, Result};
use rustix::net::sockopt;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Allows binding an address still used by old connections (`SO_REUSEADDR`).
pub fn set_reuse_address(socket: impl AsFd) -> Result<()> {
    sockopt::set_socket_reuseaddr(socket, true)
}

/// Allows several sockets to bind the same address and share its connections (`SO_REUSEPORT`).
pub fn set_reuse_port(socket: impl AsFd) -> Result<()> {
    sockopt::set_socket_reuseport(socket, true)
}

/// Sends small packets without delay (`TCP_NODELAY`).
pub fn set_no_delay(socket: impl AsFd, on: bool) -> Result<()> {
    sockopt::set_tcp_nodelay(socket, on)
}

/// TCP keep-alive parameters (`clitcpka-*`, `srvtcpka-*`). `None` keeps the system's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
    /// Number of unanswered probes before the connection is closed.
    pub count: Option<u32>,
}

/// Enables TCP keep-alive with the given parameters (`option tcpka`).
pub fn set_keep_alive(socket: impl AsFd, parameters: KeepAlive) -> Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    if let Some(idle) = parameters.idle {
        sockopt::set_tcp_keepidle(socket, idle)?;
    }
    if let Some(interval) = parameters.interval {
        sockopt::set_tcp_keepintvl(socket, interval)?;
    }
    if let Some(count) = parameters.count {
        sockopt::set_tcp_keepcnt(socket, count)?;
    }
    Ok(())
}

/// Sets the repair mode of a socket (`TCP_REPAIR`), in which closing it does not send a packet. Requires CAP_NET_ADMIN.
pub fn set_repair(socket: impl AsFd, on: bool) -> Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, i32::from(on))
}

/// Sets the time to live of this socket's IPv4 packets, in hops.
pub fn set_ttl(socket: impl AsFd, hops: u8) -> Result<()> {
    sockopt::set_ip_ttl(socket, u32::from(hops))
}

/// Closes with a reset instead of a FIN (`option nolinger`, `SO_LINGER` with 0 seconds).
pub fn set_no_linger(socket: impl AsFd) -> Result<()> {
    sockopt::set_socket_linger(socket, Some(Duration::ZERO))
}

/// Whether closing will reset the connection.
pub fn has_no_linger(socket: impl AsFd) -> Result<bool> {
    Ok(sockopt::socket_linger(socket)? == Some(Duration::ZERO))
}

/// Whether the socket is listening (`SO_ACCEPTCONN`).
pub fn is_listening(socket: impl AsFd) -> Result<bool> {
    sockopt::socket_acceptconn(socket)
}

/// Delays accepting a connection until data arrives, or for `seconds` (`TCP_DEFER_ACCEPT`).
pub fn set_defer_accept(socket: impl AsFd, seconds: u32) -> Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, to_int(seconds)?)
}

/// Accepts data in the SYN, with at most `queue` such connections pending (`bind ... tfo`, `TCP_FASTOPEN`).
pub fn set_fast_open(socket: impl AsFd, queue: u32) -> Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, to_int(queue)?)
}

/// Sends data in the SYN (`server ... tfo`, `TCP_FASTOPEN_CONNECT`).
pub fn set_fast_open_connect(socket: impl AsFd) -> Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// Limits the segment size announced to the peer (`TCP_MAXSEG`).
pub fn set_maximum_segment(socket: impl AsFd, bytes: u32) -> Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, to_int(bytes)?)
}

/// The current maximum segment size (`TCP_MAXSEG`).
pub fn maximum_segment(socket: impl AsFd) -> Result<u32> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    let place = (&raw mut value).cast();
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `length` bytes to `value`.
    let status =
        unsafe { libc::getsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_MAXSEG, place, &mut length) };
    crate::process::status(status)?;
    u32::try_from(value).map_err(|_| Errno::INVAL)
}

/// Binds the socket to a network interface (`SO_BINDTODEVICE`).
pub fn set_device(socket: impl AsFd, interface: &str) -> Result<()> {
    set_bytes(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes())
}

/// Allows binding foreign addresses (`bind ... transparent`, `source ... usesrc`), with `IP_TRANSPARENT` if permitted,
/// otherwise with `IP_FREEBIND`.
pub fn set_transparent(socket: impl AsFd, family: AddressFamily) -> Result<()> {
    let socket = socket.as_fd();
    match family {
        AddressFamily::Inet => set_number(socket, libc::SOL_IP, libc::IP_TRANSPARENT, 1)
            .or_else(|_| sockopt::set_ip_freebind(socket, true)),
        AddressFamily::Inet6 => set_number(socket, libc::SOL_IPV6, IPV6_TRANSPARENT, 1)
            .or_else(|_| sockopt::set_ipv6_freebind(socket, true)),
        AddressFamily::Unix => Err(Errno::OPNOTSUPP),
    }
}

/// Allows binding addresses not assigned to an interface yet (`IP_FREEBIND`).
pub fn set_free_bind(socket: impl AsFd, family: AddressFamily) -> Result<()> {
    match family {
        AddressFamily::Inet => sockopt::set_ip_freebind(socket, true),
        AddressFamily::Inet6 => sockopt::set_ipv6_freebind(socket, true),
        AddressFamily::Unix => Err(Errno::OPNOTSUPP),
    }
}

/// Selects the source port at connect instead of bind, so that a source address supports more connections.
pub fn set_bind_address_no_port(socket: impl AsFd) -> Result<()> {
    set_number(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Whether an IPv6 listener refuses IPv4 (`v6only`, `v4v6`).
pub fn set_v6_only(socket: impl AsFd, on: bool) -> Result<()> {
    sockopt::set_ipv6_v6only(socket, on)
}

/// Whether an IPv6 socket refuses IPv4.
pub fn v6_only(socket: impl AsFd) -> Result<bool> {
    rustix::net::sockopt::ipv6_v6only(socket)
}

/// Closes a connection with data unacknowledged for this long (`tcp-ut`, `TCP_USER_TIMEOUT`).
pub fn set_user_timeout(socket: impl AsFd, milliseconds: u32) -> Result<()> {
    sockopt::set_tcp_user_timeout(socket, milliseconds)
}

/// Enables immediate acknowledgements, or delays them (`TCP_QUICKACK`).
pub fn set_quick_ack(socket: impl AsFd, on: bool) -> Result<()> {
    sockopt::set_tcp_quickack(socket, on)
}

/// Marks packets for netfilter and routing (`set-mark`, `source`). Requires CAP_NET_ADMIN or CAP_NET_RAW.
pub fn set_mark(socket: impl AsFd, mark: u32) -> Result<()> {
    set_number(socket, libc::SOL_SOCKET, libc::SO_MARK, mark as libc::c_int)
}

/// Sets the type-of-service byte or traffic class (`set-tos`).
pub fn set_tos(socket: impl AsFd, family: AddressFamily, tos: u8) -> Result<()> {
    match family {
        AddressFamily::Inet => sockopt::set_ip_tos(socket, tos),
        AddressFamily::Inet6 => sockopt::set_ipv6_tclass(socket, u32::from(tos)),
        AddressFamily::Unix => Err(Errno::OPNOTSUPP),
    }
}

/// Sets the size of the kernel's receive buffer (`tune.rcvbuf.*`).
pub fn set_receive_buffer(socket: impl AsFd, bytes: usize) -> Result<()> {
    sockopt::set_socket_recv_buffer_size(socket, bytes)
}

/// Sets the size of the kernel's send buffer (`tune.sndbuf.*`).
pub fn set_send_buffer(socket: impl AsFd, bytes: usize) -> Result<()> {
    sockopt::set_socket_send_buffer_size(socket, bytes)
}

/// Reports the socket as writable only while fewer than `bytes` are unsent in the kernel (`tune.notsent-lowat.*`).
pub fn set_unsent_low_mark(socket: impl AsFd, bytes: u32) -> Result<()> {
    set_number(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, to_int(bytes)?)
}

/// From `linux/in6.h`. The libc crate lacks it for Linux.
const IPV6_TRANSPARENT: libc::c_int = 75;

fn to_int(value: u32) -> Result<libc::c_int> {
    libc::c_int::try_from(value).map_err(|_| Errno::INVAL)
}

fn set_number(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> Result<()> {
    set_bytes(socket, level, name, &value.to_ne_bytes())
}

fn set_bytes(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: &[u8]) -> Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads `length` bytes of `value`, no more.
    let status = unsafe { libc::setsockopt(descriptor, level, name, value.as_ptr().cast(), length) };
    crate::process::status(status).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;

    #[test]
    fn sets_the_socket_options_of_a_listener() {
        let socket = socket::stream(AddressFamily::Inet).expect("a socket");
        assert_eq!(set_reuse_address(&socket), Ok(()));
        assert_eq!(set_reuse_port(&socket), Ok(()));
        assert_eq!(set_defer_accept(&socket, 5), Ok(()));
        assert!(maximum_segment(&socket).is_ok_and(|bytes| bytes > 0));
        assert_eq!(set_maximum_segment(&socket, 1200), Ok(()));
        assert_eq!(set_user_timeout(&socket, 30_000), Ok(()));
        assert_eq!(set_free_bind(&socket, AddressFamily::Inet), Ok(()));
        assert_eq!(set_tos(&socket, AddressFamily::Inet, 8), Ok(()));
        assert_eq!(set_no_linger(&socket), Ok(()));
        assert_eq!(set_fast_open(&socket, u32::MAX), Err(Errno::INVAL));
    }

    #[test]
    fn sets_the_socket_options_of_a_connection() {
        let socket = socket::stream(AddressFamily::Inet6).expect("a socket");
        let probes = KeepAlive { idle: Some(Duration::from_secs(60)), interval: None, count: Some(3) };
        assert_eq!(set_keep_alive(&socket, probes), Ok(()));
        assert_eq!(sockopt::tcp_keepcnt(&socket), Ok(3));
        assert_eq!(set_no_delay(&socket, true), Ok(()));
        assert_eq!(set_v6_only(&socket, true), Ok(()));
        assert_eq!(set_quick_ack(&socket, false), Ok(()));
        assert_eq!(set_send_buffer(&socket, 65_536), Ok(()));
    }

    #[test]
    fn rejects_a_type_of_service_for_unix_sockets() {
        let (socket, _) = socket::stream_pair().expect("a pair");
        assert_eq!(set_tos(&socket, AddressFamily::Unix, 8), Err(Errno::OPNOTSUPP));
    }
}
