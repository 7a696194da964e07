//! Converters that look a key up in a stick-table (manual, 7.3.1).

use super::{Converter, Run};
use crate::args::{ArgKind, Args};
use crate::context::Context;
use crate::sample::SampleType::{Any, Bool, Int};
use crate::sample::Value;
use crate::table::{DataType, TableLookup, TableQuestion};

const TABLE: &[ArgKind] = &[ArgKind::Table];
const INDEX: &[ArgKind] = &[ArgKind::Int, ArgKind::Table];
const DEFAULT: &[ArgKind] = &[ArgKind::Table, ArgKind::Int];

/// A converter that returns one value of the entry's data.
macro_rules! scalar {
    ($name:literal, $question:expr, $help:literal) => {
        Converter::new(
            $name,
            Any,
            Int,
            Run::Context(|value, args, context| query(value, args, context, 0, $question)),
            $help,
        )
        .args(0, TABLE)
    };
}

/// A converter that returns an element of an array.
macro_rules! element {
    ($name:literal, $question:expr, $help:literal) => {
        Converter::new(
            $name,
            Any,
            Int,
            Run::Context(|value, args, context| {
                let question: fn(u16) -> TableQuestion = $question;
                let element = u16::try_from(args.int(0)?).ok()?;
                query(value, args, context, 1, question(element))
            }),
            $help,
        )
        .args(1, INDEX)
        .check(check_index)
    };
}

/// A converter that returns a time of the entry, with a default.
macro_rules! time {
    ($name:literal, $question:expr, $help:literal) => {
        Converter::new(
            $name,
            Any,
            Int,
            Run::Context(|value, args, context| query(value, args, context, 0, $question)),
            $help,
        )
        .args(0, DEFAULT)
    };
}

use DataType as D;
use TableQuestion as Q;

pub(super) const ROWS: &[Converter] = &[
    Converter::new(
        "in_table",
        Any,
        Bool,
        Run::Context(|value, args, context| match query(value, args, context, 0, Q::Exists)? {
            Value::Int(number) => Some(Value::Bool(number != 0)),
            _ => None,
        }),
        "Whether the key has an entry in the table",
    )
    .args(0, TABLE),
    scalar!(
        "table_bytes_in_rate",
        Q::Data(D::BytesInRate, 0),
        "Bytes from clients of this key in the period"
    ),
    scalar!(
        "table_bytes_out_rate",
        Q::Data(D::BytesOutRate, 0),
        "Bytes to clients of this key in the period"
    ),
    element!(
        "table_clr_gpc",
        |i| Q::Clear(D::Gpc, i),
        "Clears a counter of the key, and returns its former value"
    ),
    scalar!(
        "table_clr_gpc0",
        Q::Clear(D::Gpc0, 0),
        "Clears the first counter of the key, and returns its former value"
    ),
    scalar!(
        "table_clr_gpc1",
        Q::Clear(D::Gpc1, 0),
        "Clears the second counter of the key, and returns its former value"
    ),
    scalar!("table_conn_cnt", Q::Data(D::ConnectionCount, 0), "Connections of the key"),
    scalar!("table_conn_cur", Q::Data(D::ConnectionsCurrent, 0), "Connections of the key that are open"),
    scalar!("table_conn_rate", Q::Data(D::ConnectionRate, 0), "Connections of the key in the period"),
    time!("table_expire", Q::Expires, "Milliseconds until the key's entry expires"),
    scalar!("table_glitch_cnt", Q::Data(D::GlitchCount, 0), "Oddities of the key's protocol"),
    scalar!("table_glitch_rate", Q::Data(D::GlitchRate, 0), "Oddities of the key's protocol in the period"),
    element!("table_gpc", |i| Q::Data(D::Gpc, i), "A general purpose counter of the key"),
    scalar!("table_gpc0", Q::Data(D::Gpc0, 0), "The first general purpose counter of the key"),
    scalar!("table_gpc0_rate", Q::Data(D::Gpc0Rate, 0), "How much it grew in the period"),
    scalar!("table_gpc1", Q::Data(D::Gpc1, 0), "The second general purpose counter of the key"),
    scalar!("table_gpc1_rate", Q::Data(D::Gpc1Rate, 0), "How much it grew in the period"),
    element!(
        "table_gpc_rate",
        |i| Q::Data(D::GpcRate, i),
        "How much a counter of the key grew in the period"
    ),
    element!("table_gpt", |i| Q::Data(D::Gpt, i), "A general purpose tag of the key"),
    scalar!("table_gpt0", Q::Data(D::Gpt0, 0), "The first general purpose tag of the key"),
    scalar!("table_http_err_cnt", Q::Data(D::ErrorCount, 0), "Requests of the key that were errors"),
    scalar!(
        "table_http_err_rate",
        Q::Data(D::ErrorRate, 0),
        "Requests of the key that were errors in the period"
    ),
    scalar!("table_http_fail_cnt", Q::Data(D::FailureCount, 0), "Responses to the key that were failures"),
    scalar!(
        "table_http_fail_rate",
        Q::Data(D::FailureRate, 0),
        "Responses to the key that were failures in the period"
    ),
    scalar!("table_http_req_cnt", Q::Data(D::RequestCount, 0), "Requests of the key"),
    scalar!("table_http_req_rate", Q::Data(D::RequestRate, 0), "Requests of the key in the period"),
    time!("table_idle", Q::Idle, "Milliseconds since the key's entry was used"),
    element!("table_inc_gpc", |i| Q::Increment(D::Gpc, i), "Increments a counter of the key, and returns it"),
    scalar!(
        "table_inc_gpc0",
        Q::Increment(D::Gpc0, 0),
        "Increments the first counter of the key, and returns it"
    ),
    scalar!(
        "table_inc_gpc1",
        Q::Increment(D::Gpc1, 0),
        "Increments the second counter of the key, and returns it"
    ),
    scalar!("table_kbytes_in", Q::Kilobytes(D::BytesInCount), "Kilobytes from clients of this key"),
    scalar!("table_kbytes_out", Q::Kilobytes(D::BytesOutCount), "Kilobytes to clients of this key"),
    scalar!(
        "table_server_id",
        Q::Data(D::ServerId, 0),
        "The identifier of the server that the key is assigned to"
    ),
    scalar!("table_sess_cnt", Q::Data(D::SessionCount, 0), "Sessions of the key"),
    scalar!("table_sess_rate", Q::Data(D::SessionRate, 0), "Sessions of the key in the period"),
    scalar!("table_trackers", Q::Trackers, "How many track the key's entry"),
];

/// Checks that an index is within the largest array.
fn check_index(args: &mut Args, _: &crate::scope::ExpressionScope<'_>) -> Result<(), String> {
    match args.int(0) {
        Some(0..100) => Ok(()),
        _ => Err("the index of an array is an integer between 0 and 99".into()),
    }
}

fn query(
    key: Value<'static>,
    args: &Args,
    context: &mut dyn Context,
    table: usize,
    question: TableQuestion,
) -> Option<Value<'static>> {
    let table = args.reference(table)?.target().map(|(table, _)| table);
    let default = args.int(1);
    context.table(TableLookup { table, key, question, default }).map(Value::Int)
}
