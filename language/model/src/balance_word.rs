//! The words after `balance`: one row for each algorithm.
//!
//! The rows are not beside the balancing code: some arguments are expressions, which that code does not know, and files are
//! parsed and explained without traffic. The balancing code finds its row by the word.

use weir_fingerprint::{Canonical, FormEncoder};

/// A value with its placeholders in angle brackets, and its effect. A test writes each value on a line and reads it, so that no
/// refused value is listed.
pub type ValueHelp = (&'static str, &'static str);

/// The written form of an algorithm.
#[derive(Debug)]
pub struct BalanceWord {
    /// The word after `balance`. Statistics and timelines show it too.
    pub name: &'static str,
    /// The form of its argument.
    pub syntax: BalanceSyntax,
    /// How log messages are balanced with it, if they can be (manual, "balance").
    pub logs: Option<LogBalance>,
    /// The forms that it is written in, with their effect.
    pub values: &'static [ValueHelp],
}

/// The form of the argument of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalanceSyntax {
    Plain,
    /// A number of draws in parentheses, or nothing.
    Draws,
    /// Nothing: the key is the client's address.
    Source,
    /// Options that choose the part of the request's URI that is the key.
    Uri,
    /// The name of the query's parameter that is the key.
    UrlParameter,
    /// The name of a header in parentheses.
    Header,
    /// The name of an RDP cookie in parentheses, or nothing.
    RdpCookie,
    Expression,
    /// Converters for the text of a log message.
    LogMessage,
}

/// How log messages are balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBalance {
    Turns,
    Random,
    /// By the hash of the converters' result.
    Hash,
    /// The first server that takes them.
    Sticky,
}

/// Encoded as the name: in one program, a name always means the same row.
impl Canonical for BalanceWord {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.text(self.name);
    }
}

impl BalanceWord {
    const fn new(name: &'static str, syntax: BalanceSyntax, values: &'static [ValueHelp]) -> Self {
        BalanceWord { name, syntax, logs: None, values }
    }

    const fn logs(mut self, logs: LogBalance) -> Self {
        self.logs = Some(logs);
        self
    }

    /// The algorithm of that word.
    pub fn find(name: &str) -> Option<&'static BalanceWord> {
        ALGORITHMS.iter().copied().find(|word| word.name == name)
    }

    /// Whether the algorithm uses a hash, so that `hash-type` matters.
    pub fn hashes(&self) -> bool {
        !matches!(self.syntax, Plain | Draws)
    }

    /// Whether the algorithm needs an HTTP request.
    pub fn needs_http(&self) -> bool {
        matches!(self.syntax, Uri | UrlParameter | Header)
    }
}

use BalanceSyntax::{Draws, Expression, Header, LogMessage, Plain, RdpCookie, Source, Uri, UrlParameter};

/// All algorithms in HAProxy's order, which messages and the manual follow. `latency`, the last one, exists only in weir.
pub const ALGORITHMS: &[&BalanceWord] = &[
    ROUND_ROBIN,
    &BalanceWord::new(
        "static-rr",
        Plain,
        &[("static-rr", "as roundrobin, with the weights fixed at startup")],
    ),
    &BalanceWord::new(
        "leastconn",
        Plain,
        &[("leastconn", "the server with the fewest connections for its weight; for long sessions")],
    ),
    &BalanceWord::new(
        "first",
        Plain,
        &[(
            "first",
            "the first server that has a free connection ('maxconn'); the others can be switched off",
        )],
    ),
    &BalanceWord::new(
        "source",
        Source,
        &[(
            "source",
            "by a hash of the client's address: a client keeps its server until the set of usable servers changes",
        )],
    ),
    &BalanceWord::new(
        "uri",
        Uri,
        &[(
            "uri",
            "by a hash of the path, so that each object is in the cache of one server; then 'whole', \
             'path-only', 'len <number>', 'depth <number>'",
        )],
    ),
    &BalanceWord::new(
        "url_param",
        UrlParameter,
        &[("url_param <name>", "by a hash of a parameter of the query; then 'check_post' for forms")],
    ),
    &BalanceWord::new(
        "hdr",
        Header,
        &[("hdr(<name>)", "by a hash of a header field; then 'use_domain_only' for Host")],
    ),
    &BalanceWord::new(
        "hash",
        Expression,
        &[("hash <expr>", "by a hash of any expression, such as 'hash var(txn.user)'")],
    ),
    RANDOM,
    &BalanceWord::new(
        "rdp-cookie",
        RdpCookie,
        &[("rdp-cookie(<name>)", "by a hash of an RDP cookie, 'msts' if no name is given")],
    ),
    &BalanceWord::new(
        "log-hash",
        LogMessage,
        &[("log-hash <converters>", "mode log: by a hash of the message after converters")],
    )
    .logs(LogBalance::Hash),
    &BalanceWord::new("sticky", Plain, &[("sticky", "mode log: one server until it fails, then the next")])
        .logs(LogBalance::Sticky),
    &BalanceWord::new(
        "latency",
        Plain,
        &[("latency", "the server that answers fastest for its load; only in weir")],
    ),
];

/// Each server in turn.
pub(super) const ROUND_ROBIN: &BalanceWord = &BalanceWord::new(
    "roundrobin",
    Plain,
    &[("roundrobin", "each server in turn, as often as its weight says; weights may change at run time")],
)
.logs(LogBalance::Turns);

/// The default of a backend since 3.3.
pub(super) const RANDOM: &BalanceWord = &BalanceWord::new(
    "random",
    Draws,
    &[
        ("random", "the less loaded of two servers drawn at random"),
        ("random(<draws>)", "the least loaded of this many servers drawn at random"),
    ],
)
.logs(LogBalance::Random);

/// The forms of all algorithms.
pub const FORMS: &[ValueHelp] = &forms();

const fn forms() -> [ValueHelp; count()] {
    let mut all = [("", ""); count()];
    let (mut word, mut at) = (0, 0);
    while word < ALGORITHMS.len() {
        let mut form = 0;
        while form < ALGORITHMS[word].values.len() {
            all[at] = ALGORITHMS[word].values[form];
            (at, form) = (at + 1, form + 1);
        }
        word += 1;
    }
    all
}

const fn count() -> usize {
    let (mut word, mut total) = (0, 0);
    while word < ALGORITHMS.len() {
        total += ALGORITHMS[word].values.len();
        word += 1;
    }
    total
}
