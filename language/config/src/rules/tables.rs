//! Actions on entries of stick-tables: `track-sc*`, and changes to tracked entries.

use weir_expr::table::DataType;
use weir_expr::{ArgKind, Reference};

use super::{ActionContext, ActionReader, action, sets};
use crate::model::{Action, Change, CounterChange, Number, Track};
use crate::numbers::integer_in;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};

pub(super) const ACTIONS: &[Row<ActionReader>] = &[
    tracking("track-sc0", "count for a key, by the first counter"),
    tracking("track-sc1", "count for a key, by the second counter"),
    tracking("track-sc2", "count for a key, by the third counter"),
    action(
        "sc-add-gpc",
        "(<idx>,<sc-id>) { <int> | <expr> }",
        "(0,1) 5",
        "add to a counter of a tracked entry",
        sets::EVERY,
        |context, words| {
            let (element, counter) = element_and_counter(context)?;
            let amount = number(context, words)?;
            Ok(change(counter, DataType::Gpc, element, Change::Add(amount)))
        },
    ),
    action(
        "sc-inc-gpc",
        "(<idx>,<sc-id>)",
        "(0,1)",
        "increment a counter of a tracked entry",
        sets::EVERY,
        |context, _| {
            let (element, counter) = element_and_counter(context)?;
            Ok(change(counter, DataType::Gpc, element, Change::Add(Number::Fixed(1))))
        },
    ),
    action(
        "sc-inc-gpc0",
        "(<sc-id>)",
        "(1)",
        "increment the first counter of a tracked entry",
        sets::EVERY,
        |context, _| {
            let counter = counter(context)?;
            Ok(change(counter, DataType::Gpc0, 0, Change::Add(Number::Fixed(1))))
        },
    ),
    action(
        "sc-inc-gpc1",
        "(<sc-id>)",
        "(1)",
        "increment the second counter of a tracked entry",
        sets::EVERY,
        |context, _| {
            let counter = counter(context)?;
            Ok(change(counter, DataType::Gpc1, 0, Change::Add(Number::Fixed(1))))
        },
    ),
    action(
        "sc-set-gpt",
        "(<idx>,<sc-id>) { <int> | <expr> }",
        "(0,1) 5",
        "set a tag of a tracked entry",
        sets::EVERY,
        |context, words| {
            let (element, counter) = element_and_counter(context)?;
            let value = number(context, words)?;
            Ok(change(counter, DataType::Gpt, element, Change::Set(value)))
        },
    ),
    action(
        "sc-set-gpt0",
        "(<sc-id>) { <int> | <expr> }",
        "(1) 5",
        "set the first tag of a tracked entry",
        sets::EVERY,
        |context, words| {
            let counter = counter(context)?;
            let value = number(context, words)?;
            Ok(change(counter, DataType::Gpt0, 0, Change::Set(value)))
        },
    ),
];

/// `track-sc0`, `track-sc1` and so on, one for each counter (`tune.stick-counters`).
const fn tracking(name: &'static str, help: &'static str) -> Row<ActionReader> {
    action(name, "<key> [table <table>]", "src", help, sets::TRACKING, read_track)
}

fn read_track(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Action> {
    let counter = match context.word.text().strip_prefix("track-sc").unwrap_or_default() {
        // The manual has no such form, but releases accept it.
        "" => 0,
        number => number
            .parse()
            .map_err(|_| fault(context.word.span(), format!("'{}' names no counter.", context.word)))?,
    };
    if words.at_end() || words.at_condition() {
        return Err(words.fault("expects a sample expression for the key."));
    }
    let key = context.line.expressions().expression(words, context.points)?;
    let table = read_table_name(words)?;
    context.line.note_table(&table, words.line().span());
    Ok(Action::Track(Box::new(Track { counter, key, table })))
}

/// `table <name>`, if it follows.
pub(crate) fn read_table_name(words: &mut Words<'_>) -> Parsed<Reference> {
    let mut name = None;
    if words.take_if("table") {
        name = Some(words.expect("missing table name after 'table'.")?.text());
    }
    Ok(Reference::new(ArgKind::Table, name))
}

fn change(counter: u8, data: DataType, element: u16, change: Change) -> Action {
    Action::ChangeCounter(Box::new(CounterChange { counter, data, element, change }))
}

/// `(<sc-id>)`. Without a number it is the first counter: the manual has no such form, but releases accept it and configurations use it.
fn counter(context: &ActionContext<'_, '_>) -> Parsed<u8> {
    let inside = match context.parenthesized() {
        Some(inside) => inside.trim(),
        None if !context.word.text().contains('(') => "",
        // Without the closing one.
        None => "(",
    };
    if inside.is_empty() {
        return Ok(0);
    }
    inside.parse().map_err(|_| {
        fault(context.word.span(), format!("'{}' expects a counter's number in parentheses.", context.word))
    })
}

/// `(<idx>,<sc-id>)`.
fn element_and_counter(context: &ActionContext<'_, '_>) -> Parsed<(u16, u8)> {
    let read = || {
        let (element, counter) = context.parenthesized()?.split_once(',')?;
        let element = element.trim().parse().ok().filter(|element| *element < DataType::MAX_ELEMENTS)?;
        Some((element, counter.trim().parse().ok()?))
    };
    read().ok_or_else(|| {
        let message = format!(
            "'{}' expects an index between 0 and 99 and a counter's number in parentheses.",
            context.word
        );
        fault(context.word.span(), message)
    })
}

fn number(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Number> {
    if words.at_end() || words.at_condition() {
        return Err(words.fault("expects an integer or a sample expression."));
    }
    if words.peek_text().starts_with(|first: char| first.is_ascii_digit()) {
        let word = words.expect("expects a number.")?;
        return Ok(Number::Fixed(integer_in(word, context.word.text(), 0..=u32::MAX)?));
    }
    Ok(Number::Expression(context.line.expressions().expression(words, context.points)?))
}
