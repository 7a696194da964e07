//! `filter` and `filter-sequence` (manual, 4.2 and 9).

use std::time::Duration;

use crate::testing::{check, read};
use weir_model::*;

const A: &str = "filter bwlim-in a default-limit 1k default-period 1s";
const B: &str = "filter bwlim-out b default-limit 1m default-period 500 min-size 2896";

/// Checks the message for the last of these lines, without its prefix.
#[track_caller]
fn refuse(lines: &[&str], want: &str) {
    let text = format!("listen l\n bind :80\n mode tcp\n {}\n", lines.join("\n "));
    let outcome = read(&text);
    let errors: Vec<_> = outcome.messages.iter().filter(|message| message.starts_with('A')).collect();
    assert!(errors.len() == 1 && errors[0].contains(want), "{lines:?}: {errors:#?}, not {want}");
}

#[test]
fn filters_are_kept_in_the_order_of_their_lines() {
    let lines = format!(
        "{A} ;; filter trace ;; {B} ;; filter trace name x quiet random-forwarding max-fwd 7 hexdump"
    );
    let outcome = check("listen l", &lines, &[]);
    let kinds: Vec<_> = outcome.proxies[1].filters.iter().map(|filter| filter.kind.clone()).collect();
    let limit = |name: &str, direction, limit, period_ms, min_size| BandwidthFilter {
        name: name.into(),
        direction,
        limit,
        period: Duration::from_millis(period_ms),
        min_size,
        shared: None,
    };
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
    let [FilterKind::Bandwidth(a), FilterKind::Trace(t), FilterKind::Bandwidth(b), FilterKind::Trace(x)] =
        &kinds[..]
    else {
        panic!("{kinds:?}")
    };
    assert_eq!(format!("{a:?}"), format!("{:?}", limit("a", FilterDirection::Request, 1024, 1000, 0)));
    assert_eq!(format!("{b:?}"), format!("{:?}", limit("b", FilterDirection::Response, 1 << 20, 500, 2896)));
    assert_eq!((t, x), (&plain, &full));
    let order = |direction| outcome.proxies[1].filter_order(direction).collect::<Vec<_>>();
    assert_eq!(order(FilterDirection::Request), [0, 1, 3]);
    assert_eq!(order(FilterDirection::Response), [1, 2, 3]);
}

#[test]
fn filter_sequence_reorders_filters_by_direction() {
    let lines = format!(
        "filter-sequence request trace,bwlim-in,trace ;; {A} ;; filter trace ;; {B} ;; filter trace ;; \
         filter-sequence response bwlim-out,trace,trace"
    );
    let outcome = check("listen l", &lines, &[]);
    let order = |direction| outcome.proxies[1].filter_order(direction).collect::<Vec<_>>();
    assert_eq!(order(FilterDirection::Request), [1, 0, 3]);
    assert_eq!(order(FilterDirection::Response), [2, 1, 3]);
}

#[test]
fn wrong_filters_are_refused() {
    let bwlim = |rest: &str, want: &str| {
        refuse(
            &[&format!("filter bwlim-in{rest}")],
            &format!("parsing [t.cfg:4] : 'filter' : 'bwlim-in' : {want}"),
        );
    };
    refuse(&["filter"], "missing argument for 'filter' in proxy 'l'.");
    refuse(
        &["filter trece"],
        "'filter' : unknown keyword 'trece'. Registered keywords : 'bwlim-in', 'bwlim-out', 'trace'",
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
    refuse(&["filter-sequence"], "expects either 'request' or 'response'");
    refuse(&["filter-sequence request"], "expects a list of filters");
    refuse(&["filter-sequence request trace"], "the proxy has no (other) filter 'trace'.");
    refuse(&["filter trace", "filter-sequence request trace,trace"], "no (other) filter 'trace'.");
    refuse(
        &["filter trace", "filter-sequence request trace", "filter-sequence request trace"],
        "is there already",
    );
    let wanted = "A parsing [t.cfg:8] : 'filter' not allowed in 'defaults' section.";
    check("defaults d", "filter trace", &[wanted]);
}

#[test]
fn streams_of_one_key_may_share_a_limit() {
    let stored = "stick-table type ip size 10 store bytes_out_rate(2s)";
    let shared = "filter bwlim-out a limit 1k key src min-size 7";
    let outcome = check("listen l", &format!("{stored} ;; {shared} table l"), &[]);
    let FilterKind::Bandwidth(limit) = &outcome.proxies[1].filters[0].kind else { panic!() };
    assert_eq!((limit.limit, limit.min_size, limit.shared.is_some()), (1024, 7, true));
    refuse(&[shared], "proxy 'l' has no stick-table");
    refuse(&["filter bwlim-out a limit 1k key src table nosuch"], "nosuch");
    refuse(
        &["stick-table type ip size 10 store bytes_in_rate(2s)", shared],
        "bwlim filter 'a' needs 'bytes_out_rate' in stick-table 'l'",
    );
}

#[test]
fn reports_filters_that_are_not_implemented_yet() {
    for name in
        ["cache c", "compression", "comp-req", "comp-res", "fcgi-app x", "opentracing", "spoe x", "lua.x"]
    {
        let word = name.split(' ').next().unwrap_or_default();
        refuse(&[&format!("filter {name}")], &format!("'filter {word}' is not implemented yet"));
    }
    refuse(
        &["filter trace", "filter trace", "filter-sequence response trace"],
        "without filter 'trace' is not implemented yet",
    );
}
