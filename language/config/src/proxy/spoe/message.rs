//! `spoe-message` and `spoe-group` sections (SPOE 1.2, 2.3 and 2.4).

use weir_expr::{AclTable, Condition, EvaluationPoints};
use weir_syntax::{Span, Word};

use super::WrittenName;
use super::file::{LineScope, read_names};
use crate::expressions::{ExpressionParser, located};
use crate::rows::{Row, Table};
use crate::words::{Parsed, Words, fault, none_of, prefixed, tight};
use weir_model::{Location, SpoeArgument, SpoeEvent};

/// Reads one line of a `spoe-message` section.
pub(crate) type SpoeMessageKeyword = fn(&mut MessageDraft, &LineScope<'_>, &mut Words<'_>) -> Parsed;

/// Every word of a `spoe-message` section.
pub(crate) static SPOE_MESSAGE_KEYWORDS: Table<SpoeMessageKeyword> = Table::new(&[&[
    Row::ready(
        "acl",
        "<aclname> <criterion> [flags] [operator] <value> ...",
        "local src 127.0.0.1",
        "a named test for the condition of 'event'",
        |message, scope, words| {
            let at = words.position();
            message.expressions(scope).acl(words, at).map_err(|error| located(words, error))
        },
    ),
    Row::ready(
        "args",
        "[<name>=]<sample> ...",
        "ip=src",
        "values that the message carries",
        |message, scope, words| {
            while !words.at_end() {
                message.read_argument(scope, words)?;
            }
            Ok(())
        },
    ),
    Row::ready(
        "event",
        "<name> [ { if | unless } <condition> ]",
        "on-client-session",
        "when the message is sent; the last line counts",
        read_event,
    ),
]]);

/// Reads one line of a `spoe-group` section.
pub(crate) type SpoeGroupKeyword = fn(&mut GroupDraft, &LineScope<'_>, &mut Words<'_>) -> Parsed;

/// Every word of a `spoe-group` section.
pub(crate) static SPOE_GROUP_KEYWORDS: Table<SpoeGroupKeyword> = Table::new(&[&[Row::ready(
    "messages",
    "<msg-name> ...",
    "check-request",
    "messages of the group, in sending order",
    |group, _, words| read_names(&mut group.messages, "spoe-message", words),
)]]);

/// A `spoe-message` section during parsing.
#[derive(Debug)]
pub(crate) struct MessageDraft {
    pub(super) name: WrittenName,
    pub(super) at: Location,
    acls: AclTable,
    pub(super) arguments: Vec<(SpoeArgument, Span)>,
    pub(super) event: Option<EventDraft>,
}

/// An `event` line.
#[derive(Debug)]
pub(crate) struct EventDraft {
    pub(super) event: SpoeEvent,
    pub(super) condition: Option<Condition>,
    /// The span of the condition.
    pub(super) span: Span,
}

/// A `spoe-group` section during parsing.
#[derive(Debug)]
pub(crate) struct GroupDraft {
    pub(super) name: WrittenName,
    pub(super) at: Location,
    pub(super) messages: Vec<WrittenName>,
}

impl GroupDraft {
    pub(super) fn new(name: &Word, at: Location) -> Self {
        GroupDraft { name: WrittenName::of(name), at, messages: Vec::new() }
    }

    pub(super) fn is(&self, name: &Word) -> bool {
        *self.name.text == *name.text()
    }
}

impl MessageDraft {
    pub(super) fn new(name: &Word, at: Location) -> Self {
        MessageDraft {
            name: WrittenName::of(name),
            at,
            acls: AclTable::new(),
            arguments: Vec::new(),
            event: None,
        }
    }

    pub(super) fn is(&self, name: &Word) -> bool {
        *self.name.text == *name.text()
    }

    /// Completes the ACLs, so that conditions see all their lines.
    pub(super) fn seal(&self) {
        self.acls.seal();
    }

    fn expressions<'e>(&'e self, scope: &'e LineScope<'_>) -> ExpressionParser<'e> {
        ExpressionParser { resources: scope.resources, acls: &self.acls, at: scope.at, notes: scope.notes }
    }

    /// Reads `[<name>=]<sample>`. The name ends at the first `=` of the word, also if it belongs to an argument of the sample.
    fn read_argument(&mut self, scope: &LineScope<'_>, words: &mut Words<'_>) -> Parsed {
        let text = words.peek_text();
        let (name, skipped) = match text.split_once('=') {
            Some((name, _)) => (name, name.len() + 1),
            None => ("", 0),
        };
        if self.arguments.len() >= MAX_ARGUMENTS {
            return Err(words.fault(format!("'args': more than {MAX_ARGUMENTS} arguments.")));
        }
        let span = words.here();
        let value = self
            .expressions(scope)
            .expression_after(words, skipped, EvaluationPoints::ALL)
            .map_err(|fault| prefixed(fault, "'args': "))?;
        self.arguments.push((SpoeArgument { name: name.into(), value }, span));
        Ok(())
    }
}

/// The limit of arguments of a message. The frame format counts them in one byte.
const MAX_ARGUMENTS: usize = 255;

fn read_event(message: &mut MessageDraft, scope: &LineScope<'_>, words: &mut Words<'_>) -> Parsed {
    let word = words.expect("missing event name.")?;
    let Some(event) = SpoeEvent::from_name(word.text()) else {
        let names = SpoeEvent::ALL.into_iter().map(SpoeEvent::name);
        return Err(none_of(word, format!("unknown event '{word}'."), names));
    };
    if !words.at_end() && !words.at_condition() {
        let message = format!(
            "'event {word}' expects either 'if' or 'unless' followed by a condition but found '{}'.",
            words.peek_text()
        );
        return Err(tight(fault(words.here(), message)));
    }
    let span = words.here();
    let failed = format!("error detected while parsing an 'event {word}' condition : ");
    let condition = message
        .expressions(scope)
        .condition(words, EvaluationPoints::ALL)
        .map_err(|fault| prefixed(fault, &failed))?;
    message.event = Some(EventDraft { event, condition, span });
    Ok(())
}
