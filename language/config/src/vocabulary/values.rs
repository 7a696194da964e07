//! The values that a word takes where its arguments only have a name for them: for the manual's reference and `weir explain`.
//!
//! A test writes each value on a line and reads it, so that none is named that is refused.

use super::WordPlace;

/// A value with its placeholders in angle brackets, and its effect.
pub type ValueHelp = (&'static str, &'static str);

/// The values of a word that is written with one of a list.
pub(crate) fn of(place: WordPlace, name: &str) -> &'static [ValueHelp] {
    let known = ROWS.iter().find(|(known, words, _)| *known == place && words.contains(&name));
    known.map_or(&[], |(.., values)| values)
}

/// Place, words that take the same values, and the values.
pub(crate) static ROWS: &[(WordPlace, &[&str], &[ValueHelp])] = &[
    (WordPlace::Proxy, &["balance"], ALGORITHMS),
    (WordPlace::Proxy, &["hash-type"], HASHES),
    (WordPlace::Proxy, &["hash-preserve-affinity"], AFFINITIES),
    (WordPlace::Proxy, &["retry-on"], FAILURES),
    (WordPlace::Proxy, &["cookie"], COOKIE),
    (WordPlace::Proxy, &["http-reuse"], REUSE),
    (WordPlace::Proxy, &["mode"], MODES),
    (WordPlace::Proxy, &["http-check expect"], HTTP_MATCHES),
    (WordPlace::Healthcheck, &["http-check expect"], HTTP_MATCHES),
    (WordPlace::Proxy, &["tcp-check expect"], TCP_MATCHES),
    (WordPlace::Healthcheck, &["tcp-check expect"], TCP_MATCHES),
    (WordPlace::Proxy, &["stick-table"], STORED),
    (WordPlace::Proxy, &["email-alert level"], SEVERITIES),
    (WordPlace::Proxy, &["load-server-state-from-file"], STATE_FILES),
    (WordPlace::Option, &["http-restrict-req-hdr-names"], HEADER_NAMES),
    (WordPlace::Bind, &["level"], LEVELS),
    (WordPlace::Bind, &["severity-output"], MARKS),
    (WordPlace::Bind, &["verify"], VERIFY_CLIENTS),
    (WordPlace::Bind, &["proto"], PROTOCOLS),
    (WordPlace::Server, &["proto"], PROTOCOLS),
    (WordPlace::Server, &["verify"], VERIFY_SERVERS),
    (WordPlace::Server, &["observe"], OBSERVED),
    (WordPlace::Server, &["on-error"], ON_ERROR),
    (
        WordPlace::Server,
        &["on-marked-down"],
        &[("shutdown-sessions", "ends the sessions of the server at once")],
    ),
    (
        WordPlace::Server,
        &["on-marked-up"],
        &[("shutdown-backup-sessions", "ends the sessions of backup servers, so that clients come back")],
    ),
    (WordPlace::Server, &["hash-key"], HASH_KEYS),
    (WordPlace::Server, &["init-addr"], INITIAL_ADDRESSES),
    (WordPlace::Server, &["log-proto"], FRAMINGS),
    (WordPlace::Server, &["proxy-v2-options"], PROXY_FIELDS),
    (WordPlace::Server, &["resolve-opts"], RESOLUTION),
    (WordPlace::Action, &["set-log-level"], LOG_LEVELS),
];

const ALGORITHMS: &[ValueHelp] = &[
    ("roundrobin", "each server in turn, as often as its weight says; weights may change at run time"),
    ("static-rr", "as roundrobin, with the weights of the start"),
    ("leastconn", "the server with the fewest connections for its weight; for long sessions"),
    ("first", "the first server that has a free connection ('maxconn'); the others can be switched off"),
    ("random", "the less loaded of two servers drawn at random"),
    ("random(<draws>)", "the least loaded of so many servers drawn at random"),
    ("latency", "the server that answers fastest for its load; of weir, not of HAProxy"),
    ("source", "by a hash of the client's address: a client stays at its server while none comes or goes"),
    (
        "uri",
        "by a hash of the path, so that each object is in the cache of one server; then 'whole', 'path-only', 'len <number>', 'depth <number>'",
    ),
    ("url_param <name>", "by a hash of a parameter of the query; then 'check_post' for forms"),
    ("hdr(<name>)", "by a hash of a header field; then 'use_domain_only' for Host"),
    ("rdp-cookie(<name>)", "by a hash of an RDP cookie, 'msts' if no name is given"),
    ("hash <expr>", "by a hash of any expression, such as 'hash var(txn.user)'"),
    ("log-hash <converters>", "mode log: by a hash of the message behind converters"),
    ("sticky", "mode log: one server until it fails, then the next"),
];

const HASHES: &[ValueHelp] = &[
    ("map-based", "method: a table of the servers; even, and most keys move when a server comes or goes"),
    ("consistent", "method: a ring; few keys move when a server comes or goes"),
    ("consistent sdbm", "function (the default)"),
    ("consistent djb2", "function"),
    ("consistent wt6", "function"),
    ("consistent crc32", "function"),
    ("consistent none", "function: the key is a number, or the bytes are one"),
    ("consistent sdbm avalanche", "modifier: mixes the bits of the hash once more"),
];

const AFFINITIES: &[ValueHelp] = &[
    ("always", "never: a request waits for its server"),
    ("maxconn", "when all its connections are in use"),
    ("maxqueue", "when its queue is full"),
];

const FAILURES: &[ValueHelp] = &[
    ("none", "never"),
    ("conn-failure", "no connection to the server was made (the default)"),
    ("empty-response", "the server closed without an answer"),
    ("junk-response", "the answer is not HTTP"),
    ("response-timeout", "no answer within 'timeout server'"),
    ("0rtt-rejected", "the server refused early data"),
    (
        "<status>",
        "the server answered with this status: 401, 403, 404, 408, 421, 425, 429, 500, 501, 502, 503 or 504",
    ),
    (
        "all-retryable-errors",
        "all of these, and of the statuses 500, 502, 503 and 504; a request may reach servers twice",
    ),
];

const COOKIE: &[ValueHelp] = &[
    ("<name> insert", "weir sets the cookie; each 'server' line needs a 'cookie' value"),
    ("<name> rewrite", "the server sets the cookie, and weir replaces its value"),
    ("<name> prefix", "weir puts its value in front of the application's, in the same cookie"),
    ("<name> insert indirect", "servers never see the cookie, and it is set only when it changes"),
    ("<name> insert nocache", "answers that set the cookie are not kept by caches"),
    ("<name> insert postonly", "the cookie is set in answers to POST only"),
    ("<name> insert preserve", "a server may set or remove the cookie itself"),
    ("<name> insert httponly", "scripts of the page do not see it"),
    ("<name> insert secure", "browsers send it over TLS only"),
    ("<name> insert domain <domain>", "the domain that it is sent to; may be written several times"),
    ("<name> insert maxidle <time>", "not followed after so long without a request"),
    ("<name> insert maxlife <time>", "not followed when it is older"),
    ("<name> insert attr <attribute>", "a further attribute, such as 'SameSite=Lax'"),
    ("<name> insert dynamic", "values are made of the server's address and 'dynamic-cookie-key'"),
];

const REUSE: &[ValueHelp] = &[
    ("never", "a connection serves one client"),
    ("safe", "the first request of a client opens a connection, later ones share (the default)"),
    ("aggressive", "first requests share connections that were reused before"),
    ("always", "all requests share; one that may be repeated is sent again if the server closes meanwhile"),
];

const MODES: &[ValueHelp] = &[
    ("http", "requests and answers are understood"),
    ("tcp", "bytes are forwarded unchanged (the default)"),
    ("log", "a backend of log servers"),
];

const HTTP_MATCHES: &[ValueHelp] = &[
    ("status <codes>", "the status is one of a list: '200,300-399'"),
    ("rstatus <regex>", "the status matches a regular expression"),
    ("string <text>", "the body has this text"),
    ("rstring <regex>", "the body matches a regular expression"),
    ("string-lf <fmt>", "the body has the text that a format gives"),
    ("hdr name <name>", "a header is there; then 'value <value>' for one of its values, separated by commas"),
    ("fhdr name <name>", "the same with the whole value"),
    ("! status <codes>", "any of these reversed"),
];

const TCP_MATCHES: &[ValueHelp] = &[
    ("string <text>", "the answer has this text"),
    ("rstring <regex>", "the answer matches a regular expression"),
    ("string-lf <fmt>", "the answer has the text that a format gives"),
    ("binary <hex>", "the answer has these bytes"),
    ("rbinary <regex>", "its bytes as hexadecimal digits match a regular expression"),
    ("binary-lf <hexfmt>", "the answer has the bytes that a format gives"),
    ("! string <text>", "any of these reversed"),
];

const STORED: &[ValueHelp] = &[
    ("type ipv4 size 1k", "keys are IPv4 addresses; 'ip' is the same"),
    ("type ipv6 size 1k", "keys are addresses of both families"),
    ("type integer size 1k", "keys are numbers"),
    ("type string size 1k", "keys are texts; 'string len 64' for longer ones"),
    ("type binary size 1k", "keys are bytes; 'binary len 16' pads them to 16"),
    ("type ip size 1k expire 10m", "an entry is forgotten when nothing touched it for so long"),
    ("type ip size 1k nopurge", "a full table takes no new entries"),
    ("type ip size 1k store conn_cur", "open connections"),
    ("type ip size 1k store conn_cnt", "connections; 'conn_rate(10s)' in a period"),
    ("type ip size 1k store sess_cnt", "sessions; 'sess_rate(10s)' in a period"),
    ("type ip size 1k store http_req_cnt", "requests; 'http_req_rate(10s)' in a period"),
    ("type ip size 1k store http_err_cnt", "errors of clients; 'http_err_rate(10s)' in a period"),
    ("type ip size 1k store http_fail_cnt", "failures of servers; 'http_fail_rate(10s)' in a period"),
    ("type ip size 1k store glitch_cnt", "oddities of the protocol; 'glitch_rate(10s)' in a period"),
    ("type ip size 1k store bytes_in_cnt", "bytes from clients; 'bytes_in_rate(10s)' in a period"),
    ("type ip size 1k store bytes_out_cnt", "bytes to clients; 'bytes_out_rate(10s)' in a period"),
    ("type ip size 1k store gpc(2)", "so many counters for rules; 'gpc_rate(2,10s)' in a period"),
    ("type ip size 1k store gpt(2)", "so many tags for rules"),
    (
        "type ip size 1k store gpc0",
        "the older single counter, 'gpc1' a second one; 'gpc0_rate(10s)' and 'gpc1_rate(10s)' in a period",
    ),
    ("type ip size 1k store gpt0", "the older single tag"),
    ("type ip size 1k store server_id", "the server that 'stick' chose, by its number"),
    ("type ip size 1k store server_key", "the same by its name or address ('srvkey')"),
];

const SEVERITIES: &[ValueHelp] = &[
    ("emerg", "the gravest only"),
    ("alert", "and servers that went down"),
    ("crit", "and critical messages"),
    ("err", "and errors"),
    ("warning", "and warnings"),
    ("notice", "and servers that came up"),
    ("info", "and results of health checks"),
    ("debug", "everything"),
];

const STATE_FILES: &[ValueHelp] = &[
    ("none", "no file is read"),
    ("global", "the file that 'server-state-file' of 'global' names"),
    ("local", "the file that 'server-state-file-name' of the proxy names"),
];

const HEADER_NAMES: &[ValueHelp] =
    &[("preserve", "leave them"), ("delete", "remove them"), ("reject", "answer 403")];

const LEVELS: &[ValueHelp] = &[
    ("user", "reads statistics without secrets"),
    (
        "operator",
        "reads all statistics and makes changes that are not sensitive, such as clearing counters (the default)",
    ),
    ("admin", "may do everything"),
];

const MARKS: &[ValueHelp] = &[
    ("none", "not at all (the default)"),
    ("number", "answers begin with the severity in brackets: '[3]: '"),
    ("string", "answers begin with its name: '[err]: '"),
];

const VERIFY_CLIENTS: &[ValueHelp] = &[
    ("none", "no certificate is requested (the default)"),
    ("optional", "a client may do without"),
    ("required", "a client without a valid certificate is refused"),
];

const VERIFY_SERVERS: &[ValueHelp] =
    &[("none", "trust any certificate"), ("required", "against 'ca-file' (the default)")];

const PROTOCOLS: &[ValueHelp] = &[("h1", "HTTP/1"), ("h2", "HTTP/2"), ("none", "bytes, in 'mode tcp'")];

const OBSERVED: &[ValueHelp] = &[
    ("none", "no traffic counts (the default)"),
    ("layer4", "connections that fail are errors"),
    ("layer7", "answers with errors of the server count, too"),
];

const ON_ERROR: &[ValueHelp] = &[
    ("fastinter", "check at the interval of 'fastinter'"),
    ("fail-check", "count as one failed check, and check at that interval (the default)"),
    ("sudden-death", "the next failed check takes the server down"),
    ("mark-down", "take the server down at once"),
];

const HASH_KEYS: &[ValueHelp] =
    &[("id", "its number (the default)"), ("addr", "its address"), ("addr-port", "its address and port")];

const INITIAL_ADDRESSES: &[ValueHelp] = &[
    ("last", "that of the state file"),
    ("libc", "that of the system's resolver"),
    ("none", "none: the server is down until 'resolvers' find one"),
    ("<ip>", "this one"),
];

const FRAMINGS: &[ValueHelp] = &[
    ("legacy", "messages end with a newline (the default)"),
    ("octet-count", "a length precedes each message"),
];

const PROXY_FIELDS: &[ValueHelp] = &[
    ("crc32c", "a checksum"),
    ("unique-id", "the identifier of 'unique-id-format'"),
    ("authority", "the name that the client asked for (SNI)"),
    ("ssl", "whether the client uses TLS"),
    ("cert-cn", "the common name of its certificate"),
    ("ssl-cipher", "the cipher"),
    ("cert-sig", "the algorithm that signed its certificate"),
    ("cert-key", "the algorithm of the certificate's key"),
];

const RESOLUTION: &[ValueHelp] = &[
    ("prevent-dup-ip", "an address is that of one server (the default)"),
    ("allow-dup-ip", "several servers may have the same address"),
    ("ignore-weight", "weights of services (SRV) do not count"),
];

const LOG_LEVELS: &[ValueHelp] = &[
    ("emerg", "the gravest"),
    ("alert", "grave"),
    ("crit", "critical"),
    ("err", "an error"),
    ("warning", "a warning"),
    ("notice", "worth a note"),
    ("info", "usual"),
    ("debug", "for debugging"),
    ("silent", "write no line"),
];
