//! The sections of the language: one row each.

use weir_syntax::did_you_mean;

use crate::rows::{Handler, Row, Table};

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
    /// `fcgi-app`.
    FcgiApp,
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
    /// A section of an engine's file (`filter spoe`). An error in a configuration.
    Engine(EngineSection),
}

/// A section of an engine's file (SPOE 1.2, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineSection {
    /// `spoe-agent`.
    Agent,
    /// `spoe-message`.
    Message,
    /// `spoe-group`.
    Group,
}

/// The section of an engine's file that begins with this word.
pub(crate) fn engine_section(word: &str) -> Option<EngineSection> {
    match SECTIONS.find(word)?.handler {
        Handler::Ready(SectionKind::Engine(section)) => Some(section),
        _ => None,
    }
}

/// The words that begin a section in an engine's file.
pub(crate) fn engine_section_names() -> impl Iterator<Item = &'static str> {
    SECTIONS.rows().map(|row| row.name).filter(|name| engine_section(name).is_some())
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
    Row::ready("fcgi-app", "<name>", "php", "a FastCGI application", SectionKind::FcgiApp),
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
    Row::ready(
        "spoe-agent",
        "<name>",
        "waf",
        "the agent of an engine",
        SectionKind::Engine(EngineSection::Agent),
    ),
    Row::ready(
        "spoe-group",
        "<name>",
        "late-checks",
        "messages that a rule sends to the agent",
        SectionKind::Engine(EngineSection::Group),
    ),
    Row::ready(
        "spoe-message",
        "<name>",
        "check-request",
        "a message to the agent",
        SectionKind::Engine(EngineSection::Message),
    ),
    Row::ready("traces", "", "", "traces from start", SectionKind::Traces),
]]);
