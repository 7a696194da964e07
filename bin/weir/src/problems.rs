//! Codes of configuration problems. Tools use them to identify problems, and `weir explain CODE` prints advice.
//!
//! The code is derived from the message text. Messages keep HAProxy's wording, so the patterns are stable and other crates need
//! not know this table. A code is never reused.

/// A kind of configuration problem.
pub(crate) struct Problem {
    /// `C` and three digits. The first digit is the subject: 1 words, 2 names, 3 rules and expressions, 4 proxies, 5 files and TLS,
    /// 6 names of the system, 7 findings of `weir lint`.
    pub code: &'static str,
    /// The problem, as a heading.
    pub title: &'static str,
    /// The meaning, and how to fix the problem.
    pub help: &'static str,
    /// Patterns for the messages: parts of the text in this order, separated by `*`. Empty for findings of `weir lint`.
    shapes: &'static [&'static str],
}

/// The code of a message, from the first matching row.
pub(crate) fn code_of(message: &str) -> &'static str {
    let unquoted = without_quoted(message);
    // Quoted words of the operator must not affect the match, unless the pattern contains a quote.
    let is_of = |shape: &str| fits(if shape.contains('\'') { message } else { &unquoted }, shape);
    PROBLEMS.iter().find(|row| row.shapes.iter().any(|shape| is_of(shape))).unwrap_or(&OTHER).code
}

/// The text without its parts in single quotes. An apostrophe inside a word is not a quote.
fn without_quoted(text: &str) -> String {
    let mut rest = String::with_capacity(text.len());
    let (mut quoted, mut previous) = (false, ' ');
    for character in text.chars() {
        if character == '\'' && (quoted || !previous.is_alphanumeric()) {
            quoted = !quoted;
        } else if !quoted {
            rest.push(character);
        }
        previous = character;
    }
    rest
}

/// The row with this code.
pub(crate) fn find(code: &str) -> Option<&'static Problem> {
    all().find(|row| row.code.eq_ignore_ascii_case(code))
}

/// Every row.
pub(crate) fn all() -> impl Iterator<Item = &'static Problem> {
    PROBLEMS.iter().chain([&OTHER])
}

fn fits(message: &str, shape: &str) -> bool {
    let mut rest = message;
    shape.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

const fn row(
    code: &'static str,
    title: &'static str,
    help: &'static str,
    shapes: &'static [&'static str],
) -> Problem {
    Problem { code, title, help, shapes }
}

static OTHER: Problem = row(
    "C000",
    "a problem without a code of its own",
    "The message describes it. 'weir explain' with the keyword of the line shows its arguments.",
    &[],
);

/// All problems, except [`OTHER`]. The first match wins, so more specific rows come first.
static PROBLEMS: &[Problem] = &[
    // 6: the system.
    row(
        "C601",
        "a host, user or group that the system does not know",
        "Names are looked up when weir starts. Check /etc/hosts, the name servers, /etc/passwd and /etc/group; 'init-addr' lets a server \
         start without an address.",
        &[
            "could not resolve",
            "cannot find user",
            "cannot find group",
            "unknown user name",
            "unknown group name",
        ],
    ),
    // 3: rules and expressions. Their messages contain messages of other kinds.
    row(
        "C301",
        "a condition does not begin with 'if' or 'unless'",
        "What follows the arguments of a rule is its condition, which begins with 'if' or 'unless'. Often an argument that contains \
         a blank lacks its quotes, or there is one argument too many.",
        &["either 'if' or 'unless'", "expects *'if' or 'unless'"],
    ),
    row(
        "C302",
        "a condition names an ACL that does not exist",
        "Declare it with 'acl NAME ...' in the same section: ACLs of other sections are not seen. A test without a name is written in \
         braces: { path_beg /api }.",
        &["no such ACL"],
    ),
    row(
        "C303",
        "a sample fetch or a converter is unknown or wrong",
        "'weir explain NAME' says what a fetch or converter is called and which arguments it takes. Converters follow a comma, without \
         blanks: path,lower.",
        &[
            "fetch method",
            "unknown converter",
            "invalid arg",
            "missing arg",
            "too many arg",
            "expected ')'",
            "missing closing",
            "sample expression",
            "converter '",
            "fetch keyword '",
            "unknown argument",
            "expects a sample",
        ],
    ),
    row(
        "C304",
        "a fetch has no value at this point",
        "A rule runs at one point of a connection's life, and some fetches have their value earlier or later: a response's fields are not \
         there while the request is read. Keep an early value with 'set-var', or move the rule.",
        &[
            "is not available",
            "will never match",
            "never matches",
            "incompatible with",
            "ignored in HTTP log-format",
            "L6 sample",
        ],
    ),
    row(
        "C305",
        "a rule is never reached",
        "A rule before it ends the list whatever the request is. Give the earlier one a condition, or take the later one away.",
        &["further entries are NOOP"],
    ),
    row(
        "C306",
        "a rule runs earlier than it stands",
        "Rules run by their kind, not by their place: tcp-request connection, session, content, http-request, redirect, use_backend. Put \
         them in this order, so that the file reads as it works.",
        &["will still be processed before", "always has precedence"],
    ),
    row(
        "C307",
        "an ACL or a pattern cannot be read",
        "Check the patterns and the matching method ('-m'). A regular expression that contains blanks, quotes or '#' belongs in single \
         quotes.",
        &[
            "no pattern to match against",
            "regex '*is invalid",
            "matching method",
            "parsing ACL",
            "acl http_auth_group",
        ],
    ),
    row(
        "C308",
        "a log format cannot be read",
        "Fields are written %[fetch] or by an alias such as %ST ('weir explain ST'). A percent sign itself is written %%.",
        &["log-format", "unique-id-format", "unknown log alias", "log format variable"],
    ),
    // 5: files and TLS.
    row(
        "C501",
        "a file cannot be opened",
        "Check its path (relative ones begin at the folder of the start, or at 'default-path'), and that the user who starts weir may \
         read it.",
        &[
            "error opening file",
            "Cannot open",
            "cannot open",
            "cannot read",
            "unable to open",
            "failed to open",
            "No such file",
            "unable to stat",
            "cannot be read",
        ],
    ),
    row(
        "C502",
        "a certificate or key cannot be used",
        "A file for 'crt' holds the certificate, its chain and its private key in PEM, or the key is beside it in a file that ends in \
         '.key'. The message names the file and what is missing.",
        &[
            "certificate",
            "private key",
            "no SSL",
            " PEM",
            "cipher",
            "'crt'",
            "'verify required'",
            "'verify' is",
            "TLSv1",
            "SSLv3",
            "ALPN",
            "alpn",
        ],
    ),
    // 1: words.
    row(
        "C103",
        "a word of the language that weir does not have yet",
        "It is refused rather than ignored. The README lists all of them; remove the line, or find another way.",
        &["is not implemented yet", "option not implemented"],
    ),
    row(
        "C104",
        "a word that the language no longer has",
        "The message names the replacement.",
        &["exist anymore", "not supported any more", "not supported anymore", "exist anymore"],
    ),
    row("C105", "a deprecated word", "It still works. The message names the replacement.", &["deprecated"]),
    row(
        "C102",
        "a line outside of any section",
        "A file begins with a section: global, defaults, frontend, backend, listen. A section does not go on in the next file.",
        &["out of section"],
    ),
    row(
        "C106",
        "a word in a place where it has no meaning",
        "'weir explain WORD' says in which sections it is valid. Words about clients and listeners belong to frontends, words about \
         servers to backends; 'listen' is both.",
        &[
            "is for backends in",
            "not allowed in",
            "not allowed because",
            "ignored because",
            "is ignored in backends",
            "has no effect",
            "is without effect",
            "for backends only",
            "requires HTTP mode",
            "require HTTP mode",
            "needs 'mode http'",
            "in non-HTTP mode",
            "not permitted here",
            "has no * capability",
            "not acceptable in",
            "ignored for *since it has no",
            "only allowed after",
            "is for backends in",
        ],
    ),
    row(
        "C113",
        "'no' or 'default' before a word that cannot be negated",
        "Only options and a few other words take 'no' before them. Other settings are taken back by setting them again.",
        &["negation/default"],
    ),
    row(
        "C114",
        "quotes or escapes are not closed",
        "A quote that opens has to close on the same line. Inside double quotes '\\' and '$' are special, inside single quotes nothing is.",
        &[
            "unmatched quote",
            "unmatched brace",
            "unmatched",
            "unterminated",
            "trailing backslash",
            "invalid quoting",
            "truncated",
        ],
    ),
    row(
        "C115",
        "a conditional block is wrong",
        "Each '.if' has its '.endif', with '.elif' and '.else' between them. 'weir -cc CONDITION' evaluates one.",
        &[".if", ".endif", ".else", ".elif", "conditional expression", "predicate", "unknown directive"],
    ),
    row(
        "C116",
        "a message that the configuration itself requests",
        "'.notice', '.warning', '.alert' and '.diag' print their author's text.",
        &[],
    ),
    row(
        "C203",
        "two things have the same name",
        "Names of a kind are unique: rename one of them, or take the repeated section or line away.",
        &[
            "has the same name",
            "same name as",
            "already exists",
            "already in this section",
            "already defined",
            "already that of",
            "already used",
            "duplicate",
            "already specified",
            "same id",
        ],
    ),
    row(
        "C202",
        "a section or server that does not exist",
        "The line refers to a section or server that is not declared, or has another name. Names are compared exactly.",
        &[
            "unable to find",
            "unknown http-errors section",
            "unknown ring",
            "unknown userlist",
            "no such",
            "No such",
            "not found",
            "does not exist",
            "unknown peers",
            "unknown resolvers",
            "unknown mailers",
            "unknown backend",
            "invalid group",
            "was not declared",
        ],
    ),
    row(
        "C112",
        "an address is wrong",
        "Addresses are written IP:PORT, [IPv6]:PORT, NAME:PORT, *:PORT, or with a family before them: unix@/path, abns@name, fd@number.",
        &[
            "invalid address",
            "missing port",
            "invalid port",
            "port offset",
            "port range",
            "is not a valid address",
            "missing address",
            "file descriptor",
            "IP address is expected",
            "invalid network",
            "'usesrc'",
        ],
    ),
    row(
        "C101",
        "an unknown word",
        "It is misspelled, or belongs to another section: 'weir explain WORD' shows where words are valid, '-dKall' lists all of them.",
        &[
            "unknown keyword",
            "Unknown * keyword",
            "unknown option",
            "unknown statement",
            "unknown parameter",
            "keyword '",
        ],
    ),
    row(
        "C107",
        "a word too many",
        "The line takes fewer arguments. An argument that contains a blank belongs in quotes, or needs a backslash before the blank.",
        &[
            "cannot handle unexpected",
            "unexpected extra argument",
            "expects only one",
            "does not expect",
            "Unexpected argument",
            "takes no",
            "unexpected argument",
            "unexpected '",
        ],
    ),
    row(
        "C109",
        "a value is out of its range",
        "The message lists the valid values.",
        &[
            "allowed range",
            "must be between",
            "has to be >",
            "overflow",
            "must be >",
            "is too short",
            "exceed",
            "more than",
            "at least 1",
            "at most",
            "between",
            "greater than",
            "too long",
            "longer than",
            "is not within",
            "must be",
            "above 1",
            "too large",
        ],
    ),
    row(
        "C108",
        "not a number, a time or a size",
        "Times take us, ms, s, m, h or d after the number (without one most count in milliseconds), sizes take k, m or g.",
        &[
            "integer",
            "unexpected character",
            "not a number",
            "time value",
            "valid number",
            "expects a size",
            "expects a time",
            "expects a positive",
            "expects <time>",
            "invalid size",
            "suspiciously small",
            "is not a percentage",
            "wrong sample",
            "invalid value",
            "invalid status",
            "Unexpected status",
            "octal",
        ],
    ),
    row(
        "C111",
        "not one of the values that are possible",
        "The message lists them, or 'weir explain WORD' does.",
        &[
            "is ignored without",
            "unsupported",
            "only accepts",
            "not handled",
            "usable alone",
            "supports",
            "is none of",
            "unknown",
            "Unknown",
            "expects one of",
            "expects either",
            "only support",
            "Only 'on'",
            "incompatible",
            "has to be",
            "but got",
            "is not a",
            "cannot parse",
            "is not supported",
            "Unexpected value",
            "is ignored without",
        ],
    ),
    row(
        "C401",
        "timeouts are missing",
        "Without them a peer that goes silent is waited for without end. Set 'timeout connect', 'timeout client' and 'timeout server' in \
         'defaults'.",
        &["missing timeouts"],
    ),
    row(
        "C110",
        "an argument is missing or wrong",
        "'weir explain WORD' shows the arguments, with an example.",
        &[
            "expects",
            "expected",
            "missing",
            "requires",
            "mandatory",
            "Missing",
            "Wrong",
            "No body",
            "must be defined",
            "needs",
            "needed",
            "invalid",
            "Invalid",
            "is not permitted",
            "forbidden",
        ],
    ),
    // 4: proxies.
    row(
        "C402",
        "a log format and nowhere to send it",
        "Add 'log ADDRESS FACILITY', or 'log global' where 'global' has one.",
        &["no log address"],
    ),
    row(
        "C403",
        "nothing listens",
        "The configuration is right, but no frontend has a 'bind' line, so weir does not start. '-c' ends with status 2, and says '\"valid\": false' with \
         '--format json'; the start ends with status 1.",
        &["no listener"],
    ),
    row(
        "C405",
        "a name in a list for TLS that is never negotiated",
        "The rest of the list is used. Lists that are written for several programs have such names: TLSv1.0, DHE, CBC. Take them away, or \
         leave them: where 'zero-warning' is set, names of ciphers, curves and signatures are no reason not to start.",
        &["never negotiated"],
    ),
    row(
        "C406",
        "a FastCGI application that is incomplete",
        "A section 'fcgi-app' needs 'docroot'. A backend in 'mode http' names one application with 'use-fcgi-app', and its servers that speak \
         FastCGI have 'proto fcgi'. Next to other filters, 'filter fcgi-app' is the place of the application.",
        &["FCGI app", "fcgi-app supported per backend", "no docroot configured", "to use the fcgi-app"],
    ),
    row(
        "C404",
        "a setting that is doubtful together with others",
        "The message names the others. The configuration works, but perhaps not as intended.",
        &[
            "ignoring",
            "tries to",
            "must have the same",
            "must not",
            "server state",
            "configured to",
            "activated",
            "should",
            "will be ignored",
            "ignored",
            "does not retry",
            "ambiguous",
            "ambiguity",
            "not all",
            "disabled",
            "no need",
            "can be",
            "cannot",
            "Trying to",
        ],
    ),
    row(
        "C309",
        "a rule cannot be read",
        "The message ends with the reason. 'weir explain ACTION' shows the action's arguments.",
        &["error detected"],
    ),
    // 7: findings of `weir lint`.
    row(
        "C701",
        "a rule that can never run",
        "A rule before it always ends the list. Order them from the special to the general.",
        &[],
    ),
    row("C702", "an ACL that nothing uses", "Remove it, or use it: at present it protects nothing.", &[]),
    row(
        "C703",
        "a backend that nothing chooses",
        "No 'default_backend', 'use_backend' or log target names it. It still opens health checks to its servers.",
        &[],
    ),
    row(
        "C704",
        "timeouts that contradict each other",
        "One of them makes the other pointless, or cuts it short. The message names both.",
        &[],
    ),
    row(
        "C705",
        "a secret that every user of the machine can read",
        "Take the permission from others: chmod o-rwx FILE. weir reads it as root before it changes to its own user.",
        &[],
    ),
    row(
        "C706",
        "a command socket that every user of the machine can use",
        "Whoever may write to it can change servers, and with level admin end sessions and replace certificates. Use 'mode 660' and a \
         'group' of operators.",
        &[],
    ),
    row(
        "C707",
        "an operator that is taken for a pattern",
        "Texts are compared with each pattern of the list, without an operator: 'hdr(host) a.example b.example'. Only numbers have eq, \
         ne, lt, le, gt and ge.",
        &[],
    ),
    row(
        "C708",
        "a path without its slash",
        "The path of a request begins with '/'. A condition on any other beginning never holds, so its rule never applies.",
        &[],
    ),
    row(
        "C709",
        "a counter that its table does not store",
        "It reads as 0, so a limit on it never applies. Add it to 'store' of the 'stick-table' line, with its period if it is a rate.",
        &[],
    ),
    row(
        "C710",
        "a counter that no rule tracks",
        "A 'track-sc' rule has to choose the entry first: 'http-request track-sc0 src'.",
        &[],
    ),
    row(
        "C711",
        "a backend that gets traffic, without a server",
        "It answers 503 to everything. Add 'server' lines, or a rule that answers, such as 'http-request return'.",
        &[],
    ),
    row(
        "C712",
        "a server without a value for the persistence cookie",
        "Clients that it served come back to any server. Add 'cookie VALUE' to its line, or 'dynamic' to the 'cookie' line.",
        &[],
    ),
    row(
        "C713",
        "a server that is the listener itself",
        "Without a port, a server has the port that the client connected to. Give the address and port of the application.",
        &[],
    ),
    row(
        "C714",
        "a server socket outside of the root directory",
        "With 'chroot', servers are looked up in the new root directory. Put the socket there, or use an IP address. Log sockets are \
         reached from outside.",
        &[],
    ),
    row(
        "C715",
        "an address and port on which two proxies listen",
        "The kernel gives each connection to one of them. Use one frontend with 'use_backend' rules, or another port.",
        &[],
    ),
    row(
        "C716",
        "a redirection to HTTPS that never ends",
        "Clients on HTTPS get it again. Exempt them: 'unless { ssl_fc }'.",
        &[],
    ),
    row(
        "C717",
        "a log socket that cannot be reached",
        "Lines for it are lost, and counted in DroppedLogs of 'show info'. Start the log daemon, or correct the path.",
        &[],
    ),
    row(
        "C718",
        "a name of ALPN that is not a protocol of HTTP",
        "It is never negotiated. HTTP/2 is 'h2', HTTP/1.1 is 'http/1.1'; commas separate names.",
        &[],
    ),
    row(
        "C719",
        "compressed pages that may reveal secrets (BREACH)",
        "Who can make a browser send requests with chosen text, and sees the size of the encrypted responses, can guess a secret of a page \
         that repeats the text: a good guess compresses better. Do not compress such pages for requests of other sites: \
         'http-request del-header accept-encoding if { req.hdr(sec-fetch-site) -m str cross-site }'. Any rule on Accept-Encoding, or on \
         'no-transform', ends the warning.",
        &[],
    ),
    row(
        "C720",
        "an engine of 'filter spoe' that fails open",
        "If its agent is slow or gone, or refuses a message, the stream goes on as if the agent had no objection. Set 'option set-on-error' in \
         the file of the engine, and decide by its variable: 'http-request deny deny_status 503 if { var(txn.<prefix>.<name>) -m found }'.",
        &[],
    ),
    row(
        "C721",
        "a FastCGI application that no backend uses",
        "No 'use-fcgi-app' or 'filter fcgi-app' names it. Remove the section, or name it in the backend with its servers.",
        &[],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_diagnostic_message_gets_its_problem_code() {
        for (message, code) in [
            ("unknown keyword 'maxcon' in 'frontend' section", "C101"),
            ("unknown keyword 'x' out of section.", "C102"),
            ("'log-profile' is not implemented yet", "C103"),
            ("'timeout server' will be ignored because frontend 'f' has no backend capability", "C106"),
            ("'maxconn' cannot handle unexpected argument 'x'", "C107"),
            ("unable to find required default_backend: 'nobody'.", "C202"),
            ("missing timeouts for backend 'b'", "C401"),
            ("'ssl-default-bind-ciphers' : never negotiated, not supported: AES128-SHA.", "C405"),
            ("'server b/s' : could not resolve address 'nowhere'.", "C601"),
            (
                "error detected in proxy 'f' while parsing 'http-request deny' rule : no such ACL : 'a'.",
                "C302",
            ),
            ("[a.cfg:1] : 'server b/s' : could not resolve address 'unknown.invalid'.", "C601"),
            ("proxy 'b': FCGI app configured but no FCGI server found.", "C406"),
            ("fcgi-app 'a': no docroot configured.", "C406"),
            ("'x' doesn't take 'missing' but requires y", "C110"),
            ("something that nobody foresaw", "C000"),
        ] {
            assert_eq!(code_of(message), code, "{message}");
        }
    }

    #[test]
    fn problem_codes_are_unique_and_explained() {
        let mut codes: Vec<&str> = all().map(|row| row.code).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count);
        for row in all() {
            assert!(row.code.len() == 4 && row.code.starts_with('C'), "{}", row.code);
            assert!(!row.title.is_empty() && row.help.ends_with('.'), "{}", row.code);
        }
        assert!(find("c101").is_some() && find("C999").is_none());
    }
}
