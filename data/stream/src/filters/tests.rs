//! Tests of the filters' syntax: each row parses its example, errors have the expected texts, and values are stored.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use weir_config::StreamKeywords;
use weir_config::proxy::{FilterTable, filter};
use weir_expr::{ArgKind, Expr};
use weir_fingerprint::Canonical;
use weir_model::{Filter, FilterDirection};

use super::bandwidth::BandwidthFilter;
use super::trace::TraceFilter;
use super::{FILTERS, FilterParts, StreamFilter, arguments};
use crate::actions::ACTIONS;
use crate::instance::Proxy;
use crate::stream::Stream;
use crate::testing::{AGENTS, Read, read, read_with};

const A: &str = "filter bwlim-in a default-limit 1k default-period 1s";
const B: &str = "filter bwlim-out b default-limit 1m default-period 500 min-size 2896";

fn section(lines: &[&str]) -> Read {
    read(&format!("listen l\n bind :80\n mode tcp\n {}\n", lines.join("\n ")))
}

fn alerts(outcome: &Read) -> Vec<&String> {
    outcome.messages.iter().filter(|message| message.starts_with('A')).collect()
}

/// Reads valid lines.
#[track_caller]
fn accept(lines: &[&str]) -> Vec<Filter> {
    let mut outcome = section(lines);
    assert!(alerts(&outcome).is_empty(), "{lines:?}: {:#?}", outcome.messages);
    std::mem::take(&mut outcome.proxies[0].filters)
}

/// Checks the message for the last of these lines, without its prefix.
#[track_caller]
fn refuse(lines: &[&str], want: &str) {
    let outcome = section(lines);
    let errors = alerts(&outcome);
    assert!(errors.len() == 1 && errors[0].contains(want), "{lines:?}: {errors:#?}, not {want}");
}

#[test]
fn the_example_of_every_filter_is_accepted() {
    // Filters of scripts need a script: tests/scripts.
    for row in FILTERS.rows().filter(|row| row.is_ready() && row.name != "lua.<name>") {
        let after = match row.name {
            "spoe" => AGENTS,
            "fcgi-app" => APPLICATION,
            _ => "",
        };
        let filters = accept(&[&format!("filter {} {}{after}", row.name, row.example)]);
        assert_eq!(filters[0].keyword, row.name);
        let sees = |direction| filters[0].sees(direction);
        assert!(sees(FilterDirection::Request) || sees(FilterDirection::Response), "{}", row.name);
    }
}

/// The rest of the section and the application that `filter fcgi-app php` needs.
const APPLICATION: &str = "\n mode http\n server s 127.0.0.1:1 proto fcgi\nfcgi-app php\n docroot /srv\n";

#[test]
fn an_application_filter_names_the_application() {
    let filters = accept(&[&format!("filter fcgi-app php{APPLICATION}")]);
    assert_eq!(filters[0].facts().application, Some("php"));
}

#[test]
fn every_filter_has_a_help_text_and_one_row() {
    let mut names = HashSet::new();
    for row in FILTERS.rows() {
        assert!(!row.help.is_empty(), "{} lacks a help text", row.name);
        assert!(names.insert(row.name), "{} is there twice", row.name);
    }
}

/// Arguments with expressions, for filters that lack one in their example.
const FURTHER: &[(&str, &str)] =
    &[("bwlim-in", "a limit 1k key %[src] table l"), ("bwlim-out", "a limit 1k key src table l")];

/// The filters with an unvisited expression, each with the argument, and the number of visited expressions. Each word of each line is
/// replaced by a fetch: if an unknown fetch is refused there, a userlist in its place must be found.
fn unvisited(keywords: &'static StreamKeywords) -> (Vec<String>, usize) {
    let (mut faults, mut visited) = (Vec::new(), 0);
    let ready = keywords.filters.rows().filter(|row| row.is_ready()).map(|row| (row.name, row.example));
    for (name, arguments) in ready.chain(FURTHER.iter().copied()) {
        let words: Vec<&str> = arguments.split(' ').collect();
        let places = (0..words.len()).flat_map(|position| [(position, "", ""), (position, "%[", "]")]);
        for (position, before, after) in places {
            let with = |fetch: &str| {
                let mut words = words.clone();
                let word = format!("{before}{fetch}{after}");
                words[position] = &word;
                let stored = "stick-table type string size 1 store bytes_in_rate(1s),bytes_out_rate(1s)";
                let line = format!("filter {name} {}", words.join(" "));
                read_with(
                    keywords,
                    &format!("listen l\n {stored}\n {line}\nuserlist users\n user a insecure-password b\n"),
                )
            };
            let unknown = "unknown fetch method 'nosuch'";
            if with("nosuch").messages.iter().any(|message| message.contains(unknown)) {
                let outcome = with("http_auth(users)");
                let mut found = false;
                outcome.proxies[0].filters[0]
                    .visit_references(&mut |reference| found |= reference.kind == ArgKind::UserList);
                visited += usize::from(found);
                if !found {
                    let argument = words[position];
                    faults
                        .push(format!("{name}: `visit_references` does not visit the argument `{argument}`"));
                }
            }
        }
    }
    (faults, visited)
}

/// An unvisited reference is never resolved, and its passwords are not verified ahead.
#[test]
fn filters_visit_every_expression_of_their_arguments() {
    let (faults, visited) = unvisited(&crate::KEYWORDS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(visited >= FURTHER.len(), "{visited} expressions in the examples");
}

/// The expressions of an engine are in its file.
#[test]
fn an_engine_visits_the_arguments_of_its_messages() {
    let filters = accept(&[&format!("filter spoe engine check config engine.cfg{AGENTS}")]);
    let mut found = false;
    filters[0].visit_references(&mut |reference| found |= reference.kind == ArgKind::UserList);
    assert!(found);
}

#[test]
fn an_unvisited_filter_argument_is_reported() {
    let (faults, _) = unvisited(&BLIND_KEYWORDS);
    assert_eq!(faults, ["blind: `visit_references` does not visit the argument `src`"]);
}

#[test]
fn parses_the_arguments_of_filter_lines() {
    let filters =
        accept(&[A, "filter trace", B, "filter trace name x quiet random-forwarding max-fwd 7 hexdump"]);
    let limit = |name: &str, direction, limit, period_ms, min_size| BandwidthFilter {
        name: name.into(),
        direction,
        limit,
        period: Duration::from_millis(period_ms),
        min_size,
        shared: None,
    };
    let bandwidth = |at: usize| format!("{:?}", arguments::<BandwidthFilter>(&filters[at]).expect("a limit"));
    assert_eq!(bandwidth(0), format!("{:?}", limit("a", FilterDirection::Request, 1024, 1000, 0)));
    assert_eq!(bandwidth(2), format!("{:?}", limit("b", FilterDirection::Response, 1 << 20, 500, 2896)));
    let plain = TraceFilter {
        name: "TRACE".into(),
        quiet: false,
        random_forwarding: false,
        max_forward: None,
        hexdump: false,
    };
    let full = TraceFilter {
        name: "x".into(),
        quiet: true,
        random_forwarding: true,
        max_forward: Some(7),
        hexdump: true,
    };
    let traces = [1, 3].map(|at| arguments::<TraceFilter>(&filters[at]));
    assert_eq!(traces, [Some(&plain), Some(&full)]);
}

#[test]
fn each_filter_sees_only_its_directions() {
    let sees = |line: &str| {
        let filters = accept(&[line]);
        [FilterDirection::Request, FilterDirection::Response].map(|direction| filters[0].sees(direction))
    };
    assert_eq!(sees(A), [true, false]);
    assert_eq!(sees(B), [false, true]);
    assert_eq!(sees("filter trace"), [true, true]);
}

#[test]
fn invalid_filter_lines_are_rejected_with_haproxys_messages() {
    let bwlim = |rest: &str, want: &str| {
        refuse(
            &[&format!("filter bwlim-in{rest}")],
            &format!("parsing [t.cfg:4] : 'filter' : 'bwlim-in' : {want}"),
        );
    };
    refuse(
        &["filter trece"],
        "'filter' : unknown keyword 'trece'. Registered keywords : 'bwlim-in', 'bwlim-out', 'comp-req', 'comp-res', 'compression', 'trace', \
         'spoe', 'lua.<name>', 'fcgi-app'",
    );
    bwlim("", "a name is expected as first argument");
    bwlim(" a", "<default-period> option is missing");
    bwlim(" a default-limit", "the value is missing for 'default-limit' option");
    bwlim(" a default-limit 1x", "invalid value for option 'default-limit'");
    bwlim(" a default-limit 1k", "<default-period> option is missing");
    bwlim(" a default-limit 1k default-period", "the value is missing for 'default-period' option");
    bwlim(" a default-limit 1k default-period x", "invalid value for option 'default-period'");
    bwlim(" a default-limit 1k default-period 0", "<default-period> option is missing");
    bwlim(" a default-limit 0 default-period 1s", "<default-limit> option is missing");
    bwlim(" a default-period 1s", "<default-limit> option is missing");
    bwlim(" a default-limit 1k default-period 1s min-size x", "invalid value for option 'min-size'");
    bwlim(" a default-limit 1k default-period 1s limit 1k", "cannot mix per-stream and shared parameter");
    bwlim(" a limit 1k key src default-period 1s", "cannot mix per-stream and shared parameter");
    bwlim(" a limit 1k", "<key> option is missing");
    bwlim(" a key src", "<limit> option is missing");
    refuse(&["filter bwlim-out a limit 1k key nosuch"], "unknown fetch method 'nosuch'");
    refuse(&[&format!("{A} foo")], "'filter bwlim-in' : unknown keyword 'foo'.");
    refuse(&[A, &A.replace("-in", "-out")], "bwlim filter 'a' already declared for proxy 'l'");
    refuse(&["filter trace name"], "'filter' : 'trace' : 'name' option without value");
    refuse(&["filter trace x"], "'filter trace' : unknown keyword 'x'.");
    refuse(&["filter trace max-fwd 0"], "'max-fwd' has to be > 0");
}

#[test]
fn a_shared_bandwidth_limit_requires_a_table_with_its_rate() {
    let stored = "stick-table type ip size 10 store bytes_out_rate(2s)";
    let shared = "filter bwlim-out a limit 1k key src min-size 7";
    let filters = accept(&[stored, &format!("{shared} table l")]);
    let limit = arguments::<BandwidthFilter>(&filters[0]).expect("a limit");
    let table = limit.shared.as_ref().and_then(|shared| shared.table.target());
    assert_eq!((limit.limit, limit.min_size, table.map(|(table, _)| table)), (1024, 7, Some(0)));
    refuse(&[shared], "proxy 'l' has no stick-table");
    refuse(&["filter bwlim-out a limit 1k key src table nosuch"], "nosuch");
    refuse(
        &["stick-table type ip size 10 store bytes_in_rate(2s)", shared],
        "bwlim filter 'a' needs 'bytes_out_rate' in stick-table 'l'",
    );
}

#[test]
fn reports_filters_that_are_not_implemented_yet() {
    for name in ["cache c", "opentracing"] {
        let word = name.split(' ').next().unwrap_or_default();
        refuse(&[&format!("filter {name}")], &format!("'filter {word}' is not implemented yet"));
    }
}

#[test]
fn a_filter_of_a_script_needs_a_script() {
    refuse(&["filter lua.x"], "no script registered the filter 'lua.x'.");
}

/// A filter that does not visit its expression.
static BLIND: FilterTable = FilterTable::new(&[&[filter(
    "BLIND",
    "blind",
    "<expr>",
    "src",
    "does not visit its expression",
    |context, words| Ok(Blind(context.expression(words)?).into_arguments()),
)]]);

static BLIND_KEYWORDS: StreamKeywords = StreamKeywords::new(&ACTIONS, &BLIND);

#[derive(Debug, Canonical)]
struct Blind(Arc<Expr>);

impl StreamFilter for Blind {
    fn attach(&self, _: &Stream, _: &Proxy) -> FilterParts {
        FilterParts::default()
    }
}
