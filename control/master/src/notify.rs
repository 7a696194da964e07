//! Notifications to the service manager, in systemd's datagram protocol (sd_notify).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use weir_sys::{Address, AddressFamily, socket, time};

/// The service manager. Without one, notifications are dropped.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    address: Option<Address>,
}

impl Supervisor {
    /// The service manager at this socket (`NOTIFY_SOCKET`): a path, or `@` and an abstract name.
    pub fn new(name: Option<&OsStr>) -> Self {
        let address = name.and_then(|name| match name.as_bytes().split_first() {
            Some((b'@', name)) => Some(Address::Abstract(name.into())),
            Some((b'/', _)) => Some(Address::Unix(name.into())),
            _ => None,
        });
        Supervisor { address }
    }

    /// Reports that a worker is ready, the first one or a later one.
    pub fn ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS=Ready.\n", weir_sys::process::id()));
    }

    /// Reports the start of a reload.
    pub fn reloading(&self) {
        let now_us = time::monotonic_ns() / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=Reloading Configuration.\n"));
    }

    /// Reports a failed reload. The former worker continues.
    pub fn reload_failed(&self) {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS=Reload failed!\n", weir_sys::process::id()));
    }

    /// Reports that the first worker failed. The master then exits.
    pub fn start_failed(&self) {
        self.send("STATUS=Start failed!\n");
    }

    /// Reports that the master is stopping with its workers.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Stopping.\n");
    }

    /// Sends a notification. Errors are ignored.
    fn send(&self, text: &str) {
        let Some(address) = &self.address else { return };
        let sent = socket::datagram(AddressFamily::Unix)
            .and_then(|socket| socket::send_to(socket, text.as_bytes(), address));
        let _ = sent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn sends_ready_reload_and_stop_states_to_systemd() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).expect("a new path");
        let heard = || {
            let mut bytes = [0; 256];
            let length = systemd.recv(&mut bytes).expect("it was notified");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        let service = Supervisor::new(Some(path.as_os_str()));
        let me = std::process::id();
        service.ready();
        assert_eq!(heard(), format!("READY=1\nMAINPID={me}\nSTATUS=Ready.\n"));
        let before = time::monotonic_ns() / 1000;
        service.reloading();
        let text = heard();
        let number = text.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
        assert!(text.starts_with("RELOADING=1\n"), "{text}");
        assert!(number.is_some_and(|number| number.parse::<u64>().is_ok_and(|now| now >= before)), "{text}");
        service.reload_failed();
        assert!(heard().contains("STATUS=Reload failed!"));
        service.start_failed();
        assert_eq!(heard(), "STATUS=Start failed!\n", "and not that it is ready");
        service.stopping();
        assert!(heard().starts_with("STOPPING=1\n"));
    }

    #[test]
    fn an_absent_or_invalid_notify_socket_is_ignored() {
        for name in ["", "relative", "/nonexistent/notify"] {
            Supervisor::new(Some(OsStr::new(name))).ready();
        }
        Supervisor::new(None).ready();
    }
}
