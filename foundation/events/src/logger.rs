//! Log lines: their targets, their headers and their transport.
//!
//! A [`LogTarget`] is a parsed `log` line of the configuration. A [`LogSink`] is an open target, shared by all workers.
//! Each worker has one [`Logger`], which formats a line into a reused buffer and sends it with one non-blocking system
//! call, or queues it for the [writer thread](crate::writer) of a stream. A line that cannot be sent at once is dropped
//! and counted.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use weir_formats::WallTime;
use weir_sync::Ring;
use weir_sys::{Address, AddressFamily, Errno, process, socket};

use crate::calendar::{DateCache, ZoneOffset, push_padded};
use crate::connector::{self, Connector};
use crate::datagrams::{connect_datagrams, open_datagrams};
use crate::outage::Outage;
use crate::relayed_message::{RelayedMessage, write_relayed};
use crate::sampling::SampleRanges;
use crate::sink::Sinks;
use crate::syslog::{Facility, Level, SyslogFormat};
use crate::writer::Writer;

/// Default of `len`: the maximum that the oldest syslog daemons accept.
pub const DEFAULT_LENGTH: usize = 1024;

/// Minimum of `len` in the configuration.
pub const SHORTEST_LENGTH: usize = 80;

pub use crate::datagrams::LONGEST_LENGTH;

/// The destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogAddress {
    /// A syslog server over UDP or a UNIX datagram socket. One datagram per line.
    Socket(Address),
    /// An inherited descriptor (`fd@<n>`), either a datagram socket or a stream.
    Descriptor(i32),
    /// A ring (`ring@<name>`).
    Ring(String),
    /// The servers of a log backend, which balances the lines (`backend@<name>`).
    Servers(String),
}

impl std::fmt::Display for LogAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LogAddress::Socket(address) => write!(out, "{address}"),
            LogAddress::Descriptor(number) => write!(out, "fd@{number}"),
            LogAddress::Ring(name) => write!(out, "ring@{name}"),
            LogAddress::Servers(name) => write!(out, "backend@{name}"),
        }
    }
}

impl LogAddress {
    /// Standard output.
    pub const STDOUT: LogAddress = LogAddress::Descriptor(1);
    /// Standard error.
    pub const STDERR: LogAddress = LogAddress::Descriptor(2);
}

/// One `log` line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTarget {
    pub address: LogAddress,
    pub format: SyslogFormat,
    /// Relayed messages keep their own format, because the `log` line lacks a `format`.
    pub keeps_format: bool,
    /// Facility in the syslog priority number (RFC 5424, 6.2.1).
    pub facility: Facility,
    /// Messages less important than this are not sent.
    pub max_level: Level,
    /// More severe messages are sent with this level.
    pub min_level: Level,
    /// Maximum length of a line in bytes, including the final newline.
    pub max_length: usize,
    /// The messages of each sampling cycle to send. `None` sends all.
    pub sample: Option<SampleRanges>,
}

impl LogTarget {
    /// A target with the defaults for all optional parameters of a `log` line.
    pub fn new(address: LogAddress, facility: Facility) -> Self {
        Self {
            address,
            format: SyslogFormat::Local,
            keeps_format: false,
            facility,
            max_level: Level::Debug,
            min_level: Level::Emergency,
            max_length: DEFAULT_LENGTH,
            sample: None,
        }
    }
}

/// An open target, shared by all workers.
#[derive(Debug)]
pub struct LogSink {
    target: LogTarget,
    outlet: Outlet,
    /// Count of messages offered by all workers, for sampling.
    offered: AtomicU64,
    /// Lines dropped because sending failed. Written by several workers, but only on failure.
    dropped: AtomicU64,
    outage: Outage,
}

#[derive(Debug)]
enum Outlet {
    /// Each worker sends to it from its own socket.
    Address(Address),
    Datagrams(OwnedFd),
    Stream(Writer),
    Ring(Arc<Ring>),
    Servers(Arc<dyn LogServers>),
}

/// The servers of a log backend. The implementation selects one for each line.
pub trait LogServers: std::fmt::Debug + Send + Sync {
    /// Selects a server for a line of worker `thread` and sends the line through `sockets`, without blocking or queueing. `text`
    /// is the line without its header.
    ///
    /// # Errors
    /// The reason why the line was not sent. `AGAIN` if the failure is temporary.
    fn send(&self, thread: usize, text: &[u8], line: &[u8], sockets: &mut Sockets) -> weir_sys::Result<()>;
}

impl LogSink {
    /// Opens the target. `sinks` must contain its ring or servers. Call it after the last fork, which the writer thread
    /// of a stream would not survive. Fails if the descriptor is not open, the ring or the servers are missing, or the
    /// thread cannot be started.
    pub fn open(mut target: LogTarget, sinks: &Sinks) -> io::Result<Self> {
        let outlet = match &target.address {
            LogAddress::Ring(name) => {
                let sink = sinks.find_ring(name)?;
                // Messages in a ring do not end with a newline.
                target.max_length = target.max_length.min(sink.max_length.saturating_add(1));
                sink.as_ring().cloned().map(Outlet::Ring).expect("it was looked for among rings")
            }
            LogAddress::Servers(name) => Outlet::Servers(Arc::clone(sinks.find_servers(name)?)),
            LogAddress::Socket(address) => Outlet::Address(address.clone()),
            &LogAddress::Descriptor(number) => {
                let descriptor = process::duplicate_number(number)?;
                if socket::keeps_messages_apart(&descriptor) {
                    Outlet::Datagrams(descriptor)
                } else {
                    Outlet::Stream(Writer::start(descriptor, target.address.to_string())?)
                }
            }
        };
        Ok(Self {
            target,
            outlet,
            offered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            outage: Outage::default(),
        })
    }

    /// Reports an unreachable UNIX socket at startup, before the first line. Waits up to 2 seconds for the connector.
    pub fn probe(&self) {
        if let Outlet::Address(address @ Address::Unix(path)) = &self.outlet
            && let Err(here) = connect_datagrams(address)
        {
            match connector::installed() {
                Some(connector) => drop(connector.probe(path, PROBE_MS)),
                None => self.outage.begin(&self.target.address, here),
            }
        }
    }

    /// The target's settings.
    pub fn target(&self) -> &LogTarget {
        &self.target
    }

    /// Number of dropped lines, for `DroppedLogs` in `show info`.
    pub fn dropped(&self) -> u64 {
        let lost = match &self.outlet {
            Outlet::Stream(writer) => writer.lost(),
            _ => 0,
        };
        self.dropped.load(Relaxed) + lost
    }

    /// Waits up to `limit` for the writer thread to write all queued lines, before the process exits. False on timeout.
    pub fn flush(&self, limit: Duration) -> bool {
        match &self.outlet {
            Outlet::Stream(writer) => writer.flush(limit),
            _ => true,
        }
    }

    /// Whether level and sampling admit the next message. Each call advances the sampling cycle, so call it once per
    /// message, before formatting the text.
    pub fn admits(&self, level: Level) -> bool {
        if level > self.target.max_level {
            return false;
        }
        match &self.target.sample {
            Some(ranges) => ranges.takes(self.offered.fetch_add(1, Relaxed)),
            None => true,
        }
    }
}

/// The host name and process ID in log headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogIdentity {
    /// The host name, with `log-send-hostname`.
    pub hostname: Option<String>,
    pub process_id: u32,
}

/// One message, before any header.
#[derive(Clone, Copy, Debug)]
pub struct LogMessage<'a> {
    /// Severity of the message.
    pub level: Level,
    /// The program's name in the header (`log-tag`).
    pub tag: &'a [u8],
    /// RFC 5424 structured data (`log-format-sd`), empty for none.
    pub structured_data: &'a [u8],
    /// The text, without newline.
    pub text: &'a [u8],
}

/// The result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDelivery {
    /// Sent, or queued for a writer thread.
    Yes,
    /// Filtered by level or sampling.
    Filtered,
    /// Dropped because sending failed or the queue was full. Counted in [`LogSink::dropped`].
    Dropped,
}

/// A worker's log sender: the line buffer, the cached date strings and the sockets.
#[derive(Debug)]
pub struct Logger {
    identity: Arc<LogIdentity>,
    dates: DateCache,
    line: Vec<u8>,
    sockets: Sockets,
    /// Worker number, which selects the writer queue of a ring.
    thread: usize,
}

/// A worker's datagram sockets, opened on first use.
#[derive(Debug, Default)]
pub struct Sockets {
    inet: Option<OwnedFd>,
    inet6: Option<OwnedFd>,
    unix: Option<OwnedFd>,
}

impl Logger {
    /// A new logger. Sockets are opened on first use.
    pub fn new(identity: Arc<LogIdentity>, zone: ZoneOffset) -> Self {
        Self {
            identity,
            dates: DateCache::new(zone),
            line: Vec::new(),
            sockets: Sockets::default(),
            thread: 0,
        }
    }

    /// Sets the worker number, which selects the writer queue of a ring.
    pub fn of_worker(self, worker: usize) -> Self {
        Self { thread: worker, ..self }
    }

    /// Sends a message to a sink, if [`LogSink::admits`] accepts it. Never blocks.
    pub fn send(&mut self, sink: &LogSink, time: WallTime, message: &LogMessage<'_>) -> LogDelivery {
        match sink.admits(message.level) {
            true => self.send_admitted(sink, time, message),
            false => LogDelivery::Filtered,
        }
    }

    /// Sends a message already accepted by [`LogSink::admits`]. Never blocks.
    pub fn send_admitted(&mut self, sink: &LogSink, time: WallTime, message: &LogMessage<'_>) -> LogDelivery {
        self.line.clear();
        write_line(&mut self.line, &sink.target, &self.identity, &mut self.dates, time, message);
        self.leave(sink, message.text)
    }

    /// Sends a message received from another program to a sink. Never blocks.
    pub fn relay(&mut self, sink: &LogSink, time: WallTime, message: &RelayedMessage<'_>) -> LogDelivery {
        if !sink.admits(message.level()) {
            return LogDelivery::Filtered;
        }
        self.line.clear();
        write_relayed(&mut self.line, &sink.target, &mut self.dates, time, message);
        self.leave(sink, message.text)
    }

    fn leave(&mut self, sink: &LogSink, text: &[u8]) -> LogDelivery {
        match self.sockets.leave(self.thread, text, &self.line, &sink.outlet) {
            Ok(()) => {
                sink.outage.end();
                LogDelivery::Yes
            }
            Err(error) => {
                sink.dropped.fetch_add(1, Relaxed);
                sink.outage.begin(&sink.target.address, error);
                LogDelivery::Dropped
            }
        }
    }
}

impl Sockets {
    /// Sends a datagram without blocking. After `chroot`, the path of a UNIX socket is first resolved inside of the new root,
    /// then outside by the connector.
    ///
    /// # Errors
    /// The kernel's error. `AGAIN` if the failure is temporary.
    pub fn send_to(&mut self, line: &[u8], address: &Address) -> weir_sys::Result<()> {
        match (address, connector::installed()) {
            (Address::Unix(path), Some(connector)) => self.send_outside(line, address, path, connector),
            _ => self.send_here(line, address),
        }
    }

    fn send_here(&mut self, line: &[u8], address: &Address) -> weir_sys::Result<()> {
        socket::send_to(self.for_family(address.family())?, line, address).map(drop)
    }

    fn send_outside(
        &mut self,
        line: &[u8],
        address: &Address,
        path: &Path,
        connector: &Connector,
    ) -> weir_sys::Result<()> {
        if let sent @ (Ok(()) | Err(Errno::AGAIN)) = connector.send(path, line) {
            return sent;
        }
        let Err(here) = self.send_here(line, address) else {
            connector.found_inside(path);
            return Ok(());
        };
        match connector.hand_over(path, line) {
            // The connector exited. Report the error of the direct send instead.
            Err(Errno::NOENT | Errno::PIPE | Errno::CONNRESET) => Err(here),
            handed => handed,
        }
    }

    /// Sends a line with one system call, or queues it for a writer thread.
    fn leave(&mut self, thread: usize, text: &[u8], line: &[u8], outlet: &Outlet) -> weir_sys::Result<()> {
        let when_full = |done: bool| if done { Ok(()) } else { Err(Errno::AGAIN) };
        match outlet {
            Outlet::Address(address) => self.send_to(line, address),
            Outlet::Datagrams(descriptor) => socket::send(descriptor, line, false).map(drop),
            Outlet::Stream(writer) => when_full(writer.push(line)),
            Outlet::Ring(ring) => when_full(write_to_ring(ring, thread, line)),
            Outlet::Servers(servers) => servers.send(thread, text, line, self),
        }
    }

    fn for_family(&mut self, family: AddressFamily) -> weir_sys::Result<&OwnedFd> {
        let slot = match family {
            AddressFamily::Inet => &mut self.inet,
            AddressFamily::Inet6 => &mut self.inet6,
            AddressFamily::Unix => &mut self.unix,
        };
        match slot {
            Some(socket) => Ok(socket),
            None => Ok(slot.insert(open_datagrams(family)?)),
        }
    }
}

/// Maximum wait for the connector at startup, in milliseconds.
const PROBE_MS: u32 = 2000;

/// Writes a line, without its newline, to a ring; false if the ring is full.
pub fn write_to_ring(ring: &Ring, thread: usize, line: &[u8]) -> bool {
    ring.write(thread, &[line.strip_suffix(b"\n").unwrap_or(line)])
}

/// Appends header, text and newline to `line`, truncated to the target's maximum length. Pure: no clock, no system calls.
pub fn write_line(
    line: &mut Vec<u8>,
    target: &LogTarget,
    identity: &LogIdentity,
    dates: &mut DateCache,
    time: WallTime,
    message: &LogMessage<'_>,
) {
    let start = line.len();
    let level = message.level.max(target.min_level);
    match target.format {
        SyslogFormat::Rfc3164 | SyslogFormat::Local => {
            push_angle(line, target.facility.priority(level));
            dates.write_rfc3164(time, line);
            line.push(b' ');
            if target.format == SyslogFormat::Rfc3164 {
                line.extend_from_slice(identity.hostname.as_deref().unwrap_or("localhost").as_bytes());
                line.push(b' ');
            }
            line.extend_from_slice(message.tag);
            line.push(b'[');
            push_padded(line, u64::from(identity.process_id), 1);
            line.extend_from_slice(b"]: ");
        }
        SyslogFormat::Rfc5424 => {
            push_angle(line, target.facility.priority(level));
            line.extend_from_slice(b"1 ");
            dates.write_iso(time, line);
            line.push(b' ');
            line.extend_from_slice(identity.hostname.as_deref().unwrap_or("-").as_bytes());
            line.push(b' ');
            line.extend_from_slice(if message.tag.is_empty() { b"-" } else { message.tag });
            line.push(b' ');
            push_padded(line, u64::from(identity.process_id), 1);
            line.extend_from_slice(b" - ");
            line.extend_from_slice(if message.structured_data.is_empty() {
                b"-"
            } else {
                message.structured_data
            });
            line.push(b' ');
        }
        SyslogFormat::Priority => push_angle(line, target.facility.priority(level)),
        SyslogFormat::Short => push_angle(line, level as u8),
        SyslogFormat::Timed => {
            push_angle(line, level as u8);
            dates.write_iso(time, line);
            line.push(b' ');
        }
        SyslogFormat::Iso => {
            dates.write_iso(time, line);
            line.push(b' ');
        }
        SyslogFormat::Raw => {}
    }
    target.finish_line(line, start, message.text);
}

impl LogTarget {
    /// Appends `text` and a newline to the line that begins at `start`, truncated to the maximum length.
    pub(crate) fn finish_line(&self, line: &mut Vec<u8>, start: usize, text: &[u8]) {
        let longest = self.max_length.saturating_sub(1);
        let room = longest.saturating_sub(line.len() - start);
        line.extend_from_slice(&text[..text.len().min(room)]);
        line.truncate(start + longest);
        line.push(b'\n');
    }
}

fn push_angle(line: &mut Vec<u8>, number: u8) {
    line.push(b'<');
    push_padded(line, u64::from(number), 1);
    line.push(b'>');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::utc;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;

    fn target(address: LogAddress) -> LogTarget {
        LogTarget::new(address, Facility::from_name("local0").unwrap())
    }

    fn message(text: &[u8]) -> LogMessage<'_> {
        LogMessage { level: Level::Info, tag: b"haproxy", structured_data: b"", text }
    }

    fn logger() -> Logger {
        Logger::new(Arc::new(LogIdentity { hostname: None, process_id: 42 }), utc())
    }

    const TIME: WallTime = WallTime { seconds: 1_795_179_905, micros: 7_181 };

    fn check(change: impl FnOnce(&mut LogTarget, &mut LogIdentity, &mut LogMessage<'_>), expected: &str) {
        let mut target = target(LogAddress::STDOUT);
        let mut identity = LogIdentity { hostname: None, process_id: 9107 };
        let mut message = message(b"hello unix");
        change(&mut target, &mut identity, &mut message);
        let mut line = Vec::new();
        write_line(&mut line, &target, &identity, &mut DateCache::new(utc()), TIME, &message);
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn each_log_format_has_haproxys_header() {
        let host = |identity: &mut LogIdentity| identity.hostname = Some("vm".into());
        check(|t, _, _| t.format = SyslogFormat::Local, "<134>Nov 20 13:05:05 haproxy[9107]: hello unix\n");
        check(
            |t, i, _| {
                host(i);
                t.format = SyslogFormat::Rfc3164;
            },
            "<134>Nov 20 13:05:05 vm haproxy[9107]: hello unix\n",
        );
        check(
            |t, _, _| t.format = SyslogFormat::Rfc3164,
            "<134>Nov 20 13:05:05 localhost haproxy[9107]: hello unix\n",
        );
        check(
            |t, _, _| t.format = SyslogFormat::Rfc5424,
            "<134>1 2026-11-20T13:05:05.007181+00:00 - haproxy 9107 - - hello unix\n",
        );
        check(
            |t, i, m| {
                host(i);
                t.format = SyslogFormat::Rfc5424;
                m.structured_data = b"[ex@1 a=\"b\"]";
            },
            "<134>1 2026-11-20T13:05:05.007181+00:00 vm haproxy 9107 - [ex@1 a=\"b\"] hello unix\n",
        );
        check(|t, _, _| t.format = SyslogFormat::Priority, "<134>hello unix\n");
        check(|t, _, _| t.format = SyslogFormat::Short, "<6>hello unix\n");
        check(|t, _, _| t.format = SyslogFormat::Timed, "<6>2026-11-20T13:05:05.007181+00:00 hello unix\n");
        check(|t, _, _| t.format = SyslogFormat::Iso, "2026-11-20T13:05:05.007181+00:00 hello unix\n");
        check(|t, _, _| t.format = SyslogFormat::Raw, "hello unix\n");
    }

    #[test]
    fn log_lines_are_truncated_and_keep_their_newline() {
        check(
            |t, _, m| {
                (t.format, t.max_length) = (SyslogFormat::Short, 7);
                m.text = b"hello";
            },
            "<6>hel\n",
        );
        check(|t, _, _| t.max_length = 6, "<134>\n");
    }

    #[test]
    fn levels_above_the_minimum_level_are_lowered_to_it() {
        check(
            |t, _, m| {
                (t.format, t.min_level) = (SyslogFormat::Priority, Level::Notice);
                m.level = Level::Alert;
            },
            "<133>hello unix\n",
        );
    }

    #[test]
    fn each_datagram_contains_one_log_line() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sink = LogSink::open(
            LogTarget {
                format: SyslogFormat::Raw,
                ..target(LogAddress::Socket(Address::Inet(server.local_addr().unwrap())))
            },
            &Sinks::default(),
        )
        .unwrap();
        let mut logger = logger();
        assert_eq!(logger.send(&sink, TIME, &message(b"one")), LogDelivery::Yes);
        assert_eq!(logger.send(&sink, TIME, &message(b"two")), LogDelivery::Yes);
        let mut buffer = [0; 64];
        for expected in ["one\n", "two\n"] {
            let length = server.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], expected.as_bytes());
        }
    }

    #[test]
    fn lines_to_a_busy_or_missing_syslog_socket_are_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let sink = LogSink::open(target(LogAddress::Socket(Address::Unix(path.clone()))), &Sinks::default())
            .unwrap();
        let mut logger = logger();
        assert_eq!(logger.send(&sink, TIME, &message(b"nobody")), LogDelivery::Dropped);
        let _daemon = UnixDatagram::bind(&path).unwrap();
        let sent = (0..100_000)
            .take_while(|_| logger.send(&sink, TIME, &message(b"busy")) == LogDelivery::Yes)
            .count();
        assert!(sent > 0 && sent < 100_000);
        assert_eq!(sink.dropped(), 2);
    }

    #[test]
    fn levels_and_sampling_filter_messages() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut settings = target(LogAddress::Socket(Address::Inet(server.local_addr().unwrap())));
        settings.max_level = Level::Notice;
        settings.sample = Some(SampleRanges::parse("2:3").unwrap());
        let sink = LogSink::open(settings, &Sinks::default()).unwrap();
        let mut logger = logger();
        assert_eq!(logger.send(&sink, TIME, &message(b"info")), LogDelivery::Filtered);
        let urgent = LogMessage { level: Level::Error, ..message(b"error") };
        let outcomes: Vec<LogDelivery> = (0..4).map(|_| logger.send(&sink, TIME, &urgent)).collect();
        assert_eq!(
            outcomes,
            [LogDelivery::Filtered, LogDelivery::Yes, LogDelivery::Filtered, LogDelivery::Filtered]
        );
    }

    #[test]
    fn a_closed_log_descriptor_is_an_error() {
        assert!(LogSink::open(target(LogAddress::Descriptor(999_999)), &Sinks::default()).is_err());
        assert!(LogSink::open(target(LogAddress::Descriptor(-1)), &Sinks::default()).is_err());
    }

    #[test]
    fn an_inherited_datagram_socket_gets_one_line_per_datagram() {
        use std::os::fd::AsRawFd;
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let settings =
            LogTarget { format: SyslogFormat::Raw, ..target(LogAddress::Descriptor(theirs.as_raw_fd())) };
        let sink = LogSink::open(settings, &Sinks::default()).unwrap();
        assert_eq!(logger().send(&sink, TIME, &message(b"inherited")), LogDelivery::Yes);
        let mut buffer = [0; 64];
        let length = ours.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"inherited\n");
    }
}
