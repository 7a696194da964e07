//! Actions of rules, as far as the configuration knows them.
//!
//! The crate that runs an action owns its behaviour, its arguments and its row. The checks of
//! a configuration know the [`ActionFacts`].

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use weir_expr::{LogFormat, Reference};
use weir_fingerprint::Canonical;

use super::table::Track;
use super::visit::Visit;

/// One action with its arguments.
#[derive(Clone, Debug, Canonical)]
pub struct Action {
    arguments: Arc<dyn ActionArguments>,
}

/// The arguments of an action, of a type of the crate that runs it.
pub trait ActionArguments: Any + Debug + Canonical + Send + Sync {
    /// Properties of the action for code outside the stream.
    fn facts(&self) -> ActionFacts<'_>;

    /// Visits the references of every expression and every table in the arguments.
    fn visit_references(&self, visit: Visit<'_>);
}

impl Action {
    /// Creates an action from its arguments.
    pub fn new(arguments: impl ActionArguments) -> Self {
        Action { arguments: Arc::new(arguments) }
    }

    /// The arguments, if they are of this type.
    #[inline]
    pub fn arguments<A: ActionArguments>(&self) -> Option<&A> {
        let arguments: &dyn Any = &*self.arguments;
        arguments.downcast_ref()
    }

    /// Properties of the action for code outside the stream.
    pub fn facts(&self) -> ActionFacts<'_> {
        self.arguments.facts()
    }

    /// Visits the references in the arguments.
    pub fn visit_references(&self, visit: Visit<'_>) {
        self.arguments.visit_references(visit);
    }
}

/// Properties of an action that the checks of a configuration, lint and the start of the process need. Most actions set none of
/// them.
#[derive(Clone, Copy, Debug)]
pub struct ActionFacts<'a> {
    /// The action is final: the ruleset stops after it.
    pub is_final: bool,
    /// The action sends a response to the client in place of a server. A refusal does not count.
    pub answers: bool,
    /// It is a redirection.
    pub redirects: bool,
    /// The action switches the connection to HTTP.
    pub switches_to_http: bool,
    /// The action encodes or removes the fragment of a request's target. Without it, a request with a fragment is refused.
    pub takes_fragments: bool,
    /// The action of a request keeps fields that are added to the response, before the `http-after-response` rules.
    pub adds_to_response: bool,
    /// The backend to which the action sends requests of its own.
    pub asks: Option<&'a Reference>,
    /// The `resolvers` section with the name servers that the action queries.
    pub resolvers: Option<&'a str>,
    /// The stick counter that the action uses, from 0.
    pub counter: Option<u8>,
    /// The stick-table entry that the action tracks.
    pub track: Option<&'a Track>,
    /// The setting, as written, that needs a privilege after startup.
    pub privileged: Option<&'static str>,
}

impl ActionFacts<'_> {
    /// None of the properties.
    pub const NONE: Self = ActionFacts {
        is_final: false,
        answers: false,
        redirects: false,
        switches_to_http: false,
        takes_fragments: false,
        adds_to_response: false,
        asks: None,
        resolvers: None,
        counter: None,
        track: None,
        privileged: None,
    };
}

/// A redirection.
#[derive(Clone, Debug, Canonical)]
pub struct Redirect {
    /// How the `location` header is built.
    pub kind: RedirectKind,
    /// The value: plain text in a `redirect` line, a format in a rule.
    pub value: LogFormat,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// `drop-query`.
    pub drop_query: bool,
    /// `keep-query`: `location` gets the request's query appended.
    pub keep_query: bool,
    /// `append-slash`: with `drop-query`, paths without a final slash get one.
    pub append_slash: bool,
    /// `ignore-empty`: do nothing if the location is empty.
    pub ignore_empty: bool,
    /// `set-cookie`, `set-cookie-fmt`, `clear-cookie`: a `set-cookie` header.
    pub cookie: Option<RedirectCookie>,
}

/// The value of the `set-cookie` header of a redirection.
#[derive(Clone, Debug, Canonical)]
pub struct RedirectCookie {
    /// The cookie's name, with or without a value.
    pub format: LogFormat,
    pub attributes: &'static str,
}

/// How the `location` header of a redirection is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum RedirectKind {
    Location,
    /// The value, then the request's path and query.
    Prefix,
    /// The value as a scheme, then the host, then path and query.
    Scheme,
}
