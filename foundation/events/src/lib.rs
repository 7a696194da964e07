//! Observability: latency histograms, event rates, log lines, traces.
//!
//! Everything here is fed from the hot path and must cost next to nothing there: a [`Histogram`] and a [`Rate`] have
//! one writer and use plain relaxed loads and stores; a [`Logger`] belongs to one worker, formats into one reusable
//! buffer and hands each line to the kernel (or to a [writer thread](writer)) without ever waiting.
//!
//! The crate must not know the content of a line (the log-format engine's job), proxies, or the time: wall-clock time
//! comes in as an argument.
//!
//! Begin with [`Logger::send`] for logs and [`Histogram::record`] for measurements.

#![forbid(unsafe_code)]

pub mod calendar;
pub mod connector;
mod datagrams;
pub mod histogram;
pub mod logger;
mod outage;
pub mod rate;
pub mod relayed_message;
pub mod sampling;
pub mod sink;
pub mod syslog;
pub mod timeline;
pub mod trace;
pub mod writer;

pub use datagrams::{open_datagrams, size_datagram_sockets};
pub use histogram::{Histogram, HistogramPlace, HistogramReading};
pub use logger::{
    LogAddress, LogDelivery, LogIdentity, LogMessage, LogServers, LogSink, LogTarget, Logger, Sockets,
    write_to_ring,
};
pub use outage::report_outages;
pub use rate::Rate;
pub use relayed_message::{NewHost, RelayedDate, RelayedMessage};
pub use sampling::SampleRanges;
pub use sink::{Sink, Sinks};
pub use syslog::{Facility, Level, SyslogFormat};
pub use weir_formats::WallTime;
