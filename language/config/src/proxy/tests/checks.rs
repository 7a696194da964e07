//! The checks at the end: names, modes, missing settings, unreachable rules.

use crate::testing::actions::Deny;
use crate::testing::{check, check_text};
use weir_model::*;

#[test]
fn names_of_backends_and_servers_are_resolved() {
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
fn rejects_default_backends_of_another_mode_or_kind() {
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
fn warns_about_missing_timeouts_and_bind_lines() {
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
fn a_health_check_requires_a_port() {
    let lack = "server 's' has neither service port nor check port";
    let (none, some) = (
        format!("A config: backend 'b': {lack} nor tcp_check rule 'connect' with port information."),
        format!("A config: backend 'b': {lack}, and a tcp_check rule 'connect' with no port information."),
    );
    let local = format!("A config: backend 'b': {lack}.");
    let rules = |lines: &str| format!(" option tcp-check\n{lines} server s 1.1.1.1 check\n");
    let cases = [
        (" server s 1.1.1.1 check\n".to_owned(), Some(&none)),
        (" server s 1.1.1.1:0 check addr 1.1.1.2\n".to_owned(), Some(&none)),
        (" server s 1.1.1.1:+10 check\n".to_owned(), Some(&none)),
        (" option httpchk\n server s 1.1.1.1 check\n".to_owned(), Some(&none)),
        (rules(" tcp-check connect\n"), Some(&none)),
        (rules(" tcp-check connect port 80\n tcp-check connect\n"), Some(&some)),
        (rules(" tcp-check connect port 80\n tcp-check connect port 81\n"), None),
        (" server s 1.1.1.1:+10 check port 80\n".to_owned(), None),
        (" server s 1.1.1.1\n".to_owned(), None),
        (" server s 1.1.1.1 check no-check\n".to_owned(), None),
        (" server s 1.1.1.1 agent-check agent-port 80\n".to_owned(), None),
        (" server s /run/s.sock check\n".to_owned(), None),
        (" server s /run/s.sock check addr 1.1.1.1 port 80\n".to_owned(), None),
        (" server s /run/s.sock check addr 0.0.0.0\n".to_owned(), None),
        (" server s /run/s.sock addr 1.1.1.1\n".to_owned(), None),
        (" server s /run/s.sock check addr 1.1.1.1\n".to_owned(), Some(&local)),
        (" server s abns@s check addr 1.1.1.1\n".to_owned(), Some(&local)),
        // Without an address, no check is possible yet.
        (" server s : check\n".to_owned(), None),
        (" server s 0.0.0.0 check\n".to_owned(), None),
    ];
    for (lines, complaint) in cases {
        let text = format!("backend b\n timeout connect 1s\n timeout server 1s\n{lines}");
        check_text(&text, &complaint.map(String::as_str).into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn warns_about_suspicious_and_conflicting_check_settings() {
    let small = |said: &str| format!("W parsing [t.cfg:4] : '{said}' is suspiciously small...");
    let lead = " server l 1.1.1.1:1 check\n server s 1.1.1.1:1 track l";
    let both = "A [t.cfg:5] : 'server b/s' : unable to set init-state and tracking at the same time!";
    let ignored = |word: &str| {
        format!(
            "W 'external-check {word}' will be ignored for backend 'b' (requires 'option external-check')."
        )
    };
    let no_path = "A Proxy 'b': 'external-check command' does not have a leading '/' and 'external-check path' is not set.";
    let server = |words: &str| format!(" server s 1.1.1.1:1 {words}\n");
    let cases: Vec<(String, Vec<String>)> = vec![
        (server("check inter 99"), vec![small("inter 99")]),
        (server("check fastinter 5 downinter 6"), vec![small("fastinter 5"), small("downinter 6")]),
        (server("agent-check agent-port 1 agent-inter 1"), vec![small("agent-inter 1")]),
        (server("check inter 1ms fastinter 100 downinter 2s"), vec![]),
        (server("agent-check agent-port 1 agent-addr ::1"), vec![]),
        (server("agent-check agent-port 1 agent-addr [::1]"), vec![]),
        (format!("{lead} init-state down\n"), vec![both.to_owned()]),
        (format!(" default-server init-state up\n{lead}\n"), vec![both.replace(":5]", ":6]")]),
        (format!("{lead} init-state none\n"), vec![]),
        (" external-check command /bin/true\n".to_owned(), vec![ignored("command")]),
        (
            " external-check command true\n external-check path /bin\n".to_owned(),
            vec![ignored("command"), ignored("path")],
        ),
        (" external-check command true\n".to_owned(), vec![ignored("command"), no_path.to_owned()]),
    ];
    for (lines, complaints) in cases {
        let text = format!("backend b\n timeout connect 1s\n timeout server 1s\n{lines}");
        check_text(&text, &complaints.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn http_keywords_in_tcp_mode_are_ignored_with_a_warning() {
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
    assert_eq!(outcome.proxies[1].settings.balance.word.name, "roundrobin");
    check(
        "listen l",
        "mode tcp ;; server s 1.1.1.1:1 proto h1",
        &["A proxy 'l' : MUX protocol 'h1' is not usable for server 's' at [t.cfg:10]."],
    );
}

#[test]
fn warns_about_rules_out_of_order_or_after_a_final_rule() {
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
    check("listen l", "http-request redirect location %[path] ignore-empty ;; http-request deny", &[]);
    check(
        "listen l",
        "http-request allow ;; http-request deny",
        &[
            "W parsing [t.cfg:10]: previous 'http-request' action is final and has no condition attached, further entries are NOOP.",
        ],
    );
}

#[test]
fn warns_about_conditions_that_never_match() {
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
fn warns_about_layer_6_fetches_in_http_proxies() {
    check(
        "listen l",
        "http-request deny if { req.len 1 } ;; acl a req.len 2 ;; http-request deny if a ;; http-request set-header x %[req.len] ;; http-request set-var-fmt(txn.a) %[req.len]",
        &[
            "W [t.cfg:9] : Proxy 'l': L6 sample fetches ignored on HTTP proxies.",
            "W [t.cfg:11] : Proxy 'l': L6 sample fetches ignored on HTTP proxies.",
            "W parsing [t.cfg:12] : L6 sample fetch <req.len> ignored in HTTP log-format string.",
        ],
    );
}

#[test]
fn rejects_implicit_references_to_a_proxy_without_that_capability() {
    check("listen l", "http-request deny if { be_conn 1 } { fe_conn 1 }", &[]);
    check(
        "frontend f",
        "bind :1 ;; http-request deny if { be_conn 1 } { fe_conn 1 }",
        &[
            "A parsing [t.cfg:10]: proxy 'f', referenced by an expression in it that names no backend, has no backend capability.",
        ],
    );
    check(
        "backend b",
        "http-request set-header x %[fe_conn]",
        &[
            "A parsing [t.cfg:8]: proxy 'b', referenced by an expression in it that names no frontend, has no frontend capability.",
        ],
    );
}

/// The statuses that HAProxy 3.2 accepts after `errorfile`.
#[test]
fn every_status_of_errorfile_accepts_a_file() {
    for status in [
        200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 414, 421, 422, 425, 429, 431, 500, 501, 502, 503,
        504,
    ] {
        check(
            "backend b",
            &format!("errorfile {status} 503.http ;; http-request deny deny_status {status} if TRUE"),
            &[],
        );
    }
}

#[test]
fn errorfile_and_errorloc_set_the_error_messages_of_a_proxy() {
    let outcome = check(
        "backend b",
        "errorfile 503 503.http ;; errorloc303 404 http://x ;; errorfiles pages ;; http-request deny deny_status 503 errorfiles pages",
        &[],
    );
    let proxy = &outcome.proxies[1];
    let Some(ErrorReply::Message(message)) = proxy.settings.errors.get(503) else { panic!("a message") };
    assert_eq!(&*message.path, "p", "the later line wins");
    assert!(matches!(proxy.settings.errors.get(404), Some(ErrorReply::Redirect { status: 303, .. })));
    let Deny(reply) = proxy.rules.http_request[0].action.arguments().expect("deny");
    let ReplyContent::Section(section) = &reply.content else { panic!("a section") };
    assert!(section.message.get().is_some());
    assert_eq!(reply.status, 503);
}

#[test]
fn keeps_the_error_message_if_the_section_lacks_the_status() {
    let outcome = check(
        "backend b",
        "errorfile 502 503.http ;; errorfiles pages 502 503 ;; http-request deny deny_status 502 errorfiles pages ;; http-error status 504 errorfiles pages",
        &[
            "W backend 'b': status '502' not declared in http-errors section 'pages' (at t.cfg:9).",
            "W Proxy 'b': status '502' referenced by an http reply not declared in http-errors section 'pages', so the proxy's own error message is sent.",
            "W Proxy 'b': status '504' referenced by an http reply not declared in http-errors section 'pages', so the proxy's own error message is sent.",
        ],
    );
    let proxy = &outcome.proxies[1];
    let Some(ErrorReply::Message(message)) = proxy.settings.errors.get(502) else { panic!("a message") };
    assert_eq!(&*message.path, "503.http");
    let Some(ErrorReply::Message(message)) = proxy.settings.errors.get(503) else { panic!("a message") };
    assert_eq!(&*message.path, "p");
}

#[test]
fn warns_about_rules_for_another_kind_of_check() {
    let ignored = |option: &str, rule: &str, by: &str| {
        let kind = rule.split(' ').next().unwrap_or_default();
        let reason = format!("its {kind} rules are ignored, because {by} selects another health check");
        check("backend b", &format!("{option} ;; {rule}"), &[&format!("W backend 'b': {reason}.")]);
    };
    let own = "an option for one protocol, such as 'option ssl-hello-chk',";
    ignored("option ssl-hello-chk", "http-check expect status 200", own);
    ignored("option mysql-check", "tcp-check connect", own);
    ignored("option httpchk", "tcp-check connect", "'option httpchk'");
    ignored("option tcp-check", "http-check expect status 200", "'option tcp-check'");
    let without = |rule: &str, option: &str| {
        let kind = rule.split(' ').next().unwrap_or_default();
        let warning =
            format!("W backend 'b' uses {kind} rules without '{option}', so the rules are ignored.");
        check("backend b", &format!("balance roundrobin ;; {rule}"), &[&warning]);
    };
    without("http-check expect status 200", "option httpchk");
    without("tcp-check connect", "option tcp-check");
}

#[test]
fn unique_id_formats_reject_backend_fetches_in_frontends() {
    let message = |name: &str| {
        format!(
            "A failed to parse unique-id of frontend '{name}' : sample fetch <be_name> may not be reliably used here because it needs a backend which is not available here."
        )
    };
    check("frontend f", "unique-id-format %[be_name]", &[&message("f")]);
    check("listen l", "unique-id-format %[be_name]", &[]);
    check("frontend f", "unique-id-format %[fe_name]", &[]);
    check_text(
        "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n unique-id-format %[be_name]\n\
         backend b\n server s 1.1.1.1:1\nfrontend f\n bind :1\n default_backend b\n",
        &[&message("f")],
    );
}

#[test]
fn the_check_address_of_a_server_may_have_a_port() {
    let port = |words: &str| {
        let outcome = check("backend b", &format!("server s 1.1.1.1:1 check {words}"), &[]);
        let proxy = outcome.proxies.last().expect("the backend");
        proxy.servers[0].settings.check.port
    };
    assert_eq!(port("addr 2.2.2.2"), None);
    assert_eq!(port("addr 2.2.2.2:80"), Some(80));
    assert_eq!(port("addr 2.2.2.2:80 port 81"), Some(81));
    assert_eq!(port("port 81 addr 2.2.2.2:80"), Some(81));
    check(
        "backend b",
        "server s 1.1.1.1:1 check addr 2.2.2.2:80-81",
        &["A [t.cfg:8] : 'server b/s' : 'addr' : port range not permitted here in '2.2.2.2:80-81'"],
    );
}

/// As in HAProxy: a line that repeats the inherited value does not count as the first of two.
#[test]
fn warns_about_a_second_value_of_a_keyword_in_a_section() {
    let again = |word: &str| format!("W parsing [t.cfg:8] : overwriting {word} which was already specified");
    let cases = [
        ("timeout server 2s", "timeout server 3s", Some("'timeout server'")),
        ("timeout server 2s", "timeout server 2s", Some("'timeout server'")),
        ("timeout server 1s", "timeout server 2s", None),
        ("timeout client 0", "timeout client 3s", Some("'timeout client'")),
        ("timeout tarpit 0", "timeout tarpit 3s", None),
        ("timeout queue 2s", "timeout check 2s", None),
        ("rate-limit sessions 5", "rate-limit sessions 6", Some("rate-limit sessions")),
        ("rate-limit sessions 0", "rate-limit sessions 6", None),
    ];
    for (first, second, word) in cases {
        let message = word.map(again);
        let expected: Vec<&str> = message.as_deref().into_iter().collect();
        let text = format!(
            "defaults\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n\
             listen l\n bind :80\n {first}\n {second}\n"
        );
        check_text(&text, &expected);
        // In a `defaults` section both are accepted.
        let lines: Vec<_> = text.lines().collect();
        let defaults = [&lines[..4], &lines[6..], &lines[4..6]].concat().join("\n");
        check_text(&format!("{defaults}\n"), &[]);
    }
}

#[test]
fn warns_about_show_desc_without_a_description() {
    let lacks =
        "W parsing [t.cfg:9]: 'show-desc' requires a parameter or 'desc' to be set in the global section.";
    check("listen l", "stats show-desc", &[lacks]);
    check("listen l", "stats show-desc the shop", &[]);
}

/// A section with its own request inherits no part of the `defaults` option's request. Rules that send nothing keep it.
#[test]
fn http_check_send_replaces_the_inherited_request() {
    let inherited = "defaults\n timeout connect 1s\n timeout server 1s\n option httpchk GET /status HTTP/1.1\n \
                     http-check send hdr Host my\nbackend b\n";
    let cases = [
        (" http-check send meth POST uri /x\n", None),
        (" http-check connect\n http-check send\n", None),
        (" http-check send hdr A b\n option httpchk\n", None),
        (" option httpchk PUT /own\n http-check send hdr A b\n", Some(&b"/own"[..])),
        (" http-check send hdr A b\n option httpchk PUT /own\n", Some(b"/own")),
        (" http-check expect status 200\n", Some(b"/status")),
        ("", Some(b"/status")),
    ];
    for (lines, expected) in cases {
        let outcome = check_text(&format!("{inherited}{lines}"), &[]);
        let CheckMethod::Http(request) = &outcome.proxies[0].settings.checks.method else {
            panic!("{lines}")
        };
        let uri = request.uri.as_ref().map(|uri| match uri {
            CheckText::Fixed(uri) => &uri[..],
            CheckText::Format(_) => panic!("{lines}"),
        });
        assert_eq!(uri, expected, "{lines}");
    }
}

/// Passwords are verified before expressions that cannot wait. Conditions of rules can wait.
#[test]
fn userlists_used_outside_of_conditions_are_recorded() {
    let (none, all) = ((false, false, false), (true, true, true));
    let cases = [
        ("http-request deny unless { http_auth(users) }", none),
        ("acl known http_auth(users) ;; http-request deny unless known", none),
        ("http-request set-header a %[http_auth(users)]", (false, false, true)),
        ("http-response set-header a %[http_auth(users)]", (false, false, true)),
        ("use_backend other if { http_auth(users) }", (false, true, false)),
        ("acl known http_auth(users) ;; use_backend other if known", (false, true, false)),
        ("acl known http_auth(users) ;; redirect location /x if known", (false, true, false)),
        ("http-request redirect location /%[http_auth(users)]", (false, false, true)),
        ("stick-table type ip size 10 ;; stick on src if { http_auth(users) }", (false, true, false)),
        ("stats http-request auth unless { http_auth(users) }", (false, true, false)),
        ("balance hash http_auth(users)", (false, true, false)),
        ("unique-id-format %[http_auth(users)]", (true, true, false)),
        ("monitor fail if { http_auth(users) }", (true, true, false)),
        ("unique-id-format %[http_auth(users)] ;; http-request set-header a %[http_auth(users)]", all),
    ];
    for (lines, expected) in cases {
        let text = format!(
            "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nbackend other\n\
             listen l\n bind :80\n {}\n",
            lines.replace(" ;; ", "\n ")
        );
        let outcome = check_text(&text, &[]);
        let used = outcome.proxies[1].used_userlists();
        let found = (!used.always.is_empty(), !used.outside_of_rules.is_empty(), used.in_actions);
        assert_eq!(found, expected, "{lines}");
    }
}

#[test]
fn backend_names_in_check_expressions_are_resolved() {
    #[track_caller]
    fn check_unknown(text: &str, unknown: &[(u32, &str)]) {
        let faults = Vec::from_iter(unknown.iter().map(|(line, name)| {
            format!(
                "A parsing [t.cfg:{line}]: unable to find {name} referenced by an expression in proxy 'b'."
            )
        }));
        check_text(text, &Vec::from_iter(faults.iter().map(String::as_str)));
    }
    check_unknown(
        "backend b\n mode http\n timeout connect 1s\n timeout server 1s\n option httpchk\n\
         http-check connect port be_conn(u1)\n\
         http-check send meth GET uri-lf %[be_conn(u2)] hdr x %[srv_conn(b/u3)]\n\
         http-check expect hdr name-lf %[be_conn(u4)] value-lf %[be_conn(u5)]\n\
         http-check expect status 200 on-success %[be_conn(u6)] on-error %[srv_conn(u7/s)] status-code be_conn(u8)\n\
         http-check set-var(check.a) be_conn(u9)\n http-check set-var-fmt(check.b) %[be_conn(u10)]\n",
        &[
            (6, "backend 'u1'"),
            (7, "backend 'u2'"),
            (7, "server 'b/u3'"),
            (8, "backend 'u4'"),
            (8, "backend 'u5'"),
            (9, "backend 'u6'"),
            (9, "server 'u7/s'"),
            (9, "backend 'u8'"),
            (10, "backend 'u9'"),
            (11, "backend 'u10'"),
        ],
    );
    check_unknown(
        "backend b\n timeout connect 1s\n timeout server 1s\n option tcp-check\n\
         tcp-check send-lf %[be_conn(u1)]\n tcp-check send-binary-lf %[be_conn(u2)]\n\
         tcp-check expect string-lf %[be_conn(u3)]\n tcp-check expect binary-lf %[be_conn(u4)]\n",
        &[(5, "backend 'u1'"), (6, "backend 'u2'"), (7, "backend 'u3'"), (8, "backend 'u4'")],
    );
}
