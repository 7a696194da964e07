//! The statistics page of a proxy.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::{Condition, Location};
use weir_fingerprint::{Canonical, unordered};

/// The settings of a proxy's `stats` lines. Any of them switches the page on.
#[derive(Clone, Debug, Default, Canonical)]
pub struct Stats {
    /// `uri`: the path of the page. None for `/haproxy?stats`.
    pub uri: Option<Arc<str>>,
    /// `auth`: users and their plaintext passwords. Empty for access without a password.
    #[canonical(with = unordered)]
    pub users: Vec<(Box<str>, Box<str>)>,
    /// `realm`. None for the default one.
    pub realm: Option<Arc<str>>,
    /// `refresh`: how often the page reloads itself.
    pub refresh: Option<Duration>,
    /// `scope`: the proxies to show. Empty for all.
    #[canonical(with = unordered)]
    pub scope: Vec<StatsScope>,
    /// `hide-version`.
    pub hide_version: bool,
    /// `show-legends`: addresses and cookies in tool tips.
    pub show_legends: bool,
    /// `show-modules`: the counters of modules.
    pub show_modules: bool,
    /// `show-node`: the node's name in the title. None to leave it out.
    pub show_node: Option<StatsText>,
    /// `show-desc`: a description in the title. None to leave it out.
    pub show_description: Option<StatsText>,
    /// `admin`: clients that may change the servers' states. One true condition is enough.
    pub admin: Vec<StatsAdmin>,
    /// `stats http-request`: access rules of the page.
    pub http_request: Vec<StatsRule>,
}

impl Stats {
    /// The path of the page.
    pub fn uri(&self) -> &str {
        self.uri.as_deref().unwrap_or("/haproxy?stats")
    }

    /// The realm of the authentication.
    pub fn realm(&self) -> &str {
        self.realm.as_deref().unwrap_or("HAProxy Statistics")
    }
}

/// One proxy that the page may show.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum StatsScope {
    /// `.`: the proxy that has the page.
    Own,
    /// The proxy with this name.
    Named(Box<str>),
}

/// A text of the page's title.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum StatsText {
    /// The text of the global section (`node`, or the host's name; `description`).
    Global,
    Own(Box<str>),
}

/// One `stats admin` line.
#[derive(Clone, Debug, Canonical)]
pub struct StatsAdmin {
    pub condition: Condition,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// One `stats http-request` line.
#[derive(Clone, Debug, Canonical)]
pub struct StatsRule {
    pub verdict: StatsVerdict,
    /// When the rule applies. None for always.
    pub condition: Option<Condition>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// The verdict of a `stats http-request` rule.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum StatsVerdict {
    Allow,
    Deny,
    Auth {
        /// The realm. None for the page's.
        realm: Option<Box<str>>,
    },
}
