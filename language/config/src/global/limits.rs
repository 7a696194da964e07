//! Limits of the process.

use super::context::GlobalReader;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::Row;

const MAX: u32 = i32::MAX as u32;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready(
        "maxconn",
        "<number>",
        "10000",
        "connections that the process holds at once",
        |line, words| {
            let maxconn = line.number(words, 0..=MAX)?;
            if line.first_time(words, line.global.limits.maxconn.is_some()) {
                line.global.limits.maxconn = (maxconn > 0).then_some(maxconn);
            }
            Ok(())
        },
    )
    .default(Described("as many as the limit of open files allows")),
    Row::<GlobalReader>::ready(
        "maxconnrate",
        "<number>",
        "1000",
        "new connections each second",
        |line, words| {
            let rate = line.number(words, 0..=MAX)?;
            if line.first_time(words, line.global.limits.connection_rate > 0) {
                line.global.limits.connection_rate = rate;
            }
            Ok(())
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready(
        "maxsessrate",
        "<number>",
        "1000",
        "new sessions each second",
        |line, words| {
            let rate = line.number(words, 0..=MAX)?;
            if line.first_time(words, line.global.limits.session_rate > 0) {
                line.global.limits.session_rate = rate;
            }
            Ok(())
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready(
        "maxsslconn",
        "<number>",
        "1000",
        "TLS: connections at once",
        |line, words| {
            line.global.limits.tls_connections = line.number(words, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready(
        "maxsslrate",
        "<number>",
        "100",
        "TLS: new sessions each second",
        |line, words| {
            let rate = line.number(words, 0..=MAX)?;
            if line.first_time(words, line.global.limits.tls_rate > 0) {
                line.global.limits.tls_rate = rate;
            }
            Ok(())
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready("maxpipes", "<number>", "100", "pipes for splicing", |line, words| {
        let pipes = line.number(words, 0..=MAX)?;
        if line.first_time(words, line.global.limits.pipes.is_some()) {
            line.global.limits.pipes = Some(pipes);
        }
        Ok(())
    })
    .default(Described("a quarter of `maxconn` where a proxy splices, else none")),
    Row::<GlobalReader>::ready(
        "ulimit-n",
        "<number>",
        "20000",
        "files that the process may have open",
        |line, words| {
            let files = line.number(words, 0..=MAX)?;
            if line.first_time(words, line.global.limits.open_files.is_some()) {
                line.global.limits.open_files = (files > 0).then_some(files);
            }
            Ok(())
        },
    )
    .default(Described("what `maxconn`, listeners and checks need")),
    Row::<GlobalReader>::ready(
        "fd-hard-limit",
        "<number>",
        "50000",
        "most open files that are ever computed",
        |line, words| {
            let files = line.number(words, 0..=MAX)?;
            if line.first_time(words, line.global.limits.open_files_hard.is_some()) {
                line.global.limits.open_files_hard = (files > 0).then_some(files);
            }
            Ok(())
        },
    )
    .default(Described("`1048576`, and never more than the system's hard limit")),
    Row::<GlobalReader>::ready(
        "strict-limits",
        "",
        "",
        "do not start when limits cannot be set",
        |line, words| {
            line.global.limits.strict = line.flag(words)?;
            Ok(())
        },
    )
    .default(Described("on")),
];
