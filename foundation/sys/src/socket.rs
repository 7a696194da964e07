//! Creating sockets, and sending and receiving data.
//!
//! Every socket created here is non-blocking and close-on-exec. No function raises `SIGPIPE` for a socket.

use crate::{Address, AddressFamily, Result};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType};
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

/// Creates a stream socket of `family`.
pub fn stream(family: AddressFamily) -> Result<OwnedFd> {
    rustix::net::socket_with(family.to_kernel(), SocketType::STREAM, FLAGS, None)
}

/// Creates an MPTCP socket (RFC 8684), which falls back to TCP if the peer lacks MPTCP.
pub fn multipath_stream(family: AddressFamily) -> Result<OwnedFd> {
    let protocol = Some(rustix::net::ipproto::MPTCP);
    rustix::net::socket_with(family.to_kernel(), SocketType::STREAM, FLAGS, protocol)
}

/// Whether an error of [`multipath_stream`] means that MPTCP is unsupported or disabled in the kernel.
pub fn lacks_multipath(error: crate::Errno) -> bool {
    matches!(error, crate::Errno::NOPROTOOPT | crate::Errno::PROTONOSUPPORT | crate::Errno::INVAL)
}

/// Whether the protocol of a socket is MPTCP.
pub fn is_multipath(socket: impl AsFd) -> bool {
    rustix::net::sockopt::socket_protocol(socket) == Ok(Some(rustix::net::ipproto::MPTCP))
}

/// Creates a datagram socket (logs over UDP or a UNIX socket).
pub fn datagram(family: AddressFamily) -> Result<OwnedFd> {
    rustix::net::socket_with(family.to_kernel(), SocketType::DGRAM, FLAGS, None)
}

/// Creates a pair of connected UNIX stream sockets.
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(rustix::net::AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)
}

/// Creates a pair of connected UNIX `SOCK_SEQPACKET` sockets, which preserve message boundaries and report when the peer is closed.
pub fn message_pair() -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(rustix::net::AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}

/// Binds to `address`.
pub fn bind(socket: impl AsFd, address: &Address) -> Result<()> {
    rustix::net::bind(socket, &address.to_kernel()?)
}

/// Starts to listen, with an accept queue of `backlog` connections.
pub fn listen(socket: impl AsFd, backlog: i32) -> Result<()> {
    rustix::net::listen(socket, backlog)
}

/// Accepts one connection as a non-blocking socket. [`crate::Errno::AGAIN`] if the accept queue is empty.
pub fn accept(socket: impl AsFd) -> Result<(OwnedFd, Address)> {
    let (accepted, peer) = rustix::net::acceptfrom_with(socket, FLAGS)?;
    Ok((accepted, peer.as_ref().map(Address::from_kernel).unwrap_or_default()))
}

/// Starts to connect. `true` if the connection is already established (UNIX sockets), `false` if it is in progress.
/// Then wait until the socket is writable and call [`take_error`] for the result.
pub fn connect(socket: impl AsFd, address: &Address) -> Result<bool> {
    match rustix::net::connect(socket, &address.to_kernel()?) {
        Ok(()) => Ok(true),
        Err(crate::Errno::INPROGRESS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Polls the result after [`connect`] returned `false`. `true` if the connection is established, `false` if still in progress,
/// the error if it failed.
pub fn connect_again(socket: impl AsFd, address: &Address) -> Result<bool> {
    match rustix::net::connect(socket, &address.to_kernel()?) {
        Ok(()) | Err(crate::Errno::ISCONN) => Ok(true),
        Err(crate::Errno::ALREADY | crate::Errno::INPROGRESS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Resets a TCP connection. The socket can then be connected again.
pub fn disconnect(socket: impl AsFd) -> Result<()> {
    rustix::net::connect_unspec(socket)
}

/// Stops a bound datagram socket from receiving, by connecting it to its own address. Datagrams to the address go to
/// other sockets bound to it, or are refused. [`hear_everybody`] undoes this if the socket was bound to an explicit
/// port.
pub fn hear_nobody(socket: impl AsFd) -> Result<()> {
    let own = rustix::net::getsockname(&socket)?;
    rustix::net::connect(socket, &own)
}

/// Lets a datagram socket receive from all senders again, by disconnecting it.
pub fn hear_everybody(socket: impl AsFd) -> Result<()> {
    rustix::net::connect_unspec(socket)
}

/// Returns and clears the pending error of a socket (`SO_ERROR`), for example of a refused connection.
pub fn take_error(socket: impl AsFd) -> Result<()> {
    rustix::net::sockopt::socket_error(socket)?
}

/// The local address (`getsockname`).
pub fn local_address(socket: impl AsFd) -> Result<Address> {
    rustix::net::getsockname(socket).map(|address| Address::from_kernel(&address))
}

/// The peer's address (`getpeername`).
pub fn peer_address(socket: impl AsFd) -> Result<Address> {
    let address = rustix::net::getpeername(socket)?;
    Ok(address.as_ref().map(Address::from_kernel).unwrap_or_default())
}

/// Whether the socket is listening (`SO_ACCEPTCONN`).
pub fn is_listening(socket: impl AsFd) -> Result<bool> {
    rustix::net::sockopt::socket_acceptconn(socket)
}

/// Receives into `space`. 0 means EOF.
#[inline]
pub fn receive(socket: impl AsFd, space: &mut [u8]) -> Result<usize> {
    rustix::net::recv(socket, space, RecvFlags::DONTWAIT).map(|(stored, _)| stored)
}

/// Receives one datagram. Returns its length and sender. Bytes beyond `space` are discarded.
pub fn receive_from(socket: impl AsFd, space: &mut [u8]) -> Result<(usize, Address)> {
    let (stored, _, from) = rustix::net::recvfrom(socket, space, RecvFlags::DONTWAIT)?;
    Ok((stored, from.as_ref().map(Address::from_kernel).unwrap_or_default()))
}

/// Like [`receive`], but leaves the bytes in the socket (`MSG_PEEK`).
pub fn peek(socket: impl AsFd, space: &mut [u8]) -> Result<usize> {
    rustix::net::recv(socket, space, RecvFlags::DONTWAIT | RecvFlags::PEEK).map(|(stored, _)| stored)
}

/// Sends as much of `bytes` as the send buffer accepts. With `more`, the kernel may delay a partial packet for further data (`MSG_MORE`).
#[inline]
pub fn send(socket: impl AsFd, bytes: &[u8], more: bool) -> Result<usize> {
    rustix::net::send(socket, bytes, send_flags(more))
}

/// Sends as much of `slices` as the send buffer accepts, in order. `more` as in [`send`].
#[inline]
pub fn send_vectored(socket: impl AsFd, slices: &[IoSlice<'_>], more: bool) -> Result<usize> {
    rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), send_flags(more))
}

/// Sends one datagram to `address`.
pub fn send_to(socket: impl AsFd, bytes: &[u8], address: &Address) -> Result<usize> {
    rustix::net::sendto(socket, bytes, send_flags(false), &address.to_kernel()?)
}

/// Sends one datagram of several slices to `address`.
pub fn send_vectored_to(socket: impl AsFd, slices: &[IoSlice<'_>], address: &Address) -> Result<usize> {
    let address = address.to_kernel()?;
    let control = &mut SendAncillaryBuffer::default();
    rustix::net::sendmsg_addr(socket, &address, slices, control, send_flags(false))
}

/// Shuts down the write direction (sends a FIN).
pub fn shutdown_write(socket: impl AsFd) -> Result<()> {
    rustix::net::shutdown(socket, Shutdown::Write)
}

/// Shuts down both directions.
pub fn shutdown_both(socket: impl AsFd) -> Result<()> {
    rustix::net::shutdown(socket, Shutdown::Both)
}

/// Makes an inherited descriptor non-blocking.
pub fn set_nonblocking(socket: impl AsFd) -> Result<()> {
    rustix::io::ioctl_fionbio(socket, true)
}

/// Whether a descriptor is a socket that preserves message boundaries. False for stream sockets and for other descriptors.
pub fn keeps_messages_apart(descriptor: impl AsFd) -> bool {
    matches!(rustix::net::sockopt::socket_type(descriptor), Ok(SocketType::DGRAM | SocketType::SEQPACKET))
}

/// Reads from a descriptor that is not a socket.
pub fn read(descriptor: impl AsFd, space: &mut [u8]) -> Result<usize> {
    rustix::io::read(descriptor, space)
}

/// Writes to a descriptor that is not a socket.
pub fn write(descriptor: impl AsFd, bytes: &[u8]) -> Result<usize> {
    rustix::io::write(descriptor, bytes)
}

/// Maximum number of slices per vectored call (`IOV_MAX`).
pub const MOST_SLICES: usize = 1024;

#[inline]
fn send_flags(more: bool) -> SendFlags {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if more { flags | SendFlags::MORE } else { flags }
}

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;
    use std::net::Ipv4Addr;

    #[test]
    fn distinguishes_datagram_sockets_from_streams() {
        let (stream, _) = stream_pair().expect("a pair");
        assert!(!keeps_messages_apart(&stream));
        assert!(keeps_messages_apart(datagram(AddressFamily::Inet).expect("a socket")));
        assert!(!keeps_messages_apart(std::fs::File::open("/dev/null").expect("is there")));
    }

    #[test]
    fn a_tcp_connection_over_loopback_transfers_bytes_and_a_fin() {
        let listener = stream(AddressFamily::Inet).expect("a socket");
        bind(&listener, &Address::from((Ipv4Addr::LOCALHOST, 0))).expect("any port is free");
        listen(&listener, 8).expect("bound");
        assert_eq!(accept(&listener).err(), Some(Errno::AGAIN));
        assert_eq!(is_listening(&listener), Ok(true));
        let client = stream(AddressFamily::Inet).expect("a socket");
        let address = local_address(&listener).expect("bound");
        connect(&client, &address).expect("starts");
        let (server, peer) = accept(&listener).expect("loopback connects at once");
        assert_eq!(take_error(&client), Ok(()));
        assert_eq!(local_address(&client).as_ref(), Ok(&peer));
        assert_eq!(peer_address(&client), Ok(address));

        let mut space = [0; 16];
        assert_eq!(receive(&server, &mut space), Err(Errno::AGAIN));
        let slices = [IoSlice::new(b"he"), IoSlice::new(b"llo")];
        assert_eq!(send_vectored(&client, &slices, false), Ok(5));
        assert_eq!(peek(&server, &mut space), Ok(5));
        assert_eq!((receive(&server, &mut space), &space[..5]), (Ok(5), &b"hello"[..]));
        shutdown_write(&client).expect("connected");
        assert_eq!(receive(&server, &mut space), Ok(0));
    }

    #[test]
    fn is_multipath_reports_whether_a_socket_uses_mptcp() {
        assert!(!is_multipath(stream(AddressFamily::Inet).expect("a socket")));
        match multipath_stream(AddressFamily::Inet) {
            Ok(socket) => assert!(is_multipath(socket)),
            Err(error) => assert!(lacks_multipath(error), "{error}"),
        }
    }

    #[test]
    fn sending_to_a_closed_peer_returns_epipe_without_a_signal() {
        let (near, far) = stream_pair().expect("a pair");
        drop(far);
        assert_eq!(send(&near, b"x", false), Err(Errno::PIPE));
    }

    #[test]
    fn a_udp_socket_with_receiving_disabled_leaves_datagrams_to_another() {
        for ip in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
            let bound = |address: &Address| {
                let socket = datagram(AddressFamily::Inet).expect("a socket");
                crate::option::set_reuse_port(&socket).expect("an option");
                bind(&socket, address).expect("a port");
                socket
            };
            let Ok(Address::Inet(free)) = local_address(bound(&Address::from((ip, 0)))) else {
                panic!("an address of the network")
            };
            // Disconnecting releases a port selected by the kernel.
            let first = bound(&Address::from((ip, free.port())));
            let to = Address::from((Ipv4Addr::LOCALHOST, free.port()));
            let (sender, mut space) = (datagram(AddressFamily::Inet).expect("a socket"), [0; 8]);
            hear_nobody(&first).expect("a bound socket");
            send_to(&sender, b"lost", &to).expect("a datagram");
            assert_eq!(receive(&first, &mut space), Err(crate::Errno::AGAIN));
            let second = bound(&Address::from((ip, free.port())));
            send_to(&sender, b"two", &to).expect("a datagram");
            assert_eq!(receive(&second, &mut space), Ok(3));
            drop(second);
            hear_everybody(&first).expect("a bound socket");
            send_to(&sender, b"three", &to).expect("a datagram");
            assert_eq!(receive(&first, &mut space), Ok(5));
        }
    }

    #[test]
    fn passes_datagrams_between_abstract_names() {
        let receiver = datagram(AddressFamily::Unix).expect("a socket");
        let name = format!("weir-sys-test-{}", std::process::id());
        let address = Address::Abstract(name.into_bytes().into());
        bind(&receiver, &address).expect("the name is ours");
        let sender = datagram(AddressFamily::Unix).expect("a socket");
        let slices = [IoSlice::new(b"a "), IoSlice::new(b"log")];
        assert_eq!(send_vectored_to(&sender, &slices, &address), Ok(5));
        assert_eq!(send_to(&sender, b"line", &address), Ok(4));
        let mut space = [0; 16];
        assert_eq!((receive(&receiver, &mut space), &space[..5]), (Ok(5), &b"a log"[..]));
    }
}
