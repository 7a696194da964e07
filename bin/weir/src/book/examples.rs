//! Examples and differences for the pages, from the tables that the tests run.

use std::collections::BTreeMap;

use weir_config::vocabulary::{ConfigWord, WordPlace, WordState};

use super::Sort;
use crate::explain::Entry;

/// What expressions give, by the name of the fetch or converter that they show.
pub struct Examples {
    fetches: BTreeMap<String, (String, String)>,
    converters: BTreeMap<String, (String, String)>,
}

impl Examples {
    /// The first row of a table of the tests that shows each: a fetch alone, a converter behind one fetch.
    pub fn read() -> Self {
        let mut examples = Examples { fetches: BTreeMap::new(), converters: BTreeMap::new() };
        for row in FETCHES.lines().filter(|row| !row.starts_with('#')) {
            let columns: Vec<&str> = row.split('\t').collect();
            let [_, place, _, expression, value, ..] = columns[..] else { panic!("five columns: {row}") };
            if let ([fetch], true) =
                (&parts(expression)[..], place != "condition" && is_fit(expression, value))
            {
                let example = (expression.to_owned(), value.to_owned());
                examples.fetches.entry(name(fetch).to_owned()).or_insert(example);
            }
        }
        let rows = || CONVERTERS.lines().filter(|row| !row.starts_with('#'));
        // What nothing becomes shows less than anything else.
        let dull =
            |row: &&str| row.starts_with("int(0)") || row.starts_with("str()") || row.starts_with("bool(");
        for row in rows().filter(|row| !dull(row)).chain(rows().filter(dull)) {
            let mut columns = row.split('\t');
            let (Some(expression), Some(theirs)) = (columns.next(), columns.next()) else { continue };
            let value = columns.next().unwrap_or(theirs);
            if let ([_, converter], true) = (&parts(expression)[..], is_fit(expression, value)) {
                let example = (expression.to_owned(), value.to_owned());
                examples.converters.entry(name(converter).to_owned()).or_insert(example);
            }
        }
        examples
    }

    /// An expression that shows it, and what that gives.
    pub fn of(&self, entry: &Entry) -> Option<&(String, String)> {
        match Sort::of(entry) {
            Sort::Fetch => self.fetches.get(entry.name),
            Sort::Converter => self.converters.get(entry.name),
            _ => None,
        }
    }
}

/// Whether a page can show it. Backquotes and pipes have meanings of their own there; ports are those of one run, variables and
/// maps those of the tests.
fn is_fit(expression: &str, value: &str) -> bool {
    let none = ["error", "(empty)", "-", "~", "PORT", "SERVERPORT", ""].contains(&value);
    let foreign = ["var(", "txn.", ".map", ".lst"].iter().any(|part| expression.contains(part));
    !none
        && !foreign
        && expression.len() <= LONGEST
        && ![expression, value].iter().any(|text| text.contains(['`', '|']))
}

/// A fetch and its converters: commas inside parentheses separate arguments.
fn parts(expression: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let separates = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    expression.split(separates).collect()
}

/// What stands before the arguments.
fn name(call: &str) -> &str {
    call.split('(').next().unwrap_or_default()
}

/// What HAProxy 3.2 makes of lines with a word, where that is something else: one line for each reason.
pub fn differences(word: &ConfigWord) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut found = Vec::new();
    for row in LINES.lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, place, line, verdict, difference, _] = columns[..] else { continue };
        let Some((theirs, why)) = difference.split_once(": ") else { continue };
        let told = NOT_WORTH_TELLING.contains(&why) || reasons.contains(&why);
        if told || !is_place(word, place) || line.contains('`') || !begins_with(line, word.name) {
            continue;
        }
        reasons.push(why);
        let plain = PLAIN.iter().find(|(known, _)| *known == why).map_or(why, |(_, plain)| plain);
        found.push(format!("{plain}: `{line}` is {}; HAProxy 3.2 {}.", of(verdict), of_theirs(theirs)));
    }
    found
}

fn begins_with(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '(']))
}

fn is_place(word: &ConfigWord, place: &str) -> bool {
    if word.state != WordState::Ready {
        return false;
    }
    match word.place {
        WordPlace::Proxy => ["defaults", "frontend", "backend", "listen", "tcp"].contains(&place),
        WordPlace::Bind => place == "bind",
        WordPlace::Server => ["server", "default-server"].contains(&place),
        other => other.section() == Some(place),
    }
}

fn of(verdict: &str) -> &str {
    match verdict {
        "ok" => "accepted",
        "warning" => "accepted with a warning",
        _ => "refused",
    }
}

fn of_theirs(verdict: &str) -> &str {
    match verdict {
        "ok" => "accepts it",
        "warning" => "warns of it",
        _ => "refuses it",
    }
}

/// Reasons that say nothing of a word: that of the experiment, or of a version.
const NOT_WORTH_TELLING: [&str; 5] = [
    "no experiment here",
    "depends on the machine",
    "a word that this reference does not have",
    "not there yet",
    "what has no effect here is warned of, not read",
];

/// Reasons in other words, where a page is read by somebody who does not know the table.
const PLAIN: [(&str, &str); 4] = [
    (
        "what is no number, or too much, is refused",
        "a value that is not a number, or is out of range, is refused",
    ),
    ("what has no meaning is refused, not passed over", "a word that has no meaning is refused, not ignored"),
    ("an argument that is missing is missed", "a missing argument is an error"),
    ("an empty condition is warned of", "a condition that can never hold is warned of"),
];

/// Longer expressions show nothing to a reader.
const LONGEST: usize = 70;

const FETCHES: &str = include_str!("../../../../tests/walk/fetches.tsv");
const CONVERTERS: &str = include_str!("../../../../language/expr/tests/data/manual.tsv");
const LINES: &str = include_str!("../../tests/manual.tsv");

/// Every example of the rows is a line that `-c` takes, in the place that the page says.
#[test]
fn examples_of_rows_are_accepted() {
    let mut refused = Vec::new();
    let mut tried = 0;
    for word in weir_config::vocabulary::words().iter().filter(|word| word.state == WordState::Ready) {
        let Some(place) = a_place(word) else { continue };
        let separator = if word.example.starts_with('(') || word.example.is_empty() { "" } else { " " };
        let option = if word.place == WordPlace::Option { "option " } else { "" };
        let line = format!("{option}{}{separator}{}", word.name, word.example);
        let (verdict, said) = crate::manual::read(&crate::manual::written(place, &line));
        tried += 1;
        if verdict == "error" && !OTHERS_NEEDED.contains(&word.name) {
            refused.push(format!("{place}: {line}\n{said}"));
        }
    }
    assert!(tried > 400, "{tried} examples");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Where the line of an example is tried; none for a place that has its own tests.
fn a_place(word: &ConfigWord) -> Option<&'static str> {
    match word.place {
        WordPlace::Proxy | WordPlace::Option => {
            let valid = weir_config::vocabulary::written_in(word);
            ["listen", "frontend", "backend", "defaults"].into_iter().find(|place| valid.contains(place))
        }
        WordPlace::Global => Some("global"),
        WordPlace::Bind => Some("bind"),
        WordPlace::Server => Some("server"),
        _ => None,
    }
}

/// Words whose example needs files, sections or other words beside it; their own tests have them.
const OTHERS_NEEDED: [&str; 26] = [
    "issuers-chain-path",
    "ca-file",
    "ca-verify-file",
    "crl-file",
    "crt",
    "crt-list",
    "default-crt",
    "tls-ticket-keys",
    "h1-case-adjust-file",
    "numa-cpu-mapping",
    "default_backend",
    "errorfiles",
    "filter-sequence",
    "server-template",
    "stick match",
    "stick on",
    "stick store-request",
    "stick store-response",
    "external-check",
    "ssl",
    "healthcheck",
    "log-bufsize",
    "resolvers",
    "track",
    "usesrc",
    "server-state-file-name",
];
