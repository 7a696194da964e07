//! Sinks of events: rings, and the two standard streams.
//!
//! Logs and traces refer to a sink by name. Operators list sinks and read rings with `show events`. [`Sinks`] contains
//! all sinks of the process: the built-in `stdout`, `stderr` and `buf0`, and the sinks of `ring` sections.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_sync::Ring;
use weir_sync::ring::DEFAULT_QUEUES;
use weir_sys::process;

use crate::logger::{DEFAULT_LENGTH, LogServers};
use crate::syslog::SyslogFormat;
use crate::writer::Writer;

/// A named sink.
#[derive(Debug)]
pub struct Sink {
    /// Name in the configuration and in commands.
    pub name: String,
    /// Description in listings.
    pub description: String,
    /// Default header format of events.
    pub format: SyslogFormat,
    /// Maximum length of an event in bytes. Longer ones are truncated.
    pub max_length: usize,
    outlet: Outlet,
}

#[derive(Debug)]
enum Outlet {
    Ring(Arc<Ring>),
    /// A descriptor. Its writer thread starts with the first event.
    Stream(i32, OnceLock<Option<Writer>>),
}

impl Sink {
    /// A ring.
    pub fn ring(
        name: &str,
        description: &str,
        format: SyslogFormat,
        max_length: usize,
        ring: Arc<Ring>,
    ) -> Self {
        Sink {
            name: name.to_owned(),
            description: description.to_owned(),
            format,
            max_length,
            outlet: Outlet::Ring(ring),
        }
    }

    fn stream(name: &str, number: i32) -> Self {
        Sink {
            name: name.to_owned(),
            description: format!("standard output (fd#{number})"),
            format: SyslogFormat::Timed,
            max_length: DEFAULT_LENGTH,
            outlet: Outlet::Stream(number, OnceLock::new()),
        }
    }

    /// The ring. `None` if the sink is a stream.
    pub fn as_ring(&self) -> Option<&Arc<Ring>> {
        match &self.outlet {
            Outlet::Ring(ring) => Some(ring),
            Outlet::Stream(..) => None,
        }
    }

    /// `buffer` or `fd`, as shown by `show events`.
    pub fn kind(&self) -> &'static str {
        match self.outlet {
            Outlet::Ring(_) => "buffer",
            Outlet::Stream(..) => "fd",
        }
    }

    /// Number of dropped events.
    pub fn dropped(&self) -> u64 {
        match &self.outlet {
            Outlet::Ring(ring) => ring.dropped(),
            Outlet::Stream(_, writer) => writer.get().and_then(Option::as_ref).map_or(0, Writer::lost),
        }
    }

    /// Writes an event, given without newline. False if the sink is full. Never blocks. `thread` is the worker number of the caller.
    pub fn write(&self, thread: usize, event: &[u8]) -> bool {
        let event = &event[..event.len().min(self.max_length)];
        match &self.outlet {
            Outlet::Ring(ring) => ring.write(thread, &[event]),
            Outlet::Stream(number, writer) => {
                let start = || {
                    process::duplicate_number(*number)
                        .ok()
                        .and_then(|fd| Writer::start(fd, format!("fd@{number}")).ok())
                };
                writer.get_or_init(start).as_ref().is_some_and(|writer| {
                    let mut line = event.to_vec();
                    line.push(b'\n');
                    writer.push(&line)
                })
            }
        }
    }

    /// Waits up to `limit` for the writer thread to write queued events, before the process exits.
    pub fn flush(&self, limit: Duration) {
        if let Outlet::Stream(_, writer) = &self.outlet
            && let Some(writer) = writer.get().and_then(Option::as_ref)
        {
            writer.flush(limit);
        }
    }
}

/// All sinks of the process, and the servers of log backends.
#[derive(Debug)]
pub struct Sinks {
    sinks: Vec<Arc<Sink>>,
    servers: Vec<(String, Arc<dyn LogServers>)>,
}

impl Sinks {
    /// The built-in sinks. `queues` is the number of writer queues of `buf0`.
    pub fn built_in(queues: usize) -> Self {
        // The kernel allocates its pages on first write.
        let ring = Ring::in_memory(BUILT_IN_SIZE, queues);
        let buf0 = Sink::ring(BUILT_IN, "in-memory ring buffer", SyslogFormat::Timed, DEFAULT_LENGTH, ring);
        let sinks = [Sink::stream("stdout", 1), Sink::stream("stderr", 2), buf0];
        Self { sinks: sinks.into_iter().map(Arc::new).collect(), servers: Vec::new() }
    }

    /// Adds a sink.
    pub fn add(&mut self, sink: Sink) {
        self.sinks.push(Arc::new(sink));
    }

    /// Adds the servers of a log backend, by the backend's name.
    pub fn add_servers(&mut self, name: &str, servers: Arc<dyn LogServers>) {
        self.servers.push((name.to_owned(), servers));
    }

    /// The servers of a log backend, by name.
    pub fn find_servers(&self, name: &str) -> io::Result<&Arc<dyn LogServers>> {
        let found = self.servers.iter().find(|(known, _)| known == name).map(|(_, servers)| servers);
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, format!("no log backend has the name '{name}'"));
        found.ok_or_else(missing)
    }

    /// All sinks, in the order of definition.
    pub fn all(&self) -> &[Arc<Sink>] {
        &self.sinks
    }

    /// The sink with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Sink>> {
        self.sinks.iter().find(|sink| sink.name == name)
    }

    /// The ring sink with this name.
    pub fn find_ring(&self, name: &str) -> io::Result<&Arc<Sink>> {
        let sink = self.find(name).filter(|sink| sink.as_ring().is_some());
        sink.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no ring has the name '{name}'")))
    }
}

impl Default for Sinks {
    fn default() -> Self {
        Self::built_in(DEFAULT_QUEUES)
    }
}

/// Name of the built-in ring.
pub const BUILT_IN: &str = "buf0";
/// Size of the built-in ring in bytes, for some thousands of events.
const BUILT_IN_SIZE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sync::ring::{ReaderWait, Seek};

    #[test]
    fn the_built_in_sinks_equal_haproxys() {
        let sinks = Sinks::default();
        let shown: Vec<_> = sinks
            .all()
            .iter()
            .map(|sink| format!("{} {} {}", sink.name, sink.kind(), sink.description))
            .collect();
        assert_eq!(
            shown,
            [
                "stdout fd standard output (fd#1)",
                "stderr fd standard output (fd#2)",
                "buf0 buffer in-memory ring buffer"
            ]
        );
        assert!(sinks.find_ring("stderr").is_err() && sinks.find_ring("buf0").is_ok());
    }

    #[test]
    fn events_are_truncated_to_the_length_of_their_sink() {
        let ring = Ring::in_memory(4096, 1);
        let sink = Sink::ring("r", "r", SyslogFormat::Raw, 5, Arc::clone(&ring));
        assert!(sink.write(0, b"too long"));
        let mut reader = ring.attach(Seek::Oldest, ReaderWait::No).unwrap();
        let mut found = Vec::new();
        reader.read(|message| {
            message.append_to(&mut found);
            true
        });
        assert_eq!(found, b"too l");
    }
}
