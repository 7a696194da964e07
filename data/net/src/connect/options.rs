//! Socket options that are set before connecting.

use std::os::fd::OwnedFd;
use std::time::Duration;

use weir_sys::option::{self, KeepAlive};

/// Options of an outgoing connection. An option that the kernel refuses keeps its default, and the connection is still
/// used. Small packets are always sent at once (`TCP_NODELAY`), because the caller combines data that belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Keep-alive probes on an idle connection (`option srvtcpka`). `None` disables them.
    pub keep_alive: Option<KeepAlive>,
    /// How long sent data may stay unacknowledged (`tcp-ut`).
    pub user_timeout: Option<Duration>,
    /// The first data travels in the first packet (`tfo`).
    pub fast_open: bool,
    /// Closing resets the connection (`option nolinger`).
    pub no_linger: bool,
    /// The last packet of the handshake waits for data (`option tcp-smart-connect`).
    pub delays_acknowledgement: bool,
    /// The connection speaks MPTCP, if kernel and peer can (`mptcp@`).
    pub multipath: bool,
    /// Sizes of the kernel's buffers.
    pub sizes: SocketSizes,
}

/// Sizes of the kernel's buffers for a connection. `None` keeps the kernel's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketSizes {
    /// `tune.rcvbuf.*`, in bytes.
    pub receive_buffer: Option<u32>,
    /// `tune.sndbuf.*`, in bytes.
    pub send_buffer: Option<u32>,
    /// `tune.notsent-lowat.*`, in bytes.
    pub unsent_low_mark: Option<u32>,
}

impl SocketSizes {
    /// Sets the sizes of a socket. A size that the kernel refuses keeps its default.
    pub fn apply(&self, socket: &OwnedFd) {
        if let Some(bytes) = self.receive_buffer {
            let _ = option::set_receive_buffer(socket, bytes as usize);
        }
        if let Some(bytes) = self.send_buffer {
            let _ = option::set_send_buffer(socket, bytes as usize);
        }
        if let Some(bytes) = self.unsent_low_mark {
            let _ = option::set_unsent_low_mark(socket, bytes);
        }
    }
}

impl ConnectOptions {
    /// Sets the options that exist for TCP only.
    pub(super) fn apply(&self, socket: &OwnedFd) {
        let _ = option::set_no_delay(socket, true);
        if let Some(parameters) = self.keep_alive {
            let _ = option::set_keep_alive(socket, parameters);
        }
        if let Some(timeout) = self.user_timeout {
            let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
            let _ = option::set_user_timeout(socket, milliseconds);
        }
        if self.fast_open {
            let _ = option::set_fast_open_connect(socket);
        }
        if self.no_linger {
            let _ = option::set_no_linger(socket);
        }
        if self.delays_acknowledgement {
            let _ = option::set_quick_ack(socket, false);
        }
    }
}
