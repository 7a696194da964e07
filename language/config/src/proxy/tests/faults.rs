//! Refused lines: the message and the position of the caret.

use crate::testing::{check, check_text, read};

#[test]
fn errors_for_unknown_proxy_keywords_have_suggestions() {
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
fn errors_for_unknown_keyword_arguments_have_suggestions() {
    for (line, meant) in [
        ("mode htttp", "http"),
        ("balance roundrobbin", "roundrobin"),
        ("balance leastcon", "leastconn"),
        ("hash-type consistant", "consistent"),
        ("hash-type consistent crc23", "crc32"),
        ("hash-type consistent crc32 avalanch", "avalanche"),
        ("http-reuse allways", "always"),
        ("cookie SRV inser indirect", "insert"),
        ("retry-on conn-failiure", "conn-failure"),
        ("log 127.0.0.1 locl0", "local0"),
        ("log 127.0.0.1 local0 inf", "info"),
        ("log 127.0.0.1 local0 info notic", "notice"),
        ("option httpchk ;; http-check expect stats 200", "status"),
        ("option tcp-check ;; tcp-check expect srting OK", "string"),
    ] {
        let outcome = read(&format!("listen l\n bind :1\n {}\n", line.replace(" ;; ", "\n ")));
        let said = format!("did you mean '{meant}' maybe ?");
        assert!(
            outcome.messages.iter().any(|message| message.ends_with(&said)),
            "{line}: {:?}",
            outcome.messages
        );
    }
}

#[test]
fn proxy_errors_have_haproxys_messages() {
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
        (
            "bind 8443",
            "parsing [t.cfg:9] : 'bind' : missing port specification in '8443': a port follows a colon, ':8443'",
        ),
        ("balance hdr", "parsing [t.cfg:9] : hdr(name) requires an http header field name."),
        ("balance leastconn(x)", "parsing [t.cfg:9] : balance 'leastconn' takes nothing in parentheses."),
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
        (
            "errorfile 503 /nonexistent",
            "parsing [t.cfg:9] : errorfile : error opening file '/nonexistent': entity not found.",
        ),
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
            "http-request deny deny_status 418",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-request deny' rule : status code '418' not handled by default with 'default-errorfiles' argument: error messages have the statuses 200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 414, 421, 422, 425, 429, 431, 500, 501, 502, 503, 504; with 'content-type', 'string' or 'hdr' a reply has any.",
        ),
        (
            "http-response deny deny_status 418 if TRUE",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-response deny' rule : status code '418' not handled by default...",
        ),
        (
            "http-request deny deny_status 418 errorfiles pages",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-request deny' rule : status code '418' not handled by default with 'errorfiles' argument...",
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
        ("server-template a 0 foo:80", "[t.cfg:9] : Wrong server-template number or range arg '0'."),
        (
            "option tcp-check ;; tcp-check connect addr 127.0.0.1:1-2",
            "parsing [t.cfg:10] : 'tcp-check connect' : 'addr' : port range not permitted here in '127.0.0.1:1-2'",
        ),
        (
            "acl a always_true ;; acl b src,table_conn_cur(nope) gt 1 ;; http-request deny if a b",
            "parsing [t.cfg:10]: unable to find table 'nope' referenced by an expression in proxy 'l'.",
        ),
        ("use-server a if TRUE", "proxy 'l' : unable to find server 'a' referenced in a 'use-server' rule."),
        (
            "http-request set-header a b if { be_conn(nope) gt 3 }",
            "parsing [t.cfg:9]: unable to find backend 'nope' referenced by an expression in proxy 'l'.",
        ),
        (
            "clitimeout 3s",
            "parsing [t.cfg:9] : the 'clitimeout' directive is not supported anymore; use 'timeout client' instead.",
        ),
        (
            "monitor-net 10.0.0.0/8",
            "parsing [t.cfg:9] : the 'monitor-net' directive is not supported anymore; use 'http-request return status 200 if { src <network> }' instead.",
        ),
        (
            "bind :81 process 1",
            "parsing [t.cfg:9] : 'bind :81' in section 'listen' : 'process' : use 'thread' instead.",
        ),
    ];
    for (line, expected) in cases {
        check("listen l", line, &[&format!("A {expected}")]);
    }
}

#[test]
fn errors_point_at_the_invalid_word() {
    let marked = |lines: &str| read(&format!("listen l\n bind :80\n {lines}\n timeout client 1s\n")).marked;
    assert_eq!(marked("balance uri foo"), ["foo"]);
    assert_eq!(marked("server a 1.1.1.1:80 weight 300"), ["300"]);
    assert_eq!(marked("bind 1.1.1.1:80,:99999"), [":99999"]);
    assert_eq!(marked("server a 1.1.1.1:80 init-addr last,foo"), ["foo"]);
    assert_eq!(marked("acl a src 1.2.3.x"), ["1.2.3.x"]);
    assert_eq!(marked("option forwardfor header"), [""]);
}

/// Otherwise the page would stay open, or an option would be ignored.
#[test]
fn mutually_exclusive_keywords_are_rejected() {
    let both = "stats 'auth'/'realm' and 'http-request' can't be used at the same time.";
    for section in ["frontend f", "listen f"] {
        let alert = format!("A proxy 'f': {both}");
        for account in ["stats auth a:b", "stats realm r"] {
            check(section, &format!("{account}\n stats http-request deny"), &[&alert]);
        }
        check(section, "stats http-request auth realm r\n stats enable", &[]);
    }
    let chooses = "A backend 'b' cannot use both transparent and balance mode.";
    check("backend b", "option transparent\n balance roundrobin", &[chooses]);
    check("backend b", "option transparent", &[]);
}

#[test]
fn keywords_in_the_wrong_section_cause_warnings_or_errors() {
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
