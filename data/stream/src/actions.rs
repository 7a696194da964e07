//! The actions of rules: one row each, next to its arguments and its effect.
//!
//! An action is a type with its arguments that implements [`StreamAction`], and a row: name, arguments, example, help,
//! rulesets, and the function that reads the arguments into the type. Both stand in one of the files below this one, by
//! the object that the actions change; [`ACTIONS`] has all rows. Nothing else knows an action by its name: the checks of a
//! configuration, lint and the start of the process read its [`ActionFacts`].
//!
//! An action that waits makes a future ([`ActionResult::Await`]): the stream awaits it before the next rule.

mod answers;
mod arguments;
mod connection;
mod headers;
mod names;
mod process;
mod tables;
#[cfg(test)]
mod tests;
mod uri;
mod values;

use std::any::Any;
use std::fmt::Debug;

use weir_config::rows;
use weir_config::rules::{ActionReader, ActionTable};
use weir_containers::PooledFuture;
use weir_fingerprint::Canonical;
use weir_model::{Action, ActionArguments, ActionFacts, RulesetKind, Visit};

pub use self::answers::services;
pub(crate) use self::connection::ExpectProxy;
pub(crate) use self::headers::EarlyHint;

use crate::ending::During;
use crate::instance::Proxy;
use crate::stream::rule_state::RuleKey;
use crate::stream::{PhaseResult, Stream, StreamError};

/// Every action, in the order in which messages list them.
pub static ACTIONS: ActionTable = ActionTable::new(&[
    answers::ROWS,
    headers::ROWS,
    uri::ROWS,
    values::ROWS,
    names::ROWS,
    connection::ROWS,
    process::ROWS,
    tables::ROWS,
    NOT_YET,
]);

/// The row of an action.
type ActionRow = rows::Row<ActionReader>;

/// Actions of the language that are errors here: not implemented yet, or removed.
const NOT_YET: &[ActionRow] = &[
    ActionRow::not_yet("add-headers-bin", "<expr> [ prefix <str> ]", "add headers from a binary list"),
    ActionRow::not_yet("attach-srv", "<srv> [name <expr>]", "make the connection one to a server"),
    ActionRow::not_yet("cache-store", "<name>", "store the response in a cache"),
    ActionRow::not_yet("cache-use", "<name> [no-early-hints]", "answer from a cache"),
    ActionRow::not_yet("del-headers-bin", "<expr> [ -m <meth> ]", "remove headers of a binary list"),
    ActionRow::not_yet("dgram-drop", "", "drop a QUIC packet"),
    ActionRow::not_yet("expect-netscaler-cip", "layer4", "expect a NetScaler client address header"),
    ActionRow::not_yet("send-retry", "", "answer a QUIC packet with a Retry"),
    ActionRow::not_yet("send-spoe-group", "<engine-name> <group-name>", "ask an agent"),
    ActionRow::not_yet("set-headers-bin", "<expr> [ prefix <str> ]", "set headers from a binary list"),
    ActionRow::removed("block", "use 'deny' instead."),
];

/// The arguments of an action, and its effect on a stream.
pub(crate) trait StreamAction: Any + Debug + Canonical + Send + Sync {
    /// Runs the action. `'s` is the time until the next rule: a future may borrow the stream, the arguments and the proxy.
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s>;

    /// Visits the references of every expression and every format in the arguments: names are resolved and passwords verified
    /// through it.
    fn visit_references(&self, _: Visit<'_>) {}

    /// The facts that others than the stream need to know.
    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts::NONE
    }

    /// The action for the configuration.
    fn into_action(self) -> Action
    where
        Self: Sized,
    {
        let action: Box<dyn StreamAction> = Box::new(self);
        Action::new(action)
    }
}

impl ActionArguments for Box<dyn StreamAction> {
    fn facts(&self) -> ActionFacts<'_> {
        (**self).facts()
    }

    fn visit_references(&self, visit: Visit<'_>) {
        (**self).visit_references(visit);
    }
}

/// The action of a rule, as this crate's rows make it.
#[inline]
fn stream_action(action: &Action) -> Option<&dyn StreamAction> {
    action.arguments::<Box<dyn StreamAction>>().map(|action| &**action)
}

/// The arguments of an action, if it is of this type.
pub(crate) fn arguments<A: StreamAction>(action: &Action) -> Option<&A> {
    let action: &dyn Any = stream_action(action)?;
    action.downcast_ref()
}

/// Runs the action of a rule.
#[inline]
pub(crate) fn run<'s>(action: &'s Action, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
    match stream_action(action) {
        Some(action) => action.run(stream, rule),
        // All actions of this crate's rows are of this kind. Any other would be a rule that is skipped, so it fails.
        None => ActionResult::FAILED,
    }
}

/// The rule of an action that runs.
#[derive(Clone, Copy)]
pub(crate) struct RuleContext<'s> {
    pub kind: RulesetKind,
    /// The proxy with the rule.
    pub proxy: &'s Proxy,
    pub key: RuleKey,
}

impl RuleContext<'_> {
    /// Whether the rule is for requests.
    fn is_request(self) -> bool {
        !matches!(
            self.kind,
            RulesetKind::TcpResponseContent | RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse
        )
    }

    /// The phase of a stream that ends with the rule.
    fn during(self) -> During {
        if self.is_request() { During::Request } else { During::Headers }
    }
}

/// The result of an action.
pub(crate) enum ActionResult<'s> {
    /// It is known now.
    Done(Verdict),
    /// It is known after a wait.
    Await(PooledFuture<'s, PhaseResult<Verdict>>),
}

/// The consequence of an action for its ruleset.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The next rule follows.
    Next,
    /// The rest of the rules is skipped.
    Accept,
    Stop(StreamError),
    /// The action failed: with `strict-mode on` the stream ends.
    Failed,
    /// It waits for more of the message, where rules can wait for that; elsewhere it does nothing. Not after a wait.
    NeedsMore,
}

impl ActionResult<'_> {
    const NEXT: Self = ActionResult::Done(Verdict::Next);
    const FAILED: Self = ActionResult::Done(Verdict::Failed);

    fn stop(stop: StreamError) -> Self {
        ActionResult::Done(Verdict::Stop(stop))
    }

    /// The next rule follows, unless the action failed.
    fn of(success: bool) -> Self {
        if success { Self::NEXT } else { Self::FAILED }
    }
}
