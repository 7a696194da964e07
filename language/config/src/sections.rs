//! The sections of the language: one row each.

use weir_syntax::did_you_mean;

use crate::rows::{Row, Table};

/// The parser that reads a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionKind {
    /// `global`.
    Global,
    /// `defaults`, `frontend`, `backend`, `listen`.
    Proxy,
    /// `userlist`.
    Userlist,
    /// `http-errors`.
    HttpErrors,
    /// `ring`.
    Ring,
    /// `crt-store`.
    CrtStore,
    /// `healthcheck`.
    Healthcheck,
    /// `log-forward`.
    LogForward,
    /// `mailers`.
    Mailers,
    /// `peers`.
    Peers,
    /// `resolvers`.
    Resolvers,
    /// `traces`.
    Traces,
}

/// Whether a line with this first word begins a section.
pub fn is_section(word: &str) -> bool {
    SECTIONS.find(word).is_some()
}

/// The first word that was probably meant: a word of this table or of a section line.
pub(crate) fn nearest_phrase<F>(table: &Table<F>, first: &str) -> Option<&'static str> {
    let own = table.rows().filter_map(|row| row.name.split(' ').next());
    did_you_mean(first, own.chain(SECTIONS.rows().map(|row| row.name)))
}

/// Every word that begins a section.
pub(crate) static SECTIONS: Table<SectionKind> = Table::new(&[&[
    Row::ready("global", "", "", "the process as a whole", SectionKind::Global),
    Row::ready(
        "defaults",
        "[<name>] [from <defaults>]",
        "",
        "settings for the proxies that follow",
        SectionKind::Proxy,
    ),
    Row::ready("frontend", "<name> [from <defaults>]", "web", "where clients connect", SectionKind::Proxy),
    Row::ready("backend", "<name> [from <defaults>]", "app", "servers that share a load", SectionKind::Proxy),
    Row::ready(
        "listen",
        "<name> [from <defaults>]",
        "web",
        "a frontend and a backend in one",
        SectionKind::Proxy,
    ),
    Row::ready("userlist", "<name>", "staff", "users and groups", SectionKind::Userlist),
    Row::ready("http-errors", "<name>", "site", "error messages to share", SectionKind::HttpErrors),
    Row::not_yet("acme", "<name>", "certificates by ACME"),
    Row::not_yet("cache", "<name>", "a cache of responses"),
    Row::ready("crt-store", "[<name>]", "web", "certificates to share", SectionKind::CrtStore),
    Row::not_yet("fcgi-app", "<name>", "a FastCGI application"),
    Row::ready("healthcheck", "<name>", "web", "a health check to share", SectionKind::Healthcheck),
    Row::ready("log-forward", "<name>", "syslog", "a relay of log messages", SectionKind::LogForward),
    Row::not_yet("log-profile", "<name>", "what to log at each step"),
    Row::ready("mailers", "<name>", "staff", "mail servers for alerts", SectionKind::Mailers),
    Row::ready("peers", "<name>", "fleet", "instances that share stick-tables", SectionKind::Peers),
    Row::removed("program", "let the service manager start other programs"),
    Row::ready(
        "resolvers",
        "<name>",
        "dns",
        "name servers for names that are resolved at run time",
        SectionKind::Resolvers,
    ),
    Row::ready("ring", "<name>", "events", "a buffer of events", SectionKind::Ring),
    Row::not_yet("spoe-agent", "<name>", "an agent that processes streams"),
    Row::not_yet("spoe-group", "<name>", "messages to an agent"),
    Row::not_yet("spoe-message", "<name>", "a message to an agent"),
    Row::ready("traces", "", "", "traces from start", SectionKind::Traces),
]]);
