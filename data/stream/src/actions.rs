//! The actions of rules, each declared by a row next to its arguments and its implementation.
//!
//! An action is a type that holds the arguments and implements [`StreamAction`], and a row: name, arguments, example, help, rulesets,
//! and the function that parses the arguments into the type. Both are in one of the files below this one, grouped by the object that
//! the actions change. [`ACTIONS`] has all rows. No other code knows an action by name: the configuration checks, lint and the start of
//! the process read its [`ActionFacts`].
//!
//! An action that waits returns a future ([`ActionResult::Await`]). The stream awaits it before the next rule.

mod answers;
mod arguments;
mod auth_request;
mod connection;
mod copied_request;
mod headers;
mod mirror;
mod names;
mod process;
pub(crate) mod script;
mod spoe_group;
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
pub(crate) use self::script::target::{script_converter, script_fetch};

use crate::ending::During;
use crate::instance::Proxy;
use crate::stream::rule_state::RuleKey;
use crate::stream::{PhaseResult, Stream, StreamError};

/// Every action, in the order used in error messages.
pub static ACTIONS: ActionTable = ActionTable::new(&[
    answers::ROWS,
    headers::ROWS,
    uri::ROWS,
    values::ROWS,
    names::ROWS,
    connection::ROWS,
    process::ROWS,
    tables::ROWS,
    auth_request::ROWS,
    mirror::ROWS,
    spoe_group::ROWS,
    script::ROWS,
    NOT_YET,
]);

/// The row of an action.
type ActionRow = rows::Row<ActionReader>;

/// Actions of HAProxy's language that are not implemented yet, or removed. Their use is an error.
const NOT_YET: &[ActionRow] = &[
    ActionRow::not_yet("add-headers-bin", "<expr> [ prefix <str> ]", "add headers from a binary list"),
    ActionRow::not_yet("attach-srv", "<srv> [name <expr>]", "make the connection one to a server"),
    ActionRow::not_yet("cache-store", "<name>", "store the response in a cache"),
    ActionRow::not_yet("cache-use", "<name> [no-early-hints]", "answer from a cache"),
    ActionRow::not_yet("del-headers-bin", "<expr> [ -m <meth> ]", "remove headers of a binary list"),
    ActionRow::not_yet("dgram-drop", "", "drop a QUIC packet"),
    ActionRow::not_yet("expect-netscaler-cip", "layer4", "expect a NetScaler client address header"),
    ActionRow::not_yet("send-retry", "", "answer a QUIC packet with a Retry"),
    ActionRow::not_yet("set-headers-bin", "<expr> [ prefix <str> ]", "set headers from a binary list"),
    ActionRow::removed("block", "use 'deny' instead."),
];

/// The arguments of an action, and its effect on a stream.
pub(crate) trait StreamAction: Any + Debug + Canonical + Send + Sync {
    /// Runs the action. `'s` lasts until the next rule: a future may borrow the stream, the arguments and the proxy.
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s>;

    /// Visits the references of every expression and format in the arguments. Names are resolved, and passwords verified ahead, through
    /// these visits.
    fn visit_references(&self, _: Visit<'_>) {}

    /// Facts about the action for code outside the stream.
    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts::NONE
    }

    /// Converts the action to the form in the configuration.
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

/// The action's implementation. `None` if another crate declared the action.
#[inline]
fn stream_action(action: &Action) -> Option<&dyn StreamAction> {
    action.arguments::<Box<dyn StreamAction>>().map(|action| &**action)
}

/// The arguments of an action. `None` if the action has another type.
pub(crate) fn arguments<A: StreamAction>(action: &Action) -> Option<&A> {
    let action: &dyn Any = stream_action(action)?;
    action.downcast_ref()
}

/// Runs the action of a rule.
#[inline]
pub(crate) fn run<'s>(action: &'s Action, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
    match stream_action(action) {
        Some(action) => action.run(stream, rule),
        // Every action declared in this crate is a [`StreamAction`]. Any other would be skipped silently, so it fails.
        None => ActionResult::FAILED,
    }
}

/// The rule that contains the running action.
#[derive(Clone, Copy)]
pub(crate) struct RuleContext<'s> {
    pub kind: RulesetKind,
    /// The proxy with the rule.
    pub proxy: &'s Proxy,
    pub key: RuleKey,
}

impl RuleContext<'_> {
    /// Whether the rule processes requests.
    fn is_request(self) -> bool {
        !matches!(
            self.kind,
            RulesetKind::TcpResponseContent | RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse
        )
    }

    /// The phase for the ending of a stream that this rule stops.
    fn during(self) -> During {
        if self.is_request() { During::Request } else { During::Headers }
    }
}

/// The result of an action.
pub(crate) enum ActionResult<'s> {
    /// The verdict is known now.
    Done(Verdict),
    /// The verdict is known after a wait.
    Await(PooledFuture<'s, PhaseResult<Verdict>>),
}

/// How the ruleset continues after an action.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Continue with the next rule.
    Next,
    /// Skip the rest of the rules.
    Accept,
    Stop(StreamError),
    /// The action failed. With `strict-mode on` the stream ends.
    Failed,
    /// The action needs more of the message. Rulesets that can wait do so, others skip the action. Not allowed after a wait.
    NeedsMore,
}

impl ActionResult<'_> {
    const NEXT: Self = ActionResult::Done(Verdict::Next);
    const FAILED: Self = ActionResult::Done(Verdict::Failed);

    fn stop(stop: StreamError) -> Self {
        ActionResult::Done(Verdict::Stop(stop))
    }

    /// [`Self::NEXT`] on success, else [`Self::FAILED`].
    fn of(success: bool) -> Self {
        if success { Self::NEXT } else { Self::FAILED }
    }
}
