//! Counters of HTTP/2 connections for their frontend or backend (`h2_*` in the statistics).

use weir_backend::counters::CurrentCount;
use weir_backend::{BackendCounter, FrontendCounter};
use weir_mux::{FrameKind, Multiplexer};

use crate::instance::ProxyRef;

/// The counts of a connection so far. On drop, the connection stops counting as open.
pub(crate) struct ConnectionCount {
    counted_proxy: CountedProxy,
    counts: [u32; ROWS.len()],
    live: usize,
}

enum CountedProxy {
    Clients(ProxyRef),
    Servers(ProxyRef),
}

impl ConnectionCount {
    pub(crate) fn of_client(frontend: &ProxyRef) -> ConnectionCount {
        ConnectionCount::begin(CountedProxy::Clients(frontend.clone()))
    }

    pub(crate) fn of_server(backend: &ProxyRef) -> ConnectionCount {
        ConnectionCount::begin(CountedProxy::Servers(backend.clone()))
    }

    fn begin(counted_proxy: CountedProxy) -> ConnectionCount {
        let counted = ConnectionCount { counted_proxy, counts: [0; ROWS.len()], live: 0 };
        counted.change(CurrentCount::Http2Connections, 1);
        match &counted.counted_proxy {
            CountedProxy::Clients(proxy) => {
                proxy
                    .frontend_counters
                    .increment(weir_sched::worker_index(), FrontendCounter::Http2Connections);
            }
            CountedProxy::Servers(proxy) => {
                proxy
                    .backend_counters
                    .increment(weir_sched::worker_index(), BackendCounter::Http2Connections);
            }
        }
        counted
    }

    /// Adds the changes since the last call.
    pub(crate) fn record(&mut self, multiplexer: &Multiplexer) {
        let now = counts(multiplexer);
        if now != self.counts {
            let before = std::mem::replace(&mut self.counts, now);
            let worker = weir_sched::worker_index();
            for (at, (of_client, of_server)) in ROWS.iter().enumerate() {
                let more = u64::from(now[at].wrapping_sub(before[at]));
                match &self.counted_proxy {
                    _ if more == 0 => {}
                    CountedProxy::Clients(proxy) => proxy.frontend_counters.add(worker, *of_client, more),
                    CountedProxy::Servers(proxy) => proxy.backend_counters.add(worker, *of_server, more),
                }
            }
        }
        let live = multiplexer.live();
        if live != self.live {
            self.change(CurrentCount::Http2Streams, live as i64 - self.live as i64);
            self.live = live;
        }
    }

    fn change(&self, level: CurrentCount, by: i64) {
        let worker = weir_sched::worker_index();
        match &self.counted_proxy {
            CountedProxy::Clients(proxy) => proxy.frontend_counters.change(worker, level, by),
            CountedProxy::Servers(proxy) => proxy.backend_counters.change(worker, level, by),
        }
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.change(CurrentCount::Http2Streams, -(self.live as i64));
        self.change(CurrentCount::Http2Connections, -1);
    }
}

/// The counters of a frontend and of a backend, in the order of [`counts`].
const ROWS: [(FrontendCounter, BackendCounter); 10] = {
    use {BackendCounter as B, FrontendCounter as F};
    [
        (F::Http2Headers, B::Http2Headers),
        (F::Http2Data, B::Http2Data),
        (F::Http2Settings, B::Http2Settings),
        (F::Http2Resets, B::Http2Resets),
        (F::Http2GoAways, B::Http2GoAways),
        (F::Http2ConnectionErrors, B::Http2ConnectionErrors),
        (F::Http2StreamErrors, B::Http2StreamErrors),
        (F::Http2ResetsSent, B::Http2ResetsSent),
        (F::Http2GoAwaysSent, B::Http2GoAwaysSent),
        (F::Http2Streams, B::Http2Streams),
    ]
};

fn counts(multiplexer: &Multiplexer) -> [u32; ROWS.len()] {
    let (tally, opened) = multiplexer.tally();
    [
        tally.received(FrameKind::Headers),
        tally.received(FrameKind::Data),
        tally.received(FrameKind::Settings),
        tally.received(FrameKind::Reset),
        tally.received(FrameKind::GoAway),
        tally.connection_errors,
        tally.stream_errors,
        tally.resets_sent,
        tally.go_aways_sent,
        opened,
    ]
}
