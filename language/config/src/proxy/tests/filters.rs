//! `filter` and `filter-sequence`, with a few filters of the tests (manual, 4.2 and 9).

use crate::testing::{check, read};
use weir_model::*;

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
    let outcome = check("listen l", "filter bwlim-in a ;; filter trace ;; filter bwlim-in b", &[]);
    let proxy = &outcome.proxies[1];
    let named = proxy.filters.iter().map(|filter| filter.facts().bandwidth.map(|limit| limit.name));
    assert_eq!(Vec::from_iter(named), [Some("a"), None, Some("b")]);
    assert_eq!(
        proxy.filters.iter().map(|filter| filter.keyword).collect::<Vec<_>>(),
        ["bwlim-in", "trace", "bwlim-in"]
    );
    let order = |direction| proxy.filter_order(direction).collect::<Vec<_>>();
    assert_eq!(order(FilterDirection::Request), [0, 1, 2]);
    assert_eq!(order(FilterDirection::Response), [1]);
}

#[test]
fn filter_sequence_reorders_filters_by_direction() {
    let lines = "filter-sequence request trace,bwlim-in,trace ;; filter bwlim-in a ;; filter trace ;; filter trace ;; \
                 filter-sequence response trace,trace";
    let outcome = check("listen l", lines, &[]);
    let order = |direction| outcome.proxies[1].filter_order(direction).collect::<Vec<_>>();
    assert_eq!(order(FilterDirection::Request), [1, 0, 2]);
    assert_eq!(order(FilterDirection::Response), [1, 2]);
}

#[test]
fn invalid_filter_lines_are_rejected() {
    refuse(&["filter"], "missing argument for 'filter' in proxy 'l'.");
    refuse(
        &["filter trece"],
        "'filter' : unknown keyword 'trece'. Registered keywords : 'bwlim-in', 'trace', 'spoe'",
    );
    refuse(&["filter bwlim-in a b"], "'filter bwlim-in' cannot handle unexpected argument 'b'.");
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
fn reports_filters_that_are_not_implemented_yet() {
    refuse(&["filter later"], "'filter later' is not implemented yet");
    refuse(
        &["filter trace", "filter trace", "filter-sequence response trace"],
        "without filter 'trace' is not implemented yet",
    );
}
