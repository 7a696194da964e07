//! The logging of a proxy: targets and formats.

use std::path::PathBuf;
use std::sync::Arc;

use weir_expr::LogFormat;
use weir_fingerprint::Canonical;

use super::Location;
use super::address::{Host, ServerAddress};
use super::names;

/// The logging of a proxy.
#[derive(Clone, Debug, Default, Canonical)]
pub struct Logging {
    /// `log`: the targets.
    pub targets: LogTargets,
    /// `log-tag`.
    pub tag: Option<Arc<str>>,
    /// `option httplog`, `option tcplog`, `log-format`.
    pub line: LogLine,
    /// `error-log-format`.
    pub error_line: Option<Arc<LogFormat>>,
    /// `log-format-sd`: the structured data of RFC 5424.
    pub structured_data: Option<Arc<LogFormat>>,
}

/// The log targets of a section, in the order of its lines. `log global` stands for the targets of the global sections above (manual,
/// 2.1: the order matters).
#[derive(Clone, Debug, Default, Canonical)]
pub struct LogTargets {
    targets: Vec<Arc<LogTarget>>,
    /// The position of `log global`, until the section ends.
    #[canonical(skip = "none once the section ended")]
    global_at: Option<usize>,
}

impl LogTargets {
    /// `log <target>`.
    pub fn push(&mut self, target: LogTarget) {
        self.targets.push(Arc::new(target));
    }

    /// `log global`. A repeated line changes nothing.
    pub fn add_global(&mut self) {
        self.global_at.get_or_insert(self.targets.len());
    }

    /// `no log`.
    pub fn clear(&mut self) {
        *self = LogTargets::default();
    }

    /// Ends the section: inserts the targets of `global` at the position of `log global`, except those already inherited.
    pub fn settle(&mut self, global: &[Arc<LogTarget>]) {
        let Some(at) = self.global_at.take() else { return };
        let is_new = |target: &&Arc<LogTarget>| !self.targets.iter().any(|known| Arc::ptr_eq(known, target));
        let added: Vec<_> = global.iter().filter(is_new).cloned().collect();
        self.targets.splice(at..at, added);
    }
}

impl std::ops::Deref for LogTargets {
    type Target = [Arc<LogTarget>];

    fn deref(&self) -> &[Arc<LogTarget>] {
        &self.targets
    }
}

/// The log line of each connection or request.
#[derive(Clone, Debug, Default, Canonical)]
pub enum LogLine {
    /// The default: one line when the connection or request starts.
    #[default]
    Connect,
    /// A format: a built-in one (`option httplog`, `tcplog`) or a `log-format`.
    Format {
        /// Which `option` or keyword chose it.
        kind: LogLineKind,
        format: Arc<LogFormat>,
    },
}

/// Which word chose the log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum LogLineKind {
    /// `option httplog`.
    Http,
    /// `option httplog clf`.
    HttpClf,
    /// `option httpslog`.
    Https,
    /// `option tcplog`.
    Tcp,
    /// `option tcplog clf`.
    TcpClf,
    /// `log-format`.
    Custom,
}

/// One `log` line.
#[derive(Clone, Debug, Canonical)]
pub struct LogTarget {
    /// Location of the line, in the global section or a proxy. Two lines may have equal targets.
    #[canonical(skip = "a place in a file")]
    pub at: Option<Location>,
    pub address: LogAddress,
    /// `len`: longer messages are cut.
    pub length_max: u32,
    /// `format`: the header. None for the ring section's format, or [`LogHeader::Local`].
    pub header: Option<LogHeader>,
    /// `sample`.
    pub sampling: Option<LogSampling>,
    pub facility: Facility,
    /// Messages less severe than this are not sent.
    pub level: Severity,
    /// Messages more severe than this are sent with this severity.
    pub minimum_level: Severity,
}

impl PartialEq for LogTarget {
    fn eq(&self, other: &LogTarget) -> bool {
        let parts = |target: &LogTarget| {
            (target.length_max, target.header, target.facility, target.level, target.minimum_level)
        };
        self.address == other.address && self.sampling == other.sampling && parts(self) == parts(other)
    }
}

/// Destination of log messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Canonical)]
pub enum LogAddress {
    /// Datagrams to a syslog server.
    Udp {
        host: Host,
        /// Its port; 514 by default.
        port: u16,
    },
    /// Datagrams to a unix socket.
    Unix(PathBuf),
    /// Datagrams to an abstract unix socket.
    Abstract(Box<[u8]>),
    /// A connection to a syslog server, through a ring of its own.
    Stream {
        server: ServerAddress,
        /// Whether the connection speaks MPTCP: `mptcp@`.
        multipath: bool,
    },
    /// `fd@N`; `stdout` is 1, `stderr` 2.
    Descriptor(i32),
    /// `ring@name`.
    Ring(#[canonical(with = names::ring)] Arc<str>),
    /// `backend@name`: the server that the backend's `balance` chooses.
    Backend(#[canonical(with = names::log_backend)] Arc<str>),
}

/// The header before a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum LogHeader {
    /// RFC 3164 without a host name, as the system's own `syslog()` sends it; the default.
    #[default]
    Local,
    /// RFC 3164.
    Rfc3164,
    /// RFC 5424.
    Rfc5424,
    /// `<level>`.
    Priority,
    /// The level in angle brackets, then the tag: what service managers expect.
    Short,
    /// The time, then the level.
    Timed,
    /// The time as in ISO 8601.
    Iso,
    Raw,
}

impl LogHeader {
    /// The format with this name.
    pub fn from_name(name: &str) -> Option<LogHeader> {
        Some(match name {
            "local" => LogHeader::Local,
            "rfc3164" => LogHeader::Rfc3164,
            "rfc5424" => LogHeader::Rfc5424,
            "priority" => LogHeader::Priority,
            "short" => LogHeader::Short,
            "timed" => LogHeader::Timed,
            "iso" => LogHeader::Iso,
            "raw" => LogHeader::Raw,
            _ => return None,
        })
    }
}

/// `sample <ranges>:<size>`: which messages of each round are sent. A round has `size` messages.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct LogSampling {
    /// Inclusive ranges counted from 1, in order, not overlapping.
    pub ranges: Vec<(u32, u32)>,
    /// The length of a round.
    pub size: u32,
}

/// The severity of a message, from the most to the least severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Canonical)]
#[repr(u8)]
pub enum Severity {
    /// `emerg`.
    Emergency,
    /// `alert`.
    Alert,
    /// `crit`.
    Critical,
    /// `err`.
    Error,
    /// `warning`.
    Warning,
    /// `notice`.
    Notice,
    /// `info`.
    Info,
    /// `debug`.
    Debug,
}

impl Severity {
    /// The names, in order.
    pub const NAMES: [&'static str; 8] =
        ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
    const ALL: [Severity; 8] = [
        Severity::Emergency,
        Severity::Alert,
        Severity::Critical,
        Severity::Error,
        Severity::Warning,
        Severity::Notice,
        Severity::Info,
        Severity::Debug,
    ];

    /// The severity with this name.
    pub fn from_name(name: &str) -> Option<Severity> {
        let index = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self::ALL[index])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The facility of a message: RFC 5424's number, 0 to 23.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Canonical)]
pub struct Facility(u8);

impl Facility {
    /// The names, in the order of their numbers.
    pub const NAMES: [&'static str; 24] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2", "ftp",
        "ntp", "audit", "alert", "cron2", "local0", "local1", "local2", "local3", "local4", "local5",
        "local6", "local7",
    ];

    /// The facility with this name.
    pub fn from_name(name: &str) -> Option<Facility> {
        let index = Self::NAMES.iter().position(|known| *known == name)?;
        u8::try_from(index).ok().map(Facility)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.0)]
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }
}

/// How messages are delimited on a connection (RFC 6587).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum Framing {
    /// Each message ends with a newline.
    #[default]
    Legacy,
    /// Each message begins with its length.
    OctetCount,
}
