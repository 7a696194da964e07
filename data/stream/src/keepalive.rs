//! TCP keep-alive, as `clitcpka-*` and `srvtcpka-*` set it.

use weir_model::TcpKeepAlive;
use weir_sys::option::KeepAlive;

/// The parameters for the kernel. The system's defaults apply to unset ones.
pub fn parameters(configured: &TcpKeepAlive) -> KeepAlive {
    KeepAlive { idle: configured.idle, interval: configured.interval, count: configured.count }
}
