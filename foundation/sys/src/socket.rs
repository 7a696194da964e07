//! Sockets: making them, and moving bytes through them.
//!
//! Every socket made here is non-blocking and closed on exec. Nothing raises `SIGPIPE`.

use crate::{Address, AddressFamily, Result};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType};
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

/// Makes a stream socket of the family that `address` needs.
pub fn stream(family: AddressFamily) -> Result<OwnedFd> {
    rustix::net::socket_with(family.to_kernel(), SocketType::STREAM, FLAGS, None)
}

/// Makes a stream socket that speaks MPTCP (RFC 8684), and TCP with peers that do not.
pub fn multipath_stream(family: AddressFamily) -> Result<OwnedFd> {
    let protocol = Some(rustix::net::ipproto::MPTCP);
    rustix::net::socket_with(family.to_kernel(), SocketType::STREAM, FLAGS, protocol)
}

/// Whether an error of [`multipath_stream`] means that the kernel does not speak MPTCP, or must not.
pub fn lacks_multipath(error: crate::Errno) -> bool {
    matches!(error, crate::Errno::NOPROTOOPT | crate::Errno::PROTONOSUPPORT | crate::Errno::INVAL)
}

/// Whether a socket speaks MPTCP.
pub fn is_multipath(socket: impl AsFd) -> bool {
    rustix::net::sockopt::socket_protocol(socket) == Ok(Some(rustix::net::ipproto::MPTCP))
}

/// Makes a datagram socket (logs over UDP or a UNIX socket).
pub fn datagram(family: AddressFamily) -> Result<OwnedFd> {
    rustix::net::socket_with(family.to_kernel(), SocketType::DGRAM, FLAGS, None)
}

/// Makes a pair of connected stream sockets.
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(rustix::net::AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)
}

/// Makes a pair of connected sockets that preserve message boundaries and report the end of the far side.
pub fn message_pair() -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(rustix::net::AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}

/// Binds to `address`.
pub fn bind(socket: impl AsFd, address: &Address) -> Result<()> {
    rustix::net::bind(socket, &address.to_kernel()?)
}

/// Starts to listen, with room for `backlog` connections that are not accepted yet.
pub fn listen(socket: impl AsFd, backlog: i32) -> Result<()> {
    rustix::net::listen(socket, backlog)
}

/// Accepts one connection; the new socket is non-blocking. [`crate::Errno::AGAIN`] if the queue is empty.
pub fn accept(socket: impl AsFd) -> Result<(OwnedFd, Address)> {
    let (accepted, peer) = rustix::net::acceptfrom_with(socket, FLAGS)?;
    Ok((accepted, peer.as_ref().map(Address::from_kernel).unwrap_or_default()))
}

/// Starts to connect. `true` when the connection is already established (UNIX sockets), `false` when it is in progress:
/// then the result is known once the socket turns writable; [`take_error`] returns it.
pub fn connect(socket: impl AsFd, address: &Address) -> Result<bool> {
    match rustix::net::connect(socket, &address.to_kernel()?) {
        Ok(()) => Ok(true),
        Err(crate::Errno::INPROGRESS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks again after [`connect`] returned `false`: `true` when the connection is established by now. The error, if it failed.
pub fn connect_again(socket: impl AsFd, address: &Address) -> Result<bool> {
    match rustix::net::connect(socket, &address.to_kernel()?) {
        Ok(()) | Err(crate::Errno::ISCONN) => Ok(true),
        Err(crate::Errno::ALREADY | crate::Errno::INPROGRESS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends a TCP connection with a reset, and leaves the socket as one that can be connected again.
pub fn disconnect(socket: impl AsFd) -> Result<()> {
    rustix::net::connect_unspec(socket)
}

/// Stops a bound datagram socket from receiving: it is connected to itself. Datagrams for its address meanwhile go to
/// other sockets there, or are refused. [`hear_everybody`] undoes it, if the socket was bound to an explicit port.
pub fn hear_nobody(socket: impl AsFd) -> Result<()> {
    let own = rustix::net::getsockname(&socket)?;
    rustix::net::connect(socket, &own)
}

/// Lets a datagram socket receive from every sender again.
pub fn hear_everybody(socket: impl AsFd) -> Result<()> {
    rustix::net::connect_unspec(socket)
}

/// Takes the pending error of a socket (a refused connection, for example) and clears it (`SO_ERROR`).
pub fn take_error(socket: impl AsFd) -> Result<()> {
    rustix::net::sockopt::socket_error(socket)?
}

/// The address of the near end.
pub fn local_address(socket: impl AsFd) -> Result<Address> {
    rustix::net::getsockname(socket).map(|address| Address::from_kernel(&address))
}

/// The address of the far end.
pub fn peer_address(socket: impl AsFd) -> Result<Address> {
    let address = rustix::net::getpeername(socket)?;
    Ok(address.as_ref().map(Address::from_kernel).unwrap_or_default())
}

/// Whether the socket listens.
pub fn is_listening(socket: impl AsFd) -> Result<bool> {
    rustix::net::sockopt::socket_acceptconn(socket)
}

/// Receives into `space`; 0 means that the far end sends no more.
#[inline]
pub fn receive(socket: impl AsFd, space: &mut [u8]) -> Result<usize> {
    rustix::net::recv(socket, space, RecvFlags::DONTWAIT).map(|(stored, _)| stored)
}

/// Receives one datagram and returns its sender. Bytes beyond `space` are lost.
pub fn receive_from(socket: impl AsFd, space: &mut [u8]) -> Result<(usize, Address)> {
    let (stored, _, from) = rustix::net::recvfrom(socket, space, RecvFlags::DONTWAIT)?;
    Ok((stored, from.as_ref().map(Address::from_kernel).unwrap_or_default()))
}

/// Copies the bytes that [`receive`] would return and leaves them in the socket.
pub fn peek(socket: impl AsFd, space: &mut [u8]) -> Result<usize> {
    rustix::net::recv(socket, space, RecvFlags::DONTWAIT | RecvFlags::PEEK).map(|(stored, _)| stored)
}

/// Sends as much of `bytes` as fits; `more` announces that more follows at once, so a packet may wait for it.
#[inline]
pub fn send(socket: impl AsFd, bytes: &[u8], more: bool) -> Result<usize> {
    rustix::net::send(socket, bytes, send_flags(more))
}

/// Sends as much of several slices as fits, in order.
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

/// Announces the end of the data to the far end.
pub fn shutdown_write(socket: impl AsFd) -> Result<()> {
    rustix::net::shutdown(socket, Shutdown::Write)
}

/// Ends both directions.
pub fn shutdown_both(socket: impl AsFd) -> Result<()> {
    rustix::net::shutdown(socket, Shutdown::Both)
}

/// Makes a descriptor that came from elsewhere (a parent process) non-blocking.
pub fn set_nonblocking(socket: impl AsFd) -> Result<()> {
    rustix::io::ioctl_fionbio(socket, true)
}

/// Whether a descriptor is a socket that preserves message boundaries; false for a stream and for anything but a socket.
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

/// The most slices that one vectored call takes (`IOV_MAX`).
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
    fn connects_over_loopback() {
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
    fn sockets_report_their_protocol() {
        assert!(!is_multipath(stream(AddressFamily::Inet).expect("a socket")));
        match multipath_stream(AddressFamily::Inet) {
            Ok(socket) => assert!(is_multipath(socket)),
            Err(error) => assert!(lacks_multipath(error), "{error}"),
        }
    }

    #[test]
    fn a_closed_peer_is_an_error_and_no_signal() {
        let (near, far) = stream_pair().expect("a pair");
        drop(far);
        assert_eq!(send(&near, b"x", false), Err(Errno::PIPE));
    }

    #[test]
    fn a_socket_that_stopped_receiving_lets_another_one_receive() {
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
            // A port that the kernel chose would be given up with the connection.
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
