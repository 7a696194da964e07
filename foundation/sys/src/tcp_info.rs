//! The kernel's measurements of a TCP connection (`fc_rtt` and others).

use crate::Result;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// The parts of `struct tcp_info` that sample fetches can read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// TCP state in the kernel's numbering (1 is established).
    pub state: u8,
    /// Smoothed round trip time, in microseconds.
    pub rtt_us: u32,
    /// Its mean deviation, in microseconds.
    pub rtt_variance_us: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Segments known to have arrived out of order.
    pub sacked: u32,
    pub lost: u32,
    pub retransmits: u32,
    /// Total number of retransmitted segments.
    pub total_retransmits: u32,
    /// Reordering tolerance, in segments.
    pub reordering: u32,
    /// Congestion window, in segments.
    pub congestion_window: u32,
    /// Maximum segment size for sending, in bytes.
    pub send_mss: u32,
}

/// Queries the kernel about a TCP socket.
pub fn tcp_info(socket: impl AsFd) -> Result<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `length` bytes to a structure of that size.
    let status = unsafe { libc::getsockopt(descriptor, level, name, info.as_mut_ptr().cast(), &mut length) };
    crate::process::status(status)?;
    // SAFETY: a structure of plain numbers, for which zeros are valid, partly overwritten by the kernel.
    let info = unsafe { info.assume_init() };
    Ok(TcpInfo {
        state: info.tcpi_state,
        rtt_us: info.tcpi_rtt,
        rtt_variance_us: info.tcpi_rttvar,
        unacked: info.tcpi_unacked,
        sacked: info.tcpi_sacked,
        lost: info.tcpi_lost,
        retransmits: info.tcpi_retrans,
        total_retransmits: info.tcpi_total_retrans,
        reordering: info.tcpi_reordering,
        congestion_window: info.tcpi_snd_cwnd,
        send_mss: info.tcpi_snd_mss,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AddressFamily, Errno, socket};

    #[test]
    fn only_tcp_sockets_have_tcp_info() {
        let (unix, _) = socket::stream_pair().expect("a pair");
        assert_eq!(tcp_info(&unix), Err(Errno::OPNOTSUPP));
        let tcp = socket::stream(AddressFamily::Inet).expect("a socket");
        assert!(tcp_info(&tcp).expect("a TCP socket").send_mss > 0);
    }
}
