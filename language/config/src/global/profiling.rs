//! Words about profiling and about the watchdog's warnings.

use std::time::Duration;

use super::context::GlobalReader;
use crate::numbers::delay_of;
use crate::rows::DefaultValue::Written;
use crate::rows::Row;
use crate::words::fault;
use weir_model::TaskProfiling;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready(
        "profiling.tasks",
        "{ auto | on | off | lock | no-lock | memory | no-memory }*",
        "on memory",
        "measure the time and memory of tasks: always, or of slow ones only",
        |line, words| {
            let mut profiling = line.global.profiling.clone();
            loop {
                let text = words.peek_text();
                match text {
                    "auto" => profiling.tasks = TaskProfiling::Auto,
                    "on" => profiling.tasks = TaskProfiling::On,
                    "off" => profiling.tasks = TaskProfiling::Off,
                    "lock" | "no-lock" => profiling.locks = text == "lock",
                    "memory" | "no-memory" => profiling.memory_time = text == "memory",
                    _ => {
                        let message = format!(
                            "'{}' expects any of 'auto', 'on', 'off', 'lock', 'no-lock', 'memory' and \
                             'no-memory' but got '{text}'.",
                            line.keyword
                        );
                        return Err(words.fault(message));
                    }
                }
                words.take();
                if words.at_end() {
                    break;
                }
            }
            line.global.profiling = profiling;
            Ok(())
        },
    )
    .default(Written("auto")),
    Row::<GlobalReader>::ready(
        "profiling.memory",
        "{ on | off }",
        "on",
        "count memory by allocation site",
        |line, words| {
            line.global.profiling.memory = line.switch(words)?;
            Ok(())
        },
    )
    .default(Written("off")),
    Row::<GlobalReader>::ready(
        "warn-blocked-traffic-after",
        "<time>",
        "50ms",
        "report a thread that is blocked for longer; 100ms by default",
        |line, words| {
            let word = words.expect(&format!("'{}' expects a time of 1 to 1000 ms.", line.keyword))?;
            let delay = delay_of(words, word, line.keyword)?;
            if !(LEAST_WARNING..=MOST_WARNING).contains(&delay) {
                let message =
                    format!("'{}' expects a time of 1 to 1000 ms but got '{}'.", line.keyword, word.text());
                return Err(fault(word.span(), message));
            }
            words.end(line.keyword)?;
            line.global.profiling.warn_blocked_after = delay;
            Ok(())
        },
    )
    .default(Written("100ms")),
];

/// The watchdog checks once per interval, and its clock has this resolution.
const LEAST_WARNING: Duration = Duration::from_millis(1);
/// After a second without progress the watchdog ends the process instead of warning.
const MOST_WARNING: Duration = Duration::from_secs(1);
