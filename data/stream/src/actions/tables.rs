//! Actions on entries of stick-tables: `track-sc*`, and changes to tracked entries.

use weir_config::numbers::integer_in;
use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Words, fault};
use weir_expr::table::DataType;
use weir_fingerprint::Canonical;
use weir_model::{ActionFacts, Track, Visit};

use super::arguments::{Number, at_digit};
use super::{ActionResult, ActionRow, RuleContext, StreamAction, Verdict};
use crate::stream::Stream;
use crate::tracking::TrackResult;

pub(super) const ROWS: &[ActionRow] = &[
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
            let change = DataChange::Add(number(context, words)?);
            Ok(CounterChange { counter, data: DataType::Gpc, element, change }.into_action())
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
            Ok(CounterChange { counter, data: DataType::Gpc, element, change: ONE }.into_action())
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
            Ok(CounterChange { counter, data: DataType::Gpc0, element: 0, change: ONE }.into_action())
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
            Ok(CounterChange { counter, data: DataType::Gpc1, element: 0, change: ONE }.into_action())
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
            let change = DataChange::Set(number(context, words)?);
            Ok(CounterChange { counter, data: DataType::Gpt, element, change }.into_action())
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
            let change = DataChange::Set(number(context, words)?);
            Ok(CounterChange { counter, data: DataType::Gpt0, element: 0, change }.into_action())
        },
    ),
];

/// `track-sc0`, `track-sc1` and so on, one for each counter (`tune.stick-counters`).
const fn tracking(name: &'static str, help: &'static str) -> ActionRow {
    action(name, "<key> [table <table>]", "src", help, sets::TRACKING, |context, words| {
        Ok(TrackEntry::read(context, words)?.into_action())
    })
}

/// `(<sc-id>)`. Without a number it is counter 0. The manual does not document this form, but HAProxy releases accept it and
/// configurations use it.
fn counter(context: &ActionContext<'_, '_>) -> Parsed<u8> {
    let inside = match context.parenthesized() {
        Some(inside) => inside.trim(),
        None if !context.word.text().contains('(') => "",
        // Without the closing parenthesis.
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

fn number(context: &ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Number> {
    if words.at_end() || words.at_condition() {
        return Err(words.fault("expects an integer or a sample expression."));
    }
    if at_digit(words) {
        let word = words.expect("expects a number.")?;
        return Ok(Number::Fixed(integer_in(word, context.word.text(), 0..=u32::MAX)?.into()));
    }
    Ok(Number::Expression(context.expression(words)?))
}

/// `track-sc0`, `track-sc1` and so on.
#[derive(Debug, Canonical)]
struct TrackEntry(Track);

impl TrackEntry {
    fn read(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        let counter = match context.word.text().strip_prefix("track-sc").unwrap_or_default() {
            // The manual does not document this form, but HAProxy releases accept it.
            "" => 0,
            number => number
                .parse()
                .map_err(|_| fault(context.word.span(), format!("'{}' names no counter.", context.word)))?,
        };
        if words.at_end() || words.at_condition() {
            return Err(words.fault("expects a sample expression for the key."));
        }
        let key = context.expression(words)?;
        Ok(TrackEntry(Track { counter, key, table: context.table(words)? }))
    }
}

impl StreamAction for TrackEntry {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        match stream.tracking_mut().track(rule.kind, rule.proxy, &self.0) {
            TrackResult::Done => ActionResult::NEXT,
            TrackResult::Later => ActionResult::Done(Verdict::NeedsMore),
        }
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.key.visit_references(visit);
        visit(&self.0.table);
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { track: Some(&self.0), counter: Some(self.0.counter), ..ActionFacts::NONE }
    }
}

/// `sc-inc-gpc`, `sc-add-gpc`, `sc-set-gpt` and their older forms.
#[derive(Debug, Canonical)]
struct CounterChange {
    /// The counter that tracks the entry.
    counter: u8,
    /// The data type to change.
    data: DataType,
    /// The element of an array.
    element: u16,
    change: DataChange,
}

/// The change to the data of a tracked entry.
#[derive(Debug, Canonical)]
enum DataChange {
    Add(Number),
    Set(Number),
}

const ONE: DataChange = DataChange::Add(Number::Fixed(1));

impl DataChange {
    fn number(&self) -> &Number {
        let (DataChange::Add(number) | DataChange::Set(number)) = self;
        number
    }
}

impl StreamAction for CounterChange {
    /// Without a tracked entry, or without the data type in its table, nothing is changed (manual, "sc-inc-gpc").
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let value = self.change.number().value(stream).and_then(|value| u32::try_from(value).ok());
        if let Some(value) = value
            && let Some(tracked) = stream.tracking().counter(usize::from(self.counter))
        {
            tracked.look(|row| match self.change {
                DataChange::Add(_) => _ = row.grow(self.data, self.element, value),
                DataChange::Set(_) => _ = row.set(self.data, self.element, value.into()),
            });
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.change.number().visit_references(visit);
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { counter: Some(self.counter), ..ActionFacts::NONE }
    }
}
