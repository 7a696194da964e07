//! Tests of the actions' syntax: each row parses its example, errors have the expected texts, and values are stored.

use weir_config::rows::Handler;
use weir_model::RulesetKind;

use super::answers::Deny;
use super::arguments::{Delay, Size};
use super::headers::Capture;
use super::process::SetBandwidthLimit;
use super::{ACTIONS, arguments};
use crate::testing::{AGENTS, Read, read};

/// Reads `lines` (separated by ` ;; `) in a section that begins with `section`, after a named `defaults` section in HTTP mode. Checks
/// all messages, in order. A `...` at the end of an expectation matches any rest.
#[track_caller]
fn check(section: &str, lines: &str, expected: &[&str]) -> Read {
    let mut text = String::from(
        "defaults d\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nbackend other\n",
    );
    text.push_str(&format!("{section} from d\n"));
    if section.starts_with("frontend") || section.starts_with("listen") {
        text.push_str(" bind :9999\n");
    }
    for line in lines.split(" ;; ") {
        text.push_str(&format!(" {line}\n"));
    }
    check_text(&text, expected)
}

/// Reads a whole configuration and checks the messages.
#[track_caller]
fn check_text(text: &str, expected: &[&str]) -> Read {
    let outcome = read(text);
    let matches = outcome.messages.len() == expected.len()
        && outcome.messages.iter().zip(expected).all(|(message, expected)| {
            match expected.strip_suffix("...") {
                Some(beginning) => message.starts_with(beginning),
                None => message == expected,
            }
        });
    assert!(matches, "{text}:\n  said {:#?}\n  not {expected:#?}", outcome.messages);
    outcome
}

/// Checks that a line is read without any message.
#[track_caller]
fn check_quiet(section: &str, line: &str) {
    check_text(
        &format!(
            "defaults d\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n log stdout local0\n\
             backend other\n{section}\n bind :80\n {line}\n"
        ),
        &[],
    );
}

/// Checks the message for these lines, without its prefix. `None` for valid lines.
#[track_caller]
fn said(lines: &[&str], expected: Option<&str>) {
    let text = format!("listen l\n bind :80\n mode http\n {}\n", lines.join("\n "));
    let outcome = read(&text);
    let errors: Vec<_> = outcome.messages.iter().filter(|message| message.starts_with('A')).collect();
    match expected {
        None => assert!(errors.is_empty(), "{lines:?}: {errors:#?}"),
        Some(want) => {
            assert!(errors.len() == 1 && errors[0].ends_with(want), "{lines:?}: {errors:#?}, not {want}")
        }
    }
}

const BWLIM: &str = "filter bwlim-in a default-limit 1k default-period 1s";

/// Checks the message for the last of these lines, without its prefix.
#[track_caller]
fn refuse(lines: &[&str], want: &str) {
    let text = format!("listen l\n bind :80\n mode tcp\n {}\n", lines.join("\n "));
    let outcome = read(&text);
    let errors: Vec<_> = outcome.messages.iter().filter(|message| message.starts_with('A')).collect();
    assert!(errors.len() == 1 && errors[0].contains(want), "{lines:?}: {errors:#?}, not {want}");
}

#[test]
fn the_example_of_every_action_is_accepted() {
    for row in ACTIONS.rows() {
        let Handler::Ready(reader) = row.handler else { continue };
        for kind in RulesetKind::ALL.into_iter().filter(|kind| reader.rulesets.contains(*kind)) {
            let space = if row.arguments.starts_with('(') { "" } else { " " };
            let filter = "filter bwlim-in a default-limit 1k default-period 1s\n ";
            let before = match row.name {
                "set-bandwidth-limit" => filter,
                "send-spoe-group" => "filter spoe engine check config engine.cfg\n ",
                name if name.starts_with("track-sc") => "stick-table type ipv4 size 1\n ",
                _ => "",
            };
            let after = match row.name {
                "do-resolve" => "\nresolvers dns\n nameserver a 192.0.2.1:53",
                "auth-request" | "mirror" => "\nbackend app",
                "send-spoe-group" => AGENTS,
                _ => "",
            };
            // Tracking that does not read contents belongs to session rules.
            let is_early = row.name.starts_with("track-sc") && kind == RulesetKind::TcpRequestContent;
            let condition = if is_early { " if { path / }" } else { "" };
            let line =
                format!("{before}{} {}{space}{}{condition}{after}", kind.keyword(), row.name, row.example);
            let is_valid = match row.name {
                // A rule cannot declare a capture slot of the response.
                "capture" => matches!(kind, RulesetKind::HttpRequest | RulesetKind::TcpRequestContent),
                // The only service requires HTTP.
                "use-service" => kind == RulesetKind::HttpRequest,
                // It needs a script, which the parser of this test does not run.
                "lua.<name>" => false,
                _ => true,
            };
            if is_valid {
                check_quiet("listen l", &line);
            }
        }
    }
}

#[test]
fn every_action_has_a_help_text_and_one_row() {
    let mut names = std::collections::HashSet::new();
    for row in ACTIONS.rows() {
        assert!(!row.help.is_empty(), "{} has no help", row.name);
        assert!(names.insert(row.name), "{} is there twice", row.name);
    }
}

/// An unvisited reference is never resolved, and its passwords are not verified ahead. The test replaces each word of each example by a
/// fetch: if an unknown fetch is refused there, a userlist in its place must be found.
#[test]
fn actions_visit_every_expression_of_their_arguments() {
    let mut visited = 0;
    for row in ACTIONS.rows() {
        let Handler::Ready(reader) = row.handler else { continue };
        let kinds = [RulesetKind::HttpRequest, RulesetKind::HttpResponse, RulesetKind::TcpRequestContent];
        let Some(kind) = kinds.into_iter().find(|kind| reader.rulesets.contains(*kind)) else { continue };
        let words: Vec<&str> = row.example.split(' ').collect();
        let space = if row.arguments.starts_with('(') { "" } else { " " };
        let places = (0..words.len()).flat_map(|position| [(position, "", ""), (position, "%[", "]")]);
        for (position, before, after) in places {
            let with = |fetch: &str| {
                let mut words = words.clone();
                let word = format!("{before}{fetch}{after}");
                words[position] = &word;
                let (keyword, name, words) = (kind.keyword(), row.name, words.join(" "));
                read(&format!(
                    "listen l\n mode http\n stick-table type string size 1\n {BWLIM}\n {keyword} {name}{space}{words}\n\
                     resolvers dns\n nameserver a 192.0.2.1:53\nuserlist users\n user a insecure-password b\n"
                ))
            };
            let unknown = "unknown fetch method 'nosuch'";
            if with("nosuch").messages.iter().any(|message| message.contains(unknown)) {
                let outcome = with("http_auth(users)");
                let rule = outcome.proxies[0].rules(kind).next().expect("the rule");
                assert!(
                    !rule.action.used_userlists().is_empty(),
                    "{}: `visit_references` does not visit the argument `{}`",
                    row.name,
                    words[position]
                );
                visited += 1;
            }
        }
    }
    assert!(visited >= 30, "{visited} expressions in the examples");
}

#[test]
fn action_errors_have_haproxys_messages() {
    let cases: &[(&str, &str)] = &[
        (
            "http-request tarpit deny_status 418 if TRUE",
            "parsing [t.cfg:9] : error detected in proxy 'l' while parsing 'http-request tarpit' rule : status code '418' not handled by default...",
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
    ];
    for (line, expected) in cases {
        check("listen l", line, &[&format!("A {expected}")]);
    }
}

#[test]
fn http_response_redirect_accepts_only_location() {
    check(
        "backend b",
        "http-response redirect location /x ;; http-response redirect prefix /x ;; http-request redirect prefix /x",
        &[
            "A parsing [t.cfg:9] : error detected in backend 'b' while parsing 'http-response redirect' rule : a response can only be redirected to a 'location'.",
        ],
    );
}

/// Manual, 4.4, "switch-mode". The texts are those of HAProxy 3.2, behind its words for where they are.
#[test]
fn switch_mode_http_is_valid_only_in_tcp_frontends() {
    let refused = |what: &str| {
        format!(
            "A parsing [t.cfg:9] : error detected in frontend 'f' while parsing 'tcp-request content switch-mode' rule : {what}"
        )
    };
    for (arguments, what) in [
        ("", "expects a mode as argument."),
        (" tcp", "expects a valid mode (got 'tcp')."),
        (" http proto", "'proto' expects a protocol as argument."),
        (" http proto h3", "'proto' expects a valid MUX protocol, if specified (got 'h3')"),
        (" http proto none", "MUX protocol 'none' is not compatible with the selected mode."),
    ] {
        check("frontend f", &format!("tcp-request content switch-mode{arguments}"), &[&refused(what)]);
    }
    check(
        "backend b",
        "tcp-request content switch-mode http",
        &[
            "A parsing [t.cfg:8] : error detected in backend 'b' while parsing 'tcp-request content switch-mode' rule : not allowed because backend 'b' has no frontend capability",
        ],
    );
    // HTTP options may follow `switch-mode`.
    for protocol in ["", " proto h1", " proto h2"] {
        let switch = format!("tcp-request content switch-mode http{protocol} if TRUE");
        check(
            "frontend f",
            &format!("mode tcp ;; {switch} ;; http-request deny ;; redirect location /"),
            &[],
        );
    }
}

#[test]
fn header_names_with_invalid_characters_cause_a_warning() {
    let warning = |name: &str, character: char| {
        format!("W parsing [t.cfg:9] : header name '{name}' contains forbidden character '{character}'.")
    };
    check("frontend f", "http-request set-header \"a b\" x", &[&warning("a b", ' ')]);
    check("frontend f", "http-request add-header a: x", &[&warning("a:", ':')]);
    check("frontend f", "http-after-response set-header a(b x", &[&warning("a(b", '(')]);
    check("frontend f", "http-request set-header a!$%&*+-.^_`|~9\\#\\' x", &[]);
}

/// Manual, 4.4, "set-timeout".
#[test]
fn rejects_set_timeout_for_a_side_that_the_proxy_lacks() {
    let refused = |subject: &str, name: &str, side: &str| {
        // A backend does not have the "bind" line.
        let line = if subject == "backend" { 8 } else { 9 };
        format!(
            "A parsing [t.cfg:{line}] : error detected in {subject} '{name}' while parsing 'http-request set-timeout' rule : \
             '{name}' has no {side} capability."
        )
    };
    check("frontend f", "http-request set-timeout server 5s", &[&refused("frontend", "f", "backend")]);
    check("frontend f", "http-request set-timeout queue 5s", &[&refused("frontend", "f", "backend")]);
    check("backend b", "http-request set-timeout client 5s", &[&refused("backend", "b", "frontend")]);
    check("frontend f", "http-request set-timeout client 5s", &[]);
    check("backend b", "http-request set-timeout tunnel 5s", &[]);
    check("listen l", "http-request set-timeout server 5s ;; http-request set-timeout client 5s", &[]);
    check(
        "frontend f",
        "http-request set-retries 3",
        &[
            "A parsing [t.cfg:9] : error detected in frontend 'f' while parsing 'http-request set-retries' rule : 'set-retries' only available in backend or listen section.",
        ],
    );
    check(
        "defaults e",
        "http-request set-retries 3",
        &[
            "A parsing [t.cfg:8] : error detected in defaults 'e' while parsing 'http-request set-retries' rule : 'set-retries' is not allowed in 'defaults' sections.",
        ],
    );
    check("backend b", "tcp-request content set-retries 2 ;; http-request set-retries 3", &[]);
}

#[test]
fn del_map_and_del_acl_accept_both_kinds_of_files() {
    let lists = "acl a src -f virt@list ;; http-request set-header a %[src,map(virt@map)]";
    check(
        "listen l",
        &format!(
            "{lists} ;; http-request del-map(virt@list) %[src] ;; http-request del-acl(virt@map) %[src]"
        ),
        &[],
    );
    check(
        "listen l",
        &format!("{lists} ;; http-request add-acl(virt@map) %[src]"),
        &[
            "A parsing [t.cfg:11] : error detected in proxy 'l' while parsing 'http-request add-acl(virt@map)' rule : The file \"virt@map\" is already used as two column file...",
        ],
    );
}

#[test]
fn set_header_warns_about_invalid_field_names() {
    let warned = |rule: &str, name: &str, odd: char| {
        let expected =
            format!("W parsing [t.cfg:9] : header name '{name}' contains forbidden character '{odd}'.");
        check("listen l", rule, &[&expected]);
    };
    warned("http-request set-header 'x y' z", "x y", ' ');
    warned("http-request add-header x:y z", "x:y", ':');
    warned("http-response set-header x%[src] z", "x%[src]", '[');
    warned("http-after-response add-header a{}b z", "a{}b", '{');
    warned("http-request early-hint 'l k' z", "l k", ' ');
    // These actions do not write fields with the given names. The names in the next line are valid.
    check("listen l", "http-request del-header 'x y' ;; http-request replace-header 'x y' a b", &[]);
    check("listen l", "http-request set-header \"X-a!#%&'*+-.^_`|~9\" z ;; http-request set-header é z", &[]);
}

#[test]
fn capture_slots_of_defaults_precede_those_of_the_frontend() {
    let outcome = check_text(
        "defaults d\n mode http\n timeout client 1s\n http-request capture src len 64\n\
         frontend f from d\n bind :1\n declare capture request len 32\n http-request capture src id 1\n",
        &[],
    );
    let lengths: Vec<_> = outcome.proxies[0].captures.request.iter().map(|slot| slot.length_max).collect();
    assert_eq!(lengths, [64, 32]);
}

#[test]
fn a_capture_rule_uses_its_declared_slot() {
    let outcome =
        check("listen l", "capture request header Host len 10 ;; http-request capture src len 20", &[]);
    let proxy = &outcome.proxies[1];
    assert_eq!(proxy.captures.request.len(), 2);
    let capture: &Capture = arguments(&proxy.rules.http_request[0].action).expect("capture");
    assert_eq!(capture.slot, 1);
    check(
        "listen l",
        "capture request header a len x ;; http-request capture path id 0",
        &["A parsing [t.cfg:9] : 'len' expects an integer argument, which 'x' is not."],
    );
}

#[test]
fn set_bandwidth_limit_requires_a_filter_of_the_same_proxy() {
    let outcome = check(
        "listen l",
        &format!("http-request set-bandwidth-limit a limit 2k period path,mul(2) if TRUE ;; {BWLIM}"),
        &[],
    );
    let set: &SetBandwidthLimit =
        arguments(&outcome.proxies[1].rules.http_request[0].action).expect("set-bandwidth-limit");
    assert_eq!(&*set.filter, "a");
    assert!(matches!(set.limit, Some(Size::Fixed(2048))));
    assert!(matches!(set.period, Some(Delay::Expression(_))));
    let rule = |rest: &str, want: &str| {
        refuse(&[BWLIM, &format!("tcp-request content set-bandwidth-limit{rest}")], want)
    };
    rule("", "missing bwlim filter name.");
    rule(" c", "Proxy 'l': unable to find bwlim filter 'c' referenced by set-bandwidth-limit rule.");
    rule(" a limit", "'limit': invalid size value or unknown fetch method ''.");
    rule(" a limit nosuch", "'limit': invalid size value or unknown fetch method 'nosuch'.");
    rule(" a limit 1x", "'limit': invalid size value or unknown fetch method '1x'.");
    rule(" a period x", "'period': invalid time value or unknown fetch method 'x'.");
    rule(" a foo", "'foo'");
    refuse(&[BWLIM, "tcp-request session set-bandwidth-limit a"], "but got 'set-bandwidth-limit'");
    refuse(
        &["backend x", BWLIM, "backend y", "tcp-request content set-bandwidth-limit a"],
        "unable to find bwlim filter 'a'",
    );
}

#[test]
fn set_bandwidth_limit_cannot_change_a_shared_limit() {
    let stored = "stick-table type ip size 10 store bytes_out_rate(2s)";
    let shared = "filter bwlim-out a limit 1k key src min-size 7";
    check("listen l", &format!("{stored} ;; {shared} table l ;; http-request set-bandwidth-limit a"), &[]);
    refuse(
        &[stored, shared, "http-request set-bandwidth-limit a limit 2k"],
        "the shared bwlim filter 'a' can have no limit or period of its own",
    );
}

#[test]
fn rules_require_a_stick_table_with_a_compatible_key_type() {
    const TABLE: &str = "stick-table type ipv4 size 1";
    said(
        &["http-request track-sc0 src"],
        Some("proxy 'l' has no stick-table, and an expression or a rule in it names no other."),
    );
    said(
        &["stick on src table none"],
        Some("unable to find table 'none' referenced by an expression in proxy 'l'."),
    );
    said(
        &[TABLE, "http-request track-sc0 always_true"],
        Some(
            "stick-table 'l' used in 'track-sc0' rule has keys of type 'ip', which 'bool' values cannot become.",
        ),
    );
    // References to a table with a refused line are not reported.
    let refused =
        "stick-table: unknown type 'ipp': it is one of 'ip', 'ipv4', 'ipv6', 'integer', 'string', 'binary'.";
    for name in ["", " table l"] {
        let rule = format!("http-request track-sc0 src{name}");
        said(&["stick-table type ipp size 1", &rule], Some(refused));
    }
    let fourth = "http-request track-sc3 src table l";
    let text = format!("global\n tune.stick-counters 4\nlisten l\n mode http\n {fourth}\n {TABLE}\n");
    let outcome = read(&text);
    assert!(outcome.messages.iter().all(|message| message.starts_with('W')), "{:?}", outcome.messages);
    said(&[TABLE, "http-request track-sc0 src", "stick on src"], None);
    said(&[TABLE, "http-request track-sc src"], None);
    said(&[TABLE, "http-request deny if { src,table_conn_cur gt 1 }"], None);
}

#[test]
fn counter_actions_accept_a_counter_number_and_an_array_index() {
    for action in
        ["sc-inc-gpc(1,2)", "sc-inc-gpc0(0)", "sc-inc-gpc1(2)", "sc-add-gpc(0,1) 5", "sc-set-gpt0(0) 1"]
    {
        check("listen l", &format!("http-response {action}"), &[]);
    }
    // Without a number it is the first counter.
    for action in ["sc-inc-gpc0", "sc-inc-gpc1()", "sc-set-gpt0 1"] {
        check("listen l", &format!("tcp-request connection {action}"), &[]);
    }
    for action in ["sc-inc-gpc0(", "sc-inc-gpc0(1", "sc-inc-gpc1(0)x", "sc-set-gpt0(-1) 1"] {
        let word = action.split(' ').next().unwrap_or_default();
        said(
            &[&format!("http-request {action}")],
            Some(&format!("'{word}' expects a counter's number in parentheses.")),
        );
    }
    check("listen l", "http-request sc-set-gpt(1,0) rand", &[]);
    said(
        &["http-request sc-inc-gpc(100,0)"],
        Some("'sc-inc-gpc(100,0)' expects an index between 0 and 99 and a counter's number in parentheses."),
    );
    said(
        &["http-request sc-inc-gpc0(x)"],
        Some("'sc-inc-gpc0(x)' expects a counter's number in parentheses."),
    );
}

#[test]
fn warns_about_tcp_content_tracking_without_inspect_delay_or_contents() {
    let warned = |proxy: &str, rule: &str| {
        let text = format!(
            "{proxy}\n stick-table type string size 1\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n \
             tcp-request content track-sc0 {rule}\n"
        );
        let messages = read(&text).messages;
        let of =
            |what: &str| messages.iter().any(|message| message.starts_with('W') && message.contains(what));
        (
            of("not depending on request contents for an HTTP frontend"),
            of("without any 'tcp-request inspect-delay'"),
        )
    };
    const HTTP: &str = "listen l\n bind :1\n mode http";
    const TCP: &str = "listen l\n bind :1\n mode tcp";
    const WAITS: &str = "\n tcp-request inspect-delay 1s";
    for rule in ["src", "src if TRUE", "var(txn.x)", "src if { src 1.2.3.4 }"] {
        assert_eq!(warned(HTTP, rule), (true, false), "{rule}");
        assert_eq!(warned(TCP, rule), (false, false), "{rule}");
    }
    for rule in ["src if { req.len gt 0 }", "src if { path / }"] {
        assert_eq!(warned(HTTP, rule), (false, false), "{rule}");
    }
    for rule in ["req.hdr(x)", "req.len", "src,lower if { path / }"] {
        let needs = !rule.starts_with("src");
        assert_eq!(warned(HTTP, rule), (false, needs), "{rule}");
        assert_eq!(warned(TCP, rule), (false, needs), "{rule}");
        assert_eq!(warned(&format!("{HTTP}{WAITS}"), rule), (false, false), "{rule}");
    }
    assert_eq!(warned("backend b\n mode http", "src"), (false, false));
}

#[test]
fn rejects_rules_that_name_unknown_resolvers_sections() {
    let head = "defaults\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n mode http\n";
    let known = "resolvers r\n nameserver a 192.0.2.1:53\n";
    let text = format!(
        "{head}{known}backend b\n tcp-request content do-resolve(txn.a,r,ipv6) str(a)\n http-request do-resolve(txn.a,r) str(a)\n \
         http-request do-resolve(txn.a,r,ipv4) str(a) if TRUE\n"
    );
    check_text(&text, &[]);
    check_text(
        &format!("{head}backend b\n http-request do-resolve(txn.a,zz) str(a)\n"),
        &["A [t.cfg:7] : Proxy 'b': Can't find resolvers section 'zz' for do-resolve action."],
    );
    for wrong in
        ["do-resolve", "do-resolve(txn.a)", "do-resolve(txn.a,r,ipv5)", "do-resolve(txn.a,r,ipv4,ipv6)"]
    {
        let read = read(&format!("{head}{known}backend b\n http-request {wrong} src\n"));
        assert!(read.messages[0].contains(&format!("Can't parse '{wrong}'. Expects")), "{:?}", read.messages);
    }
}

/// Passwords are verified ahead of expressions that cannot wait for them.
#[test]
fn userlists_in_action_arguments_are_recorded() {
    for action in [
        "http-request set-var(txn.a) http_auth(users)",
        "http-request return status 200 content-type text/plain lf-string %[http_auth(users)]",
        "http-request set-header a %[http_auth(users)]",
        "http-request redirect location /%[http_auth(users)]",
    ] {
        let text = format!("listen l\n mode http\n {action}\nuserlist users\n user a insecure-password b\n");
        let used = read(&text).proxies[0].used_userlists();
        let found = (!used.always.is_empty(), !used.outside_of_rules.is_empty(), used.in_actions);
        assert_eq!(found, (false, false, true), "{action}");
    }
}

#[test]
fn a_deny_rule_stores_its_reply_status() {
    let outcome = check("backend b", "http-request deny deny_status 503", &[]);
    let Deny(reply) = arguments(&outcome.proxies[1].rules.http_request[0].action).expect("deny");
    assert_eq!(reply.status, 503);
}
