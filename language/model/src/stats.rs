//! The statistics page of a proxy.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::{Condition, Location};
use weir_fingerprint::{Canonical, unordered};

/// The settings of a proxy's `stats` lines. Any of them switches the page on.
#[derive(Clone, Debug, Default, Canonical)]
pub struct Stats {
    /// `uri`: the path that the page answers to; none for `/haproxy?stats`.
    pub uri: Option<Arc<str>>,
    /// `auth`: users and their passwords in clear; empty for everybody.
    #[canonical(with = unordered)]
    pub users: Vec<(Box<str>, Box<str>)>,
    /// `realm`; none for the default one.
    pub realm: Option<Arc<str>>,
    /// `refresh`: how often the page reloads itself.
    pub refresh: Option<Duration>,
    /// `scope`: the proxies to show; empty for all.
    #[canonical(with = unordered)]
    pub scope: Vec<StatsScope>,
    /// `hide-version`.
    pub hide_version: bool,
    /// `show-legends`: addresses and cookies in tool tips.
    pub show_legends: bool,
    /// `show-modules`: the counters of modules.
    pub show_modules: bool,
    /// `show-node`: the node's name in the title; none for not at all.
    pub show_node: Option<StatsText>,
    /// `show-desc`: a description in the title; none for not at all.
    pub show_description: Option<StatsText>,
    /// `admin`: clients that may change the servers' states; one true condition is enough.
    pub admin: Vec<StatsAdmin>,
    /// `stats http-request`: access rules of the page.
    pub http_request: Vec<StatsRule>,
}

impl Stats {
    /// The path that the page answers to.
    pub fn uri(&self) -> &str {
        self.uri.as_deref().unwrap_or("/haproxy?stats")
    }

    /// The realm to demand credentials for.
    pub fn realm(&self) -> &str {
        self.realm.as_deref().unwrap_or("HAProxy Statistics")
    }
}

/// One proxy that the page may show.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum StatsScope {
    /// `.`: the proxy that has the page.
    Own,
    /// The proxy of that name.
    Named(Box<str>),
}

/// A text of the page's title.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum StatsText {
    /// That of the global section (`node`, or the host's name; `description`).
    Global,
    Own(Box<str>),
}

/// One `stats admin` line.
#[derive(Clone, Debug, Canonical)]
pub struct StatsAdmin {
    pub condition: Condition,
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// One `stats http-request` line.
#[derive(Clone, Debug, Canonical)]
pub struct StatsRule {
    pub verdict: StatsVerdict,
    /// When; none for always.
    pub condition: Option<Condition>,
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// The verdict of a `stats http-request` rule.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum StatsVerdict {
    Allow,
    Deny,
    Auth {
        /// The realm; none for that of the page.
        realm: Option<Box<str>>,
    },
}
