//! The entry of a stream in `show sess`, and the counting at the end of the stream.

use std::cell::Ref;
use std::os::fd::{AsFd, AsRawFd};

use weir_sched::Descriptor;
use weir_sys::Address;

use crate::entry::StreamSide;
use crate::stream::Stream;

impl Stream {
    /// Lists the stream in `show sess`.
    pub(crate) fn begin_view(&mut self) {
        self.entry.begin(self.serial);
        self.entry.note_carrier(StreamSide::Client, &self.client);
        self.trace().trace_begin();
    }

    /// Removes the stream from the list.
    pub(crate) fn end_view(&mut self) {
        self.trace().trace_end();
        self.entry.end();
    }

    /// The client's address: the stream's if a rule set one, else the session's.
    pub(crate) fn source(&self) -> Ref<'_, Address> {
        self.entry.source(&self.session)
    }

    /// The destination address: the stream's if a rule set one, else the session's.
    pub(crate) fn destination(&self) -> Ref<'_, Address> {
        self.entry.destination(&self.session)
    }

    pub(crate) fn count_retry(&mut self) {
        self.attempts.retries += 1;
        self.entry.retries.set(u16::try_from(self.attempts.retries).unwrap_or(u16::MAX));
    }

    /// Ends a stream, in HTTP and in TCP mode. Updates the counters that are known only now, releases the server's slot and leaves the
    /// backend. Then writes the log line, which can still name the server and the backend.
    pub(crate) fn conclude(&mut self) {
        self.count_end();
        self.log_line().log_end();
        self.log_line().note_on_timeline();
    }

    /// The first part of [`Stream::conclude`], all of it for a stream without a log line.
    pub(crate) fn count_end(&mut self) {
        self.timers.close = Some(self.elapsed());
        self.counts_mut().count_bytes();
        self.counts().count_spliced();
        self.counts().count_status();
        self.counts().count_phases();
        self.counts().count_fault();
        if let Some(lease) = &mut self.server.lease {
            lease.give_back();
        }
        self.backend.end();
    }

    /// Called just before the response, or the first bytes in TCP mode, are sent: `option logasap` writes its line now.
    pub(crate) fn log_the_beginning(&mut self) {
        self.log.begin();
        self.timers.close = Some(self.elapsed());
        self.log_line().log_early();
        self.timers.close = None;
        self.log.begun();
    }

    /// Whether the stream only represents a client's HTTP/2 connection in a log line.
    pub(crate) fn is_for_connection(&self) -> bool {
        self.client.shared().is_some_and(|shared| shared.id() == 0)
    }

    /// When the stream began, in microseconds since the epoch.
    pub(crate) fn began_wall_us(&self) -> u64 {
        let accepted = &self.session.accepted;
        accepted.wall_us + self.timers.began_us.saturating_sub(accepted.monotonic_us)
    }

    /// The local address of the connection to the server.
    pub(crate) fn own_address(&self) -> Option<Address> {
        self.server.own_address()
    }

    /// The descriptor number of a connection.
    pub(crate) fn number_of(descriptor: &Descriptor) -> i32 {
        descriptor.as_fd().as_raw_fd()
    }
}
