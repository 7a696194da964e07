//! The `global` section: settings of the whole process (manual, section "Global parameters").
//!
//! [`GLOBAL_KEYWORDS`] has one row for each word, grouped by subject in the files below. Each row fills a field of
//! [`weir_model::Global`]. Several `global` sections add up.

mod client;
mod compression;
mod context;
mod cpu;
mod environment;
mod forwarding;
mod http1;
mod http2;
mod limits;
mod logging;
mod not_yet;
mod paths;
mod process;
mod profiling;
mod scripts;
mod sockets;
mod statuses;
mod tls;
mod tls_defaults;
mod tuning;
mod variables;

use weir_syntax::{Diagnostic, Layout, Line};

use crate::rows::{Handler, Table};
use crate::words::{Fault, Parsed, Words, fault, not_yet as not_implemented_yet};

pub(crate) use context::{GlobalContext, GlobalReader};

/// Every word of the `global` section.
pub(crate) static GLOBAL_KEYWORDS: Table<GlobalReader> = Table::new(&[
    process::ROWS,
    client::ROWS,
    profiling::ROWS,
    scripts::ROWS,
    cpu::ROWS,
    limits::ROWS,
    compression::ROWS,
    logging::ROWS,
    sockets::ROWS,
    statuses::ROWS,
    environment::ROWS,
    variables::ROWS,
    paths::ROWS,
    http1::ROWS,
    tuning::ROWS,
    tls_defaults::ROWS,
    http2::ROWS,
    forwarding::ROWS,
    tls::ROWS,
    not_yet::ROWS,
]);

/// The words that `no` may precede.
const NEGATABLE: [&str; 7] = [
    "busy-polling",
    "h2-workaround-bogus-websocket-clients",
    "insecure-fork-wanted",
    "log",
    "numa-cpu-mapping",
    "set-dumpable",
    "strict-limits",
];

/// Reads one line of a `global` section.
pub(crate) fn read_line(context: &mut GlobalContext<'_>, line: &Line) -> Parsed {
    let first = usize::from(line.text(0) == "no");
    context.negated = first == 1;
    if context.negated && !NEGATABLE.contains(&line.text(1)) {
        let message = "negation/default currently supported only for options, log, busy-polling, set-dumpable, \
                       strict-limits, insecure-fork-wanted and numa-cpu-mapping.";
        let fault = Diagnostic::alert(line.keyword().span(), message).layout(Layout::ParsingTight);
        return Err(Box::new(fault));
    }
    let Some((row, length)) = GLOBAL_KEYWORDS.find_phrase(line, first) else {
        return Err(unknown(line, first));
    };
    let span = line.span_at(first).to(line.span_at(first + length - 1));
    context.keyword = row.name;
    match row.handler {
        Handler::Ready(read) => read(context, &mut Words::new(line, first + length)),
        Handler::NotYet => Err(not_implemented_yet(span, row.name)),
        Handler::Removed(instead) => {
            Err(fault(span, format!("'{}' is not supported any more; {instead}", row.name)))
        }
    }
}

/// Reads a line of a `global` section if the master needs it.
pub(crate) fn discover_line(context: &mut GlobalContext<'_>, line: &Line) -> Parsed {
    match GLOBAL_KEYWORDS.find_phrase(line, 0) {
        Some((row, _)) if row.discovery => read_line(context, line),
        _ => Ok(()),
    }
}

fn unknown(line: &Line, first: usize) -> Fault {
    let keyword = line.text(first);
    if keyword == "stats" {
        let message = format!(
            "'stats' only supports 'socket', 'maxconn' and 'timeout' (got '{}')",
            line.text(first + 1)
        );
        return fault(line.span_at(first + 1), message);
    }
    let sections = crate::sections::SECTIONS.rows().map(|row| row.name);
    let words = GLOBAL_KEYWORDS.rows().map(|row| row.name.split(' ').next().unwrap_or_default());
    let nearest = weir_syntax::did_you_mean(keyword, words.chain(sections));
    let mut fault = fault(line.span_at(first), format!("unknown keyword '{keyword}' in 'global' section"));
    fault.suggestion = nearest.map(str::to_owned);
    fault
}

#[cfg(test)]
mod tests;
