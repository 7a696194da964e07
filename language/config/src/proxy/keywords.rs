//! The table of the proxy sections' keywords, and the words that are not implemented yet.

use super::{
    BACKENDS, DEFAULTS, FRONTENDS, LineContext, NAMED_DEFAULTS, PROXIES, Sections, application, balancing,
    captures, checks, compression, errors, filters, general, logging, mail, outliers, routing, stats,
    sticking, timeouts,
};
use crate::rows::{Row, Table};
use crate::words::{Parsed, Words};

/// Reads the arguments of a keyword, in the sections that support it.
#[derive(Clone, Copy, Debug)]
pub struct ProxyReader {
    /// The sections that support the keyword.
    pub sections: Sections,
    /// Whether the keyword is an error in other sections, instead of a warning.
    pub strict: bool,
    pub(crate) read: fn(&mut LineContext<'_>, &mut Words<'_>) -> Parsed,
}

/// Every keyword of `defaults`, `frontend`, `listen` and `backend` sections but `option`, `no` and `default`.
pub static PROXY_KEYWORDS: Table<ProxyReader> = Table::new(&[
    general::KEYWORDS,
    timeouts::KEYWORDS,
    logging::KEYWORDS,
    captures::KEYWORDS,
    errors::KEYWORDS,
    routing::KEYWORDS,
    balancing::KEYWORDS,
    outliers::KEYWORDS,
    sticking::KEYWORDS,
    stats::KEYWORDS,
    filters::KEYWORDS,
    application::KEYWORDS,
    compression::KEYWORDS,
    checks::KEYWORDS,
    checks::IN_PROXIES,
    checks::EXTERNAL_KEYWORDS,
    mail::KEYWORDS,
    NOT_YET,
]);

/// An implemented keyword.
pub(crate) const fn keyword(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    sections: Sections,
    read: fn(&mut LineContext<'_>, &mut Words<'_>) -> Parsed,
) -> Row<ProxyReader> {
    Row::ready(name, arguments, example, help, ProxyReader { sections, strict: false, read })
}

/// An implemented keyword that is an error in other sections.
pub(crate) const fn strict_keyword(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    sections: Sections,
    read: fn(&mut LineContext<'_>, &mut Words<'_>) -> Parsed,
) -> Row<ProxyReader> {
    Row::ready(name, arguments, example, help, ProxyReader { sections, strict: true, read })
}

/// `defaults`, `frontend` and `listen`.
pub(crate) const DEFAULTS_AND_FRONTENDS: Sections = DEFAULTS.or(FRONTENDS);
/// `defaults`, `listen` and `backend`.
pub(crate) const DEFAULTS_AND_BACKENDS: Sections = DEFAULTS.or(BACKENDS);
/// `defaults` and all proxies.
pub(crate) const EVERYWHERE: Sections = DEFAULTS.or(PROXIES);
/// Named `defaults` and all proxies.
pub(crate) const RULES_EVERYWHERE: Sections = NAMED_DEFAULTS.or(PROXIES);
/// Named `defaults`, `frontend` and `listen`.
pub(crate) const RULES_OF_FRONTENDS: Sections = NAMED_DEFAULTS.or(FRONTENDS);
/// Named `defaults`, `listen` and `backend`.
pub(crate) const RULES_OF_BACKENDS: Sections = NAMED_DEFAULTS.or(BACKENDS);

/// These words replaced text in any line of a request's head, most often in the first line.
const REPLACE_IN_REQUESTS: &str = "use 'http-request replace-path' or 'http-request replace-uri' for the request line, and 'http-request \
     replace-header' for a header.";

const NOT_YET: &[Row<ProxyReader>] = &[
    Row::removed("clitimeout", "use 'timeout client' instead."),
    Row::removed("contimeout", "use 'timeout connect' instead."),
    Row::removed("srvtimeout", "use 'timeout server' instead."),
    Row::removed("dispatch", "use a 'server' line instead."),
    Row::removed("appsession", "use 'cookie' or a 'stick-table' instead."),
    Row::removed("grace", "just remove it."),
    Row::removed("monitor-net", "use 'http-request return status 200 if { src <network> }' instead."),
    Row::removed("reqsetbe", "use 'use_backend' instead."),
    Row::removed("bind-process", "use 'thread' on 'bind' lines instead."),
    Row::removed("block", "use 'http-request deny' instead."),
    Row::removed("redisp", "use 'option redispatch' instead."),
    Row::removed("redispatch", "use 'option redispatch' instead."),
    Row::removed("reqadd", "use 'http-request add-header' instead."),
    Row::removed("reqallow", "use 'http-request allow' instead."),
    Row::removed("reqdel", "use 'http-request del-header' instead."),
    Row::removed("reqdeny", "use 'http-request deny' instead."),
    Row::removed("reqiallow", "use 'http-request allow' instead."),
    Row::removed("reqidel", "use 'http-request del-header' instead."),
    Row::removed("reqideny", "use 'http-request deny' instead."),
    Row::removed("reqipass", "use 'http-request' rules instead."),
    Row::removed("reqirep", REPLACE_IN_REQUESTS),
    Row::removed("reqitarpit", "use 'http-request tarpit' instead."),
    Row::removed("reqpass", "use 'http-request' rules instead."),
    Row::removed("reqrep", REPLACE_IN_REQUESTS),
    Row::removed("reqtarpit", "use 'http-request tarpit' instead."),
    Row::removed("rspadd", "use 'http-response add-header' instead."),
    Row::removed("rspdel", "use 'http-response del-header' instead."),
    Row::removed("rspdeny", "use 'http-response deny' instead."),
    Row::removed("rspidel", "use 'http-response del-header' instead."),
    Row::removed("rspideny", "use 'http-response deny' instead."),
    Row::removed("rspirep", "use 'http-response replace-header' instead."),
    Row::removed("rsprep", "use 'http-response replace-header' instead."),
    Row::not_yet("log-steps", "<steps>", "at which steps of a stream to log"),
    Row::not_yet("max-session-srv-conns", "<nb>", "connections to servers that a client keeps"),
    Row::not_yet("quic-initial", "<action> [ { if | unless } <condition> ]", "rules on QUIC's first packets"),
];
