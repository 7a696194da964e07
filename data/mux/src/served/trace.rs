//! Traces of connections that carry streams (`trace fcgi`, `trace spop`): the events that all of them have, and the form of their lines.

use std::fmt::{Arguments, Display};
use std::io::Write as _;

use weir_events::trace::{About, TraceLevel, TraceReport, TraceSource};

use crate::trace::ConnectionIdentity;

/// Declares a source and the enum of its events. The first events of each source are those of [`ConnectionTraceEvent`], with this prefix.
macro_rules! traced_source {
    (
        $(#[$doc:meta])*
        $source:ident = $name:literal $help:literal, $protocol:literal, $prefix:literal,
        streams $criterion:literal $criterion_help:literal;
        $kind:ident { $($event:ident $label:literal $event_help:literal;)* }
    ) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum $kind { $($event,)* }

        impl $kind {
            const fn bit(self) -> u64 {
                1 << self.index()
            }

            const fn index(self) -> usize {
                $crate::served::trace::CONNECTION_EVENTS + self as usize
            }

            fn at(self, level: weir_events::trace::TraceLevel, also: u64) -> $crate::served::trace::ServedEvent {
                $crate::served::trace::ServedEvent { event: self.index(), also, level }
            }
        }

        $(#[$doc])*
        pub static $source: weir_events::trace::TraceSource = {
            use weir_events::trace::TraceEventKind as Kind;
            const EVENTS: &[Kind] = &[
                Kind { name: concat!($prefix, "new"), help: concat!("new ", $protocol, " connection") },
                Kind { name: concat!($prefix, "recv"), help: concat!("Rx on ", $protocol, " connection") },
                Kind { name: concat!($prefix, "send"), help: concat!("Tx on ", $protocol, " connection") },
                Kind { name: concat!($prefix, "blk"), help: concat!($protocol, " connection blocked") },
                Kind { name: concat!($prefix, "wake"), help: concat!($protocol, " connection woken up") },
                Kind { name: concat!($prefix, "end"), help: concat!($protocol, " connection terminated") },
                Kind { name: concat!($prefix, "err"), help: concat!("error on ", $protocol, " connection") },
                $(Kind { name: $label, help: $event_help },)*
            ];
            weir_events::trace::TraceSource::new($name, $help, EVENTS).with_streams($criterion, $criterion_help)
        };
    };
}
pub(crate) use traced_source;

/// Events that connections of each source have, in the order of [`traced_source`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionTraceEvent {
    New,
    Received,
    Sent,
    Blocked,
    Woken,
    End,
    Error,
}

/// The number of [`ConnectionTraceEvent`]s.
pub(crate) const CONNECTION_EVENTS: usize = ConnectionTraceEvent::Error as usize + 1;

impl ConnectionTraceEvent {
    fn at(self, level: TraceLevel) -> ServedEvent {
        ServedEvent { event: self as usize, also: 0, level }
    }
}

/// An event of a source by its index, the bit mask of further events that it counts as, and its level.
#[derive(Clone, Copy)]
pub(crate) struct ServedEvent {
    pub(crate) event: usize,
    pub(crate) also: u64,
    pub(crate) level: TraceLevel,
}

/// The number of a stream on its connection, in events of the connection itself.
pub(crate) const NO_STREAM: u32 = 0;

/// A connection with trace points. Each costs one branch while tracing is off.
pub(crate) trait TracedConnection {
    /// The source of its events.
    fn source() -> &'static TraceSource;

    fn identity(&self) -> &ConnectionIdentity;

    /// The number by which traces find the stream that has this number on the connection ([`About::stream`]). 0 for none.
    fn serial_of(&self, stream: u32) -> u64;

    /// The state in `name=value` pairs.
    fn summary(&self) -> String;

    /// Traces that the connection begins, is woken, or ends.
    #[inline(always)]
    fn trace_connection(&self, event: ConnectionTraceEvent) {
        if Self::source().is_active() {
            let (level, text) = match event {
                ConnectionTraceEvent::New => (TraceLevel::User, "new connection"),
                ConnectionTraceEvent::End => (TraceLevel::User, "connection ends"),
                _ => (TraceLevel::Developer, "woken up"),
            };
            self.emit(event.at(level), NO_STREAM, format_args!("{text}"), b"");
        }
    }

    #[inline(always)]
    fn trace_received(&self, count: usize) {
        if Self::source().is_active() {
            let event = ConnectionTraceEvent::Received.at(TraceLevel::Data);
            self.emit(event, NO_STREAM, format_args!("received bytes={count}"), b"");
        }
    }

    /// Traces sent bytes, and whether bytes are left because the socket is full.
    #[inline(always)]
    fn trace_sent(&self, count: usize, is_blocked: bool) {
        if Self::source().is_active() {
            let event = ConnectionTraceEvent::Sent.at(TraceLevel::Data);
            self.emit(event, NO_STREAM, format_args!("sent bytes={count}"), b"");
            if is_blocked {
                let event = ConnectionTraceEvent::Blocked.at(TraceLevel::State);
                self.emit(event, NO_STREAM, format_args!("waits: the socket is full"), b"");
            }
        }
    }

    /// Traces an error that ends the connection. A broken one without streams ends normally: `is_expected`.
    #[inline(always)]
    fn trace_error(&self, what: &str, fault: impl Display, is_expected: bool) {
        if Self::source().is_active() && !is_expected {
            let event = ConnectionTraceEvent::Error.at(TraceLevel::Error);
            self.emit(event, NO_STREAM, format_args!("{what}: {fault}"), b"");
        }
    }

    /// Writes a line: the backend, and `text`. From the verbosity `minimal` on it has the state of the connection, with `complete` the first
    /// bytes of the payload.
    #[cold]
    fn emit(&self, what: ServedEvent, stream: u32, text: Arguments<'_>, payload: &[u8]) {
        let (ServedEvent { event, also, level }, identity) = (what, self.identity());
        let stream = self.serial_of(stream);
        let about = About { stream, thread: weir_sched::worker_index() as u64 + 1, ..identity.about };
        let report = TraceReport { event, also, level, about, time: weir_sched::wall_time() };
        Self::source().trace(&report, |verbosity, line| {
            // Writing to memory does not fail.
            let _ = write!(line, "be={} {text}", identity.proxy);
            if verbosity >= MINIMAL {
                let _ = write!(line, " ({})", self.summary());
            }
            if verbosity >= COMPLETE && !payload.is_empty() {
                let _ = write!(line, " payload=\"{}\"", payload[..payload.len().min(DUMPED)].escape_ascii());
            }
        });
    }
}

/// Minimum verbosity that shows the state. See [`weir_events::trace::VERBOSITIES`].
const MINIMAL: u8 = 2;
/// Minimum verbosity that shows the first bytes of payloads.
const COMPLETE: u8 = 5;
/// Maximum number of payload bytes shown.
const DUMPED: usize = 256;
