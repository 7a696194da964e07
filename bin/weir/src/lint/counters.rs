//! Stick-table counters that are read but never stored. Each reads as 0, so a limit on it never applies.

use std::collections::{BTreeMap, BTreeSet};

use weir_expr::table::DataType;
use weir_model::StickTable;

use super::{LintSubject, with_sections};
use crate::findings::Finding;

/// Fetches and converters that read data not stored in their tables.
pub(super) fn not_kept(subject: &LintSubject<'_>) -> Vec<Finding> {
    let tracked = tracked(subject);
    let mut found = Vec::new();
    for (section, line) in with_sections(subject.lines) {
        let mut reported = BTreeSet::new();
        for (index, word) in line.words().iter().enumerate().skip(1) {
            for reading in readings(word.text()).into_iter().filter(|reading| reported.insert(reading.fetch))
            {
                let table = match (reading.table, reading.counter) {
                    (Some(table), _) => Some(table.to_owned()),
                    (None, None) => section.map(str::to_owned),
                    (None, Some(counter)) => match tracked.get(counter) {
                        None => {
                            let message = format!(
                                "'{}' never has a value: the configuration does not have a 'track-sc{counter}' rule.",
                                reading.fetch
                            );
                            found.push(subject.finding(UNTRACKED, line.span_at(index), message));
                            continue;
                        }
                        Some(tables) => tables
                            .iter()
                            .find(|name| stores(subject, name, reading.data) != Some(false))
                            .or(tables.first())
                            .cloned(),
                    },
                };
                if let Some(table) = table
                    && stores(subject, &table, reading.data) == Some(false)
                {
                    let message = format!(
                        "'{}' is always 0: table '{table}' does not store {}.",
                        reading.fetch,
                        reading.data.name()
                    );
                    found.push(subject.finding(NOT_STORED, line.span_at(index), message));
                }
            }
        }
    }
    found
}

/// Whether a table stores this data. `None` for an unknown table.
fn stores(subject: &LintSubject<'_>, name: &str, data: DataType) -> Option<bool> {
    let is_it = |table: &&StickTable| *table.declaration.name == *name;
    let table = subject.config.tables.iter().find(is_it)?;
    let array = match data {
        DataType::Gpc0 | DataType::Gpc1 => DataType::Gpc,
        DataType::Gpc0Rate | DataType::Gpc1Rate => DataType::GpcRate,
        DataType::Gpt0 => DataType::Gpt,
        other => other,
    };
    Some(table.declaration.stored.iter().any(|stored| stored.data == data || stored.data == array))
}

/// The tables in which each counter is tracked.
fn tracked(subject: &LintSubject<'_>) -> BTreeMap<String, Vec<String>> {
    let mut tables = BTreeMap::<String, Vec<String>>::new();
    for (section, line) in with_sections(subject.lines) {
        let words = line.words();
        let Some(at) = words.iter().position(|word| word.text().starts_with("track-sc")) else { continue };
        let counter = words[at].text().trim_start_matches("track-sc").to_owned();
        let named = words[at..].windows(2).find(|pair| pair[0].is("table")).map(|pair| pair[1].text());
        tables.entry(counter).or_default().extend(named.or(section).map(str::to_owned));
    }
    tables
}

/// One fetch or converter that reads stick-table data.
#[derive(Debug, PartialEq)]
struct CounterReading<'w> {
    /// The name in the configuration.
    fetch: &'w str,
    data: DataType,
    /// The tracked counter. `None` for fetches and converters that look up a key.
    counter: Option<&'w str>,
    /// The table, if given as an argument.
    table: Option<&'w str>,
}

/// All stick-table fetches and converters in a word, which may be an expression or a log format.
fn readings(word: &str) -> Vec<CounterReading<'_>> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut found = Vec::new();
    let mut rest = word;
    while let Some(start) = rest.bytes().position(is_name) {
        rest = &rest[start..];
        let end = rest.bytes().position(|byte| !is_name(byte)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let arguments = after.strip_prefix('(').and_then(|after| after.split(')').next()).unwrap_or_default();
        found.extend(reading(name, arguments));
        rest = after;
    }
    found
}

fn reading<'w>(fetch: &'w str, arguments: &'w str) -> Option<CounterReading<'w>> {
    let mut arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty());
    let (family, what) = fetch.split_once('_')?;
    let takes_element =
        matches!(what, "get_gpc" | "inc_gpc" | "gpc_rate" | "get_gpt" | "clr_gpc" | "gpc" | "gpt");
    let counter = match family {
        "sc" | "table" | "src" if takes_element => {
            arguments.next()?;
            (family == "sc").then(|| arguments.next()).flatten()
        }
        "sc" => Some(arguments.next()?),
        "src" | "table" => None,
        _ => Some(family.strip_prefix("sc").filter(|number| number.parse::<u8>().is_ok())?),
    };
    let data = match what.trim_start_matches("get_").trim_start_matches("inc_").trim_start_matches("clr_") {
        "kbytes_in" => DataType::BytesInCount,
        "kbytes_out" => DataType::BytesOutCount,
        "updt_conn_cnt" => DataType::ConnectionCount,
        name => DataType::from_name(name)?,
    };
    Some(CounterReading { fetch, data, counter, table: arguments.next() })
}

const NOT_STORED: &str = "C709";
const UNTRACKED: &str = "C710";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: &[(&str, Option<&str>, Option<&str>)]) {
        let found: Vec<_> = readings(word)
            .into_iter()
            .map(|reading| (reading.data.name(), reading.counter, reading.table))
            .collect();
        assert_eq!(found, expected, "{word}");
    }

    #[test]
    fn recognizes_the_counter_and_table_of_stick_counter_fetches() {
        check("sc_http_req_rate(0)", &[("http_req_rate", Some("0"), None)]);
        check("sc_http_req_rate(0,t)", &[("http_req_rate", Some("0"), Some("t"))]);
        check("sc1_get_gpc0", &[("gpc0", Some("1"), None)]);
        check("sc2_inc_gpc0(t)", &[("gpc0", Some("2"), Some("t"))]);
        check("sc_get_gpc(3,0,t)", &[("gpc", Some("0"), Some("t"))]);
        check("src_conn_rate(t)", &[("conn_rate", None, Some("t"))]);
        check("src_conn_rate", &[("conn_rate", None, None)]);
        check("src,table_kbytes_in(t),add(1)", &[("bytes_in_cnt", None, Some("t"))]);
        check(
            "a=%[sc_conn_cur(0)]b=%[sc0_bytes_out_rate]",
            &[("conn_cur", Some("0"), None), ("bytes_out_rate", Some("0"), None)],
        );
        check("hdr(sc_conn)", &[]);
        check("src_port", &[]);
        check("sc_tracked(0)", &[]);
    }
}
