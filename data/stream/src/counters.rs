//! Counts each event in the counters of all objects that it concerns.

use weir_backend::ServerKey;
use weir_backend::counters::{
    BackendCounter, FrontendCounter, FrontendRate, LatencyHistograms, ListenerCounter, ProcessRate,
    ServerCounter, ServerCounters,
};
use weir_net::Connection;
use weir_tls::Facts;

use crate::ending::By;
use crate::instance::{Listener, Proxy};
use crate::session::ClientSession;
use crate::stream::phases::StreamCounts;
use crate::upstream::Upstream;

/// An event counted by several objects, each under its own counter name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedEvent {
    /// A rule refused the request.
    DeniedRequest,
    /// A rule refused the response.
    DeniedResponse,
    /// No connection to a server could be established.
    FailedConnection,
    /// A response was invalid, incomplete or late.
    FailedResponse,
    /// The client aborted the transfer.
    ClientAbort,
    /// The server aborted the transfer.
    ServerAbort,
    /// Another attempt on a server.
    Retry,
    /// A connection to a server was opened.
    Connect,
    /// An idle connection was used.
    Reuse,
    /// A full TLS handshake with the server succeeded.
    TlsSession,
    /// A TLS session with the server was resumed.
    TlsResumed,
    /// A TLS handshake with the server failed.
    TlsFailure,
}

/// Bytes received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ByteCounters {
    client: (u64, u64),
    server: (u64, u64),
}

/// Adds bytes to the counters of one object. Bytes from the client also count as request bytes received, bytes to the client as
/// response bytes sent.
macro_rules! count_bytes {
    ($counters:expr, $kind:ident, $worker:expr, $bytes:expr) => {
        let (counters, bytes) = (&$counters, &$bytes);
        counters.add_all(
            $worker,
            [
                ($kind::BytesIn, bytes.client.0),
                ($kind::BytesOut, bytes.client.1),
                ($kind::RequestBytesOut, bytes.server.1),
                ($kind::ResponseBytesIn, bytes.server.0),
            ],
        );
    };
}

impl Upstream {
    /// Bytes received and sent since the last call.
    fn take_uncounted(&mut self) -> (u64, u64) {
        let now = (self.connector.received(), self.connector.sent());
        let before = std::mem::replace(&mut self.counted, now);
        (now.0 - before.0, now.1 - before.1)
    }
}

impl StreamCounts {
    /// Counts an event in all objects that it concerns.
    // Each caller passes a constant, so the compiler folds the match.
    #[inline(always)]
    pub(crate) fn count(&self, event: CountedEvent) {
        use BackendCounter as B;
        use FrontendCounter as F;
        use ListenerCounter as L;
        use ServerCounter as S;
        let (frontend, listener, backend, server) = match event {
            CountedEvent::DeniedRequest => {
                (Some(F::DeniedRequests), Some(L::DeniedRequests), Some(B::DeniedRequests), None)
            }
            CountedEvent::DeniedResponse => (
                Some(F::DeniedResponses),
                Some(L::DeniedResponses),
                Some(B::DeniedResponses),
                Some(S::DeniedResponses),
            ),
            CountedEvent::FailedConnection => {
                (None, None, Some(B::FailedConnections), Some(S::FailedConnections))
            }
            CountedEvent::FailedResponse => (None, None, Some(B::FailedResponses), Some(S::FailedResponses)),
            CountedEvent::ClientAbort => (None, None, Some(B::ClientAborts), Some(S::ClientAborts)),
            CountedEvent::ServerAbort => (None, None, Some(B::ServerAborts), Some(S::ServerAborts)),
            CountedEvent::Retry => (None, None, Some(B::Retries), Some(S::Retries)),
            CountedEvent::Connect => (None, None, Some(B::Connects), Some(S::Connects)),
            CountedEvent::Reuse => (None, None, Some(B::Reuses), Some(S::Reuses)),
            CountedEvent::TlsSession => (None, None, Some(B::TlsSessions), Some(S::TlsSessions)),
            CountedEvent::TlsResumed => (None, None, Some(B::TlsResumed), Some(S::TlsResumed)),
            CountedEvent::TlsFailure => (None, None, Some(B::TlsFailures), Some(S::TlsFailures)),
        };
        if event == CountedEvent::FailedResponse {
            self.stream.tracking().count_tracked_failure();
        }
        let worker = weir_sched::worker_index();
        if let Some(counter) = frontend {
            self.stream.frontend.frontend_counters.increment(worker, counter);
        }
        if let Some(counter) = listener {
            self.stream.session.listener().counters.increment(worker, counter);
        }
        if let Some(counter) = backend.filter(|_| self.stream.backend.has_begun()) {
            self.stream.backend.backend_counters.increment(worker, counter);
        }
        if let (Some(counter), Some(lease)) = (server, &self.stream.server.lease) {
            lease.server().counters().increment(worker, counter);
        }
    }

    /// Counts a TLS handshake with the server. `None` means that it failed.
    pub(crate) fn count_server_handshake(&self, agreed: Option<&Facts>) {
        match agreed {
            None => self.count(CountedEvent::TlsFailure),
            Some(facts) if facts.resumed => self.count(CountedEvent::TlsResumed),
            Some(_) => {
                self.count(CountedEvent::TlsSession);
                let worker = weir_sched::worker_index();
                self.stream.frontend.instance().rates.event(
                    worker,
                    ProcessRate::TlsServerKeys,
                    weir_sched::now().as_ms(),
                );
            }
        }
    }

    /// Counts the redispatch of a request away from the server that it was assigned to or queued for.
    pub(crate) fn count_redispatch_from(&self, left: Option<ServerKey>) {
        self.count_without_slot(left, BackendCounter::Redispatches, ServerCounter::Redispatches);
    }

    /// Counts a request that did not get a slot, for the server of its queue or for the backend.
    pub(crate) fn count_failed_in_queue(&self) {
        self.count_without_slot(
            self.stream.choice.last,
            BackendCounter::FailedConnections,
            ServerCounter::FailedConnections,
        );
    }

    fn count_without_slot(&self, key: Option<ServerKey>, backend: BackendCounter, server: ServerCounter) {
        let worker = weir_sched::worker_index();
        self.stream.backend.backend_counters.increment(worker, backend);
        if let Some(known) = key.and_then(|key| self.stream.backend.servers().server(key)) {
            known.counters().increment(worker, server);
        }
    }

    /// Counts an invalid, aborted or late request.
    pub(crate) fn count_bad_request(&self) {
        let worker = weir_sched::worker_index();
        self.stream.frontend.frontend_counters.increment(worker, FrontendCounter::BadRequests);
        self.stream.session.listener().counters.increment(worker, ListenerCounter::BadRequests);
        self.stream.tracking().count_tracked_error();
    }

    /// Counts a request after its head was received, valid or not.
    pub(crate) fn count_request(&self) {
        let worker = weir_sched::worker_index();
        let counters = &self.stream.frontend.frontend_counters;
        counters.increment(worker, FrontendCounter::Requests);
        counters.increment(
            worker,
            match self.stream.client.shared() {
                None => FrontendCounter::RequestsHttp1,
                Some(_) => FrontendCounter::RequestsHttp2,
            },
        );
        counters.event(worker, FrontendRate::Requests, weir_sched::now().as_ms());
        crate::process_counters::count_request();
    }

    /// Counts the status sent to the client. Called once, at the end of a stream that received at least the beginning of a request.
    pub(crate) fn count_status(&self) {
        if !self.stream.request.counts() {
            return;
        }
        let worker = weir_sched::worker_index();
        self.stream
            .frontend
            .frontend_counters
            .increment(worker, FrontendCounter::of_status(self.stream.response.status));
        if self.stream.backend.has_begun() {
            self.stream
                .backend
                .backend_counters
                .increment(worker, BackendCounter::of_status(self.stream.response.status));
        }
    }

    /// Counts a request answered by the server, and the server's status, before rules change it.
    pub(crate) fn count_server_status(&self) {
        self.stream.tracking().count_tracked_status(self.stream.response.server_status);
        if let Some(lease) = &self.stream.server.lease {
            let (worker, counters) = (weir_sched::worker_index(), lease.server().counters());
            counters.increment(worker, ServerCounter::Requests);
            counters.increment(worker, ServerCounter::of_status(self.stream.response.server_status));
        }
    }

    /// Counts the choice of the server with these counters as balanced, unless the server was designated.
    #[inline]
    pub(crate) fn count_balanced(&self, chosen: &ServerCounters) {
        if !self.stream.choice.designation.is_free() {
            return;
        }
        let worker = weir_sched::worker_index();
        chosen.increment(worker, ServerCounter::Balanced);
        self.stream.backend.backend_counters.increment(worker, BackendCounter::Balanced);
    }

    /// Counts an attempt to use a server.
    pub(crate) fn count_server_session(&self) {
        let Some(lease) = &self.stream.server.lease else { return };
        let worker = weir_sched::worker_index();
        let now_ms = weir_sched::now().as_ms();
        let counters = lease.server().counters();
        counters.increment(worker, ServerCounter::Sessions);
        counters.event(worker, 0_usize, now_ms);
        counters.session_seen(worker, now_ms);
    }

    /// Adds the bytes transferred since the last call. Call it before a server connection is given away or closed.
    pub(crate) fn count_bytes(&mut self) {
        // The end of the request may become known only after its bytes were counted (`option contstats`).
        let (total_in, total_out) =
            (self.stream.bytes_in().max(self.stream.counted.0), self.stream.bytes_out());
        let mut bytes = ByteCounters {
            client: (total_in - self.stream.counted.0, total_out - self.stream.counted.1),
            server: self.stream.server.upstream.as_mut().map_or((0, 0), Upstream::take_uncounted),
        };
        if bytes == ByteCounters::default() {
            return;
        }
        self.stream.counted = (total_in, total_out);
        crate::process_counters::count_bytes_out(bytes.client.1);
        if self.stream.attached.is_some() {
            bytes.client.1 += crate::filters::take_saved_bytes(&self.stream);
        }
        let worker = weir_sched::worker_index();
        count_bytes!(self.stream.frontend.frontend_counters, FrontendCounter, worker, bytes);
        count_bytes!(self.stream.session.listener().counters, ListenerCounter, worker, bytes);
        // A `listen` section counts the bytes for both of its sides, even if no server was used.
        if self.stream.backend.has_begun() || self.stream.backend.config.is_backend() {
            count_bytes!(self.stream.backend.backend_counters, BackendCounter, worker, bytes);
        }
        if let Some(lease) = &self.stream.server.lease {
            count_bytes!(lease.server().counters(), ServerCounter, worker, bytes);
        }
        self.stream.tracking().count_tracked_bytes(bytes.client.0, bytes.client.1);
    }

    /// Counts bytes spliced through pipes.
    #[inline]
    pub(crate) fn count_spliced(&self) {
        let [up, down] = [&self.stream.request.body, &self.stream.response.body].map(|body| body.piped());
        if up + down > 0 {
            self.count_piped(up, down);
        }
    }

    #[cold]
    fn count_piped(&self, up: u64, down: u64) {
        let worker = weir_sched::worker_index();
        crate::process_counters::count(|counters| counters.bytes_spliced.add(up + down));
        if self.stream.frontend.is_http() {
            self.stream.frontend.frontend_counters.add(worker, FrontendCounter::SplicedIn, up);
            self.stream.frontend.frontend_counters.add(worker, FrontendCounter::SplicedOut, down);
            self.stream.backend.backend_counters.add(worker, BackendCounter::SplicedIn, down);
            self.stream.backend.backend_counters.add(worker, BackendCounter::SplicedOut, up);
        }
    }

    /// `option contstats`: counts bytes during the transfer.
    pub(crate) fn count_bytes_if_continuous(&mut self) {
        if self.stream.frontend.config.settings.options.continuous_statistics {
            self.count_bytes();
        }
    }

    /// Counts a stream that ended because of an internal error.
    pub(crate) fn count_fault(&self) {
        if !matches!(self.stream.ending.by, By::Internal | By::Resource) {
            return;
        }
        let worker = weir_sched::worker_index();
        self.stream.frontend.frontend_counters.increment(worker, FrontendCounter::InternalErrors);
        self.stream.session.listener().counters.increment(worker, ListenerCounter::InternalErrors);
        if self.stream.backend.has_begun() {
            self.stream.backend.backend_counters.increment(worker, BackendCounter::InternalErrors);
        }
        if let Some(lease) = &self.stream.server.lease {
            lease.server().counters().increment(worker, ServerCounter::InternalErrors);
        }
    }

    /// Records the durations of the phases: averages for all streams, distributions for requests only.
    pub(crate) fn count_phases(&self) {
        let worker = weir_sched::worker_index();
        // A client that closes between two requests did not send a request to measure.
        let is_request = !self.stream.speaks_http() || self.stream.timers.first_byte.is_some();
        let of_frontend = &self.stream.frontend.frontend_counters;
        if !self.stream.backend.has_begun() {
            if is_request {
                of_frontend.latency_histograms(worker).record_local(self.stream.timers.total_latency());
            }
            return;
        }
        let latencies = self.stream.timers.latencies();
        let phases = self.stream.timers.averaged(latencies);
        self.stream.backend.backend_counters.record(worker, phases);
        let others = match &self.stream.server.lease {
            Some(lease) => {
                let counters = lease.server().counters();
                counters.record(worker, phases);
                counters.latency_histograms(worker)
            }
            None => self.stream.backend.backend_counters.latency_histograms(worker),
        };
        if is_request {
            LatencyHistograms::record_in_both(of_frontend.latency_histograms(worker), others, &latencies);
        }
    }
}

impl Proxy {
    /// Counts an accepted connection.
    pub(crate) fn count_connection(&self) {
        let worker = weir_sched::worker_index();
        self.frontend_counters.increment(worker, FrontendCounter::Connections);
        self.frontend_counters.event(worker, FrontendRate::Connections, weir_sched::now().as_ms());
    }

    /// Counts a session: the `tcp-request connection` rules accepted the connection.
    pub(crate) fn count_session(&self, session: &ClientSession, client: &Connection) {
        let listener = session.listener();
        let worker = weir_sched::worker_index();
        let now_ms = weir_sched::now().as_ms();
        self.frontend_counters.increment(worker, FrontendCounter::Sessions);
        self.frontend_counters.event(worker, FrontendRate::Sessions, now_ms);
        let kind = match self.is_http() {
            true if session.is_http2(client) => FrontendCounter::SessionsHttp2,
            true => FrontendCounter::SessionsHttp1,
            false => FrontendCounter::SessionsOther,
        };
        self.frontend_counters.increment(worker, kind);
        self.frontend_counters.session_seen(worker, now_ms);
        session.frontend().instance().rates.event(worker, ProcessRate::Sessions, now_ms);
        listener.counters.increment(worker, ListenerCounter::Sessions);
    }

    /// Counts a session that began as HTTP/1 and continues in HTTP/2.
    pub(crate) fn count_upgraded_session(&self) {
        let worker = weir_sched::worker_index();
        self.frontend_counters.increment(worker, FrontendCounter::SessionsHttp2);
    }

    /// Counts a connection in TCP mode as one request of the process, but not of its frontend.
    pub(crate) fn count_connection_request() {
        crate::process_counters::count_request();
    }

    /// Counts a stream that enters the backend.
    pub(crate) fn count_backend_session(&self, http: bool) {
        let worker = weir_sched::worker_index();
        let now_ms = weir_sched::now().as_ms();
        self.backend_counters.increment(worker, BackendCounter::Sessions);
        self.backend_counters.event(worker, 0_usize, now_ms);
        self.backend_counters.session_seen(worker, now_ms);
        if http {
            self.backend_counters.increment(worker, BackendCounter::Requests);
        }
    }

    /// Counts a request that weir answered itself: `return`, `redirect`, `monitor-uri`, a service. Denied requests have their own
    /// counter.
    pub(crate) fn count_intercepted(&self) {
        let worker = weir_sched::worker_index();
        if self.config.is_frontend() {
            self.frontend_counters.increment(worker, FrontendCounter::Intercepted);
        } else {
            self.backend_counters.increment(worker, BackendCounter::Intercepted);
        }
    }

    /// Counts a rewrite that failed for lack of buffer space.
    pub(crate) fn count_failed_rewrite(&self) {
        let worker = weir_sched::worker_index();
        if self.config.is_frontend() {
            self.frontend_counters.increment(worker, FrontendCounter::FailedRewrites);
        } else {
            self.backend_counters.increment(worker, BackendCounter::FailedRewrites);
        }
    }

    /// Counts a connection refused by a rule.
    pub(crate) fn count_denied_connection(&self, listener: &Listener) {
        let worker = weir_sched::worker_index();
        self.frontend_counters.increment(worker, FrontendCounter::DeniedConnections);
        listener.counters.increment(worker, ListenerCounter::DeniedConnections);
    }

    /// Counts a session refused by a rule.
    pub(crate) fn count_denied_session(&self, listener: &Listener) {
        let worker = weir_sched::worker_index();
        self.frontend_counters.increment(worker, FrontendCounter::DeniedSessions);
        listener.counters.increment(worker, ListenerCounter::DeniedSessions);
    }
}
