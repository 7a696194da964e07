//! The filters of compression in configurations (manual, 9.2).

use weir_model::FilterDirection;

use crate::testing::read;

/// Checks the keywords of the filters of a proxy with these lines, or the one error.
#[track_caller]
fn check(lines: &[&str], want: Result<&[&str], &str>) {
    let read = read(&format!("listen l\n mode http\n bind :80\n {}\n", lines.join("\n ")));
    let errors: Vec<_> = read.messages.iter().filter(|message| message.starts_with('A')).collect();
    match want {
        Ok(keywords) => {
            assert_eq!(errors, [""; 0], "{lines:?}");
            let found: Vec<_> = read.proxies[0].filters.iter().map(|filter| filter.keyword).collect();
            assert_eq!(found, keywords, "{lines:?}");
        }
        Err(message) => {
            assert!(errors.len() == 1 && errors[0].contains(message), "{lines:?}: {errors:#?}");
        }
    }
}

#[test]
fn an_algorithm_implies_the_filter_unless_there_are_others() {
    check(&["compression algo gzip"], Ok(&["compression"]));
    check(&["compression algo-req gzip"], Ok(&["compression"]));
    check(&["compression type text/html"], Ok(&[]));
    check(&["compression algo gzip", "filter comp-res"], Ok(&["comp-res"]));
    check(&["filter trace", "compression algo gzip", "filter comp-req"], Ok(&["trace", "comp-req"]));
    let missing = "proxy 'l': require an explicit filter declaration to use HTTP compression";
    check(&["compression algo gzip", "filter trace"], Err(missing));
}

#[test]
fn each_direction_has_one_filter() {
    check(&["filter comp-req", "filter comp-res"], Ok(&["comp-req", "comp-res"]));
    let twice = "'filter' : l: Proxy supports only one compression filter";
    for pair in [
        ["filter compression", "filter compression"],
        ["filter comp-res", "filter comp-res"],
        ["filter comp-req", "filter compression"],
    ] {
        check(&pair, Err(twice));
    }
    check(&["filter comp-res x"], Err("'filter comp-res' : unknown keyword 'x'."));
}

#[test]
fn filter_sequence_lists_only_the_filters_of_its_direction() {
    let lines = [
        "filter trace",
        "filter comp-res",
        "filter-sequence response comp-res,trace",
        "filter-sequence request trace",
    ];
    let read = read(&format!("listen l\n mode http\n bind :80\n {}\n", lines.join("\n ")));
    let proxy = &read.proxies[0];
    assert_eq!(proxy.filter_order(FilterDirection::Request).collect::<Vec<_>>(), [0]);
    assert_eq!(proxy.filter_order(FilterDirection::Response).collect::<Vec<_>>(), [1, 0]);
}
