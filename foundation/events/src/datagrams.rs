//! Datagram sockets for sending log lines.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_sys::{Address, AddressFamily, option, socket};

/// Maximum of `len` in the configuration.
pub const LONGEST_LENGTH: usize = 65_535;

/// Sets the send buffer size of datagram sockets in bytes (`tune.sndbuf.backend`). 0 keeps the kernel's default. Call it
/// before the first message.
pub fn size_datagram_sockets(bytes: u32) {
    SEND_BUFFER.store(bytes, Relaxed);
}

/// Opens a datagram socket for sending lines.
///
/// # Errors
/// When the kernel cannot create a socket. If the kernel refuses the size, the socket keeps its default.
pub fn open_datagrams(family: AddressFamily) -> weir_sys::Result<OwnedFd> {
    let socket = socket::datagram(family)?;
    let bytes = SEND_BUFFER.load(Relaxed);
    if bytes > 0 {
        let _ = option::set_send_buffer(&socket, bytes as usize);
    }
    Ok(socket)
}

/// A datagram socket that is connected to an address.
pub(crate) fn connect_datagrams(address: &Address) -> weir_sys::Result<OwnedFd> {
    let socket = open_datagrams(address.family())?;
    socket::connect(&socket, address)?;
    Ok(socket)
}

static SEND_BUFFER: AtomicU32 = AtomicU32::new(0);
