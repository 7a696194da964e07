//! `tune.*`: sizes and tuning that rarely need a change.

use weir_expr::pattern::MAX_CACHE_SIZE;
use weir_expr::pattern::regex::limit::OnLimit;

use super::context::GlobalReader;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;
use crate::words::not_yet;
use weir_model::{ConnectionSharing, ListenerQueues, Shards};

const MAX: u32 = i32::MAX as u32;

/// Below this range, weir's own responses do not fit. Above it, one connection could use all memory of a machine, and HAProxy does not
/// accept it for HTTP either.
const BUFFER_SIZES: std::ops::RangeInclusive<u64> = 1024..=(256 << 20) - 16;

/// The limit of reserved buffers: 1 GB of buffers of the default size.
const MOST_IN_RESERVE: u32 = 65_536;

/// The range of setpriority(2).
const NICENESS: std::ops::RangeInclusive<i32> = -20..=19;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready(
        "spread-checks",
        "<0..50, in percent>",
        "5",
        "by how much the intervals of checks vary by chance",
        |line, words| {
            line.global.tuning.checks.spread_percent = line.number(words, 0..=50)?;
            Ok(())
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready(
        "max-spread-checks",
        "<delay>",
        "10s",
        "how long after the first check the last one begins at the start",
        |line, words| {
            let delay = line.delay(words)?;
            line.global.tuning.checks.max_spread = (!delay.is_zero()).then_some(delay);
            Ok(())
        },
    )
    .default(Described("no bound")),
    Row::<GlobalReader>::ready(
        "tune.max-checks-per-thread",
        "<number>",
        "50",
        "how many checks a thread runs at once; 0 for no bound",
        |line, words| {
            line.global.tuning.checks.most_per_thread = line.number(words, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready(
        "tune.stick-counters",
        "<number>",
        "3",
        "entries of stick-tables that a connection or a request tracks at most",
        |line, words| {
            line.global.tuning.stick_counters = line.number(words, 0..=u8::MAX)?;
            Ok(())
        },
    )
    .default(Written("3")),
    Row::<GlobalReader>::ready("tune.bufsize", "<size>", "32k", "bytes of a buffer", |line, words| {
        line.global.tuning.buffer_size = line.size(words, BUFFER_SIZES)? as u32;
        Ok(())
    })
    .default(Written("16384")),
    Row::<GlobalReader>::ready(
        "tune.maxrewrite",
        "<number>",
        "2048",
        "bytes of a buffer that are kept free for edits",
        |line, words| {
            line.global.tuning.maxrewrite = Some(line.number(words, 0..=MAX)?);
            Ok(())
        },
    )
    .default(Described("1024, and never more than half of `tune.bufsize`")),
    Row::<GlobalReader>::ready(
        "tune.buffers.limit",
        "<number>",
        "1000",
        "most buffers of the process",
        |line, words| {
            line.global.tuning.buffers_max = line.number(words, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready(
        "tune.buffers.reserve",
        "<number>",
        "8",
        "buffers that each thread keeps in reserve",
        |line, words| {
            line.global.tuning.buffers_reserve = line.number(words, 0..=MOST_IN_RESERVE)?;
            Ok(())
        },
    )
    .default(Written("4")),
    Row::<GlobalReader>::ready(
        "tune.memory.hot-size",
        "<size>",
        "1m",
        "bytes of free memory that each thread keeps for itself",
        |line, words| {
            line.global.tuning.hot_bytes = line.size(words, 1..=MAX.into())? as u32;
            Ok(())
        },
    )
    .default(Written("512k")),
    Row::<GlobalReader>::ready(
        "tune.pool-high-fd-ratio",
        "<percentage>",
        "50",
        "with more descriptors in use, idle server connections are closed for new ones",
        |line, words| {
            line.global.tuning.pool_high_descriptors = line.number(words, 0..=100)?;
            Ok(())
        },
    )
    .default(Written("95")),
    Row::<GlobalReader>::ready(
        "tune.pool-low-fd-ratio",
        "<percentage>",
        "50",
        "with more descriptors in use, server connections are not kept",
        |line, words| {
            line.global.tuning.pool_low_descriptors = line.number(words, 0..=100)?;
            Ok(())
        },
    )
    .default(Written("100")),
    Row::<GlobalReader>::ready(
        "tune.http.maxhdr",
        "<number>",
        "128",
        "most headers of a message",
        |line, words| {
            line.global.tuning.headers_max = line.number(words, 1..=32767)?;
            Ok(())
        },
    )
    .default(Written("101")),
    Row::<GlobalReader>::ready(
        "tune.http.logurilen",
        "<number>",
        "4096",
        "longer URIs are cut in logs",
        |line, words| {
            line.global.tuning.logged_uri_max = line.number(words, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Written("1024")),
    Row::<GlobalReader>::ready(
        "tune.http.cookielen",
        "<number>",
        "100",
        "longer captured cookies are cut",
        |line, words| {
            line.global.tuning.captured_cookie_max = line.number(words, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Written("63")),
    Row::<GlobalReader>::ready(
        "tune.maxaccept",
        "<number>",
        "64",
        "connections to accept in a row; -1 for no limit",
        |line, words| {
            let number = line.number(words, -1..=i32::MAX)?;
            line.global.tuning.accept_max = Some(u32::try_from(number).unwrap_or(u32::MAX));
            Ok(())
        },
    )
    .default(Described("`4`")),
    Row::<GlobalReader>::ready(
        "tune.maxpollevents",
        "<number>",
        "100",
        "events to take from the kernel in one turn",
        |line, words| {
            // HAProxy's limit. The kernel refuses more than 178 million, and each event takes memory.
            line.global.tuning.poll_events_max = Some(line.number(words, 1..=1_000_000)?);
            Ok(())
        },
    )
    .default(Described("`200`")),
    Row::<GlobalReader>::ready(
        "tune.peers.max-updates-at-once",
        "<number>",
        "100",
        "stick-table entries to send to a peer in one turn",
        |line, words| {
            line.global.tuning.peer_updates_max = Some(line.number(words, 1..=MAX)?);
            Ok(())
        },
    )
    .default(Described("`200`")),
    Row::<GlobalReader>::ready(
        "tune.runqueue-depth",
        "<number>",
        "100",
        "tasks to run in one turn",
        |line, words| {
            line.global.tuning.run_queue_depth = Some(line.number(words, 1..=MAX)?);
            Ok(())
        },
    )
    .default(Described("`200`")),
    Row::<GlobalReader>::ready(
        "tune.sched.low-latency",
        "{ on | off }",
        "on",
        "look for new events more often",
        |line, words| {
            line.global.tuning.low_latency = line.switch(words)?;
            Ok(())
        },
    )
    .default(Written("off")),
    Row::<GlobalReader>::ready(
        "tune.ring.queues",
        "<number>",
        "12",
        "queues of threads that write to a ring",
        |line, words| {
            line.global.tuning.ring_queues = Some(line.number(words, 1..=64)?);
            Ok(())
        },
    )
    .default(Described("`6`")),
    Row::<GlobalReader>::ready(
        "tune.timeline.slow",
        "{ <time> | off }",
        "500ms",
        "from this duration on 'show timeline' keeps streams that ended well (default: 1s)",
        |line, words| {
            line.global.tuning.timeline_slow =
                if words.take_if("off") { None } else { Some(line.delay(words)?) };
            Ok(())
        },
    )
    .default(Written("1s")),
    Row::<GlobalReader>::ready(
        "tune.regex.on-limit",
        "{ no-match | match }",
        "match",
        "result of a regular expression that exceeds its match limit, before any '!'",
        |line, words| {
            line.global.tuning.regex_on_limit = match line.choice(words, &["no-match", "match"])? {
                "match" => OnLimit::Match,
                _ => OnLimit::NoMatch,
            };
            Ok(())
        },
    )
    .default(Written("no-match")),
    Row::<GlobalReader>::ready(
        "tune.regex.request-time",
        "{ <time> | off }",
        "100ms",
        "how long all regular expressions of one request may take; what is left counts as \
         'tune.regex.on-limit' says (default: 500ms)",
        |line, words| {
            line.global.tuning.regex_request_time =
                if words.take_if("off") { None } else { Some(line.delay(words)?) };
            Ok(())
        },
    )
    .default(Written("500ms")),
    Row::<GlobalReader>::discovered(
        "tune.renice.startup",
        "<-20..19>",
        "15",
        "priority of a process that reads its configuration",
        |line, words| {
            line.global.tuning.niceness.startup = Some(line.number(words, NICENESS)?);
            Ok(())
        },
    )
    .default(Described("the priority that the process was started with")),
    Row::<GlobalReader>::ready(
        "tune.renice.runtime",
        "<-20..19>",
        "-5",
        "priority of a process that serves",
        |line, words| {
            line.global.tuning.niceness.runtime = Some(line.number(words, NICENESS)?);
            Ok(())
        },
    )
    .default(Described("the priority that the process was started with")),
    Row::<GlobalReader>::ready(
        "tune.idle-pool.shared",
        "{ full | on | off }",
        "off",
        "share idle connections to servers",
        |line, words| {
            line.global.tuning.idle_connections = match line.choice(words, &["on", "full", "off"])? {
                "on" => ConnectionSharing::On,
                "full" => ConnectionSharing::Full,
                _ => ConnectionSharing::Off,
            };
            Ok(())
        },
    )
    .default(Written("on")),
    Row::<GlobalReader>::ready(
        "tune.rcvbuf.client",
        "<size>",
        "64k",
        "kernel buffer for receiving from clients",
        |line, words| {
            line.global.tuning.receive_buffers.client = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("the system's")),
    Row::<GlobalReader>::ready(
        "tune.rcvbuf.frontend",
        "<size>",
        "64k",
        "kernel buffer for datagrams that log-forward receives",
        |line, words| {
            line.global.tuning.datagram_receive_buffer = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("the system's")),
    Row::<GlobalReader>::ready(
        "tune.rcvbuf.server",
        "<size>",
        "64k",
        "kernel buffer for receiving from servers",
        |line, words| {
            line.global.tuning.receive_buffers.server = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("the system's")),
    Row::<GlobalReader>::ready(
        "tune.sndbuf.backend",
        "<size>",
        "64k",
        "kernel buffer for datagrams to log servers",
        |line, words| {
            line.global.tuning.datagram_send_buffer = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("the system's")),
    Row::<GlobalReader>::ready(
        "tune.sndbuf.client",
        "<size>",
        "64k",
        "kernel buffer for sending to clients",
        |line, words| {
            line.global.tuning.send_buffers.client = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("the system's")),
    Row::<GlobalReader>::ready(
        "tune.sndbuf.server",
        "<size>",
        "64k",
        "kernel buffer for sending to servers",
        |line, words| {
            line.global.tuning.send_buffers.server = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("the system's")),
    Row::<GlobalReader>::ready(
        "tune.notsent-lowat.client",
        "<size>",
        "16k",
        "bytes for clients that the kernel takes before they can be sent",
        |line, words| {
            line.global.tuning.unsent_low_marks.client = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("no bound")),
    Row::<GlobalReader>::ready(
        "tune.notsent-lowat.server",
        "<size>",
        "16k",
        "bytes for servers that the kernel takes before they can be sent",
        |line, words| {
            line.global.tuning.unsent_low_marks.server = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("no bound")),
    Row::<GlobalReader>::ready(
        "tune.pipesize",
        "<size>",
        "256k",
        "size of the pipes for splicing",
        |line, words| {
            line.global.tuning.pipe_size = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("the system's")),
    Row::<GlobalReader>::ready(
        "tune.listener.multi-queue",
        "{ on | fair | off }",
        "fair",
        "how connections are spread over threads",
        |line, words| {
            line.global.tuning.listener_queues = match line.choice(words, &["on", "fair", "off"])? {
                "on" => ListenerQueues::On,
                "fair" => ListenerQueues::Fair,
                _ => ListenerQueues::Off,
            };
            Ok(())
        },
    )
    .default(Written("on")),
    Row::<GlobalReader>::ready(
        "tune.listener.default-shards",
        "{ by-process | by-thread | by-group }",
        "by-thread",
        "into how many sockets a listener splits",
        |line, words| {
            line.global.tuning.listener_shards =
                match line.choice(words, &["by-process", "by-thread", "by-group"])? {
                    "by-process" => Shards::Count(1),
                    "by-thread" => Shards::ByThread,
                    _ => Shards::ByGroup,
                };
            Ok(())
        },
    )
    .default(Written("by-process")),
    Row::ready(
        "tune.vars.check-max-size",
        "<size>",
        "1m",
        "bytes of a health check's variables",
        |line, words| {
            line.global.tuning.variable_sizes.check = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::<GlobalReader>::ready(
        "tune.vars.global-max-size",
        "<size>",
        "1m",
        "bytes of all variables",
        |line, words| {
            line.global.tuning.variable_sizes.global = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("no bound")),
    Row::<GlobalReader>::ready(
        "tune.vars.proc-max-size",
        "<size>",
        "1m",
        "bytes of the process's variables",
        |line, words| {
            line.global.tuning.variable_sizes.process = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("no bound")),
    Row::<GlobalReader>::ready(
        "tune.vars.sess-max-size",
        "<size>",
        "1m",
        "bytes of a session's variables",
        |line, words| {
            line.global.tuning.variable_sizes.session = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("no bound")),
    Row::<GlobalReader>::ready(
        "tune.vars.txn-max-size",
        "<size>",
        "1m",
        "bytes of a transaction's variables",
        |line, words| {
            line.global.tuning.variable_sizes.transaction = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("no bound")),
    Row::<GlobalReader>::ready(
        "tune.vars.reqres-max-size",
        "<size>",
        "1m",
        "bytes of a request's or response's variables",
        |line, words| {
            line.global.tuning.variable_sizes.request = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    )
    .default(Described("no bound")),
    Row::<GlobalReader>::ready(
        "tune.pattern.cache-size",
        "<number>",
        "20000",
        "results of lookups among regular expressions that each thread keeps, 0 for none",
        |line, words| {
            line.global.tuning.pattern_cache_size = line.number(words, 0..=MAX_CACHE_SIZE as u32)?;
            Ok(())
        },
    )
    .default(Written("10000")),
    Row::ready(
        "tune.fd.edge-triggered",
        "{ on | off }",
        "on",
        "edge-triggered polling, which weir always uses",
        |line, words| {
            line.experimental(words)?;
            if line.switch(words)? {
                return Ok(());
            }
            Err(not_yet(words.line().span(), "tune.fd.edge-triggered off"))
        },
    ),
    Row::removed("tune.chksize", "'tune.bufsize' is used instead"),
];

/// A size. 0 means "not set". The caller has checked the upper bound.
fn socket_buffer(size: u64) -> Option<u32> {
    u32::try_from(size).ok().filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use crate::document::tests::parse_text;

    #[test]
    fn parses_tune_timeline_slow() {
        let slow = |line: &str| {
            let parsed = parse_text(&format!("global\n{line}"));
            assert!(parsed.messages.is_empty(), "{line}");
            parsed.config.global.tuning.timeline_slow.map(|slow| slow.as_millis())
        };
        assert_eq!(slow(""), Some(1000));
        assert_eq!(slow(" tune.timeline.slow 250\n"), Some(250));
        assert_eq!(slow(" tune.timeline.slow 2s\n"), Some(2000));
        assert_eq!(slow(" tune.timeline.slow 0\n"), Some(0));
        assert_eq!(slow(" tune.timeline.slow off\n"), None);
        for wrong in ["", "never", "1s 2s", "-1"] {
            let text = format!("global\n tune.timeline.slow {wrong}\n");
            assert_eq!(parse_text(&text).messages.len(), 1, "{wrong}");
        }
    }
}
