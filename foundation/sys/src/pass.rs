//! Passing descriptors to another process over a UNIX socket (`SCM_RIGHTS`).

use crate::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Sends `descriptors` with the first byte of `bytes`, which must not be empty. Returns the number of bytes sent.
pub fn send_descriptors(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<usize> {
    if descriptors.len() > MOST_DESCRIPTORS {
        return Err(Errno::TOOBIG);
    }
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
}

/// Receives bytes into `space`, and the descriptors sent with them. 0 bytes mean EOF. More than [`MOST_DESCRIPTORS`] in
/// one message are an error.
pub fn receive_descriptors(socket: impl AsFd, space: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    let mut ancillary = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut ancillary);
    let slices = &mut [IoSliceMut::new(space)];
    let message = rustix::net::recvmsg(socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for received in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = received {
            descriptors.extend(rights);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    Ok((message.bytes, descriptors))
}

/// Receives one connection passed over a socket pair (`sockpair@`), as a non-blocking socket. [`Errno::AGAIN`] if the queue is empty.
pub fn receive_connection(socket: impl AsFd) -> Result<OwnedFd> {
    let (_, descriptors) = receive_descriptors(socket, &mut [0])?;
    // Without a descriptor, the sender closed its end.
    let connection = descriptors.into_iter().next().ok_or(Errno::AGAIN)?;
    crate::socket::set_nonblocking(&connection)?;
    Ok(connection)
}

/// Connects over a socket pair (`sockpair@`): passes one end of a new pair, and returns the other.
pub fn pass_connection(socket: impl AsFd) -> Result<OwnedFd> {
    let (near, far) = crate::socket::stream_pair()?;
    send_descriptors(socket, b"c", &[far.as_fd()])?;
    Ok(near)
}

/// Maximum number of descriptors per message, a limit of the kernel (`SCM_MAX_FD`).
pub const MOST_DESCRIPTORS: usize = 253;
/// Buffer size for the control message with that many descriptors.
const SPACE: usize = rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;

    #[test]
    fn a_descriptor_is_passed_together_with_bytes() {
        let (here, there) = socket::stream_pair().expect("a pair");
        let (gift, other_end) = socket::stream_pair().expect("a pair");
        assert_eq!(send_descriptors(&here, b"take it", &[gift.as_fd()]), Ok(7));
        drop(gift);
        let mut space = [0; 32];
        let (count, descriptors) = receive_descriptors(&there, &mut space).expect("a message waits");
        assert_eq!((&space[..count], descriptors.len()), (&b"take it"[..], 1));
        socket::send(&descriptors[0], b"alive", false).expect("the pair lives on");
        assert_eq!(socket::receive(&other_end, &mut space), Ok(5));
    }

    #[test]
    fn a_socketpair_passes_new_connections() {
        let (here, there) = socket::stream_pair().expect("a pair");
        assert_eq!(receive_connection(&there).err(), Some(Errno::AGAIN));
        let client = pass_connection(&here).expect("there is room");
        let server = receive_connection(&there).expect("it was passed");
        socket::send(&client, b"hello", false).expect("it is a connection");
        let mut space = [0; 8];
        assert_eq!(socket::receive(&server, &mut space), Ok(5));
        drop(here);
        assert_eq!(receive_connection(&there).err(), Some(Errno::AGAIN));
    }

    #[test]
    fn too_many_passed_descriptors_are_refused() {
        let (here, _there) = socket::stream_pair().expect("a pair");
        let many = vec![here.as_fd(); MOST_DESCRIPTORS + 1];
        assert_eq!(send_descriptors(&here, b"x", &many), Err(Errno::TOOBIG));
    }
}
