//! Stick-table fetches: for tracked entries (`sc_*`) and for the client's address (`src_*`).

use weir_expr::SampleType::{Any, Bool, Int};
use weir_expr::table::{DataType as D, TableQuestion as Q};
use weir_expr::{
    Arg, ArgKind, ArgSpec, Args, ExpressionScope, FetchDecl, FetchResult, Needs, SampleType, Value,
};
use weir_tables::Table;

use super::values::{amount, gauge, truth};
use super::{FetchRow, row, valid};
use crate::tracked;
use crate::view::FetchView;

const TABLE: ArgSpec = ArgSpec::new(0, &[ArgKind::Table]);
const COUNTER: ArgSpec = ArgSpec::new(1, &[ArgKind::Int, ArgKind::Table]);
const COUNTER_ONLY: ArgSpec = ArgSpec::new(1, &[ArgKind::Int]);
const ELEMENT: ArgSpec = ArgSpec::new(1, &[ArgKind::Int, ArgKind::Table]);
const ELEMENT_AND_COUNTER: ArgSpec = ArgSpec::new(2, &[ArgKind::Int, ArgKind::Int, ArgKind::Table]);

/// A fetch about a counter's entry. Without a table argument, it reads the table that the counter tracks.
const fn counter(name: &'static str, args: ArgSpec, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help)
        .args(args)
        .valid(valid::RUNNING)
        .needs(Needs::TRACKED)
        .check(keep_named_table)
}

/// A fetch about the entry of the client's address.
const fn source(name: &'static str, args: ArgSpec, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, Int, help)
        .args(args)
        .valid(valid::CLIENT)
        .needs(Needs::L4_CLIENT)
        .check(check_numbers)
}

/// The five fetches of a data type.
macro_rules! scalars {
    ($($name:literal, $question:expr, $help:literal;)*) => {
        &[$(
            row(counter(concat!("sc_", $name), COUNTER, Int, concat!($help, ", by counter")), |view, args, _| {
                of_counter(view, number(args, 0), table_argument(args, 1), $question)
            }),
            row(counter(concat!("sc0_", $name), TABLE, Int, concat!($help, ", by counter 0")), |view, args, _| {
                of_counter(view, 0, table_argument(args, 0), $question)
            }),
            row(counter(concat!("sc1_", $name), TABLE, Int, concat!($help, ", by counter 1")), |view, args, _| {
                of_counter(view, 1, table_argument(args, 0), $question)
            }),
            row(counter(concat!("sc2_", $name), TABLE, Int, concat!($help, ", by counter 2")), |view, args, _| {
                of_counter(view, 2, table_argument(args, 0), $question)
            }),
            row(source(concat!("src_", $name), TABLE, concat!($help, ", by address")), |view, args, _| {
                of_source(view, table_argument(args, 0), $question)
            }),
        )*]
    };
}

/// Fetches of scalar data types.
pub(super) const SCALARS: &[FetchRow] = scalars! {
    "bytes_in_rate", Q::Data(D::BytesInRate, 0), "Bytes from clients in the period";
    "bytes_out_rate", Q::Data(D::BytesOutRate, 0), "Bytes to clients in the period";
    "clr_gpc0", Q::Clear(D::Gpc0, 0), "Clears the first general purpose counter and tells what it was";
    "clr_gpc1", Q::Clear(D::Gpc1, 0), "Clears the second general purpose counter and tells what it was";
    "conn_cnt", Q::Data(D::ConnectionCount, 0), "Connections";
    "conn_cur", Q::Data(D::ConnectionsCurrent, 0), "Connections that are open";
    "conn_rate", Q::Data(D::ConnectionRate, 0), "Connections in the period";
    "get_gpc0", Q::Data(D::Gpc0, 0), "The first general purpose counter";
    "get_gpc1", Q::Data(D::Gpc1, 0), "The second general purpose counter";
    "get_gpt0", Q::Data(D::Gpt0, 0), "The first general purpose tag";
    "glitch_cnt", Q::Data(D::GlitchCount, 0), "Oddities of the protocol";
    "glitch_rate", Q::Data(D::GlitchRate, 0), "Oddities of the protocol in the period";
    "gpc0_rate", Q::Data(D::Gpc0Rate, 0), "How much the first counter grew in the period";
    "gpc1_rate", Q::Data(D::Gpc1Rate, 0), "How much the second counter grew in the period";
    "http_err_cnt", Q::Data(D::ErrorCount, 0), "Requests that were errors";
    "http_err_rate", Q::Data(D::ErrorRate, 0), "Requests that were errors in the period";
    "http_fail_cnt", Q::Data(D::FailureCount, 0), "Responses that were failures";
    "http_fail_rate", Q::Data(D::FailureRate, 0), "Responses that were failures in the period";
    "http_req_cnt", Q::Data(D::RequestCount, 0), "Requests";
    "http_req_rate", Q::Data(D::RequestRate, 0), "Requests in the period";
    "inc_gpc0", Q::Increment(D::Gpc0, 0), "Increments the first general purpose counter and tells it";
    "inc_gpc1", Q::Increment(D::Gpc1, 0), "Increments the second general purpose counter and tells it";
    "kbytes_in", Q::Kilobytes(D::BytesInCount), "Kilobytes from clients";
    "kbytes_out", Q::Kilobytes(D::BytesOutCount), "Kilobytes to clients";
    "sess_cnt", Q::Data(D::SessionCount, 0), "Sessions";
    "sess_rate", Q::Data(D::SessionRate, 0), "Sessions in the period";
};

/// Both fetches of an array's element.
macro_rules! elements {
    ($($name:literal, $question:expr, $help:literal;)*) => {
        &[$(
            row(
                counter(concat!("sc_", $name), ELEMENT_AND_COUNTER, Int, concat!($help, ", by counter")),
                |view, args, _| {
                    let question: fn(u16) -> Q = $question;
                    let table = table_argument(args, 2);
                    of_counter(view, number(args, 1), table, question(number(args, 0) as u16))
                },
            ),
            row(source(concat!("src_", $name), ELEMENT, concat!($help, ", by address")), |view, args, _| {
                let question: fn(u16) -> Q = $question;
                of_source(view, table_argument(args, 1), question(number(args, 0) as u16))
            }),
        )*]
    };
}

/// Fetches of array data types.
pub(super) const ELEMENTS: &[FetchRow] = elements! {
    "clr_gpc", |element| Q::Clear(D::Gpc, element), "Clears a general purpose counter and tells what it was";
    "get_gpc", |element| Q::Data(D::Gpc, element), "A general purpose counter";
    "get_gpt", |element| Q::Data(D::Gpt, element), "A general purpose tag";
    "gpc_rate", |element| Q::Data(D::GpcRate, element), "How much a counter grew in the period";
    "inc_gpc", |element| Q::Increment(D::Gpc, element), "Increments a general purpose counter and tells it";
};

/// Fetches about counters themselves.
macro_rules! counters {
    ($($name:literal, $args:expr, $counter:expr, $table:expr;)*) => {
        &[$(
            row(counter(concat!($name, "_trackers"), $args, Int, "How many track the entry"), |view, args, _| {
                of_counter(view, $counter(args), table_argument(args, $table), Q::Trackers)
            }),
            row(counter(concat!($name, "_tracked"), $args, Bool, "Whether the counter tracks"), |view, args, _| {
                truth(counter_tracks(view, $counter(args), table_argument(args, $table)))
            }),
        )*]
    };
}

/// Fetches about counters themselves.
pub(super) const COUNTERS: &[FetchRow] = counters! {
    "sc", COUNTER, |args| number(args, 0), 1;
    "sc0", TABLE, |_| 0, 0;
    "sc1", TABLE, |_| 1, 0;
    "sc2", TABLE, |_| 2, 0;
};

pub(super) const ROWS: &[FetchRow] = &[
    row(counter("sc_key", COUNTER_ONLY, Any, "The key that a counter tracks"), |view, args, _| {
        key_of(view, number(args, 0))
    }),
    row(counter("sc0_key", ArgSpec::NONE, Any, "The key that counter 0 tracks"), |view, _, _| {
        key_of(view, 0)
    }),
    row(counter("sc1_key", ArgSpec::NONE, Any, "The key that counter 1 tracks"), |view, _, _| {
        key_of(view, 1)
    }),
    row(counter("sc2_key", ArgSpec::NONE, Any, "The key that counter 2 tracks"), |view, _, _| {
        key_of(view, 2)
    }),
    row(
        counter(
            "sc1_clr_gpc",
            ELEMENT,
            Int,
            "Clears a general purpose counter and tells what it was, by counter 1",
        ),
        |view, args, _| {
            let question = Q::Clear(D::Gpc, number(args, 0) as u16);
            of_counter(view, 1, table_argument(args, 1), question)
        },
    ),
    row(
        source("src_updt_conn_cnt", TABLE, "Counts a connection of the client's address and tells how many"),
        |view, args, _| of_source(view, table_argument(args, 0), Q::Increment(D::ConnectionCount, 0)),
    ),
    row(
        FetchDecl::new("table_avl", Int, "Entries that still fit in a table")
            .args(TABLE)
            .valid(valid::RUNNING),
        |view, args, _| of_table(view, args, |table| table.declaration().size.saturating_sub(table.used())),
    ),
    row(
        FetchDecl::new("table_cnt", Int, "Entries of a table").args(TABLE).valid(valid::RUNNING),
        |view, args, _| of_table(view, args, Table::used),
    ),
];

/// Checks the indices of array elements and counters.
fn check_numbers(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    for index in 0..args.len() {
        if matches!(args.get(index), Arg::Int(number) if !(0..100).contains(number)) {
            return Err("the index of an array or of a counter is an integer between 0 and 99".to_owned());
        }
    }
    Ok(())
}

/// Keeps an absent table argument absent: a counter then uses its own table, not the proxy's.
fn keep_named_table(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    for index in 0..args.len() {
        if args.reference(index).is_some_and(|reference| reference.name.is_none()) {
            args.set(index, Arg::Absent);
        }
    }
    check_numbers(args, scope)
}

fn number(args: &Args, index: usize) -> usize {
    args.int(index).and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// The index of the table in an argument. `None` for the default.
#[derive(Clone, Copy)]
struct TableArgument(Option<u32>);

impl TableArgument {
    /// The table, if the argument names one.
    fn named(self, view: &dyn FetchView) -> Option<&Table> {
        view.table(Some(self.0?))
    }
}

fn table_argument(args: &Args, index: usize) -> TableArgument {
    TableArgument(args.reference(index).and_then(|reference| reference.target()).map(|(table, _)| table))
}

/// A value of a counter's entry. With another table, a value of the entry with the same key there, which is not created: 0 without
/// one.
fn of_counter<'c>(
    view: &dyn FetchView,
    counter: usize,
    other: TableArgument,
    question: Q,
) -> FetchResult<'c> {
    let value = view.tracked(counter).and_then(|tracked| tracked.query(other.named(view), question));
    value.map_or(FetchResult::Missing, |value| gauge(amount(value)))
}

/// Whether the counter tracks an entry with the key type of table `other`.
fn counter_tracks(view: &dyn FetchView, counter: usize, other: TableArgument) -> bool {
    let other = other.named(view);
    view.tracked(counter).is_some_and(|tracked| other.is_none_or(|other| tracked.has_keys_of(other)))
}

/// The key that a counter tracks.
fn key_of<'c>(view: &dyn FetchView, counter: usize) -> FetchResult<'c> {
    view.tracked(counter).and_then(|tracked| tracked.look(|row| row.key())).into()
}

fn of_source<'c>(view: &dyn FetchView, table: TableArgument, question: Q) -> FetchResult<'c> {
    let Some(ip) = view.source().and_then(|source| source.ip()) else { return FetchResult::Missing };
    let Some(table) = view.table(table.0) else { return FetchResult::Missing };
    tracked::query_table(table, Value::from(ip), question, None).map_or(FetchResult::Missing, gauge)
}

fn of_table<'c>(view: &dyn FetchView, args: &Args, metric: fn(&Table) -> u32) -> FetchResult<'c> {
    view.table(table_argument(args, 0).0).map_or(FetchResult::Missing, |table| gauge(metric(table)))
}
