//! `stick-table` and `stick`: a proxy's table, and persistence by tables (manual, 4.2 and 11.1).

use weir_expr::{EvaluationPoint, EvaluationPoints};

use super::keywords::keyword;
use super::{BACKENDS, ConditionList, LineContext, PROXIES, ProxyReader};
use crate::rows::Row;
use crate::rules::read_table_name;
use crate::table::read_table;
use crate::words::{Parsed, Words, fault, prefixed};
use weir_model::{StickKind, StickRule};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "stick-table",
        "type <type> size <size> [expire <expire>] [args...]",
        "type ipv4 size 1m expire 30m store gpc0,http_req_rate(10s)",
        "the stick-table of the proxy",
        PROXIES,
        |context, words| {
            let name = context.name();
            if let Some(other) = &context.draft.pending.table {
                let message = format!(
                    "stick-table name '{name}' conflicts with table declared in {} at {}.",
                    context.draft.section.noun(),
                    other.at
                );
                return Err(fault(words.line().span(), message));
            }
            let table = read_table(words, &name, context.at, "stick-table", true)?;
            context.draft.pending.table = Some(table);
            Ok(())
        },
    )
    .values(&[
        ("type ipv4 size 1k", "keys are IPv4 addresses; 'ip' is the same"),
        ("type ipv6 size 1k", "keys are addresses of both families"),
        ("type integer size 1k", "keys are numbers"),
        ("type string size 1k", "keys are texts; 'string len 64' for longer ones"),
        ("type binary size 1k", "keys are bytes; 'binary len 16' pads them to 16"),
        ("type ip size 1k expire 10m", "an entry is forgotten when nothing touched it for so long"),
        ("type ip size 1k nopurge", "a full table takes no new entries"),
        ("type ip size 1k store conn_cur", "open connections"),
        ("type ip size 1k store conn_cnt", "connections; 'conn_rate(10s)' in a period"),
        ("type ip size 1k store sess_cnt", "sessions; 'sess_rate(10s)' in a period"),
        ("type ip size 1k store http_req_cnt", "requests; 'http_req_rate(10s)' in a period"),
        ("type ip size 1k store http_err_cnt", "errors of clients; 'http_err_rate(10s)' in a period"),
        ("type ip size 1k store http_fail_cnt", "failures of servers; 'http_fail_rate(10s)' in a period"),
        ("type ip size 1k store glitch_cnt", "oddities of the protocol; 'glitch_rate(10s)' in a period"),
        ("type ip size 1k store bytes_in_cnt", "bytes from clients; 'bytes_in_rate(10s)' in a period"),
        ("type ip size 1k store bytes_out_cnt", "bytes to clients; 'bytes_out_rate(10s)' in a period"),
        ("type ip size 1k store gpc(2)", "so many counters for rules; 'gpc_rate(2,10s)' in a period"),
        ("type ip size 1k store gpt(2)", "so many tags for rules"),
        (
            "type ip size 1k store gpc0",
            "the older single counter, 'gpc1' a second one; 'gpc0_rate(10s)' and 'gpc1_rate(10s)' in a \
             period",
        ),
        ("type ip size 1k store gpt0", "the older single tag"),
        ("type ip size 1k store server_id", "the server that 'stick' chose, by its number"),
        ("type ip size 1k store server_key", "the same by its name or address ('srvkey')"),
    ]),
    sticking("stick match", "stay at the server that a table names", |context, words| {
        read_stick(context, words, StickKind::Match)
    }),
    sticking("stick on", "stay at the server that a table names, and remember it", |context, words| {
        read_stick(context, words, StickKind::On)
    }),
    sticking("stick store-request", "remember the server by something of the request", |context, words| {
        read_stick(context, words, StickKind::StoreRequest)
    }),
    sticking("stick store-response", "remember the server by something of the response", |context, words| {
        read_stick(context, words, StickKind::StoreResponse)
    }),
];

const fn sticking(
    name: &'static str,
    help: &'static str,
    read: fn(&mut LineContext<'_>, &mut Words<'_>) -> Parsed,
) -> Row<ProxyReader> {
    keyword(name, "<pattern> [table <table>] [{if | unless} <cond>]", "src", help, BACKENDS, read)
}

fn read_stick(context: &mut LineContext<'_>, words: &mut Words<'_>, kind: StickKind) -> Parsed {
    let name = format!("stick {}", kind.keyword());
    let place = match kind {
        StickKind::Match | StickKind::On | StickKind::StoreRequest => EvaluationPoint::BackendSetServer,
        StickKind::StoreResponse => EvaluationPoint::BackendStore,
    };
    let points = EvaluationPoints::only(place);
    if words.at_end() || words.at_condition() {
        return Err(words.fault(format!("'{name}': expects a sample expression.")));
    }
    let key = context
        .expressions()
        .expression(words, points)
        .map_err(|fault| prefixed(fault, &format!("'{name}': ")))?;
    let table = read_table_name(words)?;
    if !words.at_end() && !words.at_condition() {
        let said = format!("'{name}' expects 'table', 'if' or 'unless', not '{}'.", words.peek_text());
        return Err(words.fault(said));
    }
    let span = words.here();
    let condition = context
        .expressions()
        .condition(words, points)
        .map_err(|fault| prefixed(fault, &format!("'{name}': error detected while parsing condition : ")))?;
    context.note_table(&table, words.line().span());
    let index = context.draft.proxy.stick_rules.len();
    context.note_condition(condition.is_some(), (ConditionList::Stick, index), points, span);
    let at = context.at.clone();
    context.draft.proxy.stick_rules.push(StickRule { kind, key, table, condition, at });
    Ok(())
}
