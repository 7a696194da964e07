//! The timeline: records of streams that ended badly or slowly, for `show timeline`.
//!
//! Nothing is recorded during a stream: all the data is available at its end. So a stream that ends well costs two comparisons, any
//! other about a microsecond.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use weir_events::timeline::{StreamRecord, StreamText};
use weir_net::ConnectionFault;
use weir_sync::Ring;

use crate::ending::By;
use crate::stream::phases::StreamLog;
use crate::stream::rule_state::{StoppedBy, decided_at};
use sentence::EndedStream;
use weir_vocabulary::timers::ElapsedTime;

mod sentence;

thread_local! {
    static RING: RefCell<Option<Arc<Ring>>> = const { RefCell::new(None) };
    static SLOW_MS: Cell<u32> = const { Cell::new(u32::MAX) };
    static BYTES: RefCell<ManuallyDrop<Vec<u8>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Sets the worker's ring, and the minimum duration of a slow stream, in milliseconds.
pub fn install(ring: Arc<Ring>, slow_ms: u32) {
    RING.set(Some(ring));
    SLOW_MS.set(slow_ms);
}

impl StreamLog {
    /// Records a stream at its end if it ended badly or was slow.
    #[inline]
    pub(crate) fn note_on_timeline(&mut self) {
        let at_ms = |moment: Option<ElapsedTime>| moment.map_or(0, ElapsedTime::ms);
        let slow = at_ms(self.stream.timers.close).saturating_sub(at_ms(self.stream.timers.first_byte));
        if self.stream.ending.is_error()
            || self.stream.response.status >= 500
            || slow >= SLOW_MS.get()
            || self.stream.captures.engine_failure().is_some()
        {
            self.keep_on_timeline();
        }
    }

    #[cold]
    fn keep_on_timeline(&mut self) {
        // A client that closes without sending anything is not an error. A tunnel is not slow because it lasts.
        let silent = self.stream.bytes_in() == 0;
        let lasting =
            (self.stream.response.is_tunnel || !self.stream.speaks_http()) && !self.stream.ending.is_error();
        let has_failure = self.stream.captures.engine_failure().is_some();
        if (silent && matches!(self.stream.ending.by, By::Client | By::ClientTimeout))
            || (lasting && !has_failure)
        {
            return;
        }
        let entry = self.entry();
        let worker = weir_sched::worker_index();
        BYTES.with_borrow_mut(|bytes| {
            bytes.clear();
            entry.encode(bytes);
            RING.with_borrow(|ring| ring.as_ref().map(|ring| ring.write(worker, &[bytes])));
        });
    }

    fn entry(&mut self) -> StreamRecord {
        let timers = &self.stream.timers;
        let [by, during] = self.stream.ending.letters();
        let [cookie, set_cookie] = crate::cookie::logged_letters(&self.stream);
        let age_us = weir_sched::now_us().saturating_sub(timers.began_us);
        let mut entry = StreamRecord {
            began_us: weir_sched::wall_us().saturating_sub(age_us),
            number: self.stream.serial,
            worker: weir_sched::worker_index() as u32 + 1,
            status: u32::from(self.stream.response.status),
            retries: self.stream.attempts.retries,
            queued: self.stream.choice.queued.server.saturating_add(self.stream.choice.queued.backend),
            bytes: [self.stream.bytes_in(), self.stream.bytes_out()],
            code: [by, during, cookie, set_cookie],
            redispatched: self.stream.choice.redispatched,
            moments: [
                timers.first_byte,
                self.stream.captures.body_awaited(),
                timers.request,
                timers.queue,
                timers.connect,
                timers.response,
                timers.close,
            ]
            .map(|moment| moment.map(ElapsedTime::ms)),
            words: Default::default(),
        };
        entry.set_word(StreamText::Source, &self.stream.source().to_string());
        entry.set_word(StreamText::Frontend, self.stream.frontend.name());
        if self.stream.backend.has_begun() || self.stream.backend.backend.is_some() {
            entry.set_word(StreamText::Backend, self.stream.backend.name());
        }
        if let Some(server) = self.stream.chosen_server() {
            entry.set_word(StreamText::Server, server.name());
            entry.set_word(StreamText::Chosen, self.how_chosen());
        }
        if let Some(at) = decided_at(&self.stream) {
            entry.set_word(StreamText::Rule, &at.to_string());
        }
        entry.set_word(StreamText::Ending, &self.ended().sentence());
        if let Some(failure) = self.stream.captures.engine_failure() {
            entry.set_word(StreamText::Engine, failure);
        }
        if let Some(fault) = self.server_fault() {
            entry.set_word(StreamText::Fault, &fault);
        }
        let line = self.line_of_request();
        entry.set_word(StreamText::Request, &line);
        entry
    }

    /// Why the last connection to a server failed, as a sentence. `None` if the stream ended well, or for another reason.
    fn server_fault(&self) -> Option<String> {
        if !self.stream.ending.is_error() {
            return None;
        }
        let fault = match &self.stream.server.upstream {
            Some(upstream) => upstream.connector.fault(),
            None => self.stream.server.past().and_then(|past| past.fault),
        };
        Some(match fault? {
            ConnectionFault::Tls(failure) => format!("the TLS session with the server failed: {failure}"),
            fault => format!("the connection to the server failed: {fault}"),
        })
    }

    fn ended(&self) -> EndedStream {
        EndedStream {
            ending: self.stream.ending,
            status: self.stream.response.status,
            http: self.stream.speaks_http(),
            has_request: self.stream.request.is_known(),
            by_rule: self.stream.rules.stopped_by == StoppedBy::Rule,
            option: self.stream.rules.stopped_by.option(),
            has_backend: self.stream.backend.has_begun() || self.stream.backend.backend.is_some(),
            has_server: self.stream.chosen_server().is_some(),
        }
    }

    fn how_chosen(&self) -> &'static str {
        self.stream.choice.word(self.stream.backend.config.settings.balance.word.name)
    }

    /// The original request line, or the received part of it.
    fn line_of_request(&self) -> String {
        if !self.stream.request.is_known() {
            return String::new();
        }
        let kept = self.stream.entry.request_line();
        if !kept.is_empty() {
            return String::from_utf8_lossy(&kept).into_owned();
        }
        let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
        let (method, target) = (head.method_text(raw), head.uri(raw));
        if target.is_empty() {
            return String::new();
        }
        format!("{} {}", String::from_utf8_lossy(method), String::from_utf8_lossy(target))
    }
}
