//! A few actions for tests of the code that all rules share. The real rows are in the crate that runs them.

use std::sync::Arc;

use weir_expr::{FormatOptions, LogFormat};
use weir_fingerprint::Canonical;

use crate::proxy::spoe::read_group_use;
use crate::rows::Row;
use crate::rules::{ActionTable, action, sets};
use weir_model::{Action, ActionArguments, ActionFacts, Redirect, Reply, RulesetKind, SpoeGroupUse, Visit};

pub(crate) static ACTIONS: ActionTable = ActionTable::new(&[&[
    action("accept", "", "", "go on", sets::TCP, |_, _| Ok(Action::new(Accept))),
    action("allow", "", "", "go on", sets::HTTP, |_, _| Ok(Action::new(Accept))),
    action("close", "", "", "close", sets::TCP_RESPONSE, |_, _| Ok(Action::new(Accept))),
    action("reject", "", "", "close", sets::TCP_AND_REQUEST, |_, _| Ok(Action::new(Accept))),
    action("deny", "[reply]", "deny_status 429", "refuse", sets::HTTP_MESSAGES, |context, words| {
        let status = if context.kind == RulesetKind::HttpRequest { 403 } else { 502 };
        Ok(Action::new(Deny(context.refusal(words, status)?)))
    }),
    action("redirect", "<to>", "location /", "redirect", sets::HTTP_MESSAGES, |context, words| {
        Ok(Action::new(SendRedirect(context.redirect(words)?)))
    }),
    action("set-header", "<name> <fmt>", "a b", "set a header", sets::HTTP, |context, words| {
        let expects = "expects exactly 2 arguments.";
        words.expect(expects)?;
        let value = words.expect(expects)?;
        Ok(Action::new(Text(context.format(value, FormatOptions::HTTP)?)))
    }),
    action("set-var-fmt", "(<name>) <fmt>", "(txn.a) b", "set a variable", sets::EVERY, |context, words| {
        let value = words.expect("expects exactly 1 argument <format>.")?;
        Ok(Action::new(Text(context.format(value, FormatOptions::PLAIN)?)))
    }),
    action("send-spoe-group", "<engine> <group>", "e g", "send messages", sets::CONTENT, |context, words| {
        Ok(Action::new(SendGroup(read_group_use(context, words)?)))
    }),
    action("lua.<name>", "<arg>*", "", "a script", sets::CONTENT, |context, words| {
        let registered = context.script_action(context.word.text()).expect("the name was checked");
        for _ in 0..registered.arguments {
            words.expect("expect 1 arguments")?;
        }
        Ok(Action::new(Accept))
    }),
    Row::not_yet("later", "", "a word that is not implemented yet"),
]]);

/// `send-spoe-group`.
#[derive(Debug, Canonical)]
pub(crate) struct SendGroup(pub Arc<SpoeGroupUse>);

impl ActionArguments for SendGroup {
    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts::NONE
    }

    fn visit_references(&self, _: Visit<'_>) {}
}

#[derive(Debug, Canonical)]
struct Accept;

impl ActionArguments for Accept {
    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { is_final: true, ..ActionFacts::NONE }
    }

    fn visit_references(&self, _: Visit<'_>) {}
}

/// `deny`.
#[derive(Debug, Canonical)]
pub(crate) struct Deny(pub Reply);

impl ActionArguments for Deny {
    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { is_final: true, ..ActionFacts::NONE }
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}

/// `redirect`.
#[derive(Debug, Canonical)]
struct SendRedirect(Redirect);

impl ActionArguments for SendRedirect {
    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { is_final: !self.0.ignore_empty, redirects: true, ..ActionFacts::NONE }
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}

#[derive(Debug, Canonical)]
struct Text(LogFormat);

impl ActionArguments for Text {
    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts::NONE
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}
