//! `tune.*`: sizes and tuning that rarely need a change.

use std::time::Duration;

use weir_expr::pattern::regex::limit::OnLimit;
use weir_fingerprint::Canonical;

use super::bind::Shards;
use super::check::CheckTuning;
use super::compression::CompressionTuning;

/// The settings of the `tune.*` words. None means that weir chooses.
#[derive(Clone, Debug, PartialEq, Canonical)]
pub struct Tuning {
    /// `tune.bufsize`: bytes of a buffer, the unit of parsing.
    pub buffer_size: u32,
    /// `tune.maxrewrite`: bytes of a buffer that stay free for edits. See [`Tuning::rewrite_room`].
    pub maxrewrite: Option<u32>,
    /// `tune.buffers.limit`: largest number of buffers of the process. 0 for no limit.
    pub buffers_max: u32,
    /// `tune.buffers.reserve`: buffers that each thread keeps in reserve.
    pub buffers_reserve: u32,
    /// `tune.memory.hot-size`: bytes of free memory that each thread keeps.
    pub hot_bytes: u32,
    /// `tune.pool-high-fd-ratio`: per cent of descriptors in use from which idle server connections are closed for new ones.
    pub pool_high_descriptors: u8,
    /// `tune.pool-low-fd-ratio`: per cent of descriptors in use from which server connections are not kept idle.
    pub pool_low_descriptors: u8,
    /// `tune.stick-counters`: stick-table entries that a connection or a request can track.
    pub stick_counters: u8,
    /// `tune.http.maxhdr`: largest number of headers in a message.
    pub headers_max: u16,
    /// `tune.http.logurilen`: longest URI in logs, in bytes. Longer URIs are cut.
    pub logged_uri_max: u32,
    /// `tune.http.cookielen`: longest captured cookie, in bytes. Longer cookies are cut.
    pub captured_cookie_max: u32,
    /// `tune.maxaccept`: connections to accept in a row.
    pub accept_max: Option<u32>,
    /// `tune.maxpollevents`: events to take from the kernel per poll.
    pub poll_events_max: Option<u32>,
    /// `tune.peers.max-updates-at-once`: stick-table entries to send to a peer per scheduling round.
    pub peer_updates_max: Option<u32>,
    /// `tune.runqueue-depth`: tasks to run per scheduling round.
    pub run_queue_depth: Option<u32>,
    /// `tune.sched.low-latency`: poll for new events more often.
    pub low_latency: bool,
    /// `tune.regex.on-limit`: the result of a regular expression match that exceeds a limit.
    pub regex_on_limit: OnLimit,
    /// `tune.regex.request-time`: time limit for all regular expression matches of one request. None for no limit.
    pub regex_request_time: Option<Duration>,
    /// `tune.pattern.cache-size`: results of regular expression lookups that each thread caches.
    pub pattern_cache_size: u32,
    /// `tune.renice.*`: priorities of the process.
    pub niceness: Niceness,
    /// `tune.idle-pool.shared`: which workers may use an idle server connection.
    pub idle_connections: ConnectionSharing,
    /// `tune.rcvbuf.*`: kernel buffers for receiving.
    pub receive_buffers: SocketBuffers,
    /// `tune.sndbuf.*`: kernel buffers for sending.
    pub send_buffers: SocketBuffers,
    /// `tune.rcvbuf.frontend`: kernel receive buffer for datagrams to `log-forward`.
    pub datagram_receive_buffer: Option<u32>,
    /// `tune.sndbuf.backend`: kernel send buffer for datagrams to log servers.
    pub datagram_send_buffer: Option<u32>,
    /// `tune.notsent-lowat.*`: limit of unsent bytes in the kernel.
    pub unsent_low_marks: SocketBuffers,
    /// `tune.pipesize`: size of the pipes for splicing.
    pub pipe_size: Option<u32>,
    /// `tune.listener.multi-queue`: how new connections are spread over threads.
    pub listener_queues: ListenerQueues,
    /// `tune.listener.default-shards`: number of sockets per listener.
    pub listener_shards: Shards,
    /// `tune.vars.*-max-size`: size limits of variables in bytes.
    pub variable_sizes: VariableSizes,
    /// `tune.timeline.slow`: duration from which a stream without an error is on the timeline. None for never.
    pub timeline_slow: Option<Duration>,
    /// `spread-checks`, `max-spread-checks`, `tune.max-checks-per-thread`.
    pub checks: CheckTuning,
    /// `maxcomprate`, `maxcompcpuusage`, `maxzlibmem`, `tune.comp.maxlevel`, `tune.zlib.*`.
    pub compression: CompressionTuning,
    /// `tune.ring.queues`: the number of writer queues of a ring.
    pub ring_queues: Option<u32>,
}

/// The default of `tune.timeline.slow`: a delay that users notice.
const TIMELINE_SLOW: Duration = Duration::from_secs(1);

/// Priorities for setpriority(2): -20 is the highest, 19 the lowest. None keeps the priority of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct Niceness {
    /// `tune.renice.startup`: priority while the process reads its configuration.
    pub startup: Option<i32>,
    /// `tune.renice.runtime`: priority while the process serves traffic.
    pub runtime: Option<i32>,
}

/// Sizes of kernel buffers. None for the system's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct SocketBuffers {
    /// Sizes for connections from clients.
    pub client: Option<u32>,
    /// Sizes for connections to servers.
    pub server: Option<u32>,
}

/// The threads that may use an idle server connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum ConnectionSharing {
    /// Only the thread that opened the connection.
    Off,
    /// Every thread of the thread group.
    #[default]
    On,
    Full,
}

/// How new connections are spread over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum ListenerQueues {
    /// The thread that accepted a connection keeps it.
    Off,
    /// Connections are spread by load.
    #[default]
    On,
    Fair,
}

/// Size limits of variables in bytes. None for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct VariableSizes {
    pub global: Option<u32>,
    /// For the variables of the process.
    pub process: Option<u32>,
    /// For the variables of one session.
    pub session: Option<u32>,
    /// For the variables of one transaction.
    pub transaction: Option<u32>,
    /// For the variables of one request or response.
    pub request: Option<u32>,
    /// For the variables of one health check.
    pub check: Option<u32>,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            buffer_size: 16_384,
            maxrewrite: None,
            buffers_max: 0,
            buffers_reserve: 4,
            hot_bytes: 512 << 10,
            pool_high_descriptors: 95,
            pool_low_descriptors: 100,
            stick_counters: 3,
            headers_max: 101,
            logged_uri_max: 1024,
            captured_cookie_max: 63,
            accept_max: None,
            poll_events_max: None,
            peer_updates_max: None,
            run_queue_depth: None,
            low_latency: false,
            regex_on_limit: OnLimit::default(),
            regex_request_time: Some(Duration::from_millis(500)),
            pattern_cache_size: 10_000,
            niceness: Niceness::default(),
            idle_connections: ConnectionSharing::default(),
            receive_buffers: SocketBuffers::default(),
            send_buffers: SocketBuffers::default(),
            datagram_receive_buffer: None,
            datagram_send_buffer: None,
            unsent_low_marks: SocketBuffers::default(),
            pipe_size: None,
            listener_queues: ListenerQueues::default(),
            listener_shards: Shards::Count(1),
            variable_sizes: VariableSizes::default(),
            timeline_slow: Some(TIMELINE_SLOW),
            checks: CheckTuning::default(),
            compression: CompressionTuning::default(),
            ring_queues: None,
        }
    }
}

impl Tuning {
    /// The bytes of a buffer that are kept free for edits: 1024 by default, never more than half a buffer.
    pub fn rewrite_room(&self) -> u32 {
        self.maxrewrite.unwrap_or(1024).min(self.buffer_size / 2)
    }
}
