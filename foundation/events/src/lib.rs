//! Observability: latency histograms, event rates, log lines, traces.
//!
//! Everything here is called on the hot path and must cost very little. A [`Histogram`] and a [`Rate`] have one writer
//! and use relaxed loads and stores. A [`Logger`] belongs to one worker, formats into a reused buffer and passes each
//! line to the kernel (or to a [writer thread](writer)) without blocking.
//!
//! The crate must not know the content of a line (the log-format engine's job), proxies, or the time. Wall-clock time is an argument.
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
