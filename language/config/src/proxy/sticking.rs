//! `stick-table` and `stick`: a proxy's table, and persistence by tables (manual, 4.2 and 11.1).

use weir_expr::{EvaluationPoint, EvaluationPoints};

use super::keywords::keyword;
use super::{BACKENDS, ConditionList, LineContext, PROXIES, ProxyReader};
use crate::model::{StickKind, StickRule};
use crate::rows::Row;
use crate::rules::read_table_name;
use crate::table::read_table;
use crate::words::{Parsed, Words, fault, prefixed};

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
    ),
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
