//! The number of threads, and their CPU affinity.

use std::ops::RangeInclusive;

use super::context::GlobalReader;
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Parsed, fault, not_yet};
use weir_model::{CpuMap, CpuSet, MAX_THREADS};
use weir_syntax::Word;

/// The highest supported CPU number.
const MAX_CPU: u16 = 1023;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready("nbthread", "<number>", "4", "worker threads", |line, words| {
        line.before_proxies(words)?;
        let threads = thread_count(words.peek(), words.here(), "nbthread", MAX_THREADS)?;
        words.take();
        words.end("nbthread")?;
        line.global.threads = Some(threads);
        Ok(())
    })
    .default(Described("one for each processor that the process may use")),
    Row::ready("thread-groups", "<number>", "1", "groups of worker threads (always 1)", |line, words| {
        line.before_proxies(words)?;
        let groups = thread_count(words.peek(), words.here(), "thread-groups", MAX_THREADS)?;
        if groups > 1 {
            return Err(not_yet(words.here(), "thread-groups above 1"));
        }
        words.take();
        words.end("thread-groups")
    }),
    Row::ready(
        "max-threads-per-group",
        "<number>",
        "16",
        "most threads of the single group",
        |line, words| line.number(words, 1..=MAX_THREADS).map(drop),
    ),
    Row::ready(
        "cpu-map",
        "[auto:]<thread-group>[/<thread-set>] <cpu-set>[,...] [...]",
        "auto:1/1-4 0-3",
        "CPUs that threads may run on",
        |line, words| {
            let which = words.peek().filter(|_| words.line().len() >= 3);
            let Some(which) = which else {
                let message = format!(
                    "cpu-map expects a thread group number  ('all', 'odd', 'even', a number from 1 to {MAX_THREADS} or \
                     a range), optionally followed by '/' and a thread range,  followed by a list of CPU ranges with \
                     numbers from 0 to {MAX_CPU}."
                );
                return Err(words.fault(message));
            };
            words.take();
            let selection = CpuMapThreads::read(which)?;
            let mut cpus = Vec::new();
            while let Some(word) = words.take() {
                for part in word.text().split(',') {
                    cpus.extend(cpu_range(part).ok_or_else(|| {
                        fault(word.span(), format!("cpu-map : '{part}' is not a CPU range."))
                    })?);
                }
            }
            apply(&mut line.global.cpu_map, &selection, cpus, which)
        },
    ),
];

/// The threads of a `cpu-map` line.
struct CpuMapThreads {
    /// Whether each thread gets the next single CPU. Otherwise all threads share all CPUs.
    automatic: bool,
    /// Threads of the only group. Empty if the line names other groups.
    threads: Vec<u16>,
}

impl CpuMapThreads {
    fn read(word: &Word) -> Parsed<Self> {
        let text = word.text();
        let (automatic, text) = match text.strip_prefix("auto:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (group, threads) = text.split_once('/').unwrap_or((text, "all"));
        let read =
            |part: &str| numbers(part).map_err(|message| fault(word.span(), format!("cpu-map : {message}")));
        let in_group = read(group)?.contains(&1);
        let threads = if in_group { read(threads)? } else { Vec::new() };
        Ok(CpuMapThreads { automatic, threads })
    }
}

fn apply(map: &mut CpuMap, selection: &CpuMapThreads, mut cpus: CpuSet, which: &Word) -> Parsed {
    if !selection.automatic || !which.text().contains('/') {
        cpus.sort_unstable();
        cpus.dedup();
        for thread in &selection.threads {
            map.threads.insert(*thread, cpus.clone());
        }
        return Ok(());
    }
    if !selection.threads.is_empty() && selection.threads.len() != cpus.len() {
        let message = "cpu-map : thread range and CPU sets must have the same size to be automatically bound";
        return Err(fault(which.span(), message));
    }
    for (thread, cpu) in selection.threads.iter().zip(cpus) {
        map.threads.insert(*thread, vec![cpu]);
    }
    Ok(())
}

/// Parses `all`, `odd`, `even`, `3`, `1-4`. The error is a sentence.
fn numbers(text: &str) -> Result<Vec<u16>, String> {
    let all = 1..=MAX_THREADS;
    match text {
        "all" => return Ok(all.collect()),
        "odd" => return Ok(all.filter(|number| number % 2 == 1).collect()),
        "even" => return Ok(all.filter(|number| number % 2 == 0).collect()),
        _ => {}
    }
    let invalid = || format!("'{text}' is not a valid number/range.");
    let range = range(text, MAX_THREADS).ok_or_else(invalid)?;
    if *range.start() < 1 || *range.end() > MAX_THREADS {
        return Err(format!("{} It supports numbers from 1 to {MAX_THREADS}.", invalid()));
    }
    Ok(range.collect())
}

/// `0`, `0-3`, `4-`.
fn cpu_range(text: &str) -> Option<RangeInclusive<u16>> {
    range(text, MAX_CPU).filter(|range| *range.end() <= MAX_CPU)
}

/// `1`, `1-4`, or `3-` for all from 3 to `max`.
fn range(text: &str, max: u16) -> Option<RangeInclusive<u16>> {
    let number = |digits: &str| {
        let regular = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        regular.then(|| digits.parse::<u16>().ok()).flatten()
    };
    let (first, last) = match text.split_once('-') {
        Some((first, "")) => (number(first)?, max),
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    Some(first.min(last)..=first.max(last))
}

fn thread_count(word: Option<&Word>, here: weir_syntax::Span, keyword: &str, max: u16) -> Parsed<u16> {
    let text = word.map_or("", Word::text);
    let Some(number) = weir_syntax::units::parse_integer(text) else {
        let message = format!("'{keyword}' passed a missing or unparsable integer value in '{text}'");
        return Err(fault(here, message));
    };
    u16::try_from(number)
        .ok()
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| fault(here, format!("'{keyword}' value must be between 1 and {max} (was {number})")))
}
