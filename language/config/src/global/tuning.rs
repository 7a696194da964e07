//! `tune.*`: sizes and habits that rarely need a change.

use std::time::Duration;

use super::context::GlobalReader;
use crate::model::{ConnectionSharing, ListenerQueues, Shards};
use crate::rows::Row;
use crate::words::{fault, not_yet};

const MAX: u32 = i32::MAX as u32;

/// Below this not even our own answers fit; above, one connection could hold a whole machine's memory.
const BUFFER_SIZES: std::ops::RangeInclusive<u64> = 1024..=256 << 20;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready("tune.bufsize", "<size>", "32k", "bytes of a buffer", |line, words| {
        line.global.tuning.buffer_size = line.size(words, BUFFER_SIZES)? as u32;
        Ok(())
    }),
    Row::ready(
        "tune.maxrewrite",
        "<number>",
        "2048",
        "bytes of a buffer that are kept free for edits",
        |line, words| {
            line.global.tuning.maxrewrite = Some(line.number(words, 0..=MAX)?);
            Ok(())
        },
    ),
    Row::ready("tune.buffers.limit", "<number>", "0", "most buffers of the process", |line, words| {
        line.global.tuning.buffers_max = line.number(words, 0..=MAX)?;
        Ok(())
    }),
    Row::ready(
        "tune.buffers.reserve",
        "<number>",
        "4",
        "buffers kept for when memory is short",
        |line, words| {
            line.global.tuning.buffers_reserve = line.number(words, 0..=MAX)?.max(2);
            Ok(())
        },
    ),
    Row::ready("tune.http.maxhdr", "<number>", "101", "most headers of a message", |line, words| {
        line.global.tuning.headers_max = line.number(words, 1..=32767)?;
        Ok(())
    }),
    Row::ready("tune.http.logurilen", "<number>", "1024", "longer URIs are cut in logs", |line, words| {
        line.global.tuning.logged_uri_max = line.number(words, 0..=MAX)?;
        Ok(())
    }),
    Row::ready("tune.http.cookielen", "<number>", "63", "longer captured cookies are cut", |line, words| {
        line.global.tuning.captured_cookie_max = line.number(words, 0..=MAX)?;
        Ok(())
    }),
    Row::ready(
        "tune.maxaccept",
        "<number>",
        "4",
        "connections to accept in a row; -1 for no limit",
        |line, words| {
            let number = line.number(words, -1..=i32::MAX)?;
            line.global.tuning.accept_max = Some(u32::try_from(number).unwrap_or(u32::MAX));
            Ok(())
        },
    ),
    Row::ready(
        "tune.maxpollevents",
        "<number>",
        "200",
        "events to take from the kernel in one turn",
        |line, words| {
            line.global.tuning.poll_events_max = Some(line.number(words, 1..=MAX)?);
            Ok(())
        },
    ),
    Row::ready("tune.runqueue-depth", "<number>", "200", "tasks to run in one turn", |line, words| {
        line.global.tuning.run_queue_depth = Some(line.number(words, 1..=MAX)?);
        Ok(())
    }),
    Row::ready(
        "tune.sched.low-latency",
        "{ on | off }",
        "on",
        "look for new events more often",
        |line, words| {
            line.global.tuning.low_latency = line.switch(words)?;
            Ok(())
        },
    ),
    Row::ready(
        "tune.idle-pool.shared",
        "{ full | on | off }",
        "on",
        "share idle connections to servers",
        |line, words| {
            line.global.tuning.idle_connections = match line.choice(words, &["on", "full", "off"])? {
                "on" => ConnectionSharing::On,
                "full" => ConnectionSharing::Full,
                _ => ConnectionSharing::Off,
            };
            Ok(())
        },
    ),
    Row::ready(
        "tune.pool-high-fd-ratio",
        "<number>",
        "25",
        "open files above which idle connections are closed",
        |line, words| {
            line.global.tuning.pool_high_ratio = line.number(words, 0..=100)?;
            Ok(())
        },
    ),
    Row::ready(
        "tune.pool-low-fd-ratio",
        "<number>",
        "20",
        "open files above which idle connections are not kept",
        |line, words| {
            line.global.tuning.pool_low_ratio = line.number(words, 0..=100)?;
            Ok(())
        },
    ),
    Row::ready(
        "tune.rcvbuf.client",
        "<size>",
        "64k",
        "kernel buffer for receiving from clients",
        |line, words| {
            line.global.tuning.receive_buffers.client = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready(
        "tune.rcvbuf.server",
        "<size>",
        "64k",
        "kernel buffer for receiving from servers",
        |line, words| {
            line.global.tuning.receive_buffers.server = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready(
        "tune.rcvbuf.frontend",
        "<size>",
        "64k",
        "kernel buffer for datagrams from clients",
        |line, words| {
            line.global.tuning.receive_buffers.frontend = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready(
        "tune.rcvbuf.backend",
        "<size>",
        "64k",
        "kernel buffer for datagrams from servers",
        |line, words| {
            line.global.tuning.receive_buffers.backend = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready(
        "tune.sndbuf.client",
        "<size>",
        "64k",
        "kernel buffer for sending to clients",
        |line, words| {
            line.global.tuning.send_buffers.client = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready(
        "tune.sndbuf.server",
        "<size>",
        "64k",
        "kernel buffer for sending to servers",
        |line, words| {
            line.global.tuning.send_buffers.server = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready(
        "tune.sndbuf.frontend",
        "<size>",
        "64k",
        "kernel buffer for datagrams to clients",
        |line, words| {
            line.global.tuning.send_buffers.frontend = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready(
        "tune.sndbuf.backend",
        "<size>",
        "64k",
        "kernel buffer for datagrams to servers",
        |line, words| {
            line.global.tuning.send_buffers.backend = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready("tune.pipesize", "<size>", "256k", "size of the pipes for splicing", |line, words| {
        line.global.tuning.pipe_size = socket_buffer(line.size(words, 0..=MAX.into())?);
        Ok(())
    }),
    Row::ready(
        "tune.idletimer",
        "<timeout>",
        "1s",
        "after how much silence a stream counts as idle",
        |line, words| {
            let delay = line.delay(words)?;
            if delay > Duration::from_millis(65_535) {
                let message = "'tune.idletimer' expects a timer value between 0 and 65535 ms.";
                return Err(fault(words.line().span(), message));
            }
            line.global.tuning.idle_timer = delay;
            Ok(())
        },
    ),
    Row::ready(
        "tune.recv_enough",
        "<size>",
        "10136",
        "bytes that end a series of receives",
        |line, words| {
            line.global.tuning.receive_enough = line.size(words, 0..=MAX.into())? as u32;
            Ok(())
        },
    ),
    Row::ready(
        "tune.listener.multi-queue",
        "{ on | fair | off }",
        "on",
        "how connections are spread over threads",
        |line, words| {
            line.global.tuning.listener_queues = match line.choice(words, &["on", "fair", "off"])? {
                "on" => ListenerQueues::On,
                "fair" => ListenerQueues::Fair,
                _ => ListenerQueues::Off,
            };
            Ok(())
        },
    ),
    Row::ready(
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
    ),
    Row::ready("tune.vars.global-max-size", "<size>", "1m", "bytes of all variables", |line, words| {
        line.global.tuning.variable_sizes.global = socket_buffer(line.size(words, 0..=MAX.into())?);
        Ok(())
    }),
    Row::ready(
        "tune.vars.proc-max-size",
        "<size>",
        "1m",
        "bytes of the process's variables",
        |line, words| {
            line.global.tuning.variable_sizes.process = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready("tune.vars.sess-max-size", "<size>", "1m", "bytes of a session's variables", |line, words| {
        line.global.tuning.variable_sizes.session = socket_buffer(line.size(words, 0..=MAX.into())?);
        Ok(())
    }),
    Row::ready(
        "tune.vars.txn-max-size",
        "<size>",
        "1m",
        "bytes of a transaction's variables",
        |line, words| {
            line.global.tuning.variable_sizes.transaction = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
    Row::ready(
        "tune.vars.reqres-max-size",
        "<size>",
        "1m",
        "bytes of a request's or response's variables",
        |line, words| {
            line.global.tuning.variable_sizes.request = socket_buffer(line.size(words, 0..=MAX.into())?);
            Ok(())
        },
    ),
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
    Row::ready(
        "tune.pattern.cache-size",
        "<number>",
        "10000",
        "entries of the cache of pattern lookups",
        |line, words| {
            line.global.tuning.pattern_cache_size = line.number(words, 0..=MAX)?;
            Ok(())
        },
    ),
    Row::ready(
        "tune.fd.edge-triggered",
        "{ on | off }",
        "on",
        "edge-triggered polling, which weir always uses",
        |line, words| {
            if line.switch(words)? {
                return Ok(());
            }
            Err(not_yet(words.line().span(), "tune.fd.edge-triggered off"))
        },
    ),
    Row::removed("tune.chksize", "'tune.bufsize' is used instead"),
];

/// A size of which 0 stands for "not set"; the caller has bounded it.
fn socket_buffer(size: u64) -> Option<u32> {
    u32::try_from(size).ok().filter(|size| *size > 0)
}
