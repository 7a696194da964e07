//! UNIX log sockets outside of the root directory.
//!
//! After `chroot` the path of a log socket such as `/dev/log` does not resolve. A descriptor of its directory would survive the
//! `chroot`, but would also allow an escape from the root directory. So a small process stays outside: the connector. It connects
//! only to paths of the configuration.
//!
//! ```text
//! worker ── line that found no socket ──► connector ── connect(2), the line ──► log socket
//!    ▲                                        │                                    ▲
//!    └──────── the connected socket ◄─────────┘                                    │
//!    └───────────────────────────────── all later lines ───────────────────────────┘
//! ```
//!
//! When the log daemon restarts, sends on the worker's socket fail, and the next line goes through the connector again. Neither
//! side ever blocks on the other.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use weir_sync::VersionCell;
use weir_sys::{Address, Errno, pass, poll, socket};

use crate::datagrams::{LONGEST_LENGTH, connect_datagrams};
use crate::outage::Outage;

/// The worker process's end of the channel to the connector.
#[derive(Debug)]
pub struct Connector {
    channel: OwnedFd,
    targets: Box<[LogSocket]>,
    /// Number of requests without a reply yet.
    pending: AtomicU32,
    /// Lines that the connector failed to deliver.
    lost: AtomicU64,
    /// Lets only one thread read replies at a time.
    replies: Mutex<()>,
}

#[derive(Debug)]
struct LogSocket {
    path: PathBuf,
    /// The socket of the latest connection; `None` before the first one.
    connected: VersionCell<Option<OwnedFd>>,
    outage: Outage,
}

/// Creates the two sockets of a connector's channel: for [`install`], for [`serve`].
///
/// # Errors
/// When the kernel cannot create sockets.
pub fn channel() -> weir_sys::Result<(OwnedFd, OwnedFd)> {
    socket::message_pair()
}

/// Installs the process-wide connector for the log sockets at `paths`. Call it once, before the first line.
pub fn install(channel: OwnedFd, paths: &[PathBuf]) {
    let target = |path: &PathBuf| LogSocket {
        path: path.clone(),
        connected: VersionCell::default(),
        outage: Outage::default(),
    };
    let targets = paths.iter().map(target).collect();
    let connector = Connector {
        channel,
        targets,
        pending: AtomicU32::new(0),
        lost: AtomicU64::new(0),
        replies: Mutex::default(),
    };
    // A second call cannot happen, since the process starts once.
    let _ = INSTALLED.set(connector);
}

/// The connector of this process, if it changed its root directory.
pub fn installed() -> Option<&'static Connector> {
    INSTALLED.get()
}

static INSTALLED: OnceLock<Connector> = OnceLock::new();

impl Connector {
    /// Sends a line over the existing connection to a path.
    ///
    /// # Errors
    /// `NOENT` for a path of another process's configuration, `NOTCONN` before the first connection, and errors of the socket.
    pub(crate) fn send(&self, path: &Path, line: &[u8]) -> weir_sys::Result<()> {
        let target = self.targets.iter().find(|target| target.path == path).ok_or(Errno::NOENT)?;
        let connected = target.connected.load();
        let connected = connected.as_ref().as_ref().ok_or(Errno::NOTCONN)?;
        socket::send(connected, line, false).map(drop)
    }

    /// Requests a new connection and the delivery of `line` from the connector. `Ok` means that the request was sent. A
    /// later failure is counted in [`Connector::lost`].
    ///
    /// # Errors
    /// `NOENT` for an unknown path, `AGAIN` with [`PENDING_MAX`] pending requests.
    pub(crate) fn hand_over(&self, path: &Path, line: &[u8]) -> weir_sys::Result<()> {
        let index = self.targets.iter().position(|target| target.path == path).ok_or(Errno::NOENT)?;
        self.read_replies();
        if self.pending.fetch_add(1, Relaxed) >= PENDING_MAX {
            self.pending.fetch_sub(1, Relaxed);
            return Err(Errno::AGAIN);
        }
        let number = (index as u32).to_ne_bytes();
        let request = [std::io::IoSlice::new(&number), std::io::IoSlice::new(line)];
        let sent = socket::send_vectored(&self.channel, &request, false);
        if sent.is_err() {
            self.pending.fetch_sub(1, Relaxed);
        }
        sent.map(drop)
    }

    /// Ends the outage of a path after a direct send inside the root directory succeeded.
    pub(crate) fn found_inside(&self, path: &Path) {
        if let Some(target) = self.targets.iter().find(|target| target.path == path) {
            target.outage.end();
        }
    }

    /// Opens the connection to a path, and waits up to `limit_ms` for the result. For startup only.
    ///
    /// # Errors
    /// The reason why the connection failed.
    pub fn probe(&self, path: &Path, limit_ms: u32) -> weir_sys::Result<()> {
        self.hand_over(path, b"")?;
        poll::wait_readable(&self.channel, limit_ms)?;
        self.read_replies();
        let target = self.targets.iter().find(|target| target.path == path).ok_or(Errno::NOENT)?;
        if target.connected.load().is_some() {
            Ok(())
        } else {
            Err(target.outage.error().unwrap_or(Errno::TIMEDOUT))
        }
    }

    /// Number of lines handed to the connector and not delivered.
    pub fn lost(&self) -> u64 {
        self.read_replies();
        self.lost.load(Relaxed)
    }

    fn read_replies(&self) {
        let Ok(_reading) = self.replies.try_lock() else { return };
        let mut space = [0; REPLY];
        while self.pending.load(Relaxed) > 0
            && let Ok((REPLY, sockets)) = pass::receive_descriptors(&self.channel, &mut space)
        {
            self.pending.fetch_sub(1, Relaxed);
            if let Some(reply) = ConnectReply::from_bytes(space) {
                self.apply(reply, sockets.into_iter().next());
            }
        }
    }

    fn apply(&self, reply: ConnectReply, connected: Option<OwnedFd>) {
        let Some(target) = self.targets.get(reply.index as usize) else { return };
        if let Some(connected) = connected {
            target.connected.publish(Some(connected));
        }
        match reply.error {
            None => target.outage.end(),
            Some(error) => {
                self.lost.fetch_add(u64::from(reply.lines_lost), Relaxed);
                target.outage.begin(&target.path.display(), error);
            }
        }
    }
}

/// Main loop of the connector process. Serves requests of `channel` until the other end is closed.
pub fn serve(channel: &OwnedFd, paths: &[PathBuf]) {
    let mut connected: Vec<Option<OwnedFd>> = paths.iter().map(|_| None).collect();
    let mut request = vec![0; INDEX + LONGEST_LENGTH];
    loop {
        match socket::receive(channel, &mut request) {
            Err(Errno::AGAIN | Errno::INTR) => drop(poll::wait_readable(channel, IDLE_MS)),
            Ok(0) | Err(_) => return,
            Ok(length) => {
                let Some((number, line)) = request[..length].split_first_chunk::<INDEX>() else { continue };
                let index = u32::from_ne_bytes(*number);
                if let (Some(path), Some(slot)) =
                    (paths.get(index as usize), connected.get_mut(index as usize))
                {
                    let error = deliver(path, slot, line).err();
                    let lines_lost = u32::from(error.is_some() && !line.is_empty());
                    ConnectReply { index, error, lines_lost }.send(channel, slot.as_ref());
                }
            }
        }
    }
}

/// Sends a line over the connection in `slot`, or over a new connection.
fn deliver(path: &Path, slot: &mut Option<OwnedFd>, line: &[u8]) -> weir_sys::Result<()> {
    if let Some(connected) = slot
        && let sent @ (Ok(()) | Err(Errno::AGAIN)) = send_line(connected, line)
    {
        return sent;
    }
    *slot = None;
    let connected = connect_datagrams(&Address::Unix(path.to_owned()))?;
    send_line(slot.insert(connected), line)
}

/// Sends a line. For an empty line, only checks the connection for an error.
fn send_line(connected: &OwnedFd, line: &[u8]) -> weir_sys::Result<()> {
    if line.is_empty() {
        socket::take_error(connected)
    } else {
        socket::send(connected, line, false).map(drop)
    }
}

/// The result of a request.
struct ConnectReply {
    index: u32,
    /// The reason for a failure.
    error: Option<Errno>,
    /// 1 if the line was not delivered, otherwise 0.
    lines_lost: u32,
}

impl ConnectReply {
    /// Sends the result together with the connected socket (`SCM_RIGHTS`).
    fn send(&self, channel: &OwnedFd, connected: Option<&OwnedFd>) {
        let error = self.error.map_or(0, Errno::raw_os_error) as u32;
        let bytes = [self.index, error, self.lines_lost].map(u32::to_ne_bytes).concat();
        let descriptors: Vec<_> = connected.into_iter().map(AsFd::as_fd).collect();
        // The other end bounds the number of replies, so the socket buffer has space. If the other end is closed, the
        // next receive ends the process.
        let _ = pass::send_descriptors(channel, &bytes, &descriptors);
    }

    fn from_bytes(bytes: [u8; REPLY]) -> Option<ConnectReply> {
        let (numbers, _) = bytes.as_chunks::<INDEX>();
        let &[index, error, lines_lost] = numbers else { return None };
        let error = i32::from_ne_bytes(error);
        Some(ConnectReply {
            index: u32::from_ne_bytes(index),
            error: (error != 0).then(|| Errno::from_raw_os_error(error)),
            lines_lost: u32::from_ne_bytes(lines_lost),
        })
    }
}

/// Size of a path's index before the line, in bytes.
const INDEX: usize = size_of::<u32>();
/// Size of a reply in bytes.
const REPLY: usize = 3 * size_of::<u32>();
/// Maximum number of requests without a reply. It is reached only if the connector hangs.
const PENDING_MAX: u32 = 64;
/// Maximum wait of an idle connector for a request, in milliseconds.
const IDLE_MS: u32 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    #[test]
    fn log_lines_reach_a_recreated_syslog_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let listen = || {
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket
        };
        let (near, far) = channel().unwrap();
        let paths = vec![path.clone()];
        install(near, &paths);
        let process = std::thread::spawn(move || serve(&far, &paths));
        let connector = installed().unwrap();
        assert_eq!(connector.probe(&path, 10_000), Err(Errno::NOENT));
        assert_eq!(connector.hand_over(Path::new("/other"), b"x"), Err(Errno::NOENT));

        let mut space = [0; 16];
        for _ in 0..2 {
            let daemon = listen();
            assert!(connector.send(&path, b"direct").is_err());
            connector.hand_over(&path, b"first").unwrap();
            assert_eq!(daemon.recv(&mut space).unwrap(), 5);
            poll::wait_readable(&connector.channel, 10_000).unwrap();
            connector.read_replies();
            connector.send(&path, b"second").unwrap();
            assert_eq!(daemon.recv(&mut space).unwrap(), 6);
            drop(daemon);
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(connector.lost(), 0);
        connector.hand_over(&path, b"late").unwrap();
        poll::wait_readable(&connector.channel, 10_000).unwrap();
        assert_eq!(connector.lost(), 1);
        socket::shutdown_both(&connector.channel).unwrap();
        process.join().unwrap();
    }
}
