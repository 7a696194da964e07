//! Process-wide settings of compression.

use super::context::GlobalReader;
use crate::rows::DefaultValue::Written;
use crate::rows::Row;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready(
        "maxcompcpuusage",
        "<number>",
        "80",
        "per cent of CPU usage from which new messages are not compressed, and others less",
        |line, words| {
            line.global.tuning.compression.cpu_limit = line.number(words, 0..=100)?;
            Ok(())
        },
    )
    .default(Written("100")),
    Row::<GlobalReader>::ready(
        "maxcomprate",
        "<number>",
        "10000",
        "kilobytes per second given to compression, from which new messages are not compressed, and others less \
         (0: no limit)",
        |line, words| {
            line.global.tuning.compression.rate_limit = line.number(words, 0..=MAX_RATE)?;
            Ok(())
        },
    )
    .default(Written("0")),
    Row::<GlobalReader>::ready(
        "maxzlibmem",
        "<number>",
        "512",
        "megabytes of memory for compression, of every algorithm; more messages are not compressed (0: no limit)",
        |line, words| {
            line.global.tuning.compression.memory_limit = line.number(words, 0..=MAX_MEMORY)?;
            Ok(())
        },
    )
    .default(Written("256")),
    Row::<GlobalReader>::ready(
        "tune.comp.maxlevel",
        "<number>",
        "2",
        "effort of compression, from 1 to 9: 2 has the size of nginx's default",
        |line, words| {
            line.global.tuning.compression.level = line.number(words, 1..=9)?;
            Ok(())
        },
    )
    .default(Written("1")),
    Row::<GlobalReader>::ready(
        "tune.zlib.memlevel",
        "<number>",
        "5",
        "gzip and deflate: memory for the encoder's state, from 1 to 9",
        |line, words| {
            line.global.tuning.compression.zlib_memory_level = line.number(words, 1..=9)?;
            Ok(())
        },
    )
    .default(Written("8")),
    Row::<GlobalReader>::ready(
        "tune.zlib.windowsize",
        "<number>",
        "13",
        "gzip and deflate: the window's size as a power of two, from 8 to 15",
        |line, words| {
            line.global.tuning.compression.zlib_window = line.number(words, 8..=15)?;
            Ok(())
        },
    )
    .default(Written("15")),
];

/// In kilobytes. The rate in bytes has 32 bits.
const MAX_RATE: u32 = u32::MAX / 1024;
/// In megabytes.
const MAX_MEMORY: u32 = i32::MAX as u32;
