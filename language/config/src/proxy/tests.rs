//! Every keyword once, what is refused and how, inheritance, and the checks at the end.

use proptest::prelude::*;

use super::options::OPTIONS;
use super::{BACKEND, FRONTEND, LISTEN, NAMED_DEFAULTS, PROXY_KEYWORDS, Section, Sections};
use crate::bind::BIND_OPTIONS;
use crate::model::*;
use crate::rows::{Handler, Row, Table};
use crate::rules::ACTIONS;
use crate::server::SERVER_OPTIONS;
use crate::testing::{check, check_text, read};

/// Lines of `row` that are read without a word of complaint.
#[track_caller]
fn check_quiet(section: &str, line: &str) {
    let outcome = read(&format!(
        "defaults d\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n log global\n\
         backend other\n{section}\n {line}\n"
    ));
    let messages: Vec<_> =
        outcome.messages.iter().filter(|message| !message.contains("has no 'bind' directive")).collect();
    assert!(messages.is_empty(), "{section}: {line}: {messages:#?}");
}

fn section_for(sections: Sections) -> &'static str {
    match sections {
        _ if sections.contains(LISTEN) => "listen l",
        _ if sections.contains(FRONTEND) => "frontend f",
        _ if sections.contains(BACKEND) => "backend b",
        _ => "defaults e",
    }
}

#[test]
fn every_keyword_is_read_with_its_example() {
    for row in PROXY_KEYWORDS.rows() {
        let Handler::Ready(reader) = row.handler else { continue };
        check_quiet(section_for(reader.sections), &format!("{} {}", row.name, row.example));
        if reader.sections.contains(NAMED_DEFAULTS) {
            check_quiet("defaults e", &format!("{} {}", row.name, row.example));
        }
    }
    for row in OPTIONS.rows() {
        let Handler::Ready(reader) = row.handler else { continue };
        check_quiet(section_for(reader.sections), &format!("option {} {}", row.name, row.example));
    }
    for row in BIND_OPTIONS.rows().filter(|row| row.is_ready()) {
        check_quiet("listen l", &format!("bind :80 {} {}", row.name, row.example));
    }
    for row in SERVER_OPTIONS.rows().filter(|row| row.is_ready() && row.name != "usesrc") {
        let space = if row.arguments.starts_with('(') { "" } else { " " };
        check_quiet("backend b", &format!("server s 127.0.0.1:80 {}{space}{}", row.name, row.example));
    }
    for row in ACTIONS.rows() {
        let Handler::Ready(reader) = row.handler else { continue };
        for kind in RulesetKind::ALL.into_iter().filter(|kind| reader.rulesets.contains(*kind)) {
            let space = if row.arguments.starts_with('(') { "" } else { " " };
            let line = format!("{} {}{space}{}", kind.keyword(), row.name, row.example);
            // A slot of the response cannot be made by a rule.
            if row.name != "capture"
                || matches!(kind, RulesetKind::HttpRequest | RulesetKind::TcpRequestContent)
            {
                check_quiet("listen l", &line);
            }
        }
    }
}

#[test]
fn every_word_says_what_it_is_for() {
    fn check<F>(table: &Table<F>) {
        let mut names = std::collections::HashSet::new();
        for row in table.rows() {
            let Row { name, help, .. } = row;
            assert!(!help.is_empty(), "{name} has no help");
            assert!(names.insert(name), "{name} is there twice");
        }
    }
    check(&PROXY_KEYWORDS);
    check(&OPTIONS);
    check(&BIND_OPTIONS);
    check(&SERVER_OPTIONS);
    check(&ACTIONS);
}

#[test]
fn what_is_not_there_yet_is_an_error() {
    let not_yet = |word: &str| format!("A parsing [t.cfg:9] : '{word}' is not implemented yet");
    check("listen l", "stick-table type ip size 1k", &[&not_yet("stick-table")]);
    check("listen l", "http-check expect status 200", &[&not_yet("http-check expect")]);
    check("listen l", "option httpchk", &[&not_yet("option httpchk")]);
    check("listen l", "no option log-health-checks", &[]);
    check("listen l", "mode log", &[&not_yet("mode log")]);
    check("listen l", "balance sticky", &[&not_yet("balance sticky")]);
    check(
        "listen l",
        "http-request track-sc0 src",
        &["A parsing [t.cfg:9] : 'track-sc0' is not implemented yet"],
    );
    check("listen l", "http-request lua.x", &["A parsing [t.cfg:9] : 'lua actions' is not implemented yet"]);
    check("listen l", "log backend@x local0", &[&not_yet("backend@x")]);
    check(
        "listen l",
        "server s 127.0.0.1:80 check",
        &["A [t.cfg:9] : 'server l/s' : 'check' is not implemented yet"],
    );
    check(
        "listen l",
        "bind :80 ssl crt x",
        &["A parsing [t.cfg:9] : 'bind :80' in section 'listen' : 'ssl' is not implemented yet"],
    );
}

#[test]
fn unknown_words_have_suggestions() {
    check(
        "listen l",
        "maxcon 3",
        &[
            "A parsing [t.cfg:9] : unknown keyword 'maxcon' in 'listen' section; did you mean 'maxconn' maybe ?",
        ],
    );
    check(
        "listen l",
        "option httplgo",
        &["A parsing [t.cfg:9] : unknown option 'httplgo'; did you mean 'httplog' maybe ?"],
    );
    check(
        "listen l",
        "bind :80 acept-proxy",
        &[
            "A parsing [t.cfg:9] : 'bind :80' in section 'listen': unknown keyword 'acept-proxy'; did you mean 'accept-proxy' maybe ?",
        ],
    );
    check(
        "listen l",
        "server a 1.1.1.1:80 wieght 3",
        &["A [t.cfg:9] : 'server l/a' : unknown keyword 'wieght'; did you mean 'weight' maybe ?"],
    );
    let outcome =
        check("listen l", "http-request dney", &["A parsing [t.cfg:9]: 'http-request' expects an action..."]);
    assert!(outcome.messages[0].ends_with("but got 'dney'; did you mean 'deny' maybe ?"));
    assert_eq!(outcome.marked, ["dney"]);
    check(
        "listen l",
        "timeout cleint 3s",
        &["A parsing [t.cfg:9] : 'timeout' supports 'check', 'client', ..."],
    );
}

#[test]
fn faults_have_the_words_of_the_reference() {
    let cases: &[(&str, &str)] = &[
        ("timeout client", "parsing [t.cfg:9] : 'timeout client' expects an integer value (in milliseconds)"),
        ("timeout client abc", "parsing [t.cfg:9] : unexpected character 'a' in 'timeout client'"),
        (
            "timeout client 1s 2s",
            "parsing [t.cfg:9] : 'timeout client' : unexpected extra argument '2s' after value '1s'.",
        ),
        ("no option httplog", "parsing [t.cfg:9]: negation/default is not supported for option 'httplog'."),
        (
            "no balance",
            "parsing [t.cfg:9]: negation/default currently supported only for options, log, busy-polling, set-dumpable, strict-limits, insecure-fork-wanted and numa-cpu-mapping.",
        ),
        (
            "option dontlognull foo",
            "parsing [t.cfg:9] : 'option dontlognull' cannot handle unexpected argument 'foo'.",
        ),
        (
            "option forwardfor foo",
            "parsing [t.cfg:9] : 'option forwardfor' only supports optional values: 'except', 'header' and 'if-none'.",
        ),
        (
            "option forwardfor except",
            "parsing [t.cfg:9] : 'option forwardfor except' expects <address>[/mask] as argument.",
        ),
        (
            "option http-tunnel",
            "parsing [t.cfg:9]: option 'http-tunnel' is not supported any more, please just remove it, it shouldn't be needed.",
        ),
        (
            "balance uri foo",
            "parsing [t.cfg:9] : balance uri only accepts parameters 'len', 'depth', 'path-only', and 'whole' (got 'foo').",
        ),
        ("balance random(0)", "parsing [t.cfg:9] : balance random : number of draws must be at least 1."),
        ("mode foo", "parsing [t.cfg:9] : unknown proxy mode 'foo'."),
        ("mode", "parsing [t.cfg:9] : unknown proxy mode ''."),
        ("maxconn", "parsing [t.cfg:9] : 'maxconn' expects an integer argument."),
        ("maxconn 3 4", "parsing [t.cfg:9] : 'maxconn' cannot handle unexpected argument '4'."),
        ("retries", "parsing [t.cfg:9] : 'retries' expects an integer argument (dispatch counts for one)."),
        ("cookie", "parsing [t.cfg:9] : 'cookie' expects <cookie_name> as argument."),
        (
            "cookie a insert prefix",
            "parsing [t.cfg:9] : cookie 'rewrite', 'insert' and 'prefix' modes are incompatible.",
        ),
        (
            "cookie a rewrite indirect",
            "parsing [t.cfg:9] : cookie 'rewrite' and 'indirect' modes are incompatible.",
        ),
        (
            "cookie a preserve",
            "parsing [t.cfg:9] : cookie 'preserve' requires at least 'insert' or 'indirect'.",
        ),
        (
            "cookie a insert attr \"b;c\"",
            "parsing [t.cfg:9]: character ';' is not permitted in attribute value.",
        ),
        ("default_backend", "parsing [t.cfg:9] : 'default_backend' expects a backend name."),
        ("default_backend nope", "Proxy 'l': unable to find required default_backend: 'nope'."),
        ("use_backend nope", "Proxy 'l': unable to find required use_backend: 'nope'."),
        ("use_backend l", "Proxy 'l': loop detected for use_backend: 'l'."),
        (
            "use_backend other if foo",
            "parsing [t.cfg:9] : error detected while parsing switching rule : no such ACL : 'foo'.",
        ),
        ("monitor-uri", "parsing [t.cfg:9] : 'monitor-uri' expects an URI."),
        ("errorfile 999 /dev/null", "parsing [t.cfg:9] : errorfile : status code '999' not handled."),
        ("errorfile 503 /nonexistent", "parsing [t.cfg:9] : errorfile : error opening file '/nonexistent'."),
        (
            "errorfile 503 bad.http",
            "parsing [t.cfg:9] : errorfile : 'bad.http': unable to parse headers (error offset: 0).",
        ),
        ("errorfiles nope", "proxy 'l': unknown http-errors section 'nope' (at t.cfg:9)."),
        (
            "http-error status 300 content-type a string b",
            "parsing [t.cfg:9] : http-error: status code '300' not handled.",
        ),
        ("hash-type foo", "parsing [t.cfg:9] : 'hash-type' only supports 'consistent' and 'map-based'."),
        (
            "http-reuse foo",
            "parsing [t.cfg:9] : 'http-reuse' only supports 'never', 'safe', 'aggressive', 'always'.",
        ),
        ("log foo", "parsing [t.cfg:9] : log : expects <address> and <facility> or global as arguments"),
        ("log 127.0.0.1 foo", "parsing [t.cfg:9] : log : unknown log facility 'foo'"),
        ("log 127.0.0.1 local0 foo", "parsing [t.cfg:9] : log : unknown optional log level 'foo'"),
        (
            "log 127.0.0.1 len 20 local0",
            "parsing [t.cfg:9] : log : invalid log length '20', must be between 80 and 65535",
        ),
        (
            "log 127.0.0.1 sample 3:2 local0",
            "parsing [t.cfg:9] : log : sample size 2 should be greater or equal to 3 the maximum of the high ranges limits",
        ),
        ("no log foo", "parsing [t.cfg:9] : log : 'no log' does not expect arguments"),
        ("retry-on foo", "parsing [t.cfg:9] : 'retry-on': unknown keyword 'foo'"),
        ("retry-on none 404", "parsing [t.cfg:9] : 'retry-on' 'none' keyworld only usable alone"),
        ("id 0", "parsing [t.cfg:9]: custom id has to be > 0."),
        (
            "capture request header foo len",
            "parsing [t.cfg:9] : 'capture request' expects 'header' <header_name> 'len' <len>.",
        ),
        ("declare capture request len 0", "parsing [t.cfg:9] : length must be > 0"),
        (
            "monitor fail",
            "parsing [t.cfg:9] : 'monitor fail' requires either 'if' or 'unless' followed by a condition.",
        ),
        (
            "redirect foo",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing redirect rule : expects 'code', 'prefix', 'location', 'scheme', 'set-cookie', 'set-cookie-fmt', 'clear-cookie', 'drop-query', 'keep-query', 'ignore-empty' or 'append-slash' (was 'foo').",
        ),
        (
            "redirect location / code 200",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing redirect rule : 'code': unsupported HTTP code '200' (must be one of 301, 302, 303, 307 or 308).",
        ),
        (
            "http-request deny foo",
            "parsing [t.cfg:9]: 'http-request deny' expects either 'if' or 'unless' followed by a condition but found 'foo'.",
        ),
        (
            "http-request deny if foo",
            "parsing [t.cfg:9] : error detected while parsing an 'http-request deny' condition : no such ACL : 'foo'.",
        ),
        (
            "tcp-request content reject if foo",
            "parsing [t.cfg:9] : 'tcp-request content reject' : error detected in proxy 'l' while parsing 'if' condition : no such ACL : 'foo'.",
        ),
        (
            "http-request deny deny_status 999",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-request deny' rule : Unexpected status code '999'.",
        ),
        (
            "http-request return status 200 string a",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-request return' rule : a content type must be defined when non-empty payload is configured.",
        ),
        (
            "http-request return content-type a string a file b",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-request return' rule : unexpected 'file' argument, 'string' already defined.",
        ),
        (
            "http-request set-header a",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-request set-header' rule : expects exactly 2 arguments.",
        ),
        (
            "http-request capture path id 100",
            "Proxy 'l': unable to find capture id '100' referenced by a capture rule.",
        ),
        (
            "http-request set-log-level foo",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-request set-log-level' rule : expects exactly 1 argument (log level name or 'silent').",
        ),
        (
            "tcp-request session accept foo",
            "parsing [t.cfg:9] : 'tcp-request session accept' only accepts 'if' or 'unless', in proxy 'l' (got 'foo')",
        ),
        (
            "tcp-request inspect-delay abc",
            "parsing [t.cfg:9] : 'tcp-request inspect-delay' expects a positive delay in milliseconds, in proxy 'l' (unexpected character 'a' in 'tcp-request inspect-delay')",
        ),
        (
            "bind",
            "parsing [t.cfg:9] : 'bind' expects {<path>|[addr1]:port1[-end1]}{,[addr]:port[-end]}... as arguments.",
        ),
        (
            "bind :80 maxconn",
            "parsing [t.cfg:9] : 'bind :80' in section 'listen' : 'maxconn' : missing value",
        ),
        (
            "bind :80 level foo",
            "parsing [t.cfg:9] : 'bind :80' in section 'listen' : 'level' only supports 'user', 'operator', and 'admin' (got 'foo')",
        ),
        (
            "bind :80 id 3 ;; bind :81 id 3",
            "parsing [t.cfg:10] : 'bind :81' in section 'listen' : 'id' : custom id 3 already used at t.cfg:9 ('bind :80')",
        ),
        ("server", "[t.cfg:9] : 'server' expects <name> and <addr>[:<port>] as arguments."),
        (
            "server a 1.1.1.1:80-90",
            "[t.cfg:9] : 'server l/a' : port range not permitted here in '1.1.1.1:80-90'",
        ),
        (
            "server a 1.1.1.1:80 ;; server a 1.1.1.2:80",
            "parsing [t.cfg:10] : proxy 'l', another server named 'a' was already defined at line 9, please use distinct names.",
        ),
        (
            "server a 1.1.1.1:80 id 3 ;; server b 1.1.1.2:80 id 3",
            "[t.cfg:10] : 'server l/b' : 'id' : custom id 3 already used at t.cfg:9 ('server a').",
        ),
        (
            "default-server 1.1.1.1:80",
            "[t.cfg:9] : unknown keyword '1.1.1.1:80'. Hint: no address was expected for this server.",
        ),
        ("default-server id 3", "[t.cfg:9] : 'id' option is not accepted in default-server sections"),
        ("server-template a 3-1 foo:80", "[t.cfg:9] : Wrong server-template number or range arg '3-1'."),
        ("use-server a if TRUE", "proxy 'l' : unable to find server 'a' referenced in a 'use-server' rule."),
        (
            "http-request set-header a b if { be_conn(nope) gt 3 }",
            "parsing [t.cfg:9]: unable to find backend 'nope' referenced by an expression in proxy 'l'.",
        ),
        (
            "clitimeout 3s",
            "parsing [t.cfg:9] : the 'clitimeout' directive is not supported anymore; use 'timeout client' instead.",
        ),
    ];
    for (line, expected) in cases {
        check("listen l", line, &[&format!("A {expected}")]);
    }
}

#[test]
fn faults_point_at_their_words() {
    let marked = |lines: &str| read(&format!("listen l\n bind :80\n {lines}\n timeout client 1s\n")).marked;
    assert_eq!(marked("balance uri foo"), ["foo"]);
    assert_eq!(marked("server a 1.1.1.1:80 weight 300"), ["300"]);
    assert_eq!(marked("bind 1.1.1.1:80,:99999"), [":99999"]);
    assert_eq!(marked("server a 1.1.1.1:80 init-addr last,foo"), ["foo"]);
    assert_eq!(marked("acl a src 1.2.3.x"), ["1.2.3.x"]);
    assert_eq!(marked("option forwardfor header"), [""]);
}

#[test]
fn words_in_the_wrong_section() {
    check(
        "backend b",
        "bind :80",
        &["W parsing [t.cfg:8] : 'bind' ignored because backend 'b' has no frontend capability."],
    );
    check(
        "backend b",
        "maxconn 3",
        &[
            "W parsing [t.cfg:8] : 'maxconn' ignored because backend 'b' has no frontend capability. Maybe you want 'fullconn' instead ?",
        ],
    );
    check(
        "frontend f",
        "fullconn 3",
        &[
            "W parsing [t.cfg:9] : 'fullconn' ignored because frontend 'f' has no backend capability. Maybe you want 'maxconn' instead ?",
        ],
    );
    check(
        "frontend f",
        "server a 1.1.1.1:80",
        &["A parsing [t.cfg:9] : 'server' not allowed because frontend 'f' has no backend capability."],
    );
    check(
        "backend b",
        "option dontlognull",
        &["W parsing [t.cfg:8] : 'dontlognull' ignored because backend 'b' has no frontend capability."],
    );
    check(
        "frontend f",
        "option redispatch",
        &["W parsing [t.cfg:9] : 'redispatch' ignored because frontend 'f' has no backend capability."],
    );
    check(
        "backend b",
        "option httplog",
        &["W parsing [t.cfg:8] : backend 'b' : 'option httplog' directive is ignored in backends."],
    );
    check(
        "backend b",
        "timeout client 3s",
        &[
            "W parsing [t.cfg:8] : 'timeout client' will be ignored because backend 'b' has no frontend capability",
        ],
    );
    check_text(
        "defaults\n acl a src 1.1.1.1\n",
        &["A parsing [t.cfg:2] : 'acl' not allowed in anonymous 'defaults' section."],
    );
    check_text(
        "defaults x\n bind :80\n",
        &["A parsing [t.cfg:2] : 'bind' not allowed in 'defaults' section."],
    );
    check_text("foo\n", &["A parsing [t.cfg:1]: unknown keyword 'foo' out of section."]);
}

#[test]
fn sections_inherit_from_defaults() {
    let text = "defaults base\n mode http\n timeout client 5s\n retries 7\n option dontlognull\n log global\n \
                balance leastconn\n default-server maxconn 9\n stats uri /s\n\
                defaults more from base\n retries 8\n no option dontlognull\n\
                defaults\n timeout client 1s\n\
                backend a from base\n server s 1.1.1.1:1 weight 3\n\
                backend b from more\n stats hide-version\n\
                frontend c\n bind :1\n";
    let outcome = read(text);
    let [a, b, c] = &outcome.proxies[..] else { panic!("three proxies, not {:?}", outcome.messages) };
    assert_eq!((a.mode(), a.settings.retries, a.settings.options.dont_log_null), (Mode::Http, 7, true));
    assert_eq!((b.mode(), b.settings.retries, b.settings.options.dont_log_null), (Mode::Http, 8, false));
    assert!(matches!(a.settings.balance, Balance::LeastConnections));
    assert_eq!((a.servers[0].settings.maxconn, a.servers[0].settings.weight), (9, 3));
    assert!(!a.settings.stats.as_ref().unwrap().hide_version);
    assert!(b.settings.stats.as_ref().unwrap().hide_version);
    assert_eq!(b.settings.stats.as_ref().unwrap().uri(), "/s");
    // The anonymous section starts from nothing.
    assert_eq!((c.mode(), c.settings.retries), (Mode::Tcp, 3));
    assert_eq!(c.settings.timeouts.client, Some(std::time::Duration::from_secs(1)));
}

/// R29: a parser gets the defaults to read, so that a later proxy starts from what they say, whatever an earlier one said.
#[test]
fn r29_defaults_stay_as_they_are() {
    let outcome = check_text(
        "defaults d\n mode http\n timeout client 5s\n errorfile 503 /dev/null\n log global\n stats uri /s\n\
         frontend a from d\n bind :1\n mode tcp\n timeout client 1s\n errorloc 503 http://x\n no log\n stats uri /t\n\
         frontend b from d\n bind :2\n",
        &["W 'stats' statement ignored for frontend 'a' as it requires HTTP mode."],
    );
    let b = &outcome.proxies[1];
    assert_eq!((b.mode(), b.settings.timeouts.client), (Mode::Http, Some(std::time::Duration::from_secs(5))));
    assert!(matches!(b.settings.errors.get(503), Some(ErrorReply::Message(_))));
    assert!(b.settings.logging.global);
    assert_eq!(b.settings.stats.as_ref().unwrap().uri(), "/s");
}

#[test]
fn rules_of_defaults_run_before_those_of_the_proxy() {
    let outcome = check_text(
        "defaults d\n mode http\n timeout client 1s\n acl a src 1.1.1.1\n http-request deny if a\n tcp-request inspect-delay 3s\n\
         frontend f from d\n bind :1\n http-request allow\n",
        &[],
    );
    let actions: Vec<_> = outcome.proxies[0]
        .rules(RulesetKind::HttpRequest)
        .map(|rule| (matches!(rule.action, Action::Deny(_)), rule.at.line))
        .collect();
    assert_eq!(actions, [(true, 5), (false, 9)]);
    assert_eq!(outcome.proxies[0].tcp_request_inspect_delay(), Some(std::time::Duration::from_secs(3)));
}

#[test]
fn rules_of_defaults_have_limits() {
    let rules = "defaults d\n mode http\n timeout client 1s\n http-request allow\n";
    check_text(
        &format!("{rules}listen l from d\n bind :1\n"),
        &[
            "A parsing [t.cfg:5]: a listen section cannot inherit from a defaults section defining TCP/HTTP rules.",
        ],
    );
    check_text(
        &format!("{rules}frontend f from d\n bind :1\nbackend b from d\n"),
        &[
            "A parsing [t.cfg:7]: frontends and backends cannot inherit from the same defaults section if it defines TCP/HTTP rules (defaults section at t.cfg:1).",
        ],
    );
    check_text(
        &format!("{rules}defaults e from d\n"),
        &[
            "A parsing [t.cfg:5]: a defaults section cannot inherit from a defaults section defining TCP/HTTP rules (defaults section at t.cfg:1).",
        ],
    );
    check_text(
        "defaults d\n tcp-response content accept\nfrontend f from d\n bind :1\n timeout client 1s\n",
        &[
            "A parsing [t.cfg:3]: a frontend section cannot inherit from a defaults section defining 'tcp-response content' rules (defaults section at t.cfg:1).",
        ],
    );
    check_text(
        "defaults d\n timeout connect 1s\n timeout server 1s\n tcp-request session accept\nbackend b from d\n",
        &[
            "A parsing [t.cfg:5]: a backend section cannot inherit from a defaults section defining 'tcp-request connection' or 'tcp-request session' rules (defaults section at t.cfg:1).",
        ],
    );
}

#[test]
fn section_lines() {
    check_text(
        "frontend a/b\n bind :1\n timeout client 1s\n",
        &["A parsing [t.cfg:1] : character '/' is not permitted in 'frontend' name 'a/b'."],
    );
    check_text(
        "frontend\n bind :1\n timeout client 1s\n",
        &["A parsing [t.cfg:1] : 'frontend' expects an <id> argument"],
    );
    check_text(
        "backend y from nope\n",
        &["A parsing [t.cfg:1] : defaults section 'nope' not found for backend 'y'."],
    );
    check_text("backend y z\n", &["A parsing [t.cfg:1] : 'backend' cannot handle unexpected argument 'z'."]);
    check_text(
        "defaults d\ndefaults d\nbackend y from d\n",
        &[
            "A parsing [t.cfg:3] : ambiguous defaults section name 'd' referenced by backend 'y' exists at least at t.cfg:1 and t.cfg:2.",
        ],
    );
    check_text(
        "defaults d\nbackend a from d\nbackend b\n",
        &["W parsing [t.cfg:3] : defaults section 'd' (declared at t.cfg:1) is explicitly referenced..."],
    );
    check_text(
        "backend a\nbackend a\n",
        &["A parsing [t.cfg:2]: backend 'a' has the same name as backend 'a' declared at t.cfg:1."],
    );
    check_text("frontend a\n bind :1\n timeout client 1s\nbackend a\n", &[]);
    check_text(
        "backend a\n id 3\nbackend b\n id 3\n",
        &["A parsing [t.cfg:3]: backend b reuses same custom id as backend a (declared at t.cfg:1)."],
    );
}

#[test]
fn identifiers_are_those_of_haproxy() {
    let outcome = check_text("backend a\nbackend b\n id 2\nbackend c\n", &[]);
    assert_eq!(outcome.proxies.iter().map(|proxy| proxy.id).collect::<Vec<_>>(), [3, 2, 5]);
    let outcome = check("backend b", "server-template s 1-3 example.com:80 ;; server x 1.1.1.1:80 id 2", &[]);
    let ids: Vec<_> = outcome.proxies[1].servers.iter().map(|server| (&*server.name, server.id)).collect();
    assert_eq!(ids, [("s1", 1), ("s2", 3), ("s3", 4), ("x", 2)]);
    let lines = "server x 1.1.1.1 ;; server y 1.1.1.1 id 1 ;; server z 1.1.1.1 ;; server w 1.1.1.1 id 9 ;; server v 1.1.1.1";
    let outcome = check("backend b", lines, &[]);
    let ids: Vec<_> = outcome.proxies[1].servers.iter().map(|server| server.id).collect();
    assert_eq!(ids, [2, 1, 4, 9, 6]);
}

#[test]
fn names_are_resolved() {
    let outcome = check_text(
        "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n\
         frontend f\n bind :1\n use_backend b2 if { path /a }\n use_backend %[req.hdr(x)] if TRUE\n default_backend b1\n\
         backend b1\n server s1 1.1.1.1:1\n server s2 1.1.1.2:1\n use-server s2 if { path /s }\n\
         backend b2\n http-request set-header a %[be_conn(b1)] if { srv_conn(b1/s2) gt 1 }\n",
        &[],
    );
    let [f, b1, _] = &outcome.proxies[..] else { panic!("three proxies") };
    assert_eq!(f.default_backend, Some(ProxyIndex(1)));
    assert!(matches!(f.use_backend[0].target, BackendTarget::Static(ProxyIndex(2))));
    assert!(matches!(f.use_backend[1].target, BackendTarget::Dynamic(_)));
    assert!(matches!(b1.use_server[0].target, ServerTarget::Static(1)));
    let mut targets = Vec::new();
    outcome.proxies[2].visit_references(&mut |reference| targets.push(reference.target()));
    assert_eq!(targets, [Some((1, 0)), Some((1, 1))]);
}

#[test]
fn a_backend_has_to_suit() {
    check_text(
        "frontend f\n bind :1\n mode http\n timeout client 1s\n default_backend b\nbackend b\n",
        &[
            "A http frontend 'f' (t.cfg:1) tries to use incompatible tcp backend 'b' (t.cfg:6) in a 'default_backend' rule (see 'mode').",
        ],
    );
    check_text("frontend f\n bind :1\n timeout client 1s\n default_backend b\nbackend b\n mode http\n", &[]);
    check_text(
        "frontend f\n bind :1\n timeout client 1s\n default_backend f\n",
        &["A frontend 'f' tries to use 'f' which has no backend capability in a 'default_backend' rule."],
    );
}

#[test]
fn what_a_proxy_lacks() {
    let timeouts = "W missing timeouts for proxy 'l'.\n   | While not properly invalid, you will certainly encounter various problems\n   \
                    | with such a configuration. To fix this, please ensure that all following\n   \
                    | timeouts are set to a non-zero value: 'client', 'connect', 'server'.";
    check_text("listen l\n bind :80\n server s 1.1.1.1:80\n", &[timeouts]);
    check_text(
        "listen l\n timeout client 1s\n",
        &["W proxy 'l' has no 'bind' directive. Please declare it as a backend if this was intended."],
    );
    check_text("listen l\n disabled\n", &[]);
}

#[test]
fn http_words_in_tcp_mode() {
    let cases: &[(&str, &str)] = &[
        ("http-request deny", "'http-request' rules ignored for proxy 'l' as they require HTTP mode."),
        ("option forwardfor", "'option forwardfor' ignored for proxy 'l' as it requires HTTP mode."),
        (
            "option http-buffer-request",
            "'option http-buffer-request' ignored for proxy 'l' as it requires HTTP mode.",
        ),
        ("cookie a insert", "cookie will be ignored for proxy 'l' (needs 'mode http')."),
        (
            "balance uri",
            "Layer 7 hash not possible for proxy 'l' (needs 'mode http'). Falling back to round robin.",
        ),
        ("stats enable", "'stats' statement ignored for proxy 'l' as it requires HTTP mode."),
        ("redirect location /", "'redirect' rules ignored for proxy 'l' as they require HTTP mode."),
        ("monitor-uri /a", "monitor-uri will be ignored for proxy 'l' (needs 'mode http')."),
        (
            "log global ;; option httplog",
            "parsing [t.cfg:11] : 'option httplog' not usable with proxy 'l' (needs 'mode http'). Falling back to 'option tcplog'.",
        ),
        (
            "server s 1.1.1.1:1 cookie a",
            "proxy 'l' : ignoring cookie for server 's' as HTTP mode is disabled.",
        ),
    ];
    for (lines, expected) in cases {
        check("listen l", &format!("mode tcp ;; {lines}"), &[&format!("W {expected}")]);
    }
    let outcome = check("listen l", "mode tcp ;; balance uri", &["W Layer 7..."]);
    assert!(matches!(outcome.proxies[1].settings.balance, Balance::RoundRobin));
    check(
        "listen l",
        "mode tcp ;; server s 1.1.1.1:1 proto h1",
        &["A proxy 'l' : MUX protocol 'h1' is not usable for server 's' at [t.cfg:10]."],
    );
}

#[test]
fn rules_out_of_order_and_out_of_reach() {
    let late = |first: &str, then: &str, expected: &str| {
        let outcome = check(
            "listen l",
            &format!("{first} ;; {then}"),
            &[&format!("W parsing [t.cfg:10] : {expected}")],
        );
        drop(outcome);
    };
    late(
        "tcp-request content accept if TRUE",
        "tcp-request connection accept if TRUE",
        "a 'tcp-request' rule placed after a 'tcp-request content' rule will still be processed before.",
    );
    late(
        "http-request allow if TRUE",
        "monitor fail if TRUE",
        "a 'monitor fail' rule placed after an 'http-request' rule will still be processed before.",
    );
    late(
        "redirect location / if TRUE",
        "http-request allow if TRUE",
        "a 'http-request' rule placed after a 'redirect' rule will still be processed before.",
    );
    late(
        "use_backend other if TRUE",
        "redirect location / if TRUE",
        "a 'redirect' rule placed after a 'use_backend' rule will still be processed before.",
    );
    check(
        "listen l",
        "http-request allow ;; http-request deny",
        &[
            "W parsing [t.cfg:10]: previous 'http-request' action is final and has no condition attached, further entries are NOOP.",
        ],
    );
}

#[test]
fn conditions_that_never_hold() {
    check(
        "listen l",
        "http-response deny if { path / }",
        &[
            "W parsing [t.cfg:9] : anonymous acl will never match because it uses keyword 'path' which is incompatible with 'backend http-response header rule'",
        ],
    );
    check(
        "listen l",
        "tcp-request connection accept if { path / }",
        &[
            "W parsing [t.cfg:9] : anonymous acl will never match in 'tcp-request connection' because it uses keyword 'path' which is incompatible with 'frontend tcp-request connection rule'",
        ],
    );
    check(
        "listen l",
        "acl a path / ;; http-response deny if a",
        &[
            "W parsing [t.cfg:10] : acl 'a' involves keywords 'path' which is incompatible with 'backend http-response header rule'",
        ],
    );
}

#[test]
fn error_messages_of_a_proxy() {
    let outcome = check(
        "backend b",
        "errorfile 503 503.http ;; errorloc303 404 http://x ;; errorfiles pages ;; http-request deny deny_status 503 errorfiles pages",
        &[],
    );
    let proxy = &outcome.proxies[1];
    let Some(ErrorReply::Message(message)) = proxy.settings.errors.get(503) else { panic!("a message") };
    assert_eq!(&*message.path, "p", "the later line wins");
    assert!(matches!(proxy.settings.errors.get(404), Some(ErrorReply::Redirect { status: 303, .. })));
    let Action::Deny(reply) = &proxy.rules.http_request[0].action else { panic!("deny") };
    let ReplyContent::Section(section) = &reply.content else { panic!("a section") };
    assert!(section.message.get().is_some());
    assert_eq!(reply.status, 503);
}

#[test]
fn values_arrive_in_the_model() {
    let outcome = check(
        "listen l",
        "cookie SRV insert indirect nocache maxidle 30m ;; retry-on conn-failure 503 ;; option redispatch 2 ;; \
         hash-type consistent ;; source 10.0.0.1:1000-2000 interface eth0 ;; option splice-auto ;; http-reuse always ;; \
         server s 10.0.0.2:+80 weight 0 backup source 10.0.0.3 send-proxy-v2 proxy-v2-options crc32c minconn 5 ;; \
         capture request header Host len 10 ;; http-request capture src len 20 ;; option http-server-close ;; \
         redirect prefix /a%20b code 301 drop-query set-cookie a=1 if TRUE",
        &[],
    );
    let proxy = &outcome.proxies[1];
    let settings = &proxy.settings;
    let cookie = settings.cookie.as_ref().unwrap();
    assert_eq!((cookie.mode, cookie.indirect, cookie.no_cache), (CookieMode::Insert, true, true));
    assert_eq!(cookie.max_idle, std::time::Duration::from_secs(1800));
    assert!(settings.retry_on.contains_status(503) && settings.retry_on.needs_replay());
    assert_eq!(settings.options.redispatch, Redispatch::Every(2));
    assert_eq!((settings.hash_type.method, settings.hash_type.avalanche), (HashMethod::Consistent, true));
    assert_eq!(settings.source.as_ref().unwrap().last_port, 2000);
    assert_eq!(settings.options.reuse, Reuse::Always);
    assert_eq!(settings.options.connection_mode, Some(ConnectionMode::ServerClose));
    let server = &proxy.servers[0];
    assert!(matches!(server.address, ServerAddress::Inet { port: ServerPort::Mapped(80), .. }));
    assert_eq!((server.settings.weight, server.settings.backup, server.settings.maxconn), (0, true, 5));
    assert_eq!(server.settings.send_proxy, Some(SendProxy::V2));
    assert!(server.settings.proxy_v2.as_ref().unwrap().crc32c);
    assert_eq!(proxy.captures.request.len(), 2);
    let Action::Capture(capture) = &proxy.rules.http_request[0].action else { panic!("capture") };
    assert_eq!(capture.slot, 1);
    let redirect = &proxy.redirects[0].redirect;
    assert_eq!(redirect.value.constant(), Some(&b"/a%20b"[..]));
    assert_eq!((redirect.status, redirect.drop_query), (301, true));
    assert_eq!(redirect.cookie.as_ref().unwrap().constant(), Some(&b"a=1; path=/;"[..]));
}

#[test]
fn slots_of_defaults_come_before_those_of_the_frontend() {
    let outcome = check_text(
        "defaults d\n mode http\n timeout client 1s\n http-request capture src len 64\n\
         frontend f from d\n bind :1\n declare capture request len 32\n http-request capture src id 1\n",
        &[],
    );
    let lengths: Vec<_> = outcome.proxies[0].captures.request.iter().map(|slot| slot.length_max).collect();
    assert_eq!(lengths, [64, 32]);
}

#[test]
fn only_what_an_option_is_goes_with_no() {
    let outcome = check(
        "listen l",
        "option httpclose ;; no option http-server-close ;; option abortonclose ;; default option abortonclose",
        &[],
    );
    let options = &outcome.proxies[1].settings.options;
    assert_eq!(
        (options.connection_mode, options.abort_on_close),
        (Some(ConnectionMode::Close), Switch::Unset)
    );
    assert!(Section::Defaults { named: true }.is_defaults());
}

/// Words that keywords react to, and some that they do not.
fn word() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = PROXY_KEYWORDS
        .rows()
        .flat_map(|row| row.name.split(' ').chain(row.example.split(' ')))
        .chain(OPTIONS.rows().map(|row| row.name))
        .chain(BIND_OPTIONS.rows().map(|row| row.name))
        .chain(SERVER_OPTIONS.rows().map(|row| row.name))
        .chain(ACTIONS.rows().flat_map(|row| [row.name, row.example]))
        .chain([
            "no",
            "default",
            "option",
            "if",
            "unless",
            "{",
            "}",
            "0",
            "-1",
            "99999999999",
            "''",
            "a",
            "%[src]",
            "%",
        ])
        .collect();
    prop_oneof![4 => proptest::sample::select(names).prop_map(str::to_owned), 1 => "[ -~]{0,12}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_makes_the_parser_panic(
        lines in proptest::collection::vec((0..4usize, proptest::collection::vec(word(), 1..8)), 1..12)
    ) {
        let mut text = String::from("defaults d\n mode http\nlisten l\n bind :80\n server s 1.1.1.1:80\n");
        for (section, words) in lines {
            if words.len() == 7 {
                let keyword = super::ProxyParser::SECTIONS[section];
                text.push_str(&format!("{keyword} x{section}\n"));
            }
            text.push_str(&words.join(" "));
            text.push('\n');
        }
        read(&text);
    }
}

#[test]
fn global_identifiers_are_unique() {
    let text = "backend a\n guid x\n server s 1.1.1.1 guid y\nbackend b\n server s 1.1.1.1 guid y\n server t 1.1.1.1 guid x\n";
    let messages = read(text).messages;
    let about = |word: &str| messages.iter().filter(|message| message.contains(word)).count();
    assert_eq!(
        (about("'guid' : 'y' is already that of server 'a/s'"), about("'guid' : 'x' is already")),
        (1, 1)
    );
}

#[test]
fn what_option_forwarded_says() {
    let outcome = check("backend b", "option forwarded", &[]);
    let forwarded = outcome.proxies[1].settings.options.forwarded.clone().expect("it is set");
    assert!(
        forwarded.proto && forwarded.source.is_some() && forwarded.by.is_none() && forwarded.host.is_none()
    );
    let outcome = check("backend b", "option forwarded host-expr src by for-expr src for_port", &[]);
    let forwarded = outcome.proxies[1].settings.options.forwarded.clone().expect("it is set");
    assert_eq!(
        (forwarded.proto, forwarded.expressions().count(), forwarded.source_port.is_some()),
        (false, 2, true)
    );
    let off = check("backend b", "option forwarded ;; no option forwarded", &[]);
    assert!(off.proxies[1].settings.options.forwarded.is_none());
}
