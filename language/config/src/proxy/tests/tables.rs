//! `stick-table`, `stick`, and rules that track.

use crate::testing::read;

/// Checks the message for these lines, without its prefix. None for valid lines.
#[track_caller]
fn said(lines: &[&str], expected: Option<&str>) {
    let text = format!("listen l\n bind :80\n mode http\n {}\n", lines.join("\n "));
    let outcome = read(&text);
    let errors: Vec<_> = outcome.messages.iter().filter(|message| message.starts_with('A')).collect();
    match expected {
        None => assert!(errors.is_empty(), "{lines:?}: {errors:#?}"),
        Some(want) => {
            assert!(errors.len() == 1 && errors[0].ends_with(want), "{lines:?}: {errors:#?}, not {want}")
        }
    }
}

/// Checks the message for a table's line. None for a valid line.
#[track_caller]
fn table(line: &str, expected: &[&str]) {
    let expected = expected.first().map(|message| format!("stick-table: {message}"));
    said(&[&format!("stick-table {line}")], expected.as_deref());
}

#[test]
fn accepts_stick_table_types_sizes_and_data() {
    for kind in ["ip", "ipv4", "ipv6", "integer", "string", "string len 5", "binary", "binary len 16384"] {
        table(&format!("type {kind} size 10"), &[]);
    }
    for valid in [
        "string len 2147483647 size 4294967295",
        "ipv4 size 2g",
        "ipv4 size 10 store",
        "ipv4 size 1 store server_name",
    ] {
        table(&format!("type {valid}"), &[]);
    }
    table(
        "size 1m type ipv4 expire 24d nopurge store gpc0,gpc0_rate(10s) store http_req_rate(1m),server_id",
        &[],
    );
    table(
        "type ipv4 size 10 store gpc(3),gpc_rate(100,10s),gpt(1) srvkey addr brates-factor 1024 recv-only",
        &[],
    );
}

#[test]
fn reports_errors_in_a_stick_table_line() {
    table("size 10", &["missing type."]);
    table("type ipv4", &["missing size."]);
    table("type", &["missing argument after 'type'."]);
    table(
        "type mac size 10",
        &["unknown type 'mac': it is one of 'ip', 'ipv4', 'ipv6', 'integer', 'string', 'binary'."],
    );
    for size in ["0", "4g", "4294967296"] {
        let said = format!("'size' is between 1 and 4294967295, not '{size}'.");
        table(&format!("type ipv4 size {size}"), &[&said]);
    }
    said(
        &["stick-table type binary len 16385 size 10"],
        Some("'len' : invalid value '16385', allowed range is 1..16384."),
    );
    table("type ipv4 size 10 nonsense", &["unknown argument 'nonsense'."]);
    table("type ipv4 size 10 srvkey id", &["'srvkey' is either 'name' or 'addr', not 'id'."]);
    table(
        "type ipv4 size 10 store gpc0_rate",
        &["data type 'gpc0_rate' takes 1 argument(s) in parentheses."],
    );
    table("type ipv4 size 10 store gpc0(5)", &["data type 'gpc0' takes no argument."]);
    table("type ipv4 size 10 store gpc(101)", &["'gpc' has 1 to 100 elements, not '101'."]);
    table("type ipv4 size 10 store gpc0,gpc0", &[]);
    let twice = read("backend b\n stick-table type ipv4 size 10 store gpc0,gpc0\n").messages;
    let warned = |message: &String| {
        message.starts_with('W') && message.ends_with("store option 'gpc0' already enabled, ignored.")
    };
    assert!(twice.iter().any(warned), "{twice:?}");
    table("type ipv4 size 10 store gpc(2),gpc1", &["'gpc' and 'gpc1' exclude each other."]);
    table("type ipv4 size 10 store conn_rate(10s", &["missing ')'."]);
    table(
        "type ipv4 size 10 aggregate store gpt0,conn_cur",
        &["'aggregate' needs a count or a rate in 'store'."],
    );
    table(
        "type ipv4 size 10 aggregate recv-only store gpc0",
        &["'aggregate' and 'recv-only' exclude each other."],
    );
    table(
        "type ipv4 size 10 store conn_rate(0)",
        &["the period of 'conn_rate' is at least 1 ms and at most 24 days, not '0'."],
    );
}

#[test]
fn duplicate_stick_table_names_are_rejected() {
    let twice = "frontend b\n bind :1\n stick-table type ipv4 size 1\n default_backend b\n\
                 backend b\n stick-table type ipv4 size 1\n";
    let messages = read(twice).messages;
    let said = "stick-table name 'b' conflicts with table declared at t.cfg:3.";
    assert!(messages.iter().any(|message| message.contains(said)), "{messages:?}");
}

#[test]
fn rejects_chained_write_to_tables() {
    let chain = |last: &str| {
        let table = "stick-table type ipv4 size 1 write-to";
        read(&format!(
            "backend a\n {table} b\nbackend b\n {table} {last}\nbackend c\n stick-table type ipv4 size 1\n"
        ))
        .messages
    };
    for last in ["a", "c"] {
        let said = "stick-table 'a': 'write-to' names the table 'b', which has a 'write-to' itself.";
        assert!(chain(last).iter().any(|message| message.contains(said)), "{:?}", chain(last));
    }
    assert!(chain("b").iter().any(|message| message.contains("names the table itself")));
}

#[test]
fn rejects_aggregate_in_a_table_without_peers() {
    const TABLE: &str = "stick-table type ipv4 size 1 store gpc0 aggregate";
    said(
        &[TABLE],
        Some("stick-table 'l': 'aggregate' needs 'peers': only this instance counts without them."),
    );
}
